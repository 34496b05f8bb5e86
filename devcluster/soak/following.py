"""The soak with a follower in place of the hook's runs: kept running as a kubelet would, it serves every cycle."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Final

from devcluster.patience import TooSlowError
from devcluster.soak.judge import Run, Soaked
from devcluster.soak.plan import Cycle, Fault, Upgrade
from devcluster.soak.processes import END_SECONDS, KILLED, STOPPED, Waiting, launch
from devcluster.soak.soak import PROGRAM
from devcluster.soak.stage import DAEMONSET, OPERATOR, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLLOWER: Final = (*PROGRAM, "run", "--follow", f"--lease-namespace={OPERATOR[2]}", "--listen=127.0.0.1:0")
"""One follower; ``--identity`` is added, and KUBECONFIG is in its environment."""
LOST: Final = 1
"""A follower that could not renew its Lease in time ends so, and is started again: on a busy machine that happens."""
NOT_SERVED: Final = 1
LOOK_SECONDS: Final = 0.5


class FollowerSoak:
    """One soak of one cluster whose fleet is up (`Stage.install`), by a follower that faults strike."""

    def __init__(
        self,
        stage: Stage,
        seed: int,
        command: Sequence[str] = FOLLOWER,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.stage, self.seed = stage, seed
        self._command = command
        self._say = say or (lambda _line: None)
        self._runs: list[Run] = []
        self._ends: list[int] = []
        self._wrong: list[str] = []
        self._lives: list[Waiting] = []
        self._folder = stage.cluster.state / f"follow-{time.time_ns()}"
        self._folder.mkdir()
        # Taking over takes the term of a Lease; the rest is as for a hook's run.
        self.cycle_seconds = 120 + 2 * stage.nodes

    def run(self, cycles: Sequence[Cycle]) -> Soaked:
        """Go through all cycles. Whatever was started has ended afterwards."""
        since = time.time()
        self._start()
        try:
            for cycle in cycles:
                self._say(f"cycle {cycle.number + 1} of {len(cycles)}: {cycle}")
                self._cycle(cycle)
        finally:
            self._end(self._lives[-1], signal.SIGTERM, STOPPED)
        memory = max((life.samples for life in self._lives), key=len)
        return Soaked(
            nodes=self.stage.nodes,
            seed=self.seed,
            cycles=tuple(str(cycle) for cycle in cycles),
            runs=tuple(self._runs),
            truth=self.stage.truth,
            since=since,
            daemonset=DAEMONSET,
            upsets=tuple(self.stage.upsets),
            memory=tuple(memory),
            long_ended="; ".join(self._wrong),
            left_stale=self.stage.stale(),
            followers=tuple(self._ends),
        )

    def _cycle(self, cycle: Cycle) -> None:
        """Upgrade, let the fault happen, mend, and wait until every node is served."""
        began = time.time()
        if cycle.before:
            self.stage.befall(cycle.before, cycle.nodes)
        if cycle.fault is Fault.BROKEN_DRIVER:
            self.stage.break_drivers(cycle.nodes)
        self.stage.ask(cycle.upgrade)
        if cycle.fault is Fault.BROKEN_DRIVER:
            broken = {f"gpu-{number}" for number in cycle.nodes}
            self._await(lambda: broken >= {*self.stage.behind(), *self.stage.stale()})
            self.stage.mend_drivers(cycle.nodes)
        elif cycle.fault is not None:
            time.sleep(cycle.after)
            self._strike(cycle.fault)
        code = 0 if self._await(self.stage.served) else NOT_SERVED
        said = self._lives[-1].process.said() if code else ""
        run = Run(cycle.number, began, time.time(), code, (0,), self.stage.stale(), self.stage.behind(), said)
        self._runs.append(run)
        self._say(f"  served after {run.ended - began:.0f} s{''.join(f'; {one}' for one in run.broken)}")

    def _await(self, holds: Callable[[], bool]) -> bool:
        """Wait for a condition of the world, and keep a follower running meanwhile; False where time ran out."""

        def look() -> bool:
            if self._lives[-1].process.over:
                self._end(self._lives[-1], None, LOST)
                self._start()
            return holds()

        try:
            self.stage.until(look, "the fleet is served", self.cycle_seconds)
        except TooSlowError:
            return False
        return True

    def _strike(self, fault: Fault) -> None:
        """Let the fault happen."""
        if fault is Fault.SILENCE:
            self.stage.silence()
        elif fault is Fault.OPERATOR:
            self.stage.restart_operator()
        elif fault is Fault.AGAIN:
            self.stage.ask(Upgrade.DRIVER)
        else:
            leader = self._lives[-1]
            if fault is Fault.TWICE:
                self._start()
                time.sleep(LOOK_SECONDS)
            self._end(leader, *((signal.SIGKILL, KILLED) if fault is Fault.KILL else (signal.SIGTERM, STOPPED)))
            if fault is not Fault.TWICE:
                self._start()

    def _start(self) -> None:
        number = len(self._lives)
        command = [*self._command, f"--identity=soak-{number}"]
        log = self._folder / f"{number:03}-follower.log"
        self._lives.append(Waiting(launch(command, self.stage.cluster.kubeconfig, log)))

    def _end(self, life: Waiting, number: signal.Signals | None, expected: int) -> None:
        """End a follower, unless it has ended by itself; note how."""
        if number is not None:
            life.process.signal(number)
        code = life.process.wait(END_SECONDS)
        life.look_away()
        self._ends.append(code)
        # One that had not come to its first line ends by the signal itself; one may lose its Lease a moment before.
        if code not in {expected, LOST, *([-number] if number else [])}:
            self._wrong.append(f"a follower ended with {code}, not {expected}: {life.process.said(600)}")
