"""One snapshot, indexed by what the evaluation of a node needs, and the plugins in it.

The same names limit which pods the program may delete. A plugin under another name is only reported, with the value
to set.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.decide import rollout
from hook.objects import names
from hook.objects.drivers import OTHER_PLUGIN, STACKS, is_driver, is_provider

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hook.config import Settings, Wanted
    from hook.decide.state import Memory, RestartRecord
    from hook.objects.drivers import PluginKind, Prerequisite, Stack
    from hook.objects.policies import Policy
    from hook.objects.views import DaemonSet, DeviceSlice, Malformed, Node, Pod, Revision, Snapshot


@dataclass(frozen=True, slots=True)
class Plugins:
    """DaemonSets of driver clients, sorted by how the program treats them."""

    named: tuple[DaemonSet, ...]
    """Their stale pods are restarted."""
    unnamed: tuple[DaemonSet, ...]
    """They look like a plugin but are not in consumer.names. They are only reported."""
    operator_managed: tuple[DaemonSet, ...]
    """The operator restarts them."""
    kinds: Mapping[str, PluginKind]
    """Kind of each named DaemonSet, by UID."""
    missing: tuple[Wanted, ...]
    """Driver clients in the settings that match no DaemonSet."""
    refused: tuple[DaemonSet, ...] = ()
    """DaemonSets in the settings that load a driver, or that plugins must start after. They are never restarted."""

    def is_plugin(self, uid: str) -> bool:
        """Return whether this is a plugin of the stack, not another driver client from the settings."""
        return uid in self.kinds and self.kinds[uid] is not OTHER_PLUGIN

    @property
    def serves_plugins(self) -> bool:
        """Return whether any plugin of the stack is refreshed."""
        return any(self.is_plugin(uid) for uid in self.kinds)

    def of_kind(self, uid: str) -> PluginKind:
        """Return the kind of a named DaemonSet."""
        return self.kinds.get(uid, OTHER_PLUGIN)


def plugin_names(stack: Stack, settings: Settings) -> tuple[str, ...]:
    """Return the plugin names of a stack: those in the settings, else the defaults of the stack."""
    return tuple(plugin.name for plugin in settings.plugin_names if plugin.stack == stack.name) or stack.plugin.names


def named(daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings) -> tuple[DaemonSet, ...]:
    """Return the DaemonSets whose stale pods are restarted."""
    return find(daemonsets, stack, settings).named


def find(daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings) -> Plugins:
    """Sort DaemonSets by how the program treats them. ComputeDomain daemons are ignored."""
    known = [ds for ds in daemonsets if not _is_compute_domain_daemon(ds)]
    sources = [ds for ds in known if _is_source(ds)]
    candidates = [ds for ds in known if ds not in sources]
    managed = [ds for ds in candidates if _is_operator_managed(ds, stack)]
    others = [ds for ds in candidates if ds not in managed]
    inside = [ds for ds in others if settings.plugin_namespace in ("", ds.namespace)]
    plugins = [ds for ds in inside if ds.name in plugin_names(stack, settings)]
    wanted = [plugin for plugin in settings.plugins if plugin.stack == stack.name]
    further = [ds for ds in others if ds not in plugins and any(_matches(ds, plugin) for plugin in wanted)]
    kinds = {ds.uid: stack.plugin for ds in plugins}
    kinds |= {ds.uid: stack.plugin if _looks_like(ds, stack.plugin) else OTHER_PLUGIN for ds in further}
    return Plugins(
        named=(*plugins, *further),
        unnamed=tuple(ds for ds in inside if ds.uid not in kinds and _looks_like(ds, stack.plugin)),
        operator_managed=tuple(managed),
        kinds=kinds,
        missing=_missing(wanted, further, plugins, sources),
        refused=tuple(ds for ds in sources if any(_matches(ds, plugin) for plugin in wanted)),
    )


def _missing(wanted: Sequence[Wanted], *found: Sequence[DaemonSet]) -> tuple[Wanted, ...]:
    everything = [ds for part in found for ds in part]
    return tuple(plugin for plugin in wanted if not any(_matches(ds, plugin) for ds in everything))


def _matches(daemonset: DaemonSet, wanted: Wanted) -> bool:
    if wanted.labels:
        return all(daemonset.template_labels.get(key) == value for key, value in wanted.labels)
    return (wanted.namespace, wanted.name) == (daemonset.namespace, daemonset.name)


def _is_source(daemonset: DaemonSet) -> bool:
    """Return whether a DaemonSet loads a driver or is a provider, in any stack. It would always look stale."""
    return any(is_driver(daemonset, stack) or is_provider(daemonset, stack) for stack in STACKS.values())


def _is_operator_managed(daemonset: DaemonSet, stack: Stack) -> bool:
    """Return whether the operator restarts this DaemonSet. Then it is never restarted, even if the settings name it.

    The name alone is no proof: the nameOverride of a chart can produce the same name.
    """
    kind = stack.plugin
    if not kind.operator_managed or daemonset.name != kind.operator_managed:
        return False
    component = daemonset.labels.get(names.COMPONENT_LABEL)
    return daemonset.owner_kind == kind.operator_kind or component == kind.operator_managed


def _looks_like(daemonset: DaemonSet, kind: PluginKind) -> bool:
    """Return whether the selector is that of a kubelet plugin, or all containers are those of a plugin."""
    containers = frozenset(daemonset.images)
    if not containers & kind.containers:
        return False
    by_selector = any(value == names.PLUGIN_SELECTOR_VALUE for _, value in daemonset.selector)
    return by_selector or containers <= kind.containers


def _is_compute_domain_daemon(daemonset: DaemonSet) -> bool:
    return names.COMPUTE_DOMAIN_LABEL in daemonset.labels


@dataclass(frozen=True, slots=True)
class Fleet:
    """Drivers and plugins of a snapshot, by node, with the settings that apply to them."""

    stack: Stack
    settings: Settings
    seen: Snapshot
    policy: Policy | None
    """The active one."""
    intents: Mapping[str, Policy]
    """By UID of a driver DaemonSet: the policy or pool that the operator renders it from."""
    plugins: Plugins
    prerequisites: Mapping[Prerequisite, Mapping[str, DaemonSet]]
    """What a plugin must start after in addition to the driver, if the settings name it; with its DaemonSets by UID."""
    drivers: Mapping[str, DaemonSet]
    """Driver DaemonSets by UID."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Revisions of a replaced DaemonSet may still exist."""
    unrendered: Mapping[str, str]
    """By UID of a driver DaemonSet: how it differs from its policy or pool."""
    driver_pods: Mapping[str, Sequence[Pod]]
    prerequisite_pods: Mapping[str, Sequence[Pod]]
    plugin_pods: Mapping[str, Sequence[Pod]]
    orphans: frozenset[str]
    """UIDs of plugin pods that no DaemonSet controls."""
    unnamed_pods: Mapping[str, Sequence[Pod]]
    """Pods of DaemonSets that look like a plugin but are not in consumer.names. They are never restarted."""
    slices: Mapping[str, Sequence[DeviceSlice]]
    complete: frozenset[str]
    """UIDs of driver and plugin DaemonSets whose status is current and that have as many live pods as desired."""
    restarts: Mapping[str, RestartRecord] = field(default_factory=dict)
    """Restarts that this run has issued, by ``restart_key``."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """By UID of a pod: the driver run under which it was proven fresh in an earlier decision."""
    detects: bool = True
    """False if no node of several carries the device label: then NFD, which sets it, is down."""
    prior: Fleet | None = None
    """The fleet of the stack whose driver must settle first, if the policy requires that order."""

    @property
    def malformed(self) -> Sequence[Malformed]:
        """Return the malformed objects of this stack and of the prior stack."""
        return (*self.seen.malformed, *(self.prior.seen.malformed if self.prior else ()))

    @property
    def node_names(self) -> list[str]:
        """Return the names of nodes with a device, or with a driver or plugin pod, sorted."""
        label = self.stack.nodes.present
        present = {name for name, node in self.seen.nodes.items() if node.labels.get(label) == "true"}
        return sorted({*present, *self.driver_pods, *self.plugin_pods} - {""})


def index(
    seen: Snapshot,
    stack: Stack,
    settings: Settings,
    prior: Fleet | None = None,
    memory: Memory | None = None,
) -> Fleet:
    """Return the indexed snapshot."""
    policy = rollout.active_policy(seen.policies or (), stack)
    found = find(seen.daemonsets, stack, settings)
    drivers = {ds.uid: ds for ds in seen.daemonsets if is_driver(ds, stack)}
    intents = _intents(drivers.values(), policy, seen, stack)
    owned, unnamed = {ds.uid for ds in found.named}, {ds.uid for ds in found.unnamed}
    of_consumers = [pod for pod in _adopted(seen.plugin_pods, found.named) if pod.owner_uid in owned]
    return Fleet(
        stack=stack,
        settings=settings,
        seen=seen,
        policy=policy,
        intents=intents,
        plugins=found,
        prerequisites=_providers(seen.daemonsets, stack, settings),
        drivers=drivers,
        newest=_newest(seen.revisions),
        unrendered=_unrendered(drivers.values(), seen, intents, stack) | _ownerless(drivers.values(), policy, intents),
        driver_pods=_by_node(seen.driver_pods),
        prerequisite_pods=_by_node(seen.prerequisite_pods),
        plugin_pods=_by_node(of_consumers),
        orphans=frozenset(pod.uid for pod in seen.plugin_pods if not pod.owner_uid),
        unnamed_pods=_by_node(pod for pod in seen.plugin_pods if pod.owner_uid in unnamed),
        slices=_slices_by_node(seen.slices or ()),
        complete=_complete((*found.named, *drivers.values()), (*of_consumers, *seen.driver_pods), seen.nodes),
        restarts=memory.restarts if memory else {},
        fresh=memory.fresh if memory else {},
        detects=_detects(seen, stack, {*(pod.node for pod in seen.driver_pods), *(pod.node for pod in of_consumers)}),
        # While the policy is deleted, the order of the drivers that it required still applies.
        prior=prior if policy is None or any(source.rdma for source in rollout.sources(policy, seen.pools)) else None,
    )


def _providers(
    daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings
) -> dict[Prerequisite, dict[str, DaemonSet]]:
    chosen = [prerequisite for name, prerequisite in stack.prerequisites.items() if name in settings.prerequisites]
    return {
        prerequisite: {ds.uid: ds for ds in daemonsets if ds.labels.get(prerequisite.label[0]) == prerequisite.label[1]}
        for prerequisite in chosen
    }


def _intents(drivers: Iterable[DaemonSet], policy: Policy | None, seen: Snapshot, stack: Stack) -> dict[str, Policy]:
    """Return the policy or pool of each driver DaemonSet. A leftover whose pool is gone has none."""
    if policy is None:
        return {}
    if not policy.pooled:
        # A DaemonSet of another kind of object (NicNodePolicy) cannot be compared with this policy.
        # A leftover of a pool can: it differs until the operator has replaced it.
        return {ds.uid: policy for ds in drivers if ds.owner_kind not in stack.other_owners}
    decides = rollout.pools_decide(seen.nodes.values(), seen.pools, stack)
    by_uid = {pool.uid: replace(pool, manual=rollout.not_rotated(pool, policy, decides=decides)) for pool in seen.pools}
    return {ds.uid: by_uid[ds.owner_uid] for ds in drivers if ds.owner_uid in by_uid}


def _newest(revisions: Iterable[Revision]) -> dict[str, Revision]:
    newest: dict[str, Revision] = {}
    for revision in revisions:
        best = newest.get(revision.owner_uid)
        if best is None or revision.revision > best.revision:
            newest[revision.owner_uid] = revision
    return newest


def _unrendered(
    drivers: Iterable[DaemonSet],
    seen: Snapshot,
    intents: Mapping[str, Policy],
    stack: Stack,
) -> dict[str, str]:
    """Return how driver DaemonSets differ from their policy or pool. Ignore leftovers without pods.

    Also check DaemonSets without a policy: one that its controller has not observed may have a newer revision.
    """
    owners = {pod.owner_uid for pod in seen.driver_pods}
    counting = (ds for ds in drivers if ds.desired > 0 or ds.uid in owners or not ds.observed)
    reasons = ((ds.uid, rollout.unrendered(ds, intents.get(ds.uid), stack)) for ds in counting)
    return {uid: reason for uid, reason in reasons if reason}


def _ownerless(drivers: Iterable[DaemonSet], policy: Policy | None, intents: Mapping[str, Policy]) -> dict[str, str]:
    """Return the driver DaemonSets of pools that are gone, with a sentence for each."""
    if policy is None or not policy.pooled:
        return {}
    return {
        ds.uid: f"the pool of {ds} is gone: the operator is about to replace the DaemonSet"
        for ds in drivers
        if ds.uid not in intents and ds.desired > 0
    }


def _adopted(pods: Iterable[Pod], named: Sequence[DaemonSet]) -> Iterator[Pod]:
    """Yield pods, and assign each orphan to the DaemonSet whose selector matches it.

    ``kubectl delete daemonset --cascade=orphan`` leaves pods behind that still run and hold the driver. The DaemonSet
    controller adopts them by the same rule (K8S ``pkg/controller/controller_ref_manager.go``).
    """
    for pod in pods:
        heirs = () if pod.owner_uid else (ds for ds in named if ds.namespace == pod.namespace)
        heir = next((ds for ds in heirs if ds.selects(pod.labels)), None)
        yield pod if heir is None else pod.owned_by(heir.uid)


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    grouped: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        grouped[pod.node].append(pod)
    return dict(grouped)


def _detects(seen: Snapshot, stack: Stack, hosting: Collection[str]) -> bool:
    """Return whether node-feature-discovery works: some node has the device label, or only one node hosts pods."""
    labelled = any(node.labels.get(stack.nodes.present) == "true" for node in seen.nodes.values())
    return labelled or len({*hosting} - {""}) == 1


def _slices_by_node(slices: Sequence[DeviceSlice]) -> dict[str, list[DeviceSlice]]:
    """Group slices by node. Drop older generations of a pool, as the scheduler does."""
    newest: dict[str, int] = {}
    for device_slice in slices:
        newest[device_slice.pool] = max(device_slice.generation, newest.get(device_slice.pool, 0))
    grouped: dict[str, list[DeviceSlice]] = defaultdict(list)
    for device_slice in slices:
        if device_slice.generation == newest[device_slice.pool]:
            grouped[device_slice.node].append(device_slice)
    return dict(grouped)


def _complete(named: Iterable[DaemonSet], pods: Iterable[Pod], nodes: Mapping[str, Node]) -> frozenset[str]:
    """Return the DaemonSets that have a live pod on as many nodes as desired. Two pods on one node count once.

    On a node that is not Ready a terminating pod counts as live, because it stays until the node is back.
    """
    away = {name for name, node in nodes.items() if not node.ready}
    there = {(pod.owner_uid, pod.node) for pod in pods if pod.node and (pod.live or pod.node in away)}
    placed = Counter(owner for owner, _node in there)
    return frozenset(ds.uid for ds in named if ds.observed and placed[ds.uid] - ds.misscheduled >= ds.desired)
