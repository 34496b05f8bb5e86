"""The soak with runs of the Job, one after the other, as a deployment tool starts them."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from devcluster.soak.course import Course
from devcluster.soak.judge import Run
from devcluster.soak.plan import Cycle, Fault
from devcluster.soak.processes import KILLED, STOPPED, Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from devcluster.soak.stage import Stage

DEADLINE: Final = 124
FAILED: Final = 3
QUICK: Final = ("advanced.operatorQuiet=4s", "advanced.unknownOperatorQuiet=6s", "advanced.policyGrace=20s")
"""Simulated operators act within seconds."""
IMPATIENT: Final = "nodeTimeout=8s"
"""Added where drivers cannot start, so that a run ends once the other nodes are refreshed."""
TRIES: Final = 3
"""Runs that a cycle may take once its fault is over. One does; a second is a killed one's successor."""


class JobSoak(Course):
    """Runs of the Job refresh the nodes of each cycle."""

    def __init__(self, stage: Stage, seed: int, say: Callable[[str], None] | None = None) -> None:
        super().__init__(stage, seed, say)
        # A minute, and what a fleet of this size takes to reload, several times over.
        self.run_seconds = 90 + 2 * stage.nodes

    def cycle(self, cycle: Cycle) -> None:
        """Upgrade, run with the fault, repair, and run until all is well."""
        self.ask(cycle)
        done = self._troubled(cycle)
        if cycle.fault is Fault.BROKEN_DRIVER:
            self.stage.mend_drivers(cycle.nodes)
        for _try in range(TRIES):
            if done:
                break
            done = self._finish(cycle, self._run(), (0,)).code == 0

    def _troubled(self, cycle: Cycle) -> bool:
        """Run once with the cycle's fault. Gives whether that run was to finish the work."""
        fault = cycle.fault
        if fault is Fault.BROKEN_DRIVER:
            self._finish(cycle, self._run(IMPATIENT), (DEADLINE, FAILED))
            return False
        processes = [self._run() for _count in range(2 if fault is Fault.TWICE else 1)]
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
        self.disturb(fault)
        return (0,)

    def _finish(self, cycle: Cycle, process: Process, expected: tuple[int, ...]) -> Run:
        """Wait for a run and look at the world at once."""
        code = process.wait(self.run_seconds + 60)
        stale, behind = self.stage.stale(), self.stage.behind()
        run = Run(cycle.number, process.began, time.time(), code, expected, stale, behind)
        return self.note(replace(run, said=process.said()) if run.broken else run)

    def _run(self, *more: str) -> Process:
        return self.start("run", *QUICK, f"--timeout={self.run_seconds}s", *more)
