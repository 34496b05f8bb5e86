"""Skip and completion conditions of the whole cluster: why a run is pointless, and why it is not done yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.core import cautions, consumers, eligibility, intent
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.sentences import some
from hook.core.stacks import STACKS
from hook.core.verdicts import NodeState
from hook.settings import WhenAbsent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.core.fleet import Fleet
    from hook.core.memory import Timers
    from hook.core.verdicts import Hold, Judgement
    from hook.objects.policies import Policy

INTENT_KINDS: Final = frozenset(
    {"DaemonSet", "ControllerRevision"}
    | {kind.kind for stack in STACKS.values() for kind in (stack.policy, stack.pool) if kind is not None}
)
"""Kinds of object without which it is unknown whether a driver is settled."""
TERMINAL: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})


def nothing_to_protect(fleet: Fleet) -> Hold | None:
    """Return why a run is pointless, if the policy and the DaemonSets prove it."""
    if _blind(fleet, ()) is not None:
        return None
    if absent := _no_consumer(fleet):
        return absent
    if fleet.policy is None:
        return _no_policy(fleet)
    if intent.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings):
        return None
    if not fleet.policy.driver_enabled and not _drivers_of_others(fleet):
        return Reason.DRIVER_DISABLED, f"{fleet.policy} deploys no driver: the hosts bring their own"
    return None


def _drivers_of_others(fleet: Fleet) -> bool:
    """Return whether a kind of object other than the policy deploys drivers (NicNodePolicy)."""
    return any(ds.desired > 0 and ds.owner_kind in fleet.stack.other_owners for ds in fleet.drivers.values())


def _no_consumer(fleet: Fleet) -> Hold | None:
    found, settings = fleet.consumers, fleet.settings
    if found.named or found.unnamed:
        return None
    if found.operator_managed:
        return _operator_managed(fleet)
    if settings.when_absent is WhenAbsent.WAIT:
        return None
    read = settings.consumer_namespace or ", ".join(settings.namespaces)
    where = f" in {read} (no other namespace was read)" if read else " in any namespace"
    wanted = (*consumers.plugin_names(fleet.stack, settings), *map(str, found.missing))
    return Reason.NO_CONSUMER, f"there is no DaemonSet {' or '.join(wanted)}{where}"


def _no_policy(fleet: Fleet) -> Hold | None:
    if fleet.consumers.operator_managed:
        return _operator_managed(fleet)
    kind = fleet.stack.policy.kind
    message = f"there is no {kind}" if fleet.seen.policies is not None else f"the API server has no kind {kind}"
    if _is_awaited(fleet) or _is_deployed(fleet):
        return None
    return Reason.NO_POLICY, f"{message}, so no operator reloads drivers"


def _is_awaited(fleet: Fleet) -> bool:
    """Return whether the settings expect a policy that does not exist yet."""
    to_come = fleet.settings.when_absent is WhenAbsent.WAIT and fleet.seen.policies is not None
    return _expecting(fleet) or to_come


def _is_deployed(fleet: Fleet) -> bool:
    """Return whether drivers of the operator exist. Then a policy existed, and may be being replaced."""
    return bool(fleet.drivers or fleet.driver_pods)


def policy_gone(fleet: Fleet, judgements: Sequence[Judgement], timers: Timers) -> Hold | None:
    """Return why a run need not wait for a policy that was deleted while its drivers still run.

    A GitOps tool may delete and recreate a policy, or replace its CRD, within moments. The run waits for it during the
    grace period. After that it still waits for each node with a stale plugin or an unsettled driver.
    """
    if fleet.policy is not None or not _is_deployed(fleet) or _is_awaited(fleet):
        return None
    lasting = timers.held("policy-gone") >= fleet.settings.policy_grace
    if not lasting or any(status.state not in TERMINAL for status in judgements):
        return None
    kind = fleet.stack.policy.kind
    return Reason.NO_POLICY, f"there is no {kind} any more, so no operator reloads the drivers that run here"


def _operator_managed(fleet: Fleet) -> Hold:
    managed = fleet.consumers.operator_managed[0]
    message = f"{managed} is managed by the {fleet.stack.operator.title}, which restarts it"
    if fleet.consumers.named:
        others = ", ".join(str(ds) for ds in fleet.consumers.named)
        message = f"{message}; without a {fleet.stack.policy.kind} the state of {others} is unknown"
    return Reason.OPERATOR_MANAGED, message


def no_eligible_node(fleet: Fleet, judgements: Sequence[Judgement], noisy: Hold | None) -> Hold | None:
    """Return that no node has a driver to reload, if the labels of the nodes can be trusted.

    On a fresh install, plugins wait on nodes that the operator has not labelled yet. If a driver or plugin pod exists,
    the operator must have reconciled once and be quiet before the labels count.
    """
    reloadable = any(Trait.DRIVER_NOT_MANAGED not in status.reason.traits for status in judgements)
    if reloadable or _blind(fleet, judgements) is not None:
        return None
    unmet = fleet.policy is None or intent.unmet_expectation(
        fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings
    )
    if unmet or "" in fleet.driver_pods or fleet.consumers.unnamed:
        return None
    hosting = any(status.subject for status in judgements) or fleet.settings.when_absent is WhenAbsent.WAIT
    if hosting and (noisy is not None or fleet.policy is None or not fleet.policy.state):
        return None
    if not judgements:
        return Reason.NO_ELIGIBLE_NODE, f"no node has a driver that the {fleet.stack.operator.title} manages"
    return (
        Reason.NO_ELIGIBLE_NODE,
        f"no driver is deployed to any of {len(judgements)} nodes with {fleet.stack.device}: {judgements[0].message}",
    )


def before_done(
    fleet: Fleet, judgements: Sequence[Judgement], noisy: Hold | None, timers: Timers
) -> tuple[list[Hold], list[str]]:
    """Return why the run is not done, most important reason first, and the warnings for the result."""
    holds = [*_holds(fleet, judgements), *([noisy] if noisy else [])]
    warnings = list(cautions.of(fleet, judgements))
    reluctant = [gatekeeper for gatekeeper in _gatekeepers(fleet) if gatekeeper.state != "ready"]
    # The grace period begins when nothing else blocks, and no later blocker interrupts it: in a large fleet some node
    # is always NotReady for a moment. A new generation of the policy, or a new driver revision, starts it again.
    generations = ",".join(str(gatekeeper.generation) for gatekeeper in _gatekeepers(fleet))
    veto = f"policy-not-ready/{generations}/{','.join(sorted(revision.hash for revision in fleet.newest.values()))}"
    if holds:
        timers.keep(veto)
    if holds or not reluctant:
        return holds, warnings
    message = f"the state of {reluctant[0]} is {reluctant[0].state or 'empty'}, not ready"
    if timers.held(veto) < fleet.settings.policy_grace:
        return [(Reason.POLICY_NOT_READY, message)], warnings
    return [], [*warnings, f"{message}; every eligible node is verified, so this run waits no longer"]


def _gatekeepers(fleet: Fleet) -> list[Policy]:
    """Return the objects whose state can delay the end: the policy, and each pool that owns nodes.

    The state of a pool without nodes depends on nothing that this run waits for.
    """
    owning = {ds.owner_uid for ds in fleet.drivers.values() if ds.desired > 0}
    return [*([fleet.policy] if fleet.policy else []), *(pool for pool in fleet.seen.pools if pool.uid in owning)]


def _holds(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[Hold]:
    if (blind := _blind(fleet, judgements)) is not None:
        yield blind
    if to_come := not_rendered(fleet):
        yield to_come
    if fleet.consumers.unnamed and not fleet.consumers.serves_plugins:
        yield Reason.UNNAMED_CONSUMER, cautions.unnamed(fleet)
    pending = [status for status in judgements if status.state not in TERMINAL]
    if pending:
        yield Reason.NODES_PENDING, _pending_sentence(pending, judgements)
    # A node that is not verified is reported as pending above.
    trailing = [status.node for status in judgements if status.state is NodeState.VERIFIED and status.label_pending]
    if trailing:
        yield Reason.UPGRADE_LABELS_PENDING, f"verified, but the upgrade label is not quiet yet on {some(trailing)}"


def not_rendered(fleet: Fleet) -> Hold | None:
    """Return why the driver DaemonSets do not match the policy yet."""
    if fleet.policy is None and (_is_awaited(fleet) or not _is_deployed(fleet)):
        return Reason.POLICY_EXPECTED, f"there is no {fleet.stack.policy.kind} yet, but the settings expect one"
    if fleet.policy is None:
        return (
            Reason.NO_POLICY,
            f"there is no {fleet.stack.policy.kind}, but its drivers run: it may be recreated in a moment",
        )
    if unmet := intent.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings):
        return Reason.EXPECTATION_UNMET, unmet
    if unrendered := next(iter(fleet.unrendered.values()), ""):
        return Reason.NOT_RENDERED, unrendered
    if not any(ds.desired > 0 for ds in fleet.drivers.values()) and _any_managed(fleet):
        return Reason.NOT_RENDERED, "there is no driver DaemonSet for the nodes that need a driver"
    return None


def _any_managed(fleet: Fleet) -> bool:
    return any(eligibility.managed(node, fleet) for node in fleet.seen.nodes.values())


def _blind(fleet: Fleet, judgements: Sequence[Judgement]) -> Hold | None:
    """Return the first malformed object. Pods of excluded nodes do not count."""
    left = {status.node for status in judgements if status.state is NodeState.EXCLUDED}
    unreadable = next(
        (unreadable for unreadable in fleet.unreadable if unreadable.kind != "Pod" or unreadable.node not in left), None
    )
    if unreadable is None:
        return None
    return (
        Reason.UNREADABLE,
        f"{unreadable.kind} {'/'.join(filter(None, (unreadable.namespace, unreadable.name)))}: {unreadable.problem}",
    )


def blind_to_intent(fleet: Fleet) -> bool:
    """Return whether a malformed object could make an unsettled node look settled. Then nothing is restarted."""
    return any(unreadable.kind in INTENT_KINDS for unreadable in fleet.unreadable)


def _expecting(fleet: Fleet) -> bool:
    chart = fleet.settings.expect_chart_version and fleet.stack.policy.carries_chart
    return bool(chart) or bool(fleet.settings.expect_driver_version and fleet.settings.stacks[0] == fleet.stack.name)


def _pending_sentence(pending: Sequence[Judgement], judgements: Sequence[Judgement]) -> str:
    eligible = len({status.node for status in judgements if status.state is not NodeState.EXCLUDED})
    by_reason: dict[str, list[str]] = {}
    for status in pending:
        by_reason.setdefault(status.reason, []).append(status.node)
    waiting = "; ".join(f"{reason}: {some(nodes)}" for reason, nodes in by_reason.items())
    return f"{eligible - len({status.node for status in pending})} of {eligible} nodes verified; {waiting}"
