"""Take a snapshot apart: what applies to all nodes of a driver stack, and per node the objects on that node.

A node is evaluated from its ``NodeView``, the ``Context``, the memory of its plugins and the time alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import msgspec

from hook.decide import clients, rollout
from hook.objects import names
from hook.objects.drivers import STACKS, is_driver

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeVar

    from hook.config import Settings
    from hook.decide.clients import Plugins
    from hook.objects.drivers import Prerequisite, Stack
    from hook.objects.policies import Policy
    from hook.objects.views import DaemonSet, DeviceSlice, Malformed, Node, Pod, Revision, Snapshot

    OnNode = TypeVar("OnNode", Pod, DeviceSlice)

NONE: Final[frozenset[str]] = frozenset()
"""Most nodes share it."""


@dataclass(frozen=True, slots=True)
class Context:
    """What applies to all nodes of a driver stack."""

    stack: Stack
    settings: Settings
    policy: Policy | None
    """The active one."""
    policy_kind_served: bool
    """Whether the API server has the kind of the policy."""
    pools: Sequence[Policy]
    sources: Sequence[Policy]
    """The objects that specify the drivers: the policy, or the pools if it leaves the drivers to them."""
    expected: str
    """The expected driver version, if one object specifies all drivers. One of several may be pinned to another one."""
    unmet: str
    """How the policy differs from the versions that the settings expect, or ""."""
    drivers: Mapping[str, DaemonSet]
    """Driver DaemonSets by UID."""
    deployed: bool
    """Whether drivers of the operator run. Then a policy asked for them, and may be being replaced."""
    intents: Mapping[str, Policy]
    """By UID of a driver DaemonSet: the policy or pool that the operator renders it from."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Revisions of a replaced DaemonSet may still exist.

    A DaemonSet whose newest revision has not arrived has none. Each kind has its own watch, so the status of a
    DaemonSet may arrive before the revision that the DaemonSet controller created first.
    """
    unrendered: Mapping[str, str]
    """By UID of a driver DaemonSet: how it differs from its policy or pool."""
    rewritten: Sequence[str]
    """How the images of driver DaemonSets differ from the policy, if only by their registry or digest."""
    plugins: Plugins
    evicted: Mapping[str, str]
    """By UID of a plugin's DaemonSet: the node label by which the driver manager evicts it before a reload, or ""."""
    prerequisites: Mapping[Prerequisite, Mapping[str, DaemonSet]]
    """What a plugin must start after in addition to the driver, if the settings name it; with its DaemonSets by UID."""
    detects: bool
    """False if no node of several carries the device label: then NFD, which sets it, is down."""
    slices_served: bool
    """Whether the API server has ResourceSlices."""
    malformed: Sequence[Malformed]

    @property
    def lasting(self) -> Context:
        """Return the part that the evaluation of a node depends on. The rest changes with each pod of another node."""
        plugins = replace(
            self.plugins,
            named=tuple(map(_without_status, self.plugins.named)),
            unnamed=tuple(map(_without_status, self.plugins.unnamed)),
            operator_managed=(),
            refused=(),
        )
        return replace(
            self,
            policy=self.policy and _as_nodes_read_it(self.policy),
            pools=(),
            sources=(),
            drivers={uid: _without_status(ds) for uid, ds in self.drivers.items()},
            intents={uid: _as_nodes_read_it(intent) for uid, intent in self.intents.items()},
            plugins=plugins,
            prerequisites={
                prerequisite: {uid: _without_status(ds) for uid, ds in owners.items()}
                for prerequisite, owners in self.prerequisites.items()
            },
        )


def _without_status(daemonset: DaemonSet) -> DaemonSet:
    """Return a DaemonSet without the counts of its status."""
    return msgspec.structs.replace(daemonset, observed_generation=0, desired=0)


def _as_nodes_read_it(policy: Policy) -> Policy:
    """Return a policy without its status, its times and the manifest that it was read from.

    The operator writes the status with each reconcile, and some tools write metadata every few seconds.
    """
    return replace(policy, state="", generation=0, ready_since=None, changed=None, spec={}, last_applied="")


