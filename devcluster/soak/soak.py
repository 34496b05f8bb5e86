"""The soak with the hook's runs, one after the other, as a deployer starts them."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from devcluster.soak.course import Course
from devcluster.soak.judge import Run
from devcluster.soak.plan import Cycle, Fault
from devcluster.soak.processes import KILLED, STOPPED, Process, Waiting, launch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devcluster.soak.stage import Stage

DEADLINE: Final = 124
FAILED: Final = 3
PROGRAM: Final = (sys.executable, "-m", "hook")
QUICK: Final = ("advanced.operatorQuiet=4s", "advanced.unknownOperatorQuiet=6s", "advanced.policyGrace=20s")
"""Simulated operators act within seconds."""
HOOK: Final = (*PROGRAM, "run", *QUICK)
LONG: Final = (*PROGRAM, "run", "--timeout=240h", "expect.driverVersion=999.9.9")
"""Waits for a version that never comes, so that it watches everything and restarts nothing."""
TRIES: Final = 3
"""Runs that a cycle may take once its fault is over. One does; a second is a killed one's successor."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What is run, so that something else can be held to the same promises."""

    hook: Sequence[str] = HOOK
    """One run; ``--timeout`` is added, and KUBECONFIG is in its environment."""
    long: Sequence[str] = LONG
    """A process that runs all the time."""
    impatient: Sequence[str] = ("nodeTimeout=8s",)
    """Added where drivers cannot start, so that it ends once the other nodes are refreshed."""


class Soak(Course):
    """Runs of the hook refresh the nodes of each cycle, in addition to one process that runs all the time."""

    def __init__(
        self, stage: Stage, seed: int, commands: Commands | None = None, say: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(stage, seed, "soak", say)
        self._commands = commands or Commands()
        self._files = 0
        # A minute, and what a fleet of this size takes to reload, several times over.
        self.run_seconds = 90 + 2 * stage.nodes

    def _begin(self) -> None:
        self._lives.append(Waiting(self._start(self._commands.long, "long")))

    def _end_all(self) -> None:
        if wrong := self._lives[-1].stop():
            self._wrong.append(wrong)

    def _cycle(self, cycle: Cycle) -> None:
        """Upgrade, run with the fault, repair, and run until all is well."""
        self._ask(cycle)
        done = self._troubled(cycle)
        if cycle.fault is Fault.BROKEN_DRIVER:
            self.stage.mend_drivers(cycle.nodes)
        for _try in range(TRIES):
            if done:
                break
            done = self._finish(cycle, self._hook(), (0,)).code == 0

    def _troubled(self, cycle: Cycle) -> bool:
        """Run once with the cycle's fault. Gives whether that run was to finish the work."""
        fault = cycle.fault
        if fault is Fault.BROKEN_DRIVER:
            self._finish(cycle, self._hook(*self._commands.impatient), (DEADLINE, FAILED))
            return False
        processes = [self._hook() for _count in range(2 if fault is Fault.TWICE else 1)]
        expected: tuple[int, ...] = (0,)
        if fault is not None and self._goes_on(processes[0], cycle.after):
            expected = self._strike(fault, processes[0])
        runs = [self._finish(cycle, process, expected) for process in processes]
        return all(run.code == 0 for run in runs)

    def _goes_on(self, process: Process, seconds: float) -> bool:
        """Let a run go on for a while; return whether it still does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not process.over:
            time.sleep(0.05)
        return not process.over

    def _strike(self, fault: Fault, process: Process) -> tuple[int, ...]:
        """Let the fault happen. Gives the exit codes that it allows."""
        if fault is Fault.KILL:
            process.signal(signal.SIGKILL)
            return KILLED, 0
        if fault is Fault.STOP:
            process.signal(signal.SIGTERM)
            # Of one that had not come to its first line, the signal itself tells.
            return STOPPED, -signal.SIGTERM, 0
        self._disturb(fault)
        return (0,)

    def _finish(self, cycle: Cycle, process: Process, expected: tuple[int, ...]) -> Run:
        """Wait for a run and look at the world at once."""
        code = process.wait(self.run_seconds + 60)
        ended = time.time()
        run = Run(cycle.number, process.began, ended, code, expected, self.stage.stale(), self.stage.behind())
        if run.broken:
            run = replace(run, said=process.said())
        self._runs.append(run)
        self._say(f"  ended with {code} after {ended - process.began:.0f} s{''.join(f'; {one}' for one in run.broken)}")
        return run

    def _hook(self, *more: str) -> Process:
        return self._start([*self._commands.hook, f"--timeout={self.run_seconds}s", *more], "run")

    def _start(self, command: Sequence[str], name: str) -> Process:
        self._files += 1
        return launch(command, self.stage.cluster.kubeconfig, self._folder / f"{self._files:03}-{name}.log")
