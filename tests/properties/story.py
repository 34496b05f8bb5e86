"""A story: what happens in a world, step by step, while the program is held to its promises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from unittest import mock

from hook.format import Bound
from hook.run import job, loop, restarts
from hook.settings import Advanced, ControllerLimits, ControllerSettings, Duration, Settings
from tests.properties import endless, promises
from tests.properties.machine import Machine
from tests.properties.observation import Observation, moment_of
from tests.properties.pods import SECOND, Pace
from tests.properties.program import Clock, Controller, Run
from tests.properties.rollout import Site
from tests.properties.world import World

NOTHING: Final[frozenset[str]] = frozenset()
PATIENT_LOOK: Final = 10 * SECOND
"""While nothing changes, looking every second shows nothing new but that time passes."""
LONGEST_PAUSE: Final = Duration(minutes=4)
"""Between two restarts by the controller: three doublings show all that many would."""


class Step(NamedTuple):
    """One thing that happens."""

    what: str
    which: int = 0
    """Which node it happens to; or how many tenths of a second pass."""
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
    repaired: bool = True
    """Whatever is in trouble at the end is repaired; else the program must report it."""
    controller: bool = False
    """The program never ends; ``endless.py`` says what is promised then."""
    down: int = 0
    """How many plugins may be down at once for any cause."""
    site: Site = Site()


class Story:
    """A world, and the runs in it."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.world = World(history.nodes, history.pace, history.site)
        self.observation = Observation(self.world)
        limits = ControllerLimits(max_unavailable=Bound(history.down or "100%"))
        times = Advanced(restart_backoff_max=LONGEST_PAUSE)
        kind = ControllerSettings if history.controller else Settings
        self.settings = kind(max_parallel_restarts=history.at_once, controller=limits, advanced=times)
        self.started = moment_of(self.world)
        """Of the Job: a pod that replaces a killed one shares its deadline and nothing else."""
        self.runs = [self._process() for _number in range(history.runs)]
        self.wrong_taint = ""
        """The first device taint that broke its promise. The other promises are held first."""

    def _process(self) -> Run:
        kind, on_restart = (Controller, endless.restart) if self.history.controller else (Run, promises.restart)
        return kind(self.world, self.observation, self.settings, self.started, on_restart)

    @property
    def controllers(self) -> list[Controller]:
        """Return the runs that never end."""
        return [one for one in self.runs if isinstance(one, Controller)]

    def tell(self) -> None:
        """Let everything happen, until the cluster is at rest. Raises BrokenPromiseError."""
        clock = Clock(self.world)
        with contextlib.ExitStack() as patched:
            for module in (job, loop, restarts):
                patched.enter_context(mock.patch.object(module, "time", clock))
            for step in self.history.steps:
                self._befall(step)
            if self.history.repaired:
                self._repair()
            if self.history.controller:
                self._continue_at_rest()
            else:
                self._come_to_an_end()
        if self.wrong_taint:
            raise promises.WrongTaintError(self.wrong_taint)

    def _befall(self, step: Step) -> None:
        machines, which = list(self.world.machines.values()), step.which
        machine, run = machines[which % len(machines)], self.runs[which % len(self.runs)]
        if step.what == "time":
            self.world.passes(which)
        elif step.what in ("work", "watch"):
            self._pass(which, look=step.what == "watch")
        elif step.what in ("look", "hear"):
            self._look(run, step.behind, only_hear=step.what == "hear")
        elif step.what == "killed":
            self.runs[which % len(self.runs)] = self._process()
        elif step.what == "times_move":
            machine.times_move(self.world.now)
        elif step.what in OF_THE_CLUSTER:
            getattr(self.world, step.what)()
        else:
            OF_A_NODE[step.what](self.world, machine, which // len(machines))

    def _pass(self, tenths: int, *, look: bool) -> None:
        """Let all controllers do their work for a while, with or without the program."""
        for _second in range(0, tenths, SECOND):
            self.world.everybody_works()
            self.world.passes(SECOND)
            for run in self.runs if look else ():
                self._look(run)

    def _look(self, run: Run, behind: frozenset[str] = NOTHING, *, only_hear: bool = False) -> None:
        if run.outcome is not None:
            return
        run.watch.hears(behind)
        if only_hear:
            return
        for machine in self.world.machines.values():
            if self.world.at_work(machine) and machine.serves:
                run.served_at[machine.name] = self.world.now
        promises.looks(run)
        run.look()
        promises.looked(run)
        self.wrong_taint = self.wrong_taint or promises.tainted(run)
        if isinstance(run, Controller):
            endless.looked(run)
        else:
            promises.still_going(run, self.started)
        if run.outcome is not None:
            promises.ending(run, run.outcome, self.started)

    # The end: nothing happens any more but what has to.

    def _continue_at_rest(self) -> None:
        """Let everything that continues by itself come to its end; then all that can be done must be."""
        until = self.world.now + max(endless.patience(one) for one in self.controllers)
        while self.world.now < until and not all(endless.content(one) for one in self.controllers):
            self._work_and_look()
        for one in self.controllers:
            endless.came_to_rest(one, repaired=self.history.repaired)

    def _come_to_an_end(self) -> None:
        """Every run must end, and rightly."""
        calm_since: int | None = None
        since = self.world.now
        while not all(one.outcome for one in self.runs):
            self._work_and_look()
            if calm_since is None and promises.calm(self.world):
                calm_since = self.world.now
        for one in self.runs:
            assert one.outcome is not None
            promises.came_to_rest(one, one.outcome, self.started, since, calm_since)

    def _work_and_look(self) -> None:
        before = self.world.changes
        self._pass(SECOND, look=True)
        if self.world.changes == before:
            self.world.passes(PATIENT_LOOK)

    def _repair(self) -> None:
        self.world.policy_returns()
        if self.world.by_hand:
            self.world.turns_upgrades()
        for machine in self.world.machines.values():
            machine.labelled, machine.skipped = True, False
            machine.driver_broken = machine.plugin_broken = False
            machine.comes_back(self.world.now)
            machine.changes += 1


OF_THE_CLUSTER: Final = (
    "edits_version", "takes_version_back", "edits_setting", "turns_upgrades", "operator_renders", "operator_reports",
    "operator_lies", "operator_rolls", "operator_starts", "operator_leads", "operator_replaces", "daemonset_controller",
    "plugin_controller", "garbage_collector", "node_joins", "turns_rolling", "policy_vanishes", "kind_vanishes",
    "policy_returns", "plugins_orphaned", "plugins_adopted",
)  # fmt: skip
"""What happens to the whole cluster: methods of `World`."""
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
    "labels_vanish": lambda world, machine, _how: machine.labels_vanish(world.now),
    "is_skipped": lambda _world, machine, _how: machine.is_skipped(),
    "node_leaves": lambda world, machine, _how: world.node_leaves(machine),
}
"""What happens to one node; the number says how."""
