"""What people should know beside the verdict: what could not be judged, and what will bite them later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.core import by_policy, intent, messages, names
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.sentences import some
from hook.core.verdicts import NodeState
from hook.settings import WaitFor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.core.fleet import Fleet
    from hook.core.verdicts import Judgement
    from hook.objects.views import DaemonSet, Node


def of(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[str]:
    """List the warnings that go with a decision."""
    if fleet.settings.wait_for is WaitFor.POLICY_READY:
        yield by_policy.WARNING
    yield from _about_consumers(fleet, judgements)
    yield from _about_intent(fleet)
    yield from _about_manual(judgements, fleet)
    yield from _about_labels(judgements)
    yield from _about_turns(fleet, judgements)


def unnamed(fleet: Fleet) -> str:
    """Name what looks like a consumer and was not named."""
    found = ", ".join(str(ds) for ds in fleet.consumers.unnamed)
    return f"{found} looks like a DRA kubelet plugin but is not among the names to serve"


def evicted_by_driver_manager(daemonset: DaemonSet, fleet: Fleet) -> str:
    """Give the node label by which the driver manager takes this consumer away before a reload; or empty."""
    told = {one.eviction_label for one in intent.sources(fleet.policy, fleet.seen.pools)}
    return next((key for key in daemonset.node_selector if key in told | {names.EVICTED_CLIENT_LABEL}), "")


def _about_consumers(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[str]:
    eligible = [one.node for one in judgements if one.state is not NodeState.EXCLUDED]
    for daemonset in fleet.consumers.named:
        if daemonset.desired == 0 and eligible:
            yield f"{daemonset} wants no pod at all (DESIRED=0): check its nodeSelector and the nodes' labels"
        elif unlabelled := _unlabelled(daemonset, fleet, judgements):
            wanted = ",".join(f"{key}={value}" for key, value in daemonset.node_selector.items())
            yield f"{daemonset} runs no pod on {some(unlabelled)}: its nodeSelector asks for {wanted}"
        if hidden := _hidden_labels(daemonset, fleet, judgements):
            yield f"{daemonset} runs no pod on some nodes; whether they carry {hidden} is not read, look with kubectl"
    if fleet.consumers.named and fleet.consumers.unnamed:
        yield unnamed(fleet)
    yield from about_names(fleet)


def about_names(fleet: Fleet) -> Iterator[str]:
    """Say which consumers somebody named in vain."""
    for refused in fleet.consumers.refused:
        yield f"{refused} loads a driver or provides one itself, so it is never restarted, whoever names it"
    for missing in fleet.consumers.missing:
        yield f"no DaemonSet matches the consumer {missing}"


def _about_manual(judgements: Sequence[Judgement], fleet: Fleet) -> Iterator[str]:
    """Say what to do about nodes that are left alone until somebody upgrades them, also where all else is done."""
    left = [one for one in judgements if one.reason is Reason.MANUAL_UPGRADE and one.state is NodeState.EXCLUDED]
    if left:
        what = messages.remedy(Reason.MANUAL_UPGRADE, left[0].node, left[0].subject, fleet.stack)
        yield f"left alone, with an outdated driver: {some([one.node for one in left])}. {what}"


def _unlabelled(daemonset: DaemonSet, fleet: Fleet, judgements: Sequence[Judgement]) -> list[str]:
    """List settled nodes that silently get no pod of a consumer, for want of a label that can be read."""
    without = _without_pod(daemonset, judgements)
    return [name for name in without if (node := fleet.seen.nodes.get(name)) and _lacks(node, daemonset)]


def _without_pod(daemonset: DaemonSet, judgements: Sequence[Judgement]) -> list[str]:
    """List settled nodes on which a consumer wants no pod."""
    return [
        one.node for one in judgements if one.reason is Reason.NOTHING_TO_REFRESH and one.daemonset_uid == daemonset.uid
    ]


def _hidden_labels(daemonset: DaemonSet, fleet: Fleet, judgements: Sequence[Judgement]) -> str:
    """Name a nodeSelector of a consumer that decides about nodes and whose labels are dropped when nodes are read."""
    hidden = [key for key in daemonset.node_selector if not key.startswith(names.NODE_LABEL_PREFIXES)]
    without = _without_pod(daemonset, judgements)
    told = evicted_by_driver_manager(daemonset, fleet)
    return next((key for key in hidden if key == told), "") if without else ""


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
    sources = intent.sources(policy, fleet.seen.pools)
    if expected and not any(intent.names_version(one) for one in sources):
        yield (
            f"{policy} names no driver version; the expected {expected} was looked for in the plugins' "
            "ResourceSlices only"
        )
    unnamed_images = [one for one in sources if not intent.comparable(one)]
    if unnamed_images and fleet.drivers:
        yield (
            f"{unnamed_images[0]} names no driver image to compare with: its nodes were judged by the DaemonSet's "
            f"generation, the pods' revision and {_unknown_quiet(fleet)} s without a change alone"
        )
    for rewriting in intent.rewritings(fleet.drivers.values(), fleet.intents, fleet.stack):
        yield f"{rewriting}: registry or digest differ (an admission webhook may have rewritten them)"


def _unknown_quiet(fleet: Fleet) -> int:
    return int(fleet.settings.unknown_operator_quiet.total_seconds())


def _about_labels(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Name nodes that are excluded because they have neither their labels nor a driver pod."""
    bare = [one.node for one in judgements if one.state is NodeState.EXCLUDED and one.reason is Reason.LABELS_MISSING]
    if bare:
        yield f"excluded, with a plugin but without their labels and a driver pod: {some(bare)}"


def _about_turns(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[str]:
    """Name cordoned nodes while others wait for their turn: they count as unavailable, and may stop everything."""
    if not fleet.stack.upgrade.counts_cordoned:
        return
    waiting = [one.node for one in judgements if Trait.WAITS_FOR_TURN in one.reason.traits]
    idle = [
        one.node
        for one in judgements
        if one.state in (NodeState.VERIFIED, NodeState.EXCLUDED) and not one.label_pending
    ]
    cordoned = [name for name in dict.fromkeys(idle) if (node := fleet.seen.nodes.get(name)) and node.cordoned]
    if waiting and cordoned:
        yield f"cordoned, and so counted against the policy's maxUnavailable: {some(cordoned)}"
