"""The gates of a whole cluster: what makes a run pointless, and what holds *done* back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.core import cautions, consumers, eligibility, intent
from hook.core.reason import Trait
from hook.core.reasons import Reason
from hook.core.sentences import some
from hook.core.stacks import STACKS
from hook.core.verdicts import NodeState
from hook.settings import WaitFor, WhenAbsent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.core.fleet import Fleet
    from hook.core.memory import Timers
    from hook.core.operator import Hold
    from hook.core.verdicts import Judgement
    from hook.objects.policies import Policy

INTENT_KINDS: Final = frozenset(
    {"DaemonSet", "ControllerRevision"}
    | {kind.kind for stack in STACKS.values() for kind in (stack.policy, stack.pool) if kind is not None}
)
TERMINAL: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})


def nothing_to_protect(fleet: Fleet) -> Hold | None:
    """Say why a run is pointless, by what the policy and the DaemonSets tell. Never while in doubt."""
    if _blind(fleet, ()) is not None:
        return None
    if absent := _no_consumer(fleet):
        return absent
    if fleet.policy is None:
        return _no_policy(fleet)
    if intent.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings):
        return None
    if not fleet.policy.driver_enabled and not _drivers_of_others(fleet):
        return Reason.DRIVER_DISABLED, f"{fleet.policy} asks for no driver: hosts bring theirs"
    return None


def _drivers_of_others(fleet: Fleet) -> bool:
    """Whether drivers are deployed by another kind of object than the policy (NicNodePolicy)."""
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
    where = f" in {read} (no other namespace was looked at)" if read else " in any namespace"
    wanted = (*consumers.plugin_names(fleet.stack, settings), *map(str, found.missing))
    return Reason.NO_CONSUMER, f"there is no DaemonSet {' or '.join(wanted)}{where}"


def _no_policy(fleet: Fleet) -> Hold | None:
    if fleet.consumers.operator_managed:
        return _operator_managed(fleet)
    kind = fleet.stack.policy.kind
    message = f"there is no {kind}" if fleet.seen.policies is not None else f"the API knows no {kind}"
    if _is_awaited(fleet) or _is_deployed(fleet):
        return None
    return Reason.NO_POLICY, f"{message}, so no operator reloads drivers"


def _is_awaited(fleet: Fleet) -> bool:
    """Return whether the settings expect a policy that is still to come."""
    to_come = fleet.settings.when_absent is WhenAbsent.WAIT and fleet.seen.policies is not None
    return _expecting(fleet) or to_come


def _is_deployed(fleet: Fleet) -> bool:
    """Return whether the operator's drivers are there: then a policy was, and may be replaced at this moment."""
    return bool(fleet.drivers or fleet.driver_pods)


def policy_gone(fleet: Fleet, judgements: Sequence[Judgement], timers: Timers) -> Hold | None:
    """Return why a run need not wait for a policy that vanished while its drivers run on.

    A GitOps tool deletes and creates it again, or replaces its CRD, within moments. Until the grace is over the run
    waits for it. After that the run still waits for each node on which a plugin is stale or a driver is on its way.
    """
    if fleet.policy is not None or not _is_deployed(fleet) or _is_awaited(fleet):
        return None
    lasting = timers.held("policy-gone") >= fleet.settings.policy_grace
    sees_nodes = fleet.settings.wait_for is WaitFor.NODES
    if not lasting or (sees_nodes and any(one.state not in TERMINAL for one in judgements)):
        return None
    kind = fleet.stack.policy.kind
    return Reason.NO_POLICY, f"there is no {kind} any more, so no operator reloads the drivers that run here"


def _operator_managed(fleet: Fleet) -> Hold:
    managed = fleet.consumers.operator_managed[0]
    message = f"{managed} is managed by the {fleet.stack.operator.title}, which restarts it itself"
    if fleet.consumers.named:
        others = ", ".join(str(ds) for ds in fleet.consumers.named)
        message = f"{message}; without a {fleet.stack.policy.kind} nothing can be said about {others}"
    return Reason.OPERATOR_MANAGED, message


