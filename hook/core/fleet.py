"""One snapshot, indexed by what judging a node needs. Built once a decision."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hook.core import consumers, intent, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hook.core.consumers import Consumers
    from hook.core.stacks import Stack
    from hook.core.views import ClusterPolicy, DaemonSet, DeviceSlice, Pod, Revision, Snapshot
    from hook.settings import Settings


@dataclass(frozen=True, slots=True)
class Fleet:
    """The driver side and the consumer side of a snapshot, by node."""

    stack: Stack
    settings: Settings
    seen: Snapshot
    policy: ClusterPolicy | None
    consumers: Consumers
    drivers: Mapping[str, DaemonSet]
    """Driver DaemonSets by UID."""
    newest: Mapping[str, Revision]
    """Newest ControllerRevision by owner UID. Per owner: revisions of a replaced DaemonSet stay behind."""
    unrendered: Mapping[str, str]
    """By UID of a driver DaemonSet that counts: in what it does not show the policy's intent."""
    driver_pods: Mapping[str, Sequence[Pod]]
    consumer_pods: Mapping[str, Sequence[Pod]]
    slices: Mapping[str, Sequence[DeviceSlice]]
    complete: frozenset[str]
    """UIDs of consumer DaemonSets that have as many live pods as they want, by an up-to-date status."""

    @property
    def node_names(self) -> list[str]:
        """Every node with a GPU, or with a pod of ours, in a stable order."""
        label = self.stack.present_label
        present = {name for name, node in self.seen.nodes.items() if node.labels.get(label) == "true"}
        return sorted({*present, *self.driver_pods, *self.consumer_pods} - {""})


def index(seen: Snapshot, stack: Stack, settings: Settings) -> Fleet:
    """Index a snapshot."""
    policy = intent.active_policy(seen.policies or ())
    found = consumers.find(seen.daemonsets, stack.consumer, settings)
    drivers = {ds.uid: ds for ds in seen.daemonsets if ds.labels.get(names.COMPONENT_LABEL) == stack.driver_component}
    owned = {ds.uid for ds in found.named}
    of_consumers = [pod for pod in seen.consumer_pods if pod.owner_uid in owned]
    return Fleet(
        stack=stack,
        settings=settings,
        seen=seen,
        policy=policy,
        consumers=found,
        drivers=drivers,
        newest=_newest(seen.revisions),
        unrendered=_unrendered(drivers.values(), seen.driver_pods, policy, stack),
        driver_pods=_by_node(seen.driver_pods),
        consumer_pods=_by_node(of_consumers),
        slices=_slices_by_node(seen.slices or ()),
        complete=_complete(found.named, of_consumers),
    )


def _newest(revisions: Iterable[Revision]) -> dict[str, Revision]:
    newest: dict[str, Revision] = {}
    for revision in revisions:
        best = newest.get(revision.owner_uid)
        if best is None or revision.revision > best.revision:
            newest[revision.owner_uid] = revision
    return newest


def _unrendered(
    drivers: Iterable[DaemonSet], pods: Iterable[Pod], policy: ClusterPolicy | None, stack: Stack
) -> dict[str, str]:
    """Judge every driver DaemonSet that wants or owns pods; a leftover without any does not count."""
    if policy is None:
        return {}
    owners = {pod.owner_uid for pod in pods}
    counting = (ds for ds in drivers if ds.desired > 0 or ds.uid in owners or not ds.observed)
    reasons = ((ds.uid, intent.unrendered(ds, policy, stack)) for ds in counting)
    return {uid: reason for uid, reason in reasons if reason}


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    grouped: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        grouped[pod.node].append(pod)
    return dict(grouped)


def _slices_by_node(slices: Iterable[DeviceSlice]) -> dict[str, list[DeviceSlice]]:
    grouped: dict[str, list[DeviceSlice]] = defaultdict(list)
    for one in slices:
        grouped[one.node].append(one)
    return dict(grouped)


def _complete(named: Iterable[DaemonSet], pods: Iterable[Pod]) -> frozenset[str]:
    live = Counter(pod.owner_uid for pod in pods if pod.live and pod.node)
    return frozenset(ds.uid for ds in named if ds.observed and live[ds.uid] - ds.misscheduled >= ds.desired)
