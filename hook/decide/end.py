"""Conditions for the end of a run: nothing to protect, or every node is verified and the operator is quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.decide import moments
from hook.decide.fleet import comparable, other_owners, plugin_names
from hook.decide.node import UNPUBLISHED, managed
from hook.decide.reasons import Reason, Trait, remedy
from hook.decide.result import TERMINAL, NodeState
from hook.format import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.decide.record import Memory, Timers
    from hook.decide.result import Blocker, NodeStatus
    from hook.objects import DaemonSet, Deployment, Lease, ReplicaSet
    from hook.objects.policies import Policy

LONGEST_PREFIX: Final = 58
"""Characters of the ReplicaSet's name with a hyphen that a pod's name begins with.

The API server appends five random characters and cuts the name to 63 (K8S ``apiserver/pkg/storage/names``).
"""


# Nothing to protect.


def nothing_to_protect(context: Context) -> Blocker | None:
    """Return why a run is pointless, if the policy and the DaemonSets prove it."""
    return None if context.malformed else _no_plugin(context) or no_driver(context)


def no_driver(context: Context) -> Blocker | None:
    """Return why nothing reloads a driver, if the policy and the DaemonSets prove it."""
    policy = context.policy
    if policy is None:
        return _no_policy(context)
    if context.unmet:
        return None
    if not policy.driver.enabled and not context.deployed:
        return Reason.DRIVER_DISABLED, f"{policy} deploys no driver: the hosts bring their own"
    return None


def _no_plugin(context: Context) -> Blocker | None:
    plugins, settings = context.plugins, context.settings
    if plugins.named or plugins.unnamed or plugins.idle:
        return None
    if plugins.operator_managed:
        return _operator_managed(context)
    where = f" in {settings.plugin.namespace} (plugin.namespace)" if settings.plugin.namespace else " in any namespace"
    wanted = (*plugin_names(settings), *map(str, plugins.missing))
    return Reason.NO_PLUGIN, f"there is no DaemonSet {' or '.join(wanted)}{where}"


def _no_policy(context: Context) -> Blocker | None:
    if context.plugins.operator_managed:
        return _operator_managed(context)
    if _is_awaited(context) or context.deployed:
        return None
    kind = context.stack.policy.kind
    message = f"there is no {kind}" if context.policy_kind_served else f"the API server has no kind {kind}"
    return Reason.NO_POLICY, f"{message}, so no operator reloads drivers"


def _operator_managed(context: Context) -> Blocker:
    managed_one = context.plugins.operator_managed[0]
    message = f"{managed_one} is managed by the {context.stack.operator.title}, which restarts it"
    if context.plugins.named:
        others = ", ".join(str(ds) for ds in context.plugins.named)
        message = f"{message}; without a {context.stack.policy.kind} the state of {others} is unknown"
    return Reason.OPERATOR_MANAGED, message


def _is_awaited(context: Context) -> bool:
    """Return whether the settings expect a policy that does not exist yet."""
    return bool(context.settings.expect.chart_version or context.settings.expect.driver_version)


def policy_withdrawn(context: Context, statuses: Sequence[NodeStatus], timers: Timers) -> Blocker | None:
    """Return why a run need not wait for a policy that asks for no driver any more while its drivers still run.

    A GitOps tool may delete and recreate a policy, replace its CRD, or disable the driver for moments. The run waits
    for it during the grace period. After that it still waits for each node with a stale plugin or an unsettled driver.
    """
    if (found := withdrawn(context)) is None or _malformed(context, statuses):
        return None
    in_grace = timers.held("policy-gone") < context.settings.advanced.policy_grace
    if in_grace or any(status.state not in TERMINAL for status in statuses):
        return None
    reason, what = found
    return reason, f"{what} any more, so no operator reloads the drivers that run here"


def withdrawn(context: Context) -> Blocker | None:
    """Return that the policy is gone or deploys no driver, if drivers of the operator run."""
    policy = context.policy
    if not context.deployed:
        return None
    if policy is None:
        return None if _is_awaited(context) else (Reason.NO_POLICY, f"there is no {context.stack.policy.kind}")
    # A kind of object other than the policy (NicNodePolicy) may deploy drivers.
    daemonsets = (driver.daemonset for driver in context.drivers.values())
    others = any(ds.desired > 0 and ds.owner_kind in other_owners(context.stack) for ds in daemonsets)
    if policy.driver.enabled or others or context.unmet:
        return None
    return Reason.DRIVER_DISABLED, f"{policy} deploys no driver"


def no_eligible_node(fleet: Fleet, statuses: Sequence[NodeStatus], operator: Blocker | None) -> Blocker | None:
    """Return that no node has a driver to reload, if the labels of the nodes can be trusted.

    On a fresh install, plugins wait on nodes that the operator has not labelled yet. If a driver or plugin pod exists,
    the operator must have reconciled once and be quiet (no `operator` blocker) before the labels count.
    """
    context, policy = fleet.context, fleet.context.policy
    reloadable = any(Trait.DRIVER_NOT_MANAGED not in status.reason.traits for status in statuses)
    if reloadable or policy is None or context.unmet or _malformed(context, statuses) or context.plugins.unnamed:
        return None
    if any(not pod.node for pod in fleet.snapshot.driver_pods):
        return None
    if any(status.subject for status in statuses) and (operator is not None or not policy.state):
        return None
    if not statuses:
        return Reason.NO_ELIGIBLE_NODE, f"no node has a driver that the {context.stack.operator.title} manages"
    return (
        Reason.NO_ELIGIBLE_NODE,
        f"no driver is deployed to any of {len(statuses)} nodes with {context.stack.device}: {statuses[0].message}",
    )


# Every node is verified.


def blockers(
    fleet: Fleet, statuses: Sequence[NodeStatus], operator: Blocker | None, timers: Timers
) -> tuple[list[Blocker], list[str]]:
    """Return why the run is not done, most important reason first, and the warnings for the result."""
    context = fleet.context
    found = [*_blockers(fleet, statuses), *([operator] if operator else [])]
    texts = list(warnings(fleet, statuses))
    policies = _policies_with_nodes(context)
    unready = [policy for policy in policies if policy.state != "ready"]
    # The grace period begins when nothing else blocks, and no later blocker interrupts it: in a large fleet some node
    # is always NotReady for a moment. A new generation of the policy, or a new driver revision, starts it again.
    revisions = ",".join(sorted(revision.hash for revision in context.newest.values()))
    condition = f"policy-not-ready/{_generations(policies)}/{revisions}"
    if found:
        timers.keep(condition)
    if found or not unready:
        return found, texts
    message = f"the state of {unready[0]} is {unready[0].state or 'empty'}, not ready"
    if timers.held(condition) < context.settings.advanced.policy_grace:
        return [(Reason.POLICY_NOT_READY, message)], texts
    return [], [*texts, f"{message}; every eligible node is verified, so this run waits no longer"]


def _generations(policies: Iterable[Policy]) -> str:
    """Return the generations of policies, whatever their order in the cache is.

    A generation ignores changes of metadata, which some tools write every few seconds.
    """
    return ",".join(sorted(f"{policy.uid}:{policy.generation}" for policy in policies))


def _policies_with_nodes(context: Context) -> list[Policy]:
    """Return the objects whose state can delay the end: the policy, and each pool that owns nodes.

    The state of a pool without nodes depends on nothing that this run waits for.
    """
    daemonsets = (driver.daemonset for driver in context.drivers.values())
    owning = {ds.owner_uid for ds in daemonsets if ds.desired > 0}
    return [*([context.policy] if context.policy else []), *(pool for pool in context.pools if pool.uid in owning)]


def _blockers(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Iterator[Blocker]:
    unnamed = fleet.context.plugins.unnamed
    unlabelled = [status.node for status in statuses if status.reason is Reason.LABELS_MISSING]
    if unnamed:
        found = ", ".join(str(ds) for ds in unnamed)
        yield Reason.UNNAMED_PLUGIN, f"{found} looks like a DRA kubelet plugin but is not in plugin.names"
    if malformed := _malformed(fleet.context, statuses):
        yield malformed
    if unrendered := not_rendered(fleet):
        yield unrendered
    if len(unlabelled) == len(statuses) > 1:
        yield Reason.LABELS_MISSING, f"none of {len(unlabelled)} nodes has its labels (is NFD down?)"
    if pending := [status for status in statuses if status.state not in TERMINAL]:
        yield Reason.NODES_PENDING, _progress(pending, statuses)
    elif trailing := [status.node for status in statuses if status.label_pending]:
        yield Reason.UPGRADE_LABELS_PENDING, f"verified, but the upgrade label is not quiet yet on {some(trailing)}"


def _malformed(context: Context, statuses: Sequence[NodeStatus]) -> Blocker | None:
    """Return the first malformed object. Those of excluded nodes do not count."""
    if not context.malformed:
        return None
    excluded = {status.node for status in statuses if status.state is NodeState.EXCLUDED}
    malformed = next((found for found in context.malformed if found.node not in excluded), None)
    if malformed is None:
        return None
    name = "/".join(filter(None, (malformed.namespace, malformed.name)))
    return Reason.MALFORMED_OBJECT, f"{malformed.kind} {name}: {malformed.problem}"


def not_rendered(fleet: Fleet) -> Blocker | None:
    """Return why the driver DaemonSets do not match the policy yet."""
    context = fleet.context
    kind = context.stack.policy.kind
    if context.policy is None and _is_awaited(context):
        return Reason.POLICY_EXPECTED, f"there is no {kind} yet, but the settings expect one"
    if found := withdrawn(context):
        reason, what = found
        return reason, f"{what}, but its drivers run: that may change in a moment"
    if context.unmet:
        return Reason.EXPECTATION_UNMET, context.unmet
    if context.unrendered:
        return Reason.NOT_RENDERED, context.unrendered
    if missing := _without_daemonset(fleet):
        return Reason.NOT_RENDERED, f"there is no driver DaemonSet for {missing}"
    return None


def _without_daemonset(fleet: Fleet) -> str:
    """Return what has nodes but no DaemonSet: a new pool, which the operator renders next, or the whole fleet."""
    context = fleet.context
    daemonsets = [driver.daemonset for driver in context.drivers.values()]
    rendered = {ds.owner_uid for ds in daemonsets}
    new = [pool for pool in context.sources if pool is not context.policy and pool.uid not in rendered]
    none = not any(ds.desired > 0 for ds in daemonsets)
    wanting = [view for view in fleet.nodes.values() if managed(view, context)] if new or none else []
    labels = [view.node.labels for view in wanting if view.node is not None]
    found = next((f"{pool} yet" for pool in new if any(pool.selects(each) for each in labels)), "")
    return found or ("the nodes that need a driver" if none and wanting else "")


def success(statuses: Sequence[NodeStatus], memory: Memory, context: Context) -> Blocker:
    """Return what a run that is done reports."""
    noun, plugins = context.stack.plugin.noun, context.plugins
    kinds = [(daemonset, plugins.of_kind(daemonset.uid).publisher) for daemonset in plugins.named]
    published = [publisher in daemonset.images for daemonset, publisher in kinds if publisher]
    loaded = "the loaded driver" + (f" ({UNPUBLISHED})" if published and not any(published) else "")
    verified = sum(status.reason is Reason.VERIFIED for status in statuses)
    excluded = [status for status in statuses if status.state is NodeState.EXCLUDED]
    rest = f"; {len(excluded)} nodes are excluded" if excluded else ""
    joined = sum(status.reason is Reason.NODE_JOINED for status in excluded)
    rest += f", {joined} of them because they joined during the run" if joined else ""
    if memory.restarted:
        message = f"{memory.restarted} {noun}s were restarted, {verified} run on {loaded}{rest}"
        return Reason.REFRESHED, message
    return Reason.NOTHING_STALE, f"no {noun} needed a restart, {verified} run on {loaded}{rest}"


def _progress(pending: Sequence[NodeStatus], statuses: Sequence[NodeStatus]) -> str:
    by_reason: dict[str, list[str]] = {}
    for status in pending:
        by_reason.setdefault(status.reason, []).append(status.node)
    eligible = {status.node for status in statuses if status.state is not NodeState.EXCLUDED}
    waiting = "; ".join(f"{reason}: {some(nodes)}" for reason, nodes in by_reason.items())
    return f"{len(eligible - {status.node for status in pending})} of {len(eligible)} nodes verified; {waiting}"


# The operator is quiet: it has rolled out, leads, and changes nothing.
#
# During an operator upgrade the old operator, which still runs, renders the new policy first. About 20 s later the new
# operator renders it again from another template, and every node reloads its driver twice. So a run is not done before
# the new operator leads and has been quiet. To refresh a node before that is harmless: the plugin becomes stale again.


def operator_blocker(fleet: Fleet, timers: Timers) -> Blocker | None:
    """Return why the operator may render a second time, or None if it will not."""
    context = fleet.context
    unknown_quiet = context.settings.advanced.unknown_operator_quiet
    deployment = _deployment(fleet)
    if deployment is None or deployment.wanted == 0:
        return _quiet_blocker(fleet, deployment, None, unknown_quiet, timers)
    if not is_rolled_out(deployment):
        message = (
            f"the {context.stack.operator.title}'s Deployment {deployment.namespace}/{deployment.name} is rolling out "
            f"({deployment.updated} of {deployment.wanted} updated, {deployment.available} available)"
        )
        return Reason.OPERATOR_ROLLING_OUT, message
    lease = next((lease for lease in fleet.snapshot.leases if lease.namespace == deployment.namespace), None)
    current = _current(deployment, fleet.snapshot.replicasets)
    if lease is None or current is None:
        return _quiet_blocker(fleet, deployment, None, unknown_quiet, timers)
    if not lease.holder and timers.held("no-leader") < unknown_quiet:
        return Reason.OPERATOR_NOT_LEADING, "the operator's Lease has no holder: the next leader may render again"
    if _another_leads(deployment, lease, current):
        message = f"the operator's Lease is still held by {lease.holder}, not by a pod of {current.name}"
        return Reason.OPERATOR_NOT_LEADING, message
    # If the leader's name does not contain the whole name of its ReplicaSet, it may be an old or a new pod. An
    # image that cannot be compared does not show that the operator has rendered the policy.
    named = not deployment.named_by_host and _prefix(current).endswith("-")
    known = named and all(map(comparable, context.sources))
    quiet = context.settings.advanced.operator_quiet if known else unknown_quiet
    return _quiet_blocker(fleet, deployment, lease, quiet, timers)


def is_rolled_out(deployment: Deployment) -> bool:
    """Return whether the rollout is complete, as ``kubectl rollout status`` defines it."""
    if deployment.observed_generation != deployment.generation:
        return False
    return deployment.updated == deployment.total == deployment.available == deployment.wanted


def _deployment(fleet: Fleet) -> Deployment | None:
    """Return the operator's Deployment, in the namespace of the policy if that names one.

    Prefer one that is not scaled to zero, which a release under another name may have left behind.
    """
    namespace = fleet.context.policy.namespace if fleet.context.policy else ""
    found = [deployment for deployment in fleet.snapshot.deployments if namespace in ("", deployment.namespace)]
    return min(
        found, key=lambda deployment: (deployment.wanted == 0, deployment.namespace, deployment.name), default=None
    )


def _current(deployment: Deployment, replicasets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    owned = (replicaset for replicaset in replicasets if replicaset.owner_uid == deployment.uid)
    return next((replicaset for replicaset in owned if replicaset.revision == deployment.revision), None)


def _another_leads(deployment: Deployment, lease: Lease, current: ReplicaSet) -> bool:
    """Return whether the name of the Lease's holder shows that it is no pod of the current ReplicaSet."""
    return bool(lease.holder) and not deployment.named_by_host and not lease.holder.startswith(_prefix(current))