def no_eligible_node(fleet: Fleet, judgements: Sequence[Judgement], noisy: Hold | None) -> Hold | None:
    """Say that no node has a driver to reload.

    On a fresh install plugins wait on nodes that the operator has not labelled yet: where pods of ours
    are around, it must have reconciled once and be quiet before the labels can be believed.
    """
    reloadable = any(Trait.DRIVER_NOT_MANAGED not in one.reason.traits for one in judgements)
    if reloadable or _blind(fleet, judgements) is not None:
        return None
    unmet = fleet.policy is None or intent.unmet_expectation(
        fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings
    )
    if unmet or "" in fleet.driver_pods or fleet.consumers.unnamed:
        return None
    hosting = any(one.subject for one in judgements) or fleet.settings.when_absent is WhenAbsent.WAIT
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
    """List what holds done back, the most telling first, and warnings that go with done."""
    holds = [*_holds(fleet, judgements), *([noisy] if noisy else [])]
    warnings = list(cautions.of(fleet, judgements))
    reluctant = [one for one in _gatekeepers(fleet) if one.state != "ready"]
    # Its time begins when nothing else holds, and nothing that holds later interrupts it: in a large fleet some node is
    # always away for a moment. Another generation of the policy, or revision of a driver, begins it anew.
    generations = ",".join(str(one.generation) for one in _gatekeepers(fleet))
    veto = f"policy-not-ready/{generations}/{','.join(sorted(one.hash for one in fleet.newest.values()))}"
    if holds:
        timers.keep(veto)
    if holds or not reluctant:
        return holds, warnings
    message = f"{reluctant[0]} says {reluctant[0].state or 'nothing'}, not ready"
    if fleet.settings.wait_for is WaitFor.POLICY_READY:
        # Its word is the whole promise: without it there is none.
        return [(Reason.POLICY_SAYS_NOT_READY, message)], warnings
    if timers.held(veto) < fleet.settings.policy_grace:
        return [(Reason.POLICY_NOT_READY, message)], warnings
    return [], [*warnings, f"{message}; every eligible node is served, so this run does not wait for it any longer"]


def _gatekeepers(fleet: Fleet) -> list[Policy]:
    """Give the objects whose own state has a say: the policy, and each pool that owns nodes.

    A pool without nodes is ready, or not, whatever happens.
    """
    owning = {ds.owner_uid for ds in fleet.drivers.values() if ds.desired > 0}
    return [*([fleet.policy] if fleet.policy else []), *(one for one in fleet.seen.pools if one.uid in owning)]


def _holds(fleet: Fleet, judgements: Sequence[Judgement]) -> Iterator[Hold]:
    if (blind := _blind(fleet, judgements)) is not None:
        yield blind
    if to_come := not_rendered(fleet):
        yield to_come
    if fleet.consumers.unnamed and not fleet.consumers.serves_plugins:
        yield Reason.UNNAMED_CONSUMER, cautions.unnamed(fleet)
    pending = [one for one in judgements if one.state not in TERMINAL]
    if pending:
        yield Reason.NODES_PENDING, _pending_sentence(pending, judgements)
    # What is not verified is pending already, and the first hold is the one that counts.
    trailing = [one.node for one in judgements if one.state is NodeState.VERIFIED and one.label_pending]
    if trailing:
        yield Reason.UPGRADE_LABELS_PENDING, f"served, but the upgrade label is not quiet yet on {some(trailing)}"


def not_rendered(fleet: Fleet) -> Hold | None:
    """Say why the drivers that are asked for are not those that the DaemonSets show."""
    if fleet.policy is None and (_is_awaited(fleet) or not _is_deployed(fleet)):
        return Reason.POLICY_EXPECTED, f"there is no {fleet.stack.policy.kind} yet, and one is expected"
    if fleet.policy is None:
        return (
            Reason.NO_POLICY,
            f"there is no {fleet.stack.policy.kind}, but its drivers run: it may be back in a moment",
        )
    if unmet := intent.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings):
        return Reason.EXPECTATION_UNMET, unmet
    if unrendered := next(iter(fleet.unrendered.values()), ""):
        return Reason.NOT_RENDERED, unrendered
    if not any(ds.desired > 0 for ds in fleet.drivers.values()) and _any_managed(fleet):
        return Reason.NOT_RENDERED, "there is no driver DaemonSet for the nodes that want a driver"
    return None


def _any_managed(fleet: Fleet) -> bool:
    return any(eligibility.managed(node, fleet) for node in fleet.seen.nodes.values())


def _blind(fleet: Fleet, judgements: Sequence[Judgement]) -> Hold | None:
    """Give the first object that cannot be read: it might be the one that matters, but for pods of a left node."""
    left = {one.node for one in judgements if one.state is NodeState.EXCLUDED}
    one = next((one for one in fleet.unreadable if one.kind != "Pod" or one.node not in left), None)
    if one is None:
        return None
    return Reason.UNREADABLE, f"{one.kind} {'/'.join(filter(None, (one.namespace, one.name)))}: {one.problem}"


def blind_to_intent(fleet: Fleet) -> bool:
    """Whether something unreadable could make an unsettled node look settled: then nothing is touched."""
    return any(one.kind in INTENT_KINDS for one in fleet.unreadable)


def _expecting(fleet: Fleet) -> bool:
    chart = fleet.settings.expect_chart_version and fleet.stack.policy.carries_chart
    return bool(chart) or bool(fleet.settings.expect_driver_version and fleet.settings.stacks[0] == fleet.stack.name)


def _pending_sentence(pending: Sequence[Judgement], judgements: Sequence[Judgement]) -> str:
    eligible = len({one.node for one in judgements if one.state is not NodeState.EXCLUDED})
    by_reason: dict[str, list[str]] = {}
    for one in pending:
        by_reason.setdefault(one.reason, []).append(one.node)
    waiting = "; ".join(f"{reason}: {some(nodes)}" for reason, nodes in by_reason.items())
    return f"{eligible - len({one.node for one in pending})} of {eligible} nodes served; {waiting}"
