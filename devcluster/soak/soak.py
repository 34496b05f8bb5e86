"""The soak: cycle after cycle of upgrades and faults, with runs of the Job or with a controller."""

from __future__ import annotations

import re
import signal
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from devcluster import patience
from devcluster.patience import TooSlowError
from devcluster.releases import DAEMONSET, OPERATOR
from devcluster.soak.judge import CONTROLLER_MEBIBYTES, JOB_MEBIBYTES, Life, Run, Soaked
from devcluster.soak.plan import Cycle, Fault
from devcluster.soak.process import END_SECONDS, KILLED, STOPPED, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devcluster.soak.stage import Stage

DEADLINE: Final = 124
FAILED: Final = 3
PROGRAM: Final = (sys.executable, "-m", "hook")
QUICK: Final = ("advanced.operatorQuiet=4s", "advanced.unknownOperatorQuiet=6s", "advanced.policyGrace=20s")
"""Simulated operators act within seconds."""
IMPATIENT: Final = ("nodeTimeout=8s",)
"""Where drivers cannot start, so that a run ends once the other nodes are refreshed."""
TRIES: Final = 3
"""Runs that a cycle may take once its fault is over. One does; a second is a killed one's successor."""
CONTROLLER: Final = (
    *PROGRAM,
    "controller",
    f"--release-namespace={OPERATOR.namespace}",
    "--listen=127.0.0.1:0",
    "controller.maxUnavailable=100%",
)
LOST: Final = 1
"""A controller that could not renew its Lease in time ends so, and is started again: on a busy machine that happens.
Whatever else goes wrong with a program ends so, too; the end of its log shows that."""
LEASE_LOST: Final = re.compile(r"\(LeaseLost\): ")
"""How the verdict reads of one that lost its Lease."""
UNCAUGHT: Final = "Traceback (most recent call last)"
"""Of a thread, too: the Lease is also lost where its own dies."""
NEGLECTED_SECONDS: Final = 180.0
"""A plugin that is stale for so long on a driver that is ready is not slow but forgotten. The longest way to its
restart takes half of that: a killed leader's Lease expires (15 s), and the next one reads the fleet."""


class Soak(ABC):
    """Cycles on one cluster. Its fleet must be up (`Stage.install`)."""

    def __init__(self, stage: Stage, say: Callable[[str], None] = lambda _line: None) -> None:
        self._stage, self._say = stage, say
        self._files = 0
        self._folder = stage.cluster.state / f"soak-{time.time_ns()}"
        self._folder.mkdir()
        self.soaked = Soaked(DAEMONSET, time.time(), stage.truth, upsets=stage.upsets)

    def run(self, cycles: Sequence[Cycle]) -> Soaked:
        """Go through all cycles. Whatever was started has ended afterwards."""
        try:
            for cycle in cycles:
                self._say(f"cycle {cycle.number + 1} of {len(cycles)}: {cycle}")
                self._stage.begin(cycle)
                self._cycle(cycle)
        finally:
            self._end()
        self.soaked.truth = self._stage.truth
        return self.soaked

    @abstractmethod
    def _cycle(self, cycle: Cycle) -> None:
        """Let the fault happen, repair, and have every node refreshed."""

    @abstractmethod
    def _end(self) -> None:
        """End what runs all the time."""

    def _start(self, command: Sequence[str]) -> Process:
        self._files += 1
        return Process(command, self._stage.cluster.kubeconfig, self._folder / f"{self._files:03}.log")

    def _note(self, cycle: Cycle, code: int, expected: tuple[int, ...], log: str) -> Run:
        """Look at the world at once, and keep what a run came to."""
        run = Run(cycle.number, code, expected, self._stage.stale(), self._stage.behind(), log)
        self.soaked.runs.append(run)
        self._say("; ".join([f"  ended with {code}", *run.broken]))
        return run


class JobSoak(Soak):
    """Runs of the Job refresh the nodes, one after the other, as a deployment tool starts them."""

    def _cycle(self, cycle: Cycle) -> None:
        done = self._with_fault(cycle)
        if cycle.fault is Fault.BROKEN_DRIVER:
            self._stage.fix_drivers(cycle.nodes)
        for _try in range(TRIES):
            if done:
                break
            done = self._finish(cycle, self._job(), (0,))

    def _end(self) -> None:
        """Nothing runs between two cycles."""

    def _with_fault(self, cycle: Cycle) -> bool:
        """Run once with the cycle's fault; return whether that run was to finish the work."""
        fault = cycle.fault
        if fault is Fault.BROKEN_DRIVER:
            self._finish(cycle, self._job(*IMPATIENT), (DEADLINE, FAILED))
            return False
        processes = [self._job() for _count in range(2 if fault is Fault.TWICE else 1)]
        expected: tuple[int, ...] = (0,)
        if fault is not None and _continues(processes[0], cycle.after):
            expected = self._strike(fault, processes[0])
        succeeded = [self._finish(cycle, process, expected) for process in processes]
        return all(succeeded)

    def _strike(self, fault: Fault, process: Process) -> tuple[int, ...]:
        """Let the fault happen; return the exit codes that it allows."""
        if fault is Fault.KILL:
            process.signal(signal.SIGKILL)
            return KILLED, 0
        if fault is Fault.STOP:
            process.signal(signal.SIGTERM)
            # One that had not come to its first line ends by the signal itself.
            return STOPPED, -signal.SIGTERM, 0
        self._stage.disturb(fault)
        return (0,)

    def _job(self, *more: str) -> Process:
        return self._start([*PROGRAM, "run", *QUICK, f"--timeout={self._seconds}s", *more])

    def _finish(self, cycle: Cycle, process: Process, expected: tuple[int, ...]) -> bool:
        """Wait for a run; return whether it succeeded."""
        code = process.wait(self._seconds + END_SECONDS)
        self._note(cycle, code, expected, process.log())
        self.soaked.lives.append(Life(JOB_MEBIBYTES, process.peak))
        return code == 0

    @property
    def _seconds(self) -> int:
        """A minute, and what a fleet of this size takes to reload, several times over."""
        return 90 + 2 * self._stage.nodes


