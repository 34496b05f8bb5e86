"""Conditions for the end of a run: nothing to protect, the operator is quiet, every node is verified.

During an operator upgrade the old operator, which still runs, renders the new policy first. About 20 s later the new
operator renders it again from another template, and every node reloads its driver twice. So a run is not done before
the new operator leads and has been quiet. To refresh a node before that is harmless: the plugin becomes stale again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.config import OnMissingPlugin
from hook.decide import eligibility, rollout
from hook.decide import fleet as plugins
from hook.decide import rollout as intent
from hook.decide import warnings as cautions
from hook.decide.explain import Trait
from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.format import some
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from hook.decide.fleet import Fleet
    from hook.decide.result import Blocker, NodeStatus
    from hook.decide.state import Timers
    from hook.objects.policies import Policy
    from hook.objects.views import Deployment, Lease, ReplicaSet

LONGEST_PREFIX: Final = 58
"""Characters of the ReplicaSet's name with a hyphen that a pod's name begins with.

The API server appends five random characters and cuts the name to 63 (K8S ``apiserver/pkg/storage/names``).
"""


def unsettled(fleet: Fleet, timers: Timers, now: datetime) -> Blocker | None:
    """Return why the operator may render a second time, or None if it will not."""
    deployment = _deployment(fleet)
    if deployment is None or deployment.wanted == 0:
        return _noisy(fleet, deployment, None, fleet.settings.unknown_operator_quiet, timers, now)
    if not deployment.rolled_out:
        message = (
            f"the {fleet.stack.operator.title}'s Deployment {deployment.namespace}/{deployment.name} is rolling out "
            f"({deployment.updated} of {deployment.wanted} updated, {deployment.available} available)"
        )
        return Reason.OPERATOR_ROLLING_OUT, message
    lease = next((lease for lease in fleet.seen.leases if lease.namespace == deployment.namespace), None)
    current = _current(deployment, fleet.seen.replicasets)
    if lease is None or current is None:
        return _noisy(fleet, deployment, None, fleet.settings.unknown_operator_quiet, timers, now)
    if not lease.holder and timers.held("no-leader") < fleet.settings.unknown_operator_quiet:
        return Reason.OPERATOR_NOT_LEADING, "the operator's Lease has no holder: the next leader may render again"
    if _another_leads(deployment, lease, current):
        message = f"the operator's Lease is still held by {lease.holder}, not by a pod of {current.name}"
        return Reason.OPERATOR_NOT_LEADING, message
    named = not deployment.named_by_host and _prefix(current).endswith("-")
    return _noisy(fleet, deployment, lease, _quiet_time(fleet, named=named), timers, now)


def _another_leads(deployment: Deployment, lease: Lease, current: ReplicaSet) -> bool:
    """Return whether the name of the Lease's holder shows that it is no pod of the current ReplicaSet."""
    return bool(lease.holder) and not deployment.named_by_host and not lease.holder.startswith(_prefix(current))


def _prefix(replicaset: ReplicaSet) -> str:
    """Return the prefix of the names of a ReplicaSet's pods. The API server cuts long names."""
    return f"{replicaset.name}-"[:LONGEST_PREFIX]


def _quiet_time(fleet: Fleet, *, named: bool) -> timedelta:
    """Return how long nothing may change. It is longer where less can be compared.

    If the leader's name does not contain the whole name of its ReplicaSet (not `named`), it may be an old or a new pod.
    If an image cannot be compared, or an admission webhook rewrote it, the operator may not have rendered it yet.
    """
    comparable = all(intent.comparable(source) for source in intent.sources(fleet.policy, fleet.seen.pools))
    rewritten = any(intent.rewritings(fleet.drivers.values(), fleet.intents, fleet.stack))
    exact = comparable and not rewritten and named
    return fleet.settings.operator_quiet if exact else fleet.settings.unknown_operator_quiet


def _deployment(fleet: Fleet) -> Deployment | None:
    """Return the operator's Deployment, in the namespace of the policy if that names one.

    Prefer one that is not scaled to zero, which a release under another name may have left behind.
    """
    namespace = fleet.policy.namespace if fleet.policy else ""
    found = [deployment for deployment in fleet.seen.deployments if namespace in ("", deployment.namespace)]
    return min(
        found, key=lambda deployment: (deployment.wanted == 0, deployment.namespace, deployment.name), default=None
    )


