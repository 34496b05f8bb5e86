"""The soak with a controller in place of the hook's runs: it is kept running as a kubelet would, in every cycle."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING, Final

from devcluster import patience
from devcluster.patience import TooSlowError
from devcluster.soak.course import Course
from devcluster.soak.judge import CONTROLLER_MEBIBYTES, Run
from devcluster.soak.plan import Cycle, Fault
from devcluster.soak.processes import END_SECONDS, KILLED, STOPPED, Process
from devcluster.soak.stage import DAEMONSET, OPERATOR, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

CONTROLLER: Final = (
    "controller",
    f"--release-namespace={OPERATOR[2]}",
    "--listen=127.0.0.1:0",
    "controller.maxUnavailable=100%",
)
"""One controller; ``--identity`` is added."""
LOST: Final = 1
"""A controller that could not renew its Lease in time ends so, and is started again: on a busy machine that happens.
Whatever else goes wrong with a program ends so, too; the end of its log shows that."""
LAST_WORDS: Final = re.compile(r"\(LeaseLost\): ")
"""How the verdict reads of one that lost its Lease."""
UNCAUGHT: Final = "Traceback (most recent call last)"
"""Of a thread, too: the Lease is also lost where its own dies."""
NEGLECTED_SECONDS: Final = 180.0
"""A plugin that is stale for so long on a driver that is ready is not slow but forgotten. The longest way to its
restart takes half of that: a killed leader's Lease expires (15 s), the next one reads the fleet, and holds a suspect
(60 s)."""
NOT_SERVED: Final = 1
WHOLE: Final = 1_000_000
"""Characters of a log that are looked at for how it ended: all of any soak's."""


class ControllerSoak(Course):
    """A controller that faults strike refreshes the nodes of each cycle."""

    limit = CONTROLLER_MEBIBYTES

    def __init__(self, stage: Stage, seed: int, say: Callable[[str], None] | None = None) -> None:
        super().__init__(stage, seed, say)
        # A plugin counts as forgotten only after drivers had a minute to load, and more where nodes queue.
        self.cycle_seconds = NEGLECTED_SECONDS + 60 + 2 * stage.nodes

    def begin(self) -> None:
        """Start the first controller."""
        self._start()

    def end(self) -> None:
        """End the last one."""
        self._end(self.processes[-1], signal.SIGTERM, STOPPED)

    def cycle(self, cycle: Cycle) -> None:
        """Upgrade, let the fault happen, repair, and wait until every node is refreshed."""
        began = time.time()
        self.ask(cycle)
        served = True
        if cycle.fault is Fault.BROKEN_DRIVER:
            broken = {f"gpu-{number}" for number in cycle.nodes}
            served = self._await(lambda: broken == {*self.stage.behind(), *self.stage.stale()})
            self.stage.mend_drivers(cycle.nodes)
        elif cycle.fault is not None:
            time.sleep(cycle.after)  # A moment that the seed draws: any other one would do as well.
            self._strike(cycle.fault)
        code = 0 if served and self._await(self.stage.served) else NOT_SERVED
        said = self.processes[-1].said() if code else ""
        self.note(Run(cycle.number, began, time.time(), code, (0,), self.stage.stale(), self.stage.behind(), said))
        self.processes[-1].mark()

    def _await(self, holds: Callable[[], bool]) -> bool:
        """Wait for a condition of the world, and keep a controller running meanwhile; False where it broke a promise.

        Raises TooSlowError where time ran out and nothing is wrong: drivers that are late are not the controller's.
        """
        known = len(self.wrong)

        def look() -> bool:
            self._living()
            return len(self.wrong) > known or holds()

        try:
            patience.until(look, "the fleet is refreshed", self.cycle_seconds)
        except TooSlowError:
            if not self.wrong and not self._neglected():
                raise
            return False
        return len(self.wrong) == known

    def _neglected(self) -> bool:
        """Whether a plugin was left stale for long on a node whose driver is as it was asked for, and ready."""
        late, now = set(self.stage.behind()), time.time()
        return any(
            end is None and now - start > NEGLECTED_SECONDS
            for node, spells in self.stage.truth.stale_intervals(DAEMONSET).items()
            for start, end in spells
            if node not in late
        )

    def _strike(self, fault: Fault) -> None:
        """Let the fault happen."""
        if fault not in {Fault.KILL, Fault.STOP, Fault.TWICE}:
            self.disturb(fault)
            return
        leader = self._living()
        if fault is Fault.TWICE:
            self._start()
            second = self.processes[-1]
            patience.until(lambda: bool(second.said()), "the second controller runs", END_SECONDS)
        self._end(leader, *((signal.SIGKILL, KILLED) if fault is Fault.KILL else (signal.SIGTERM, STOPPED)))
        if fault is not Fault.TWICE:
            self._start()

    def _living(self) -> Process:
        """Return a controller that runs, started again as a kubelet would if the last one has ended by itself."""
        if self.processes[-1].over:
            self._end(self.processes[-1])
            self._start()
        return self.processes[-1]

    def _start(self) -> None:
        self.start(*CONTROLLER, f"--identity=soak-{len(self.processes)}")

    def _end(self, process: Process, number: signal.Signals | None = None, expected: int | None = None) -> None:
        """End a controller, unless it has ended by itself; note how."""
        if number is not None:
            process.signal(number)
        code = process.wait(END_SECONDS)
        self.ends.append(code)
        # One may lose its Lease a moment before a signal; one that had not come to its first line ends by that itself.
        if code == LOST:
            fine = lost_its_lease(process.said(WHOLE))
        else:
            fine = code in {expected, *([-number] if number else [])}
        if not fine:
            how = f"with {code}, not {expected}" if number else f"by itself, with {code}"
            self.wrong.append(f"a controller ended {how}: {process.said(600)}")


def lost_its_lease(said: str) -> bool:
    """Return from the log of a controller whether it ended because its Lease was lost, and for nothing else."""
    return bool(LAST_WORDS.search(said)) and UNCAUGHT not in said