class ControllerSoak(Soak):
    """A controller, kept running as a kubelet would, refreshes the nodes; faults strike it."""

    def __init__(self, stage: Stage, say: Callable[[str], None] = lambda _line: None) -> None:
        super().__init__(stage, say)
        self._controller = self._start_controller()

    def _cycle(self, cycle: Cycle) -> None:
        broke = True
        if cycle.fault is Fault.BROKEN_DRIVER:
            broken = {f"gpu-{number}" for number in cycle.nodes}
            broke = self._await(lambda: broken == {*self._stage.behind(), *self._stage.stale()})
            self._stage.fix_drivers(cycle.nodes)
        elif cycle.fault is not None:
            time.sleep(cycle.after)  # A moment that the seed draws: any other one would do as well.
            self._strike(cycle.fault)
        code = 0 if broke and self._await(self._stage.refreshed) else 1
        self._note(cycle, code, (0,), self._controller.log())
        self._controller.mark()

    def _end(self) -> None:
        self._end_one(self._controller, signal.SIGTERM, STOPPED)

    def _await(self, holds: Callable[[], bool]) -> bool:
        """Wait for a condition of the world, and keep a controller running meanwhile; False where it broke a promise.

        Raises TooSlowError where time ran out and nothing is wrong: drivers that are late are not the controller's.
        """
        known = len(self.soaked.wrong)

        def look() -> bool:
            self._keep_running()
            return len(self.soaked.wrong) > known or holds()

        try:
            # A plugin counts as forgotten only after drivers had a minute to load, and more where nodes queue.
            patience.until(look, "the fleet is refreshed", NEGLECTED_SECONDS + 60 + 2 * self._stage.nodes)
        except TooSlowError:
            if not self.soaked.wrong and not self._neglected():
                raise
            return False
        return len(self.soaked.wrong) == known

    def _neglected(self) -> bool:
        """Whether a plugin was left stale for long on a node whose driver is as it was asked for, and ready."""
        late, now = set(self._stage.behind()), time.time()
        return any(
            end is None and now - start > NEGLECTED_SECONDS
            for node, spells in self._stage.truth.stale_intervals(DAEMONSET).items()
            for start, end in spells
            if node not in late
        )

    def _strike(self, fault: Fault) -> None:
        if fault not in {Fault.KILL, Fault.STOP, Fault.TWICE}:
            self._stage.disturb(fault)
            return
        self._keep_running()
        leader = self._controller
        if fault is Fault.TWICE:
            second = self._start_controller()
            patience.until(lambda: bool(second.log()), "the second controller runs", END_SECONDS)
            self._controller = second
        self._end_one(leader, *((signal.SIGKILL, KILLED) if fault is Fault.KILL else (signal.SIGTERM, STOPPED)))
        if fault is not Fault.TWICE:
            self._controller = self._start_controller()

    def _keep_running(self) -> None:
        """Start a controller again, as a kubelet would, if the last one has ended by itself."""
        if self._controller.over:
            self._end_one(self._controller)
            self._controller = self._start_controller()

    def _start_controller(self) -> Process:
        return self._start([*CONTROLLER, f"--identity=soak-{self._files}"])

    def _end_one(self, controller: Process, number: signal.Signals | None = None, expected: int | None = None) -> None:
        """End a controller, unless it has ended by itself; note how."""
        if number is not None:
            controller.signal(number)
        code = controller.wait()
        self.soaked.lives.append(Life(CONTROLLER_MEBIBYTES, controller.peak, controller.growth))
        # One may lose its Lease a moment before a signal; one that had not come to its first line ends by that itself.
        by_signal = code in {expected, *([-number] if number else [])}
        fine = lost_its_lease(controller.log()) if code == LOST else by_signal
        if not fine:
            how = f"with {code}, not {expected}" if number else f"by itself, with {code}"
            self.soaked.wrong.append(f"a controller ended {how}: {controller.log()[-600:]}")


def _continues(process: Process, seconds: float) -> bool:
    """Let a run continue for a while; return whether it still does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not process.over:
        time.sleep(0.05)
    return not process.over


def lost_its_lease(log: str) -> bool:
    """Return from the log of a controller whether it ended because its Lease was lost, and for nothing else."""
    return bool(LEASE_LOST.search(log)) and UNCAUGHT not in log