def _prefix(replicaset: ReplicaSet) -> str:
    """Return the prefix of the names of a ReplicaSet's pods. The API server cuts long names."""
    return f"{replicaset.name}-"[:LONGEST_PREFIX]


def _quiet_blocker(
    fleet: Fleet, deployment: Deployment | None, lease: Lease | None, quiet: timedelta, timers: Timers
) -> Blocker | None:
    """Require a quiet period since the last change of leader, operator rollout, policy and driver revision.

    Either of two measures is enough: the timestamps of the API, or the time during which this run saw no change. So a
    wrong clock delays the end, but does not block it. The operator's rollout is a separate input because a new operator
    without a Lease, or with its host's name in the Lease, shows its lead in no other way.
    """
    context = fleet.context
    newest = [context.newest[uid] for uid in sorted(context.drivers) if uid in context.newest]
    leading_since = lease.acquired if lease is not None else None
    rolled_out = deployment.changed if deployment is not None else None
    # A change of the policy may show in no version, image or label. The operator needs a moment to render it.
    policies = [policy for policy in (context.policy, *context.pools) if policy is not None]
    changes: list[datetime | None] = [revision.created for revision in newest]
    changes += [leading_since, rolled_out, *(policy.changed for policy in policies)]
    last = max((change for change in changes if change is not None), default=None)
    revisions = ",".join(f"{revision.hash}:{revision.revision}:{revision.created}" for revision in newest)
    unchanged = timers.held(f"quiet/{leading_since}/{rolled_out}/{_generations(policies)}/{revisions}")
    if last is None or unchanged >= quiet or (timers.now - last >= quiet and not _rolled_back(fleet)):
        return None
    message = (
        "policy, operator and driver revision must be unchanged for "
        f"{int(quiet.total_seconds())} s; this run has seen {int(unchanged.total_seconds())} s without a change"
    )
    return Reason.OPERATOR_SETTLING, message


