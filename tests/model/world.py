"""An abstract cluster: somebody who wants a driver, an operator and controllers that are slow, and nodes.

Whoever acts has a method here, named after what it does. What follows by itself, on the nodes and in the
operator, happens as time passes.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from tests.model.machine import FAILED, QUIET, Machine
from tests.model.pods import SECOND, DriverPod, PluginPod
from tests.model.rollout import DriverSet, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.model.pods import Pace

LONG_AGO: Final = -3600
FIRST_VERSION: Final = 100
SKEWS: Final = (0, 73, -94)
"""By how many tenths of a second the clocks of the nodes differ from the API server's."""
NEXT_LABEL: Final[Mapping[str, str]] = {
    QUIET: "upgrade-required",
    "upgrade-required": "pod-deletion-required",
    "pod-deletion-required": "pod-restart-required",
}
"""LIB ``pkg/upgrade``, shortened: what an outdated node goes through until its driver pod is deleted."""


class World:
    """Everything there is, and the time."""

    def __init__(self, nodes: int, pace: Pace) -> None:
        self.now, self.pace = 0, pace
        self._numbers: Iterator[int] = count(1)
        self.version, self.setting, self.generation, self.edited = FIRST_VERSION, 0, 1, LONG_AGO
        self.by_hand, self.says_ready = False, True
        self.stage, self.build, self.led_since = Stage.LEADS, 1, LONG_AGO
        self.render_due: int | None = None
        self.driver_set: DriverSet | None = DriverSet("set-0", (self.version, self.setting, self.build))
        self.driver_set.observe(LONG_AGO * SECOND)
        self.plugins_wanted = 0
        self.machines: dict[str, Machine] = {}
        for at in range(nodes):
            self.machines[f"n{at}"] = Machine(f"n{at}", SKEWS[at % len(SKEWS)], pace)
        self._settle()

    def _settle(self) -> None:
        """Begin with a cluster in which plugins started long after their drivers."""
        self.daemonset_controller()
        for machine in self.machines.values():
            machine.plugins.clear()
        self.passes(60 * SECOND)
        self.daemonset_controller()
        self.passes(60 * SECOND)

    # Time.

    def passes(self, tenths: int) -> None:
        """Let time pass, and happen what is due."""
        end = self.now + tenths
        while (due := self._next_moment()) is not None and due <= end:
            self.now = max(due, self.now)
            if self.render_due is not None and self.render_due <= self.now:
                self.operator_renders()
            for machine in self.machines.values():
                if machine.reports:
                    machine.act(self.now)
        self.now = end

    def _next_moment(self) -> int | None:
        moments = [machine.next_moment() for machine in self.machines.values()]
        return min((one for one in (*moments, self.render_due) if one is not None), default=None)

    # People.

    def edits_version(self) -> None:
        """Somebody asks for the next driver; the policy says ready until its operator comes by."""
        self._edit(self.version + 1, self.setting)

    def takes_version_back(self) -> None:
        """Somebody asks for the driver before."""
        self._edit(max(FIRST_VERSION, self.version - 1), self.setting)

    def edits_setting(self) -> None:
        """Somebody changes what shows in no version, image or label."""
        self._edit(self.version, self.setting + 1)

    def _edit(self, version: int, setting: int) -> None:
        if setting != self.setting and self.stage is not Stage.STARTED:
            self.render_due = self.now + self.pace.renders
        self.version, self.setting = version, setting
        self.generation, self.edited = self.generation + 1, self.now // SECOND

    def turns_upgrades(self) -> None:
        """Somebody turns the upgrade controller off, or on."""
        self.by_hand = not self.by_hand
        self.generation, self.edited = self.generation + 1, self.now // SECOND

    def node_joins(self) -> None:
        """Let a node come, on which everything starts from nothing."""
        name = f"m{next(self._numbers)}"
        self.machines[name] = Machine(name, 31, self.pace)

    def node_leaves(self, machine: Machine) -> None:
        """Remove a node, with its pods."""
        if len(self.machines) > 1:
            del self.machines[machine.name]

    # The operator.

    @property
    def wanted(self) -> tuple[int, ...]:
        """What the operator that leads would render."""
        return self.version, self.setting, self.build

    @property
    def to_be_rendered(self) -> bool:
        """Whether the driver DaemonSet is about to change without anybody's doing."""
        unlike = self.driver_set is None or self.driver_set.template != self.wanted
        return unlike or self.stage is not Stage.LEADS

    def operator_renders(self) -> None:
        """Write what is wanted into the DaemonSet, or make one."""
        if self.stage is Stage.STARTED:
            return
        self.render_due = None
        if self.driver_set is None:
            self.driver_set = DriverSet(f"set-{next(self._numbers)}", self.wanted)
        elif self.driver_set.template != self.wanted:
            self.driver_set.template = self.wanted
            self.driver_set.generation += 1
        else:
            return
        self.says_ready = False

    def operator_reports(self, *, falsely: bool = False) -> None:
        """Say how the drivers are; up to 26.3 it says ready after the first node."""
        if self.stage is not Stage.STARTED:
            self.says_ready = falsely or all(self.settled(one) for one in self.machines.values() if one.drivers)

    def operator_rolls(self) -> None:
        """Change the operator's Deployment: a new one is to come."""
        if self.stage is Stage.LEADS:
            self.stage = Stage.ROLLS

    def operator_starts(self) -> None:
        """Let the new operator be up, and the old one gone."""
        if self.stage is Stage.ROLLS:
            self.stage, self.render_due = Stage.STARTED, None

    def operator_leads(self) -> None:
        """Let the new one take the lease; it renders everything once more within its first seconds."""
        if self.stage is Stage.STARTED:
            self.stage, self.build, self.led_since = Stage.LEADS, self.build + 1, self.now // SECOND
            self.render_due = self.now + self.pace.renders

    def operator_replaces(self) -> None:
        """Remove the DaemonSet and leave its pods; the next render makes another one."""
        if self.stage is not Stage.STARTED:
            self.driver_set = None
            self.render_due = self.now + self.pace.renders

    def upgrade_controller(self, machine: Machine) -> None:
        """Take the next step for a node: a label, or its driver pod away."""
        pods, templates = [pod for pod in machine.drivers if not pod.deleting], self.driver_set
        if self.by_hand or machine.skipped or not pods or templates is None:
            return
        pod = pods[0]
        outdated = pod.owner == templates.uid and pod.template != self.newest
        before = machine.label
        if outdated and machine.label in NEXT_LABEL:
            machine.label = NEXT_LABEL[machine.label]
        elif outdated and machine.label == "pod-restart-required":
            self._take(pod)
        elif outdated:
            machine.label = "upgrade-required"
        elif pod.failing and machine.label != QUIET:
            machine.label = FAILED
        elif pod.ready is not None and machine.label != QUIET:
            machine.label = QUIET if machine.label == "uncordon-required" else "uncordon-required"
        machine.changes += machine.label != before

    # Kubernetes.

    @property
    def newest(self) -> tuple[int, ...] | None:
        """The template of the newest revision."""
        made = self.driver_set.revisions if self.driver_set else {}
        return max(made, key=lambda template: made[template][0], default=None)

    def daemonset_controller(self) -> None:
        """Make a revision of what is asked for, and a pod wherever one is missing."""
        if self.driver_set is not None:
            self.driver_set.observe(self.now)
            self.driver_set.desired = sum(one.labelled for one in self.machines.values())
        self.plugins_wanted = len(self.machines)
        for machine in self.machines.values():
            if self.driver_set is not None:
                self._place_driver(machine, self.driver_set)
            if not machine.plugins:
                machine.plugins.append(PluginPod(self._name(machine, "plugin"), self.now + self.pace.poll))

    def _place_driver(self, machine: Machine, daemons: DriverSet) -> None:
        own = [pod for pod in machine.drivers if pod.owner == daemons.uid]
        if not machine.labelled:
            for pod in own:
                self._take(pod)
        elif not own:
            uid, due = self._name(machine, "driver"), self.now + self.pace.unload
            machine.drivers.append(DriverPod(uid, daemons.uid, daemons.template, due))

    def garbage_collector(self) -> None:
        """Take away the pods of a DaemonSet that is gone."""
        for machine in self.machines.values():
            for pod in machine.drivers:
                if self.driver_set is None or pod.owner != self.driver_set.uid:
                    self._take(pod)

    def takes_driver(self, machine: Machine) -> None:
        """Somebody deletes a driver pod, without a label."""
        for pod in machine.drivers:
            self._take(pod)

    def takes_plugin(self, machine: Machine) -> None:
        """Somebody else deletes a plugin's pod."""
        for pod in machine.plugins:
            self._take(pod)

    def _take(self, pod: DriverPod | PluginPod) -> None:
        """Tell a pod to go; it runs, and is ready, until it is gone."""
        if not pod.deleting:
            pod.deleting, pod.due, pod.changes = True, self.now + self.pace.goes, pod.changes + 1

    def plugin(self, name: str) -> tuple[Machine, PluginPod] | None:
        """Find a plugin's pod, and its node."""
        found = ((one, pod) for one in self.machines.values() for pod in one.plugins if pod.uid == name)
        return next(found, None)

    def _name(self, machine: Machine, what: str) -> str:
        return f"{machine.name}-{what}-{next(self._numbers)}"

    # What is true.

    @property
    def changes(self) -> tuple[int, ...]:
        """Differs whenever there is something new to notice."""
        daemons = (self.driver_set.generation, self.driver_set.observed) if self.driver_set else ()
        machines = self.machines.values()
        pods = [pod.changes for machine in machines for pod in machine.pods]
        return (self.generation, self.says_ready, self.stage, *daemons, *(one.changes for one in machines), *pods)

    def settled(self, machine: Machine) -> bool:
        """Whether the one driver pod here is what the intent of now asks for, and its driver is loaded and ready."""
        pods = [pod for pod in machine.drivers if not pod.deleting]
        daemons = self.driver_set
        if daemons is None or len(pods) != 1 or daemons.observed != daemons.generation:
            return False
        pod = pods[0]
        shown = (pod.owner, pod.template) == (daemons.uid, daemons.template)
        return shown and daemons.template[0] == self.version and pod.ready is not None and pod.loaded

    def everybody_works(self) -> None:
        """Let every controller do what it has to do."""
        acts: tuple[Callable[[], None], ...] = (
            self.operator_starts,
            self.operator_leads,
            self.operator_renders,
            self.daemonset_controller,
            self.garbage_collector,
            self.operator_reports,
        )
        for act in acts:
            act()
        for machine in self.machines.values():
            self.upgrade_controller(machine)