class NodeView(msgspec.Struct, frozen=True):
    """The objects on one node."""

    name: str
    node: Node | None
    driver_pods: Sequence[Pod] = ()
    plugin_pods: Sequence[Pod] = ()
    """Pods of named plugins. An orphan has the UID of the DaemonSet that will adopt it."""
    unnamed_pods: Sequence[Pod] = ()
    """Pods of DaemonSets that look like a plugin but are not in plugin.names. They are never restarted."""
    prerequisite_pods: Sequence[Pod] = ()
    outdated: frozenset[str] = NONE
    """UIDs of driver and prerequisite pods that are not of the newest revision, or whose newest revision is unknown."""
    slices: Sequence[DeviceSlice] = ()
    malformed: Sequence[Malformed] = ()
    """Malformed objects on this node, and malformed pods whose node is unknown."""
    orphans: frozenset[str] = NONE
    """UIDs of plugin pods that no DaemonSet controls."""

    def label(self, key: str) -> str:
        """Return the value of a node label, or ""."""
        return self.node.labels.get(key, "") if self.node is not None else ""

    def is_wanted_by(self, daemonset: DaemonSet) -> bool:
        """Return whether a DaemonSet wants a pod here."""
        return self.node is not None and daemonset.wants(self.node)

    def plugin_pods_of(self, daemonset_uid: str) -> list[Pod]:
        """Return the pods of one plugin."""
        return [pod for pod in self.plugin_pods if pod.owner_uid == daemonset_uid]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A snapshot that was taken apart."""

    context: Context
    nodes: Mapping[str, NodeView]
    """Nodes with a device, or with a driver or plugin pod, sorted by name."""
    snapshot: Snapshot

    @property
    def stack(self) -> Stack:
        """Return the driver stack."""
        return self.context.stack

    @property
    def policy(self) -> Policy | None:
        """Return the active policy."""
        return self.context.policy

    def drivers_on(self, node: str) -> Sequence[Pod]:
        """Return the driver pods on a node."""
        return self.nodes[node].driver_pods if node in self.nodes else ()


def index(snapshot: Snapshot, settings: Settings) -> Fleet:
    """Take a snapshot apart."""
    context = context_of(snapshot, settings)
    return Fleet(context, views_of(snapshot, context), snapshot)


def views_of(snapshot: Snapshot, context: Context, names: AbstractSet[str] | None = None) -> dict[str, NodeView]:
    """Build the views of all nodes, or of some: of those that have a device, or a driver or plugin pod."""
    nodes, label = snapshot.nodes, context.stack.nodes.present
    drivers, pods = _pods_by_node(snapshot.driver_pods, names), _pods_by_node(snapshot.plugin_pods, names)
    required, slices = _pods_by_node(snapshot.prerequisite_pods, names), _by_node(snapshot.slices or (), names)
    views: dict[str, NodeView] = {}
    for name in sorted({*nodes, *drivers, *pods} if names is None else names):
        node, raw, found = nodes.get(name), pods.get(name, ()), drivers.get(name, ())
        plugins = tuple(plugin_pods(raw, context.plugins.named))
        labelled = node is not None and node.labels.get(label) == "true"
        if not name or not (labelled or found or plugins):
            continue
        views[name] = NodeView(
            name,
            node,
            driver_pods=found,
            plugin_pods=plugins,
            unnamed_pods=_of(context.plugins.unnamed, raw),
            prerequisite_pods=required.get(name, ()),
            outdated=_outdated((*found, *required.get(name, ())), context),
            slices=_newest_slices(slices.get(name, ())),
            malformed=_malformed_on(name, context.malformed),
            orphans=_orphans(raw),
        )
    return views


def _by_node(objects: Iterable[OnNode], names: AbstractSet[str] | None) -> dict[str, tuple[OnNode, ...]]:
    """Group objects by their node."""
    found: dict[str, list[OnNode]] = {}
    for each in objects:
        if names is None or each.node in names:
            found.setdefault(each.node, []).append(each)
    return {name: tuple(group) for name, group in found.items()}


def _pods_by_node(pods: Iterable[Pod], names: AbstractSet[str] | None) -> dict[str, tuple[Pod, ...]]:
    """Group pods by their node, sorted by name: their order in the cache depends on when they came."""
    found = _by_node(pods, names)
    return {name: tuple(sorted(group, key=str)) if len(group) > 1 else group for name, group in found.items()}


def _of(owners: Iterable[DaemonSet], pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return the pods of some DaemonSets."""
    return tuple(pod for ds in owners for pod in pods if pod.owner_uid == ds.uid)


