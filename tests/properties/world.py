"""An abstract cluster: a user who wants a driver, an operator and controllers that are slow, and nodes.

Each actor has a method here, named after what it does. What follows by itself, on the nodes and in the
operator, happens as time passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from tests.properties.machine import FAILED, QUIET, Machine
from tests.properties.pods import SECOND, DriverPod, Main, Pace, PluginPod, Side
from tests.properties.rollout import DriverSet, PluginSet, Site, Stage

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

    def __init__(self, nodes: int, pace: Pace, site: Site) -> None:
        self.now, self.pace, self.site = 0, pace, site
        self._numbers: Iterator[int] = count(1)
        self.version, self.setting, self.generation, self.edited = FIRST_VERSION, 0, 1, LONG_AGO
        self.by_hand, self.says_ready, self.rolling = False, True, False
        self.policy: str | None = "policy-0"
        """UID of the policy; None while there is none."""
        self.knows_kind = True
        """The API server knows the policy's kind."""
        self.stage, self.build, self.led_since = Stage.LEADS, 1, LONG_AGO
        self.render_due: int | None = None
        self.driver_set: DriverSet | None = DriverSet("set-0", (self.version, self.setting, self.build))
        self.driver_set.observe(LONG_AGO * SECOND)
        self.plugin_set = PluginSet("plugins-0")
        self.machines: dict[str, Machine] = {}
        for at in range(nodes):
            self.machines[f"n{at}"] = Machine(f"n{at}", SKEWS[at % len(SKEWS)], pace, site.side)
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
        """Ask, as a user, for the next driver; the policy says ready until its operator comes by."""
        self._edit(self.version + 1, self.setting)

    def takes_version_back(self) -> None:
        """Ask, as a user, for the driver before."""
        self._edit(max(FIRST_VERSION, self.version - 1), self.setting)

    def edits_setting(self) -> None:
        """Change, as a user, what shows in no version, image or label."""
        self._edit(self.version, self.setting + 1)

    def _edit(self, version: int, setting: int) -> None:
        if setting != self.setting and self.stage is not Stage.STARTED:
            self.render_due = self.now + self.pace.renders
        self.version, self.setting = version, setting
        self._writes()

    def _writes(self) -> None:
        self.generation, self.edited = self.generation + 1, self.now // SECOND

    def turns_upgrades(self) -> None:
        """Turn, as a user, the upgrade controller off, or on."""
        self.by_hand = not self.by_hand
        self._writes()

    def turns_rolling(self) -> None:
        """Let the DaemonSet controller replace outdated driver pods by itself, or no longer."""
        self.rolling = not self.rolling
        if self.driver_set is not None:
            self.driver_set.rolling = self.rolling
            self.driver_set.generation += 1

    def policy_vanishes(self) -> None:
        """Delete the policy, and leave what was rendered from it."""
        self.policy = None

    def kind_vanishes(self) -> None:
        """Delete the policy with its kind, as a CRD that is replaced does."""
        self.policy, self.knows_kind = None, False

    def policy_returns(self) -> None:
        """Create the policy again as another object, of what is wanted by now."""
        if self.policy is not None:
            return
        self.policy, self.knows_kind, self.says_ready = f"policy-{next(self._numbers)}", True, False
        self.generation, self.edited = 1, self.now // SECOND
        if self.to_be_rendered and self.stage is not Stage.STARTED:
            self.render_due = self.now + self.pace.renders

    @property
    def touched(self) -> int:
        """Return the second of the last write to the policy, be it to its metadata alone."""
        period = self.site.touched
        return max(self.edited, self.now // period * period // SECOND) if period else self.edited

    def plugins_adopted(self) -> None:
        """Delete the plugin's DaemonSet without its pods, and create another one, which takes them over."""
        self.plugins_orphaned(adopts=True)

    def plugins_orphaned(self, *, adopts: bool = False) -> None:
        """Delete the plugin's DaemonSet without its pods, and create another one of the same name."""
        for machine in self.machines.values():
            for pod in machine.plugins:
                pod.owner, pod.changes = "", pod.changes + 1
        self.plugin_set = PluginSet(f"plugins-{next(self._numbers)}", adopts=adopts, made=self.now)

    def node_joins(self) -> None:
        """Let a node come, on which everything starts from nothing."""
        name = f"m{next(self._numbers)}"
        self.machines[name] = Machine(name, 31, self.pace, self.site.side)

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
        if self.policy is None:
            return
        if self.driver_set is None:
            self.driver_set = DriverSet(f"set-{next(self._numbers)}", self.wanted, self.rolling)
        elif self.driver_set.template != self.wanted:
            self.driver_set.template = self.wanted
            self.driver_set.generation += 1
        else:
            return
        self.says_ready = False

    def operator_reports(self, *, falsely: bool = False) -> None:
        """Report how the drivers are."""
        if self.stage is not Stage.STARTED and self.policy is not None:
            self.says_ready = falsely or all(self.settled(one) for one in self.machines.values() if one.drivers)

    def operator_lies(self) -> None:
        """Report ready although the drivers are not, as up to 26.3 after the first node."""
        self.operator_reports(falsely=True)

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
        if self.policy is not None and self.by_hand and machine.label != QUIET:
            # GO controllers/upgrade_controller.go removes its labels where autoUpgrade is off.
            machine.label, machine.changes = QUIET, machine.changes + 1
        if self.policy is None or self.by_hand or machine.skipped or not pods or templates is None:
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
            for machine in self.machines.values():
                self._place_driver(machine, self.driver_set)
            if self.driver_set.rolling:
                self._rolls(self.driver_set)
        self.plugin_controller()

    def plugin_controller(self) -> None:
        """Let the DaemonSet controller come by the plugin's DaemonSet alone."""
        self.plugin_set.observed, self.plugin_set.wanted = 1, len(self.machines)
        for machine in self.machines.values():
            self._place_plugin(machine, self.plugin_set)

    def _rolls(self, daemons: DriverSet) -> None:
        """Take outdated driver pods away: those that are not ready, and one more while all others are."""
        own = [pod for one in self.machines.values() for pod in one.drivers if pod.owner == daemons.uid]
        down = any(pod.deleting or pod.ready is None for pod in own) or len(own) < daemons.desired
        for pod in own:
            if pod.template != daemons.template and (pod.ready is None or not down):
                down = True
                self._take(pod)

    def _place_plugin(self, machine: Machine, daemons: PluginSet) -> None:
        """Keep one pod of the plugin on a node, the oldest; orphans are taken over where they match."""
        for pod in machine.plugins:
            if daemons.adopts and not pod.owner and not pod.deleting:
                pod.owner, pod.changes = daemons.uid, pod.changes + 1
        own = [pod for pod in machine.plugins if pod.owner == daemons.uid]
        if not own:
            self._make_plugin(machine)
        for pod in [pod for pod in own if not pod.deleting][1:]:
            self._take(pod)

    def _make_plugin(self, machine: Machine) -> None:
        uid, due = self._name(machine, "plugin"), self.now + self.pace.poll
        machine.plugins.append(PluginPod(uid, due, self.plugin_set.uid, self.now))

    def plugin_doubles(self, machine: Machine) -> None:
        """Make a second pod of the plugin on a node, as a DaemonSet controller that trails its own cache does."""
        self._make_plugin(machine)

    def _place_driver(self, machine: Machine, daemons: DriverSet) -> None:
        own = [pod for pod in machine.drivers if pod.owner == daemons.uid]
        if not machine.labelled:
            for pod in own:
                self._take(pod)
        elif not own:
            uid, due = self._name(machine, "driver"), self.now + self.pace.unload
            side = None if self.site.side is Side.NONE else Main("nvidia-peermem-ctr")
            machine.drivers.append(DriverPod(uid, daemons.uid, daemons.template, due, side=side))

    def garbage_collector(self) -> None:
        """Take away the pods of a DaemonSet that is gone."""
        for machine in self.machines.values():
            for pod in machine.drivers:
                if self.driver_set is None or pod.owner != self.driver_set.uid:
                    self._take(pod)

    def takes_driver(self, machine: Machine) -> None:
        """Delete, as a user, a driver pod, without a label."""
        for pod in machine.drivers:
            self._take(pod)

    def takes_plugin(self, machine: Machine) -> None:
        """Delete, as another client, a plugin's pod."""
        for pod in machine.plugins:
            self.takes(pod)

    def takes(self, pod: PluginPod) -> None:
        """Delete one of a plugin's pods."""
        self._take(pod)

    def _take(self, pod: DriverPod | PluginPod) -> None:
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
        own = (self.generation, self.says_ready, self.stage, self.plugin_set.observed)
        return (*own, *daemons, *(one.changes for one in machines), *pods)

    def settled(self, machine: Machine) -> bool:
        """Whether the one driver pod here is what the intent of now asks for, and is loaded and ready."""
        pod = self._asked_for(machine)
        return pod is not None and pod.ready is not None and pod.loaded

    def at_work(self, machine: Machine) -> bool:
        """Whether the one driver here stays as it is and is loaded, whatever its side container does."""
        pod = self._asked_for(machine) or self.kept(machine)
        return pod is not None and pod.noticed

    def kept(self, machine: Machine) -> DriverPod | None:
        """Return the one driver pod of a node if it is outdated and the policy has no controller replace it."""
        pods = [pod for pod in machine.drivers if not pod.deleting]
        daemons = self.driver_set
        by_hand = self.by_hand and self.policy is not None
        if not by_hand or daemons is None or daemons.rolling or len(pods) != 1:
            return None
        pod = pods[0]
        return pod if pod.owner == daemons.uid and pod.template != self.newest else None

    def _asked_for(self, machine: Machine) -> DriverPod | None:
        """Return the one driver pod of a node if it is of the newest template, and that is what is wanted."""
        # Without a policy, what was rendered last is all that is wanted.
        pods = [pod for pod in machine.drivers if not pod.deleting]
        daemons = self.driver_set
        if daemons is None or len(pods) != 1 or daemons.observed != daemons.generation:
            return None
        shown = (pods[0].owner, pods[0].template) == (daemons.uid, daemons.template)
        return pods[0] if shown and (self.policy is None or daemons.template[0] == self.version) else None

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