def _rolled_back(fleet: Fleet) -> bool:
    """Return whether a driver was rolled back to an old revision, whose creation time proves nothing."""
    drivers, newest = fleet.context.drivers, fleet.context.newest
    known = drivers.keys() & newest.keys()
    owned = (revision for revision in fleet.snapshot.revisions if revision.owner_uid in known)
    return any(revision.created > newest[revision.owner_uid].created for revision in owned)


# Warnings in addition to the verdict: what could not be evaluated, and what may fail later.


def warnings(fleet: Fleet, statuses: Sequence[NodeStatus]) -> Iterator[str]:
    """Yield the warnings of a decision."""
    context = fleet.context
    yield from about_names(context)
    eligible = any(status.state is not NodeState.EXCLUDED for status in statuses)
    for daemonset in context.plugins.named:
        unwanted = [status.node for status in statuses if _is_unwanted(status, daemonset)]
        if daemonset.desired == 0 and eligible:
            yield f"{daemonset} has no desired pods (DESIRED=0): check its nodeSelector and the nodes' labels"
        elif unlabelled := [name for name in unwanted if _lacks_label(fleet.nodes[name], daemonset)]:
            wanted = ",".join(f"{key}={value}" for key, value in daemonset.node_selector.items())
            yield f"{daemonset} runs no pod on {some(unlabelled)}: its nodeSelector asks for {wanted}"
    without_image = [source for source in context.sources if not comparable(source)]
    if without_image and context.drivers:
        quiet = int(context.settings.advanced.unknown_operator_quiet.total_seconds())
        yield (
            f"{without_image[0]} names no driver image to compare with: its nodes were evaluated only by the "
            f"DaemonSet's generation, the pods' revision and {quiet} s without a change"
        )
    for reason in (Reason.MANUAL_UPGRADE, Reason.LABELS_MISSING):
        found = [status for status in statuses if status.reason is reason and status.state is NodeState.EXCLUDED]
        if found:
            what = remedy(reason, context.stack, found[0].node, found[0].subject)
            yield f"excluded: {some([status.node for status in found])}. {what}"
    if cordoned := _cordoned(fleet, statuses):
        yield f"cordoned, and so counted against the policy's maxUnavailable: {some(cordoned)}"
    if context.prerequisites:
        yield from moments.failed_changes(fleet)


