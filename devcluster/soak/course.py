"""The course of a soak: cycle after cycle of upgrades and faults, whatever it is that refreshes the plugins."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from devcluster.soak.judge import JOB_MEBIBYTES, Run, Soaked
from devcluster.soak.plan import Cycle, Fault, Upgrade
from devcluster.soak.processes import Process
from devcluster.soak.stage import DAEMONSET, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM: Final = (sys.executable, "-m", "hook")


class Course:
    """One soak of one cluster. Its fleet must be up (`Stage.install`)."""

    limit = JOB_MEBIBYTES
    """What the chart lets the program have."""

    def __init__(self, stage: Stage, seed: int, say: Callable[[str], None] | None = None) -> None:
        self.stage, self.seed = stage, seed
        self.processes: list[Process] = []
        """All that were started, the newest last."""
        self.ends: list[int] = []
        """How each controller ended, if controllers run."""
        self.wrong: list[str] = []
        """How any of them ended that was not to end so."""
        self._say = say or (lambda _line: None)
        self._runs: list[Run] = []
        self._folder = stage.cluster.state / f"soak-{time.time_ns()}"
        self._folder.mkdir()

    def run(self, cycles: Sequence[Cycle]) -> Soaked:
        """Go through all cycles. Whatever was started has ended afterwards."""
        since = time.time()
        self.begin()
        try:
            for cycle in cycles:
                self._say(f"cycle {cycle.number + 1} of {len(cycles)}: {cycle}")
                self.cycle(cycle)
        finally:
            self.end()
        return Soaked(
            nodes=self.stage.nodes,
            seed=self.seed,
            cycles=tuple(str(cycle) for cycle in cycles),
            runs=tuple(self._runs),
            truth=self.stage.truth,
            since=since,
            daemonset=DAEMONSET,
            upsets=tuple(self.stage.upsets),
            peak=max(each.peak for each in self.processes),
            growth=max(each.growth for each in self.processes),
            limit=self.limit,
            wrong="; ".join(self.wrong),
            left_stale=self.stage.stale(),
            controller_ends=tuple(self.ends),
        )

    def begin(self) -> None:
        """Start what runs all the time; nothing unless a subclass has something."""

    def end(self) -> None:
        """End what runs all the time."""

    def cycle(self, cycle: Cycle) -> None:
        """Upgrade, let the fault happen, repair, and have every node refreshed."""
        raise NotImplementedError

    def start(self, *command: str) -> Process:
        """Start the program."""
        log = self._folder / f"{len(self.processes):03}.log"
        self.processes.append(Process([*PROGRAM, *command], self.stage.cluster.kubeconfig, log))
        return self.processes[-1]

    def note(self, run: Run) -> Run:
        """Keep what a run, or a controller in a cycle, came to."""
        self._runs.append(run)
        broken = "".join(f"; {one}" for one in run.broken)
        self._say(f"  ended with {run.code} after {run.ended - run.began:.0f} s{broken}")
        return run

    def ask(self, cycle: Cycle) -> None:
        """Let the nodes have their faults, and ask for the upgrade."""
        if cycle.before:
            self.stage.upset_nodes(cycle.before, cycle.nodes)
        if cycle.fault is Fault.BROKEN_DRIVER:
            self.stage.break_drivers(cycle.nodes)
        self.stage.ask(cycle.upgrade)

    def disturb(self, fault: Fault) -> None:
        """Let the fault happen, if it is one of the world and not of a process."""
        if fault is Fault.SILENCE:
            self.stage.silence()
        elif fault is Fault.OPERATOR:
            self.stage.restart_operator()
        elif fault is Fault.AGAIN:
            self.stage.ask(Upgrade.DRIVER)