def _current(deployment: Deployment, replicasets: tuple[ReplicaSet, ...]) -> ReplicaSet | None:
    return next(
        (
            replicaset
            for replicaset in replicasets
            if replicaset.owner_uid == deployment.uid and replicaset.revision == deployment.revision
        ),
        None,
    )


def _noisy(  # noqa: PLR0913, PLR0917 - all inputs that may still change
    fleet: Fleet, deployment: Deployment | None, lease: Lease | None, quiet: timedelta, timers: Timers, now: datetime
) -> Blocker | None:
    """Require a quiet period since the last change of leader, operator rollout, policy and driver revision.

    Either of two measures is enough: the timestamps of the API, or the time during which this run saw no change. So a
    wrong clock delays the end, but does not block it. The operator's rollout is a separate input because a new operator
    without a Lease, or with its host's name in the Lease, shows its lead in no other way.
    """
    newest = [fleet.newest[uid] for uid in sorted(fleet.drivers) if uid in fleet.newest]
    moments = [revision.created for revision in newest]
    if lease is not None and lease.acquired is not None:
        moments.append(lease.acquired)
    rollout = deployment.changed if deployment is not None else None
    if rollout is not None:
        moments.append(rollout)
    # A change of the policy may show in no version, image or label. The operator needs a moment to render it.
    intents = [policy for policy in (fleet.policy, *fleet.seen.pools) if policy is not None]
    moments.extend(policy.changed for policy in intents if policy.changed is not None)
    last = max(moments, default=None)
    led = lease.acquired if lease is not None else None
    # The generation ignores changes of metadata, which some tools write every few seconds.
    asked = ",".join(f"{policy.uid}:{policy.generation}" for policy in intents)
    revisions = ",".join(f"{revision.hash}:{revision.revision}:{revision.created}" for revision in newest)
    state = f"{led}/{rollout}/{asked}/{revisions}"
    unchanged = timers.held(f"quiet/{state}")
    if last is None or unchanged >= quiet or (now - last >= quiet and not _rolled_back(fleet)):
        return None
    seconds = int(unchanged.total_seconds())
    message = (
        "policy, operator and driver revision must be unchanged for "
        f"{int(quiet.total_seconds())} s; this run has seen {seconds} s without a change"
    )
    return Reason.OPERATOR_SETTLING, message


def _rolled_back(fleet: Fleet) -> bool:
    """Return whether a driver was rolled back to an old revision, whose creation time proves nothing."""
    owned = [revision for revision in fleet.seen.revisions if revision.owner_uid in fleet.drivers]
    return any(revision.created > fleet.newest[revision.owner_uid].created for revision in owned)


INTENT_KINDS: Final = frozenset(
    {"DaemonSet", "ControllerRevision"}
    | {kind.kind for stack in STACKS.values() for kind in (stack.policy, stack.pool) if kind is not None}
)
"""Kinds of object without which it is unknown whether a driver is settled."""
TERMINAL: Final = frozenset({NodeState.VERIFIED, NodeState.EXCLUDED})


def nothing_to_protect(fleet: Fleet) -> Blocker | None:
    """Return why a run is pointless, if the policy and the DaemonSets prove it."""
    if _blind(fleet, ()) is not None:
        return None
    if absent := _no_consumer(fleet):
        return absent
    if fleet.policy is None:
        return _no_policy(fleet)
    if rollout.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings):
        return None
    if not fleet.policy.driver_enabled and not _drivers_of_others(fleet):
        return Reason.DRIVER_DISABLED, f"{fleet.policy} deploys no driver: the hosts bring their own"
    return None


def _drivers_of_others(fleet: Fleet) -> bool:
    """Return whether a kind of object other than the policy deploys drivers (NicNodePolicy)."""
    return any(ds.desired > 0 and ds.owner_kind in fleet.stack.other_owners for ds in fleet.drivers.values())


