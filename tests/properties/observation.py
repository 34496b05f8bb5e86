"""What is known of a world: read by the program's own parser, by watches that may be behind, a kind at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from hook.objects import (
    Malformed,
    Snapshot,
    Value,
    entry,
    node_of,
    policies,
    read_daemonset,
    read_deployment,
    read_lease,
    read_node,
    read_pod,
    read_replicaset,
    read_revision,
    read_slice,
)
from hook.objects.decoding import Reader
from hook.objects.views import reader
from tests.fixtures.objects import Object, raw
from tests.properties import served
from tests.properties.pods import SECOND
from tests.properties.rollout import Stage
from tests.properties.world import World

Views = tuple[Any, ...]
KINDS: Final = (
    "policies", "daemonsets", "revisions", "nodes", "driver_pods", "plugin_pods", "slices", "deployments",
    "replicasets", "leases",
)  # fmt: skip
PLUGIN_KINDS: Final = frozenset({"plugin_pods", "slices"})
"""Kinds that say nothing about whether a node is settled."""


class Observation:
    """Shows a world. What did not change is read once, as by a watch."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._read: dict[tuple[Any, ...], Any] = {}
        self.kinds: Final[Mapping[str, Callable[[], Views | None]]] = {
            kind: getattr(self, f"_{kind}") for kind in KINDS
        }

    def _once(self, read: Reader[Any], show: Callable[[], Object], *version: object) -> Any:  # noqa: ANN401
        """Read an object, unless it was read at this version."""
        if (read, *version) not in self._read:
            shown = show()
            self._read[read, *version] = entry(read, shown["kind"], raw(shown))[1]
        return self._read[read, *version]

    def _policies(self) -> Views | None:
        world = self._world
        if world.policy is None:
            return () if world.knows_kind else None
        version = (world.policy, world.generation, world.says_ready, world.touched)
        return (self._once(reader(policies.ClusterPolicy), partial(served.policy, world), *version),)

    def _daemonsets(self) -> Views:
        own, daemons = self._world.plugin_set, self._world.driver_set
        plugins = self._once(read_daemonset, partial(served.plugin_set, own), own.uid, own.observed, own.wanted)
        if daemons is None:
            return (plugins,)
        version = (daemons.uid, daemons.generation, daemons.observed, daemons.desired)
        show = partial(served.driver_set, daemons, self._world.site.image)
        return plugins, self._once(read_daemonset, show, *version)

    def _revisions(self) -> Views:
        if (daemons := self._world.driver_set) is None:
            return ()
        return tuple(
            self._once(read_revision, partial(served.revision, daemons, template), daemons.uid, template, number)
            for template, (number, _made) in daemons.revisions.items()
        )

    def _nodes(self) -> Views:
        machines = self._world.machines.values()
        return tuple(self._once(read_node, partial(served.node, one), one.name, one.changes) for one in machines)

    def _driver_pods(self) -> Views:
        pods = [(one, pod) for one in self._world.machines.values() for pod in one.drivers]
        return tuple(self._once(read_pod, partial(served.driver_pod, *both), *_version(both[1])) for both in pods)

    def _plugin_pods(self) -> Views:
        pods = [(one, pod) for one in self._world.machines.values() for pod in one.plugins]
        return tuple(self._once(read_pod, partial(served.plugin_pod, *both), *_version(both[1])) for both in pods)

    def _slices(self) -> Views:
        found = [(one.name, one.published) for one in self._world.machines.values() if one.published is not None]
        return tuple(self._once(read_slice, partial(served.device_slice, *both), *both) for both in found)

    def _deployments(self) -> Views:
        version = (self._world.build, self._world.stage)
        return (self._once(read_deployment, partial(served.deployment, *version), *version),)

    def _replicasets(self) -> Views:
        newest = self._world.build + (self._world.stage is Stage.STARTED)
        builds = range(self._world.build, newest + 1)
        return tuple(self._once(read_replicaset, partial(served.replicaset, build), build) for build in builds)

    def _leases(self) -> Views:
        version = (self._world.build, self._world.led_since)
        return (self._once(read_lease, partial(served.lease, *version), *version),)


class Watch:
    """One run's watches: each kind as it was at some moment, never going back."""

    def __init__(self, observation: Observation) -> None:
        self._sight = observation
        self.held: dict[str, Views | None] = {}
        """By kind; None where the API server does not know it."""
        self.hears()

    def hears(self, behind: frozenset[str] = frozenset()) -> None:
        """Catch up with everything but some kinds."""
        for kind, show in self._sight.kinds.items():
            if kind not in behind:
                self.held[kind] = show()

    @property
    def knows_the_drivers(self) -> bool:
        """Whether it shows what is true about policies, operators, nodes and drivers."""
        return all(self.held[kind] == show() for kind, show in self._sight.kinds.items() if kind not in PLUGIN_KINDS)

    @property
    def knows_everything(self) -> bool:
        """Whether it shows what is true."""
        return all(self.held[kind] == show() for kind, show in self._sight.kinds.items())

    def snapshot(self) -> Snapshot:
        """Return what these watches show."""
        held: dict[str, Any] = {
            kind: found if found is None else tuple(filter(_is_readable, found)) for kind, found in self.held.items()
        }
        held["nodes"] = {node.name: node for node in held["nodes"]}
        malformed = tuple(one for found in self.held.values() for one in found or () if not _is_readable(one))
        return Snapshot(**held, malformed=malformed)


def _is_readable(view: object) -> bool:
    return not isinstance(view, Malformed)


def _version(pod: Any) -> tuple[str, int]:  # noqa: ANN401 - a pod of either kind
    return pod.uid, pod.changes


def changed_nodes(before: Snapshot, after: Snapshot) -> set[str]:
    """Return the nodes on which an object came, went or is another one."""
    was, now = _by_node(before), _by_node(after)
    return {node for node in was.keys() | now.keys() if was.get(node) != now.get(node)}


def _by_node(seen: Snapshot) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    pods = (*seen.driver_pods, *seen.prerequisite_pods, *seen.plugin_pods)
    for view in (*seen.nodes.values(), *pods, *(seen.slices or ()), *seen.malformed):
        found.setdefault(node_of(view), []).append(view)
    return found


def moment_of(world: World) -> float:
    """Return the world's time in seconds, as fixtures have it."""
    return world.now / SECOND
