"""The gates of a whole cluster: what makes a run pointless, and what holds *done* back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.core import eligibility, intent
from hook.core.reasons import Reason
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.core.fleet import Fleet
    from hook.core.memory import Timers
    from hook.core.operator import Hold
    from hook.core.verdicts import Judgement
    from hook.settings import Settings

NOT_OURS: Final = frozenset({Reason.HOST_DRIVER, Reason.DRIVER_NOT_DEPLOYED})
"""Nodes excluded for these have no driver that this stack could reload."""
TERMINAL: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})
NAMED_IN_A_SENTENCE: Final = 5
"""Nodes named in one line; the table has all of them."""


def nothing_to_protect(fleet: Fleet) -> Hold | None:
    """Say why a run is pointless, by what the policy and the DaemonSets tell. Never while in doubt."""
    if _blind(fleet) is not None:
        return None
    if absent := _no_consumer(fleet):
        return absent
    policy = fleet.policy
    if policy is None:
        message = "there is no ClusterPolicy" if fleet.seen.policies is not None else "the API knows no ClusterPolicy"
        return None if _expecting(fleet.settings) else (Reason.NO_POLICY, f"{message}, so no operator reloads drivers")
    if intent.unmet_expectation(policy, fleet.settings):
        return None
    if not policy.driver_enabled:
        return Reason.DRIVER_DISABLED, f"ClusterPolicy {policy.name} has driver.enabled=false: hosts bring their driver"
    return None


def _no_consumer(fleet: Fleet) -> Hold | None:
    found, settings = fleet.consumers, fleet.settings
    if found.named or found.unnamed:
        return None
    if found.operator_managed:
        message = f"{found.operator_managed[0]} is managed by the GPU operator, which restarts it itself"
        return Reason.OPERATOR_MANAGED, message
    read = settings.consumer_namespace or ", ".join(settings.namespaces)
    where = f" in {read} (no other namespace was looked at)" if read else " in any namespace"
    return Reason.NO_CONSUMER, f"there is no DaemonSet {' or '.join(settings.consumer_names)}{where}"


def no_eligible_node(fleet: Fleet, judgements: Sequence[Judgement], noisy: Hold | None) -> Hold | None:
    """Say that no node has a driver to reload.

    On a fresh install plugins wait on nodes that the operator has not labelled yet: where pods of ours
    are around, it must have reconciled once and be quiet before the labels can be believed.
    """
    if _blind(fleet) is not None or any(one.reason not in NOT_OURS for one in judgements):
        return None
    unmet = fleet.policy is None or intent.unmet_expectation(fleet.policy, fleet.settings)
    if unmet or "" in fleet.driver_pods or not fleet.consumers.named:
        return None
    hosting = any(one.subject for one in judgements)
    if hosting and (noisy is not None or fleet.policy is None or not fleet.policy.state):
        return None
    if not judgements:
        return Reason.NO_ELIGIBLE_NODE, "no node has a GPU driver that the operator manages"
    return (
        Reason.NO_ELIGIBLE_NODE,
        f"no driver is deployed to any of {len(judgements)} GPU nodes: {judgements[0].message}",
    )


def before_done(
    fleet: Fleet, judgements: Sequence[Judgement], noisy: Hold | None, timers: Timers
) -> tuple[list[Hold], list[str]]:
    """List what holds done back, the most telling first, and warnings that go with done."""
    holds = [*_holds(fleet, judgements), *([noisy] if noisy else [])]
    warnings = list(_warnings(fleet, judgements))
    policy = fleet.policy
    if holds or policy is None or policy.state == "ready":
        return holds, warnings
    message = f"ClusterPolicy {policy.name} says {policy.state or 'nothing'}, not ready"
    if timers.held("policy-not-ready") < fleet.settings.policy_grace:
        return [(Reason.POLICY_NOT_READY, message)], warnings
    return [], [*warnings, f"{message}; every eligible node is served, so this run does not wait for it any longer"]


def _holds(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[Hold]:
    if (blind := _blind(fleet)) is not None:
        yield blind
    if fleet.policy is None:
        yield Reason.POLICY_EXPECTED, "there is no ClusterPolicy yet, and one is expected"
    elif unmet := intent.unmet_expectation(fleet.policy, fleet.settings):
        yield Reason.EXPECTATION_UNMET, unmet
    elif unrendered := next(iter(fleet.unrendered.values()), ""):
        yield Reason.NOT_RENDERED, unrendered
    elif not any(ds.desired > 0 for ds in fleet.drivers.values()) and _any_managed(fleet):
        yield Reason.NOT_RENDERED, "there is no driver DaemonSet for the nodes that want a driver"
    if fleet.consumers.unnamed and not fleet.consumers.named:
        yield _unnamed(fleet)
    pending = [one for one in judgements if one.state not in TERMINAL]
    if pending:
        yield Reason.NODES_PENDING, _pending_sentence(pending, judgements)
    trailing = [one.node for one in judgements if one.state is NodeState.VERIFIED and one.label_pending]
    if trailing:
        yield Reason.UPGRADE_LABELS_PENDING, f"served, but the upgrade label is not quiet yet on {_some(trailing)}"


def _any_managed(fleet: Fleet) -> bool:
    return any(eligibility.managed(node, fleet) for node in fleet.seen.nodes.values())


def _warnings(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[str]:
    for daemonset in fleet.consumers.named:
        if daemonset.desired == 0 and any(one.state is not NodeState.EXCLUDED for one in judgements):
            yield f"{daemonset} wants no pod at all (DESIRED=0): check its nodeSelector and the nodes' labels"
    if fleet.consumers.named and fleet.consumers.unnamed:
        yield _unnamed(fleet)[1]
    expected = fleet.settings.expect_driver_version
    if fleet.policy is not None and expected and not intent.names_version(fleet.policy):
        yield (
            f"ClusterPolicy {fleet.policy.name} names no driver version; the expected {expected} was looked for "
            "in the plugins' ResourceSlices only"
        )
    if fleet.policy is not None and fleet.policy.uses_driver_crd:
        yield (
            "drivers are configured by NVIDIADriver objects, which this version does not read: "
            "nodes were judged by generation and revision alone"
        )


def _unnamed(fleet: Fleet) -> Hold:
    found = ", ".join(str(ds) for ds in fleet.consumers.unnamed)
    return Reason.UNNAMED_CONSUMER, f"{found} looks like a DRA kubelet plugin but is not among the names to serve"


def _blind(fleet: Fleet) -> Hold | None:
    """Give the first object that cannot be read: it might be the one that matters."""
    if not fleet.seen.unreadable:
        return None
    one = fleet.seen.unreadable[0]
    return Reason.UNREADABLE, f"{one.kind} {'/'.join(filter(None, (one.namespace, one.name)))}: {one.problem}"


def blind_to_intent(fleet: Fleet) -> bool:
    """Whether something unreadable could make an unsettled node look settled: then nothing is touched."""
    return any(one.kind in ("ClusterPolicy", "DaemonSet", "ControllerRevision") for one in fleet.seen.unreadable)


def _expecting(settings: Settings) -> bool:
    return bool(settings.expect_chart_version or settings.expect_driver_version)


def _pending_sentence(pending: Sequence[Judgement], judgements: Sequence[Judgement]) -> str:
    eligible = len({one.node for one in judgements if one.state is not NodeState.EXCLUDED})
    by_reason: dict[str, list[str]] = {}
    for one in pending:
        by_reason.setdefault(one.reason, []).append(one.node)
    waiting = "; ".join(f"{reason}: {_some(nodes)}" for reason, nodes in by_reason.items())
    return f"{eligible - len({one.node for one in pending})} of {eligible} nodes served; {waiting}"


def _some(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:NAMED_IN_A_SENTENCE])
    return shown if len(nodes) <= NAMED_IN_A_SENTENCE else f"{shown} and {len(nodes) - NAMED_IN_A_SENTENCE} more"