def _no_consumer(fleet: Fleet) -> Blocker | None:
    found, settings = fleet.plugins, fleet.settings
    if found.named or found.unnamed:
        return None
    if found.operator_managed:
        return _operator_managed(fleet)
    if settings.on_missing_plugin is OnMissingPlugin.WAIT:
        return None
    read = settings.plugin_namespace or ", ".join(settings.namespaces)
    where = f" in {read} (no other namespace was read)" if read else " in any namespace"
    wanted = (*plugins.plugin_names(fleet.stack, settings), *map(str, found.missing))
    return Reason.NO_PLUGIN, f"there is no DaemonSet {' or '.join(wanted)}{where}"


def _no_policy(fleet: Fleet) -> Blocker | None:
    if fleet.plugins.operator_managed:
        return _operator_managed(fleet)
    kind = fleet.stack.policy.kind
    message = f"there is no {kind}" if fleet.seen.policies is not None else f"the API server has no kind {kind}"
    if _is_awaited(fleet) or _is_deployed(fleet):
        return None
    return Reason.NO_POLICY, f"{message}, so no operator reloads drivers"


def _is_awaited(fleet: Fleet) -> bool:
    """Return whether the settings expect a policy that does not exist yet."""
    to_come = fleet.settings.on_missing_plugin is OnMissingPlugin.WAIT and fleet.seen.policies is not None
    return _expecting(fleet) or to_come


def _is_deployed(fleet: Fleet) -> bool:
    """Return whether drivers of the operator exist. Then a policy existed, and may be being replaced."""
    return bool(fleet.drivers or fleet.driver_pods)


def policy_gone(fleet: Fleet, statuses: Sequence[NodeStatus], timers: Timers) -> Blocker | None:
    """Return why a run need not wait for a policy that was deleted while its drivers still run.

    A GitOps tool may delete and recreate a policy, or replace its CRD, within moments. The run waits for it during the
    grace period. After that it still waits for each node with a stale plugin or an unsettled driver.
    """
    if fleet.policy is not None or not _is_deployed(fleet) or _is_awaited(fleet):
        return None
    lasting = timers.held("policy-gone") >= fleet.settings.policy_grace
    if not lasting or any(status.state not in TERMINAL for status in statuses):
        return None
    kind = fleet.stack.policy.kind
    return Reason.NO_POLICY, f"there is no {kind} any more, so no operator reloads the drivers that run here"


def _operator_managed(fleet: Fleet) -> Blocker:
    managed = fleet.plugins.operator_managed[0]
    message = f"{managed} is managed by the {fleet.stack.operator.title}, which restarts it"
    if fleet.plugins.named:
        others = ", ".join(str(ds) for ds in fleet.plugins.named)
        message = f"{message}; without a {fleet.stack.policy.kind} the state of {others} is unknown"
    return Reason.OPERATOR_MANAGED, message


def no_eligible_node(fleet: Fleet, statuses: Sequence[NodeStatus], noisy: Blocker | None) -> Blocker | None:
    """Return that no node has a driver to reload, if the labels of the nodes can be trusted.

    On a fresh install, plugins wait on nodes that the operator has not labelled yet. If a driver or plugin pod exists,
    the operator must have reconciled once and be quiet before the labels count.
    """
    reloadable = any(Trait.DRIVER_NOT_MANAGED not in status.reason.traits for status in statuses)
    if reloadable or _blind(fleet, statuses) is not None:
        return None
    unmet = fleet.policy is None or rollout.unmet_expectation(
        fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings
    )
    if unmet or "" in fleet.driver_pods or fleet.plugins.unnamed:
        return None
    hosting = any(status.subject for status in statuses) or fleet.settings.on_missing_plugin is OnMissingPlugin.WAIT
    if hosting and (noisy is not None or fleet.policy is None or not fleet.policy.state):
        return None
    if not statuses:
        return Reason.NO_ELIGIBLE_NODE, f"no node has a driver that the {fleet.stack.operator.title} manages"
    return (
        Reason.NO_ELIGIBLE_NODE,
        f"no driver is deployed to any of {len(statuses)} nodes with {fleet.stack.device}: {statuses[0].message}",
    )


