"""The course of a soak: cycle after cycle of upgrades and faults, whatever it is that serves them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from devcluster.soak.judge import JOB_MEBIBYTES, Run, Soaked
from devcluster.soak.plan import Cycle, Fault, Upgrade
from devcluster.soak.stage import DAEMONSET, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from devcluster.soak.processes import Waiting


class Course(ABC):
    """One soak of one cluster. Its fleet must be up (`Stage.install`)."""

    limit = JOB_MEBIBYTES
    """What the chart lets the process have that runs all the time."""

    def __init__(self, stage: Stage, seed: int, name: str, say: Callable[[str], None] | None) -> None:
        self.stage, self.seed = stage, seed
        self._say = say or (lambda _line: None)
        self._runs: list[Run] = []
        self._lives: list[Waiting] = []
        """The process that runs all the time, or those that took turns at it."""
        self._wrong: list[str] = []
        """How any of them ended that was not to end so."""
        self._folder = stage.cluster.state / f"{name}-{time.time_ns()}"
        self._folder.mkdir()

    def run(self, cycles: Sequence[Cycle]) -> Soaked:
        """Go through all cycles. Whatever was started has ended afterwards."""
        since = time.time()
        self._begin()
        try:
            for cycle in cycles:
                self._say(f"cycle {cycle.number + 1} of {len(cycles)}: {cycle}")
                self._cycle(cycle)
        finally:
            self._end_all()
        return Soaked(
            nodes=self.stage.nodes,
            seed=self.seed,
            cycles=tuple(str(cycle) for cycle in cycles),
            runs=tuple(self._runs),
            truth=self.stage.truth,
            since=since,
            daemonset=DAEMONSET,
            upsets=tuple(self.stage.upsets),
            lives=tuple(tuple(life.samples) for life in self._lives),
            limit=self.limit,
            long_ended="; ".join(self._wrong),
            left_stale=self.stage.stale(),
            controller_ends=self._controller_ends(),
        )

    @abstractmethod
    def _begin(self) -> None:
        """Start what runs all the time."""

    @abstractmethod
    def _cycle(self, cycle: Cycle) -> None:
        """Upgrade, let the fault happen, repair, and have every node refreshed."""

    @abstractmethod
    def _end_all(self) -> None:
        """End what runs all the time."""

    def _controller_ends(self) -> tuple[int, ...]:
        """Return how each controller ended, if controllers run."""
        return ()

    def _ask(self, cycle: Cycle) -> None:
        """Let the nodes have their faults, and ask for the upgrade."""
        if cycle.before:
            self.stage.befall(cycle.before, cycle.nodes)
        if cycle.fault is Fault.BROKEN_DRIVER:
            self.stage.break_drivers(cycle.nodes)
        self.stage.ask(cycle.upgrade)

    def _disturb(self, fault: Fault) -> None:
        """Let the fault happen, if it is one of the world and not of a process."""
        if fault is Fault.SILENCE:
            self.stage.silence()
        elif fault is Fault.OPERATOR:
            self.stage.restart_operator()
        elif fault is Fault.AGAIN:
            self.stage.ask(Upgrade.DRIVER)
