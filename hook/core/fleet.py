"""One snapshot, indexed by what judging a node needs. Built once a decision."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hook.core import consumers, intent
from hook.core.stacks import is_driver
from hook.settings import WaitFor

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
    """The driver side and the consumer side of a snapshot, by node."""

    stack: Stack
    settings: Settings
    seen: Snapshot
    policy: Policy | None
    """The active one."""
    intents: Mapping[str, Policy]
    """By UID of a driver DaemonSet: the policy, or the object of its pool, that it is rendered from."""
    consumers: Consumers
    providers: Mapping[Provider, Mapping[str, DaemonSet]]
    """What a consumer must have started after beside the driver, with its DaemonSets by UID; if asked for."""
    drivers: Mapping[str, DaemonSet]
    """Driver DaemonSets by UID."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Per owner: revisions of a replaced DaemonSet stay behind."""
    unrendered: Mapping[str, str]
    """By UID of a driver DaemonSet that counts: in what it does not show the policy's intent."""
    driver_pods: Mapping[str, Sequence[Pod]]
    provider_pods: Mapping[str, Sequence[Pod]]
    consumer_pods: Mapping[str, Sequence[Pod]]
    orphans: frozenset[str]
    """UIDs of plugin pods that no DaemonSet controls (yet)."""
    unnamed_pods: Mapping[str, Sequence[Pod]]
    """Pods of what looks like a plugin and was not named: never restarted."""
    slices: Mapping[str, Sequence[DeviceSlice]]
    complete: frozenset[str]
    """UIDs of driver and consumer DaemonSets that have as many live pods as they want, by an up-to-date status."""
    restarts: Mapping[str, AskedRestart] = field(default_factory=dict)
    """What this run has asked for, by ``restart_key``."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """By UID of a pod: the driver run under which it was proven to be fresh before."""
    detects: bool = True
    """Some node carries the label of a device, or there is one node alone. Otherwise NFD, the labeller, is down."""
    prior: Fleet | None = None
    """The fleet of the stack whose driver must settle first, where the policy asks for both together."""

    @property
    def unreadable(self) -> Sequence[Unreadable]:
        """What cannot be read of this stack, or of the one before it."""
        return (*self.seen.unreadable, *(self.prior.seen.unreadable if self.prior else ()))

    @property
    def node_names(self) -> list[str]:
        """Every node with a GPU, or with a pod of ours, in a stable order."""
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
    """Index a snapshot."""
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
        unrendered=_unrendered(drivers.values(), seen, intents, stack)
        | _ownerless(drivers.values(), policy, intents, settings),
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
        # While the policy is away, a driver that it let follow another one still does.
        prior=prior if policy is None or any(one.rdma for one in intent.sources(policy, seen.pools)) else None,
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
    """Find what each driver DaemonSet is rendered from. One whose pool is gone has none: it is a leftover."""
    if policy is None:
        return {}
    if not policy.pooled:
        # What another kind of object owns (NicNodePolicy) cannot be compared with this policy.
        # A pool's leftover can: it differs until the operator has replaced it.
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
    """Judge every driver DaemonSet that wants or owns pods; a leftover without any does not count.

    Also without a policy: a DaemonSet that its controller has not seen yet may have a newer revision.
    """
    owners = {pod.owner_uid for pod in seen.driver_pods}
    counting = (ds for ds in drivers if ds.desired > 0 or ds.uid in owners or not ds.observed)
    reasons = ((ds.uid, intent.unrendered(ds, intents.get(ds.uid), stack)) for ds in counting)
    return {uid: reason for uid, reason in reasons if reason}


def _ownerless(
    drivers: Iterable[DaemonSet], policy: Policy | None, intents: Mapping[str, Policy], settings: Settings
) -> dict[str, str]:
    """Name driver DaemonSets of pools that are gone; only where pools are read at all."""
    if policy is None or not policy.pooled or settings.wait_for is WaitFor.POLICY_READY:
        return {}
    return {
        ds.uid: f"{ds} belongs to no pool that is known: the operator is about to replace it"
        for ds in drivers
        if ds.uid not in intents and ds.desired > 0
    }


def _adopted(pods: Iterable[Pod], named: Sequence[DaemonSet]) -> Iterator[Pod]:
    """Yield pods, each without a controller as one of the DaemonSet whose selector matches it.

    ``kubectl delete daemonset --cascade=orphan`` leaves pods behind that run on and hold the driver like any other. The
    DaemonSet controller adopts them by the same rule (K8S ``pkg/controller/controller_ref_manager.go``).
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
    """Return whether node-feature-discovery can be believed, by the nodes and by those that host pods of ours."""
    labelled = any(node.labels.get(stack.nodes.present) == "true" for node in seen.nodes.values())
    return labelled or len({*hosting} - {""}) == 1


def _slices_by_node(slices: Sequence[DeviceSlice]) -> dict[str, list[DeviceSlice]]:
    """Group slices by node, without those of an older generation of their pool, which the scheduler ignores."""
    newest: dict[str, int] = {}
    for one in slices:
        newest[one.pool] = max(one.generation, newest.get(one.pool, 0))
    grouped: dict[str, list[DeviceSlice]] = defaultdict(list)
    for one in slices:
        if one.generation == newest[one.pool]:
            grouped[one.node].append(one)
    return dict(grouped)


def _complete(named: Iterable[DaemonSet], pods: Iterable[Pod], nodes: Mapping[str, Node]) -> frozenset[str]:
    """Return which DaemonSets have a live pod on as many nodes as they want; two pods on one node count once.

    A pod that terminates on a node that is not Ready stays until its node is back, so it holds the place of a live one.
    """
    away = {name for name, node in nodes.items() if not node.ready}
    there = {(pod.owner_uid, pod.node) for pod in pods if pod.node and (pod.live or pod.node in away)}
    placed = Counter(owner for owner, _node in there)
    return frozenset(ds.uid for ds in named if ds.observed and placed[ds.uid] - ds.misscheduled >= ds.desired)