def before_done(
    fleet: Fleet, statuses: Sequence[NodeStatus], noisy: Blocker | None, timers: Timers
) -> tuple[list[Blocker], list[str]]:
    """Return why the run is not done, most important reason first, and the warnings for the result."""
    blockers = [*_blockers(fleet, statuses), *([noisy] if noisy else [])]
    warnings = list(cautions.of(fleet, statuses))
    reluctant = [gatekeeper for gatekeeper in _gatekeepers(fleet) if gatekeeper.state != "ready"]
    # The grace period begins when nothing else blocks, and no later blocker interrupts it: in a large fleet some node
    # is always NotReady for a moment. A new generation of the policy, or a new driver revision, starts it again.
    generations = ",".join(str(gatekeeper.generation) for gatekeeper in _gatekeepers(fleet))
    veto = f"policy-not-ready/{generations}/{','.join(sorted(revision.hash for revision in fleet.newest.values()))}"
    if blockers:
        timers.keep(veto)
    if blockers or not reluctant:
        return blockers, warnings
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


def _blockers(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Iterator[Blocker]:
    if (blind := _blind(fleet, statuses)) is not None:
        yield blind
    if to_come := not_rendered(fleet):
        yield to_come
    if fleet.plugins.unnamed and not fleet.plugins.serves_plugins:
        yield Reason.UNNAMED_PLUGIN, cautions.unnamed(fleet)
    pending = [status for status in statuses if status.state not in TERMINAL]
    if pending:
        yield Reason.NODES_PENDING, _pending_sentence(pending, statuses)
    # A node that is not verified is reported as pending above.
    trailing = [status.node for status in statuses if status.state is NodeState.VERIFIED and status.label_pending]
    if trailing:
        yield Reason.UPGRADE_LABELS_PENDING, f"verified, but the upgrade label is not quiet yet on {some(trailing)}"


def not_rendered(fleet: Fleet) -> Blocker | None:
    """Return why the driver DaemonSets do not match the policy yet."""
    if fleet.policy is None and (_is_awaited(fleet) or not _is_deployed(fleet)):
        return Reason.POLICY_EXPECTED, f"there is no {fleet.stack.policy.kind} yet, but the settings expect one"
    if fleet.policy is None:
        return (
            Reason.NO_POLICY,
            f"there is no {fleet.stack.policy.kind}, but its drivers run: it may be recreated in a moment",
        )
    if unmet := rollout.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings):
        return Reason.EXPECTATION_UNMET, unmet
    if unrendered := next(iter(fleet.unrendered.values()), ""):
        return Reason.NOT_RENDERED, unrendered
    if not any(ds.desired > 0 for ds in fleet.drivers.values()) and _any_managed(fleet):
        return Reason.NOT_RENDERED, "there is no driver DaemonSet for the nodes that need a driver"
    return None


def _any_managed(fleet: Fleet) -> bool:
    return any(eligibility.managed(node, fleet) for node in fleet.seen.nodes.values())


def _blind(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Blocker | None:
    """Return the first malformed object. Pods of excluded nodes do not count."""
    left = {status.node for status in statuses if status.state is NodeState.EXCLUDED}
    malformed = next(
        (malformed for malformed in fleet.malformed if malformed.kind != "Pod" or malformed.node not in left), None
    )
    if malformed is None:
        return None
    return (
        Reason.MALFORMED_OBJECT,
        f"{malformed.kind} {'/'.join(filter(None, (malformed.namespace, malformed.name)))}: {malformed.problem}",
    )


def blind_to_intent(fleet: Fleet) -> bool:
    """Return whether a malformed object could make an unsettled node look settled. Then nothing is restarted."""
    return any(malformed.kind in INTENT_KINDS for malformed in fleet.malformed)


def _expecting(fleet: Fleet) -> bool:
    chart = fleet.settings.expect_chart_version and fleet.stack.policy.carries_chart
    return bool(chart) or bool(fleet.settings.expect_driver_version and fleet.settings.stacks[0] == fleet.stack.name)


def _pending_sentence(pending: Sequence[NodeStatus], statuses: Sequence[NodeStatus]) -> str:
    eligible = len({status.node for status in statuses if status.state is not NodeState.EXCLUDED})
    by_reason: dict[str, list[str]] = {}
    for status in pending:
        by_reason.setdefault(status.reason, []).append(status.node)
    waiting = "; ".join(f"{reason}: {some(nodes)}" for reason, nodes in by_reason.items())
    return f"{eligible - len({status.node for status in pending})} of {eligible} nodes verified; {waiting}"