def _orphans(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the UIDs of pods that no DaemonSet controls."""
    uids = [pod.uid for pod in pods if not pod.owner_uid]
    return frozenset(uids) if uids else NONE


def _outdated(pods: Iterable[Pod], context: Context) -> frozenset[str]:
    """Return the UIDs of pods that are not of the newest revision, or whose newest revision is unknown."""
    newest = context.newest
    uids = [pod.uid for pod in pods if pod.owner_uid not in newest or pod.hash != newest[pod.owner_uid].hash]
    return frozenset(uids) if uids else NONE


def _newest_slices(slices: Sequence[DeviceSlice]) -> Sequence[DeviceSlice]:
    """Drop older generations of a pool, as the scheduler does. A pool of a kubelet plugin is on one node."""
    if len(slices) < 2:  # noqa: PLR2004 - the only one
        return slices
    newest: dict[str, int] = {}
    for each in slices:
        newest[each.pool] = max(each.generation, newest.get(each.pool, 0))
    return tuple(each for each in slices if each.generation == newest[each.pool])


def _malformed_on(name: str, malformed: Sequence[Malformed]) -> tuple[Malformed, ...]:
    """Return the malformed objects on a node, and the pods whose node is unknown."""
    return tuple(
        found for found in malformed if name in (found.node, found.name) or (found.kind == "Pod" and not found.node)
    )


def context_of(snapshot: Snapshot, settings: Settings) -> Context:
    """Return what applies to all nodes."""
    stack = STACKS[settings.stack]
    drivers = {ds.uid: ds for ds in snapshot.daemonsets if is_driver(ds, stack)}
    policy = rollout.active_policy(snapshot.policies or (), stack)
    intents = rollout.intents(drivers.values(), policy, snapshot, stack)
    sources = rollout.sources(policy, snapshot.pools)
    unmet = rollout.unmet_expectation(policy, snapshot.pools, stack, settings) if policy is not None else ""
    rewritten = tuple(rollout.rewritings(drivers.values(), intents, stack))
    unrendered = rollout.unrendered_drivers(drivers.values(), policy, intents, snapshot, stack)
    plugins = clients.find(snapshot.daemonsets, settings)
    evicting = {names.EVICTED_CLIENT_LABEL, *(source.eviction_label for source in sources)}
    return Context(
        stack=stack,
        settings=settings,
        policy=policy,
        policy_kind_served=snapshot.policies is not None,
        pools=snapshot.pools,
        sources=sources,
        expected=settings.expect.driver_version if len(sources) == 1 else "",
        unmet=unmet,
        drivers=drivers,
        deployed=bool(snapshot.driver_pods) or any(ds.desired > 0 or not ds.observed for ds in drivers.values()),
        intents=intents,
        newest=_recorded(_newest(snapshot.revisions), snapshot.daemonsets),
        unrendered=unrendered,
        rewritten=rewritten,
        plugins=plugins,
        evicted={ds.uid: next((key for key in ds.node_selector if key in evicting), "") for ds in plugins.named},
        prerequisites=_prerequisites(snapshot.daemonsets, stack, settings),
        detects=_detects(snapshot, stack, plugins.named),
        slices_served=snapshot.slices is not None,
        malformed=snapshot.malformed,
    )


def live_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are neither terminating nor finished."""
    return [pod for pod in pods if pod.live]


def _prerequisites(
    daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings
) -> dict[Prerequisite, dict[str, DaemonSet]]:
    chosen = [prerequisite for name, prerequisite in stack.prerequisites.items() if name in settings.refresh_after]
    return {
        prerequisite: {ds.uid: ds for ds in daemonsets if ds.labels.get(prerequisite.label[0]) == prerequisite.label[1]}
        for prerequisite in chosen
    }


def _newest(revisions: Iterable[Revision]) -> dict[str, Revision]:
    newest: dict[str, Revision] = {}
    for revision in revisions:
        best = newest.get(revision.owner_uid)
        if best is None or revision.revision > best.revision:
            newest[revision.owner_uid] = revision
    return newest


def _recorded(newest: Mapping[str, Revision], daemonsets: Iterable[DaemonSet]) -> dict[str, Revision]:
    """Return the newest revisions that record the current template of their DaemonSet."""
    replaced = {ds.uid for ds in daemonsets if ds.uid in newest and not newest[ds.uid].records(ds)}
    return {uid: revision for uid, revision in newest.items() if uid not in replaced}


def plugin_pods(pods: Iterable[Pod], named: Sequence[DaemonSet]) -> Iterator[Pod]:
    """Yield the pods of named plugins."""
    uids = {ds.uid for ds in named}
    return (pod for pod in _adopted(pods, named) if pod.owner_uid in uids)


def _adopted(pods: Iterable[Pod], named: Sequence[DaemonSet]) -> Iterator[Pod]:
    """Yield pods, and assign each orphan to the DaemonSet whose selector matches it.

    ``kubectl delete daemonset --cascade=orphan`` leaves pods behind that still run and hold the driver. The DaemonSet
    controller adopts them by the same rule (K8S ``pkg/controller/controller_ref_manager.go``).
    """
    for pod in pods:
        if pod.owner_uid:
            yield pod
            continue
        heirs = (ds for ds in named if ds.namespace == pod.namespace and ds.selects(pod.labels))
        yield from (pod.owned_by(heir.uid) for heir in islice(heirs, 1))


def _detects(snapshot: Snapshot, stack: Stack, named: Sequence[DaemonSet]) -> bool:
    """Return whether node-feature-discovery works: some node has the device label, or only one node hosts pods."""
    if any(node.labels.get(stack.nodes.present) == "true" for node in snapshot.nodes.values()):
        return True
    pods = chain(plugin_pods(snapshot.plugin_pods, named), snapshot.driver_pods)
    return len({pod.node for pod in pods} - {""}) == 1