def _cordoned(fleet: Fleet, statuses: Sequence[NodeStatus]) -> list[str]:
    """Return the idle nodes that are cordoned while others wait for their turn, and may block the upgrade."""
    if not fleet.stack.upgrade.counts_unavailable:
        return []
    if not any(Trait.WAITS_FOR_TURN in status.reason.traits for status in statuses):
        return []
    cordoned = {name for name, node in fleet.snapshot.nodes.items() if node.cordoned}
    idle = (status.node for status in statuses if status.state in TERMINAL and not status.label_pending)
    return [name for name in dict.fromkeys(idle) if name in cordoned]


def about_names(context: Context) -> Iterator[str]:
    """Yield a warning about each plugin that is not in the settings, and each driver client that is not refreshed."""
    for idle in context.plugins.idle:
        yield f"{idle} looks like a DRA kubelet plugin but is not in plugin.names; it wants no pods now"
    for missing in context.plugins.missing:
        yield f"no DaemonSet that may be restarted matches the driver client {missing}"


def _is_unwanted(status: NodeStatus, daemonset: DaemonSet) -> bool:
    return status.reason is Reason.NOTHING_TO_REFRESH and status.daemonset_uid == daemonset.uid


def _lacks_label(view: NodeView, daemonset: DaemonSet) -> bool:
    """Return whether a node lacks a label that a DaemonSet selects nodes by."""
    return any(view.label(key) != value for key, value in daemonset.node_selector.items())
