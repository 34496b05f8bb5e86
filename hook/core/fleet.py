"""Index one snapshot by node, once per decision."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.core import consumers, intent
from hook.core.stacks import is_driver

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hook.core.consumers import Consumers
    from hook.core.memory import AskedRestart, Memory
    from hook.core.stack import Provider, Stack
    from hook.objects.policies import Policy
    from hook.objects.views import DaemonSet, DeviceSlice, Node, Pod, Revision, Snapshot, Unreadable
    from hook.settings import Settings


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
    consumers: Consumers
    providers: Mapping[Provider, Mapping[str, DaemonSet]]
    """What a plugin must start after in addition to the driver, if the settings name it; with its DaemonSets by UID."""
    drivers: Mapping[str, DaemonSet]
    """Driver DaemonSets by UID."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Revisions of a replaced DaemonSet may still exist."""
    unrendered: Mapping[str, str]
    """By UID of a driver DaemonSet: how it differs from its policy or pool."""
    driver_pods: Mapping[str, Sequence[Pod]]
    provider_pods: Mapping[str, Sequence[Pod]]
    consumer_pods: Mapping[str, Sequence[Pod]]
    orphans: frozenset[str]
    """UIDs of plugin pods that no DaemonSet controls."""
    unnamed_pods: Mapping[str, Sequence[Pod]]
    """Pods of DaemonSets that look like a plugin but are not in consumer.names. They are never restarted."""
    slices: Mapping[str, Sequence[DeviceSlice]]
    complete: frozenset[str]
    """UIDs of driver and plugin DaemonSets whose status is current and that have as many live pods as desired."""
    restarts: Mapping[str, AskedRestart] = field(default_factory=dict)
    """Restarts that this run has issued, by ``restart_key``."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """By UID of a pod: the driver run under which it was proven fresh in an earlier decision."""
    detects: bool = True
    """False if no node of several carries the device label: then NFD, which sets it, is down."""
    prior: Fleet | None = None
    """The fleet of the stack whose driver must settle first, if the policy requires that order."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """Return the malformed objects of this stack and of the prior stack."""
        return (*self.seen.unreadable, *(self.prior.seen.unreadable if self.prior else ()))

    @property
    def node_names(self) -> list[str]:
        """Return the names of nodes with a device, or with a driver or plugin pod, sorted."""
        label = self.stack.nodes.present
        present = {name for name, node in self.seen.nodes.items() if node.labels.get(label) == "true"}
        return sorted({*present, *self.driver_pods, *self.consumer_pods} - {""})


def index(
    seen: Snapshot,
    stack: Stack,
    settings: Settings,
    prior: Fleet | None = None,
    memory: Memory | None = None,
) -> Fleet:
    """Return the indexed snapshot."""
    policy = intent.active_policy(seen.policies or (), stack)
    found = consumers.find(seen.daemonsets, stack, settings)
    drivers = {ds.uid: ds for ds in seen.daemonsets if is_driver(ds, stack)}
    intents = _intents(drivers.values(), policy, seen, stack)
    owned, unnamed = {ds.uid for ds in found.named}, {ds.uid for ds in found.unnamed}
    of_consumers = [pod for pod in _adopted(seen.consumer_pods, found.named) if pod.owner_uid in owned]
    return Fleet(
        stack=stack,
        settings=settings,
        seen=seen,
        policy=policy,
        intents=intents,
        consumers=found,
        providers=_providers(seen.daemonsets, stack, settings),
        drivers=drivers,
        newest=_newest(seen.revisions),
        unrendered=_unrendered(drivers.values(), seen, intents, stack) | _ownerless(drivers.values(), policy, intents),
        driver_pods=_by_node(seen.driver_pods),
        provider_pods=_by_node(seen.provider_pods),
        consumer_pods=_by_node(of_consumers),
        orphans=frozenset(pod.uid for pod in seen.consumer_pods if not pod.owner_uid),
        unnamed_pods=_by_node(pod for pod in seen.consumer_pods if pod.owner_uid in unnamed),
        slices=_slices_by_node(seen.slices or ()),
        complete=_complete((*found.named, *drivers.values()), (*of_consumers, *seen.driver_pods), seen.nodes),
        restarts=memory.restarts if memory else {},
        fresh=memory.fresh if memory else {},
        detects=_detects(seen, stack, {*(pod.node for pod in seen.driver_pods), *(pod.node for pod in of_consumers)}),
        # While the policy is deleted, the order of the drivers that it required still applies.
        prior=prior if policy is None or any(source.rdma for source in intent.sources(policy, seen.pools)) else None,
    )


def _providers(
    daemonsets: Iterable[DaemonSet], stack: Stack, settings: Settings
) -> dict[Provider, dict[str, DaemonSet]]:
    chosen = [provider for name, provider in stack.providers.items() if name in settings.providers]
    return {
        provider: {ds.uid: ds for ds in daemonsets if ds.labels.get(provider.label[0]) == provider.label[1]}
        for provider in chosen
    }


def _intents(drivers: Iterable[DaemonSet], policy: Policy | None, seen: Snapshot, stack: Stack) -> dict[str, Policy]:
    """Return the policy or pool of each driver DaemonSet. A leftover whose pool is gone has none."""
    if policy is None:
        return {}
    if not policy.pooled:
        # A DaemonSet of another kind of object (NicNodePolicy) cannot be compared with this policy.
        # A leftover of a pool can: it differs until the operator has replaced it.
        return {ds.uid: policy for ds in drivers if ds.owner_kind not in stack.other_owners}
    decides = intent.pools_decide(seen.nodes.values(), seen.pools, stack)
    by_uid = {pool.uid: replace(pool, manual=intent.not_rotated(pool, policy, decides=decides)) for pool in seen.pools}
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
    reasons = ((ds.uid, intent.unrendered(ds, intents.get(ds.uid), stack)) for ds in counting)
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
        yield pod if heir is None else replace(pod, owner_uid=heir.uid)


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
