"""Warnings in addition to the verdict: what could not be evaluated, and what may fail later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.decide import rollout
from hook.decide.explain import Trait, remedy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.format import some
from hook.objects import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.decide.fleet import Fleet
    from hook.decide.result import NodeStatus
    from hook.objects.views import DaemonSet, Node


def of(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield the warnings of a decision."""
    yield from _about_consumers(fleet, statuses)
    yield from _about_intent(fleet)
    yield from _about_manual(statuses, fleet)
    yield from _about_labels(statuses)
    yield from _about_turns(fleet, statuses)


def unnamed(fleet: Fleet) -> str:
    """Return a warning about DaemonSets that look like a plugin but are not in consumer.names."""
    found = ", ".join(str(ds) for ds in fleet.plugins.unnamed)
    return f"{found} looks like a DRA kubelet plugin but is not in consumer.names"


def evicted_by_driver_manager(daemonset: DaemonSet, fleet: Fleet) -> str:
    """Return the node label by which the driver manager evicts this plugin before a reload, or ""."""
    labels = {source.eviction_label for source in rollout.sources(fleet.policy, fleet.seen.pools)}
    return next((key for key in daemonset.node_selector if key in labels | {names.EVICTED_CLIENT_LABEL}), "")


def _about_consumers(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Iterator[str]:
    eligible = [status.node for status in statuses if status.state is not NodeState.EXCLUDED]
    for daemonset in fleet.plugins.named:
        if daemonset.desired == 0 and eligible:
            yield f"{daemonset} has no desired pods (DESIRED=0): check its nodeSelector and the nodes' labels"
        elif unlabelled := _unlabelled(daemonset, fleet, statuses):
            wanted = ",".join(f"{key}={value}" for key, value in daemonset.node_selector.items())
            yield f"{daemonset} runs no pod on {some(unlabelled)}: its nodeSelector asks for {wanted}"
        if hidden := _hidden_labels(daemonset, fleet, statuses):
            yield (
                f"{daemonset} runs no pod on some nodes; this program does not read whether they carry {hidden}: "
                "check with kubectl"
            )
    if fleet.plugins.named and fleet.plugins.unnamed:
        yield unnamed(fleet)
    yield from about_names(fleet)


def about_names(fleet: Fleet) -> Iterator[str]:
    """Yield a warning about each driver client in the settings that is not refreshed."""
    for refused in fleet.plugins.refused:
        yield f"{refused} loads a driver or is a provider itself, so it is never restarted, even by name"
    for missing in fleet.plugins.missing:
        yield f"no DaemonSet matches the driver client {missing}"


def _about_manual(statuses: Sequence[NodeStatus], fleet: Fleet) -> Iterator[str]:
    """Yield what to do about nodes that are excluded until an administrator replaces their driver."""
    excluded = [
        status for status in statuses if status.reason is Reason.MANUAL_UPGRADE and status.state is NodeState.EXCLUDED
    ]
    if excluded:
        what = remedy(Reason.MANUAL_UPGRADE, excluded[0].node, excluded[0].subject, fleet.stack)
        yield f"excluded, with an outdated driver: {some([status.node for status in excluded])}. {what}"


def _unlabelled(daemonset: DaemonSet, fleet: Fleet, statuses: Sequence[NodeStatus]) -> list[str]:
    """Return settled nodes that get no pod of a plugin because they lack a label, as far as the label is read."""
    without = _without_pod(daemonset, statuses)
    return [name for name in without if (node := fleet.seen.nodes.get(name)) and _lacks(node, daemonset)]


def _without_pod(daemonset: DaemonSet, statuses: Sequence[NodeStatus]) -> list[str]:
    """Return settled nodes on which a plugin's DaemonSet desires no pod."""
    return [
        status.node
        for status in statuses
        if status.reason is Reason.NOTHING_TO_REFRESH and status.daemonset_uid == daemonset.uid
    ]


def _hidden_labels(daemonset: DaemonSet, fleet: Fleet, statuses: Sequence[NodeStatus]) -> str:
    """Return a nodeSelector key of a plugin that excludes nodes and whose labels are not read, or ""."""
    hidden = [key for key in daemonset.node_selector if not key.startswith(names.NODE_LABEL_PREFIXES)]
    without = _without_pod(daemonset, statuses)
    evicting = evicted_by_driver_manager(daemonset, fleet)
    return next((key for key in hidden if key == evicting), "") if without else ""


def _lacks(node: Node, daemonset: DaemonSet) -> bool:
    readable = (
        (key, value) for key, value in daemonset.node_selector.items() if key.startswith(names.NODE_LABEL_PREFIXES)
    )
    return any(node.labels.get(key) != value for key, value in readable)


def _about_intent(fleet: Fleet) -> Iterator[str]:
    policy, expected = fleet.policy, fleet.settings.expect_driver_version
    if fleet.prior is not None and not fleet.prior.drivers and fleet.settings.namespaces:
        where = ", ".join(fleet.settings.namespaces)
        yield f"GPUDirect RDMA is on, but no driver of stack {fleet.prior.stack.name} is visible in {where}"
    if policy is None:
        return
    sources = rollout.sources(policy, fleet.seen.pools)
    if expected and not any(rollout.names_version(source) for source in sources):
        yield (
            f"{policy} names no driver version; the expected {expected} was only compared with the plugins' "
            "ResourceSlices"
        )
    unnamed_images = [source for source in sources if not rollout.comparable(source)]
    if unnamed_images and fleet.drivers:
        yield (
            f"{unnamed_images[0]} names no driver image to compare with: its nodes were evaluated only by the "
            f"DaemonSet's generation, the pods' revision and {_unknown_quiet(fleet)} s without a change"
        )
    for rewriting in rollout.rewritings(fleet.drivers.values(), fleet.intents, fleet.stack):
        yield f"{rewriting}: registry or digest differ (an admission webhook may have rewritten them)"


def _unknown_quiet(fleet: Fleet) -> int:
    return int(fleet.settings.unknown_operator_quiet.total_seconds())


def _about_labels(statuses: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield a warning about nodes that are excluded because they have neither their labels nor a driver pod."""
    bare = [
        status.node
        for status in statuses
        if status.state is NodeState.EXCLUDED and status.reason is Reason.LABELS_MISSING
    ]
    if bare:
        yield f"excluded, with a plugin but without their labels and a driver pod: {some(bare)}"


def _about_turns(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield a warning about cordoned nodes while others wait: they use up maxUnavailable and may block the upgrade."""
    if not fleet.stack.upgrade.counts_unavailable:
        return
    waiting = [status.node for status in statuses if Trait.WAITS_FOR_TURN in status.reason.traits]
    idle = [
        status.node
        for status in statuses
        if status.state in (NodeState.VERIFIED, NodeState.EXCLUDED) and not status.label_pending
    ]
    cordoned = [name for name in dict.fromkeys(idle) if (node := fleet.seen.nodes.get(name)) and node.cordoned]
    if waiting and cordoned:
        yield f"cordoned, and so counted against the policy's maxUnavailable: {some(cordoned)}"
