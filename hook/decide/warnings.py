"""Warnings in addition to the verdict: what could not be evaluated, and what may fail later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.decide import moments
from hook.decide.fleet import comparable, names_version
from hook.decide.reasons import Reason, Trait, remedy
from hook.decide.result import NodeState
from hook.format import some

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.decide.result import NodeStatus
    from hook.objects import DaemonSet


def of(fleet: Fleet, statuses: Sequence[NodeStatus], others: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield the warnings of a decision. `others` are the statuses that are not of verified plugins."""
    yield from _about_plugins(fleet, statuses, others)
    yield from _about_policy(fleet.context)
    yield from _about_manual_upgrades(others, fleet.context)
    yield from _about_labels(others)
    yield from _about_cordoned(fleet, statuses, others)
    yield from moments.failed_changes(fleet)


def unnamed(context: Context) -> str:
    """Return a warning about DaemonSets that look like a plugin but are not in plugin.names."""
    found = ", ".join(str(ds) for ds in context.plugins.unnamed)
    return f"{found} looks like a DRA kubelet plugin but is not in plugin.names"


def about_names(context: Context) -> Iterator[str]:
    """Yield a warning about each driver client in the settings that is not refreshed."""
    for refused in context.plugins.refused:
        yield f"{refused} loads a driver or is a provider itself, so it is never restarted, even by name"
    for missing in context.plugins.missing:
        yield f"no DaemonSet matches the driver client {missing}"


def _about_plugins(fleet: Fleet, statuses: Sequence[NodeStatus], others: Sequence[NodeStatus]) -> Iterator[str]:
    plugins = fleet.context.plugins
    eligible = any(status.state is not NodeState.EXCLUDED for status in statuses)
    for daemonset in plugins.named:
        # Settled nodes on which the DaemonSet desires no pod.
        without_pod = [
            fleet.nodes[status.node]
            for status in others
            if status.reason is Reason.NOTHING_TO_REFRESH and status.daemonset_uid == daemonset.uid
        ]
        if daemonset.desired == 0 and eligible:
            yield f"{daemonset} has no desired pods (DESIRED=0): check its nodeSelector and the nodes' labels"
        elif unlabelled := [view.name for view in without_pod if _lacks_label(view, daemonset)]:
            wanted = ",".join(f"{key}={value}" for key, value in daemonset.node_selector.items())
            yield f"{daemonset} runs no pod on {some(unlabelled)}: its nodeSelector asks for {wanted}"
    if plugins.named and plugins.unnamed:
        yield unnamed(fleet.context)
    yield from about_names(fleet.context)


def _lacks_label(view: NodeView, daemonset: DaemonSet) -> bool:
    """Return whether a node lacks a label that a DaemonSet selects nodes by."""
    return any(view.label(key) != value for key, value in daemonset.node_selector.items())


def _about_policy(context: Context) -> Iterator[str]:
    policy, settings = context.policy, context.settings
    if policy is None:
        return
    sources, expected = context.sources, settings.expect.driver_version
    if expected and not any(names_version(source) for source in sources):
        yield (
            f"{policy} names no driver version; the expected {expected} was only compared with the plugins' "
            "ResourceSlices"
        )
    without_image = [source for source in sources if not comparable(source)]
    if without_image and context.drivers:
        quiet = int(settings.advanced.unknown_operator_quiet.total_seconds())
        yield (
            f"{without_image[0]} names no driver image to compare with: its nodes were evaluated only by the "
            f"DaemonSet's generation, the pods' revision and {quiet} s without a change"
        )
    for rewriting in context.rewritten:
        yield f"{rewriting}: registry or digest differ (an admission webhook may have rewritten them)"


def _about_manual_upgrades(statuses: Sequence[NodeStatus], context: Context) -> Iterator[str]:
    """Yield what to do about nodes that are excluded until an administrator replaces their driver."""
    excluded = [
        status for status in statuses if status.reason is Reason.MANUAL_UPGRADE and status.state is NodeState.EXCLUDED
    ]
    if excluded:
        what = remedy(Reason.MANUAL_UPGRADE, context.stack, excluded[0].node, excluded[0].subject)
        yield f"excluded, with an outdated driver: {some([status.node for status in excluded])}. {what}"


def _about_labels(statuses: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield a warning about nodes that are excluded because they have neither their labels nor a driver pod."""
    unlabelled = [
        status.node
        for status in statuses
        if status.state is NodeState.EXCLUDED and status.reason is Reason.LABELS_MISSING
    ]
    if unlabelled:
        yield f"excluded, with a plugin but without their labels and a driver pod: {some(unlabelled)}"


def _about_cordoned(fleet: Fleet, statuses: Sequence[NodeStatus], others: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield a warning about cordoned nodes while others wait: they use up maxUnavailable and may block the upgrade."""
    if not fleet.context.stack.upgrade.counts_unavailable:
        return
    if not any(Trait.WAITS_FOR_TURN in status.reason.traits for status in others):
        return
    cordoned = {name for name, node in fleet.snapshot.nodes.items() if node.cordoned}
    idle = (
        status.node
        for status in (statuses if cordoned else ())
        if status.state in (NodeState.VERIFIED, NodeState.EXCLUDED) and not status.label_pending
    )
    if found := [name for name in dict.fromkeys(idle) if name in cordoned]:
        yield f"cordoned, and so counted against the policy's maxUnavailable: {some(found)}"
