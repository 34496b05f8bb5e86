"""A story: what happens in a world, step by step, with the program's promises kept in mind all the time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest import mock

from hook.config import ControllerLimits, ControllerSettings, Duration, Settings
from hook.format import Bound
from hook.run import job, loop
from tests.properties import endless, promises
from tests.properties.observation import Observation, moment_of
from tests.properties.pods import SECOND, Pace
from tests.properties.program import Clock, Controller, Run
from tests.properties.rollout import Site
from tests.properties.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.properties.machine import Machine

NOTHING: Final[frozenset[str]] = frozenset()
LOOK_EVERY: Final = SECOND
"""As the program does when nothing happens."""
PATIENT_LOOK: Final = 10 * SECOND
"""While nothing changes, looking every second shows nothing new but that time goes on."""
LONGEST_PAUSE: Final = Duration(minutes=4)
"""Of a follower that backs off: three doublings show all that many would."""


class Step(NamedTuple):
    """One thing that happens."""

    what: str
    which: int = 0
    """Whom it befalls; or how many tenths of a second pass."""
    behind: frozenset[str] = NOTHING
    """Of a look: which kinds its watches have heard nothing of meanwhile."""


class History(NamedTuple):
    """Everything that one example is made of."""

    steps: tuple[Step, ...]
    nodes: int = 1
    runs: int = 1
    pace: Pace = Pace()
    at_once: int = 0
    """How many plugins may be down at once because of the program."""
    mended: bool = True
    """Whatever is in trouble at the end is mended by somebody; else the program must say so."""
    follow: bool = False
    """The program never ends; ``endless.py`` says what is promised then."""
    down: int = 0
    """How many plugins may be down at once, whoever took them down."""
    site: Site = Site()


class Story:
    """A world, the runs in it, and whoever acts."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.world = World(history.nodes, history.pace, history.site)
        self.observation = Observation(self.world)
        limits = ControllerLimits(max_unavailable=Bound(history.down or "100%"), restart_backoff_max=LONGEST_PAUSE)
        kind = ControllerSettings if history.follow else Settings
        self.settings = kind(max_parallel_restarts=history.at_once, controller=limits)
        self.started = moment_of(self.world)
        """Of the Job: whoever comes after a killed run shares its deadline and nothing else."""
        self.runs = [self._process() for _number in range(history.runs)]

    def _process(self) -> Run:
        if self.history.follow:
            return Controller(self.world, self.observation, self.settings, self.started, endless.restart)
        return Run(self.world, self.observation, self.settings, self.started, promises.restart)

    @property
    def lied(self) -> bool:
        """Whether any clock does what no breaker may overlook."""
        return any(step.what in endless.TIMES_THAT_LIE for step in self.history.steps)

    @property
    def followers(self) -> list[Controller]:
        """Give the runs that never end."""
        return [one for one in self.runs if isinstance(one, Controller)]

    def tell(self) -> None:
        """Let everything happen, to the end in peace. Raises BrokenPromiseError."""
        # The one thing that a history must have in hand everywhere is the time.
        clock = Clock(self.world)
        with contextlib.ExitStack() as patched:
            for module in (job, loop, loop):
                patched.enter_context(mock.patch.object(module, "time", clock))
            for step in self.history.steps:
                self._befall(step)
            self._come_to_rest()

    def _befall(self, step: Step) -> None:
        machines, which = list(self.world.machines.values()), step.which
        if step.what == "time":
            self.world.passes(which)
        elif step.what in ("work", "watch"):
            self._goes_on(which, look=step.what == "watch")
        elif step.what in ("look", "hear"):
            self._look(self.runs[which % len(self.runs)], step.behind, only_hear=step.what == "hear")
        elif step.what == "killed":
            self.runs[which % len(self.runs)] = self._process()
        elif step.what == "times_move":
            for controller in self.followers:
                controller.times_moved(machines[which % len(machines)])
            machines[which % len(machines)].times_move(self.world.now)
        elif step.what in OF_THE_CLUSTER:
            OF_THE_CLUSTER[step.what](self.world)
        else:
            OF_A_NODE[step.what](self.world, machines[which % len(machines)], which // len(machines))

    def _goes_on(self, tenths: int, *, look: bool) -> None:
        """Let all controllers do their work for a while, with or without the program beside them."""
        for _second in range(0, tenths, SECOND):
            self.world.everybody_works()
            self.world.passes(SECOND)
            for one in self.runs if look else ():
                self._look(one)

    def _look(self, process: Run, behind: frozenset[str] = NOTHING, *, only_hear: bool = False) -> None:
        if process.outcome is not None:
            return
        process.watch.hears(behind)
        if only_hear:
            return
        for machine in self.world.machines.values():
            if self.world.at_work(machine) and machine.serves:
                process.served_at[machine.name] = self.world.now
        promises.looks(process)
        process.look()
        promises.looked(process)
        if isinstance(process, Controller):
            endless.looked(process, lied=self.lied)
        else:
            promises.still_going(process, self.started)
        if process.outcome is not None:
            promises.ending(process, process.outcome, self.started)

    # The end.

    def _come_to_rest(self) -> None:
        """Nothing happens any more but what has to; then every run must end, and rightly."""
        if self.history.mended:
            self._mend()
        if self.history.follow:
            self._go_on_at_rest()
        else:
            self._come_to_an_end()

    def _go_on_at_rest(self) -> None:
        """Let everything that goes on by itself come to its end; then all that can be done must be."""
        until = self.world.now + max(endless.patience(one, lied=self.lied) for one in self.followers)
        while self.world.now < until and not all(endless.content(one) for one in self.followers):
            self._work_and_look()
        for one in self.followers:
            endless.came_to_rest(one, mended=self.history.mended)

    def _work_and_look(self) -> None:
        before = self.world.changes
        self.world.everybody_works()
        self.world.passes(LOOK_EVERY)
        for one in self.runs:
            self._look(one)
        if self.world.changes == before:
            self.world.passes(PATIENT_LOOK)

    def _come_to_an_end(self) -> None:
        calm_since: int | None = None
        since = self.world.now
        while not all(one.outcome for one in self.runs):
            self._work_and_look()
            if calm_since is None and promises.calm(self.world):
                calm_since = self.world.now
        for one in self.runs:
            assert one.outcome is not None
            promises.came_to_rest(one, one.outcome, self.started, since, calm_since)

    def _mend(self) -> None:
        self.world.policy_returns()
        if self.world.by_hand:
            self.world.turns_upgrades()
        for machine in self.world.machines.values():
            machine.labelled, machine.skipped = True, False
            machine.driver_broken = machine.plugin_broken = False
            machine.comes_back(self.world.now)
            machine.changes += 1


def _labels_vanish(world: World, machine: Machine) -> None:
    machine.labelled, machine.changes = not machine.labelled, machine.changes + 1
    machine.bare_since = world.now


def _is_skipped(machine: Machine) -> None:
    machine.skipped, machine.changes = not machine.skipped, machine.changes + 1


OF_THE_CLUSTER: Final[Mapping[str, Callable[[World], None]]] = {
    "edits_version": World.edits_version,
    "takes_version_back": World.takes_version_back,
    "edits_setting": World.edits_setting,
    "turns_upgrades": World.turns_upgrades,
    "operator_renders": World.operator_renders,
    "operator_reports": World.operator_reports,
    "operator_lies": lambda world: world.operator_reports(falsely=True),
    "operator_rolls": World.operator_rolls,
    "operator_starts": World.operator_starts,
    "operator_leads": World.operator_leads,
    "operator_replaces": World.operator_replaces,
    "daemonset_controller": World.daemonset_controller,
    "plugin_controller": World.plugin_controller,
    "garbage_collector": World.garbage_collector,
    "node_joins": World.node_joins,
    "turns_rolling": World.turns_rolling,
    "policy_vanishes": World.policy_vanishes,
    "kind_vanishes": World.kind_vanishes,
    "policy_returns": World.policy_returns,
    "plugins_orphaned": lambda world: world.plugins_orphaned(adopts=False),
    "plugins_adopted": lambda world: world.plugins_orphaned(adopts=True),
}
"""By name of a step: what befalls the whole cluster."""
OF_A_NODE: Final[Mapping[str, Callable[[World, Machine, int], None]]] = {
    "upgrade_controller": lambda world, machine, _how: world.upgrade_controller(machine),
    "takes_driver": lambda world, machine, _how: world.takes_driver(machine),
    "takes_plugin": lambda world, machine, _how: world.takes_plugin(machine),
    "reboots": lambda world, machine, _how: machine.reboots(world.now),
    "driver_crashes": lambda world, machine, _how: machine.driver_crashes(world.now),
    "driver_breaks": lambda _world, machine, _how: setattr(machine, "driver_broken", not machine.driver_broken),
    "plugin_crashes": lambda world, machine, how: machine.plugin_crashes(world.now, how),
    "side_crashes": lambda world, machine, how: machine.side_crashes(world.now, how),
    "plugin_doubles": lambda world, machine, _how: world.plugin_doubles(machine),
    "plugin_breaks": lambda _world, machine, _how: setattr(machine, "plugin_broken", not machine.plugin_broken),
    "goes_dark": lambda world, machine, _how: machine.goes_dark(world.now),
    "comes_back": lambda world, machine, _how: machine.comes_back(world.now),
    "clock_forward": lambda world, machine, how: machine.clock_jumps(world.now, 1 + 37 * how),
    "clock_back": lambda world, machine, how: machine.clock_jumps(world.now, -1 - 37 * how),
    "labels_vanish": lambda world, machine, _how: _labels_vanish(world, machine),
    "is_skipped": lambda _world, machine, _how: _is_skipped(machine),
    "node_leaves": lambda world, machine, _how: world.node_leaves(machine),
}
"""The same for what befalls one node; the number says how."""
