"""Whether the operator is quiet: it has rolled out, leads, and changes nothing.

During an operator upgrade the old operator, which still runs, renders the new policy first. About 20 s later the new
operator renders it again from another template, and every node reloads its driver twice. So a run is not done before
the new operator leads and has been quiet. To refresh a node before that is harmless: the plugin becomes stale again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.decide import rollout
from hook.decide.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from hook.decide.fleet import Context, Fleet
    from hook.decide.result import Blocker
    from hook.decide.state import Timers
    from hook.objects.views import Deployment, Lease, ReplicaSet

LONGEST_PREFIX: Final = 58
"""Characters of the ReplicaSet's name with a hyphen that a pod's name begins with.

The API server appends five random characters and cuts the name to 63 (K8S ``apiserver/pkg/storage/names``).
"""


def blocker(fleet: Fleet, timers: Timers) -> Blocker | None:
    """Return why the operator may render a second time, or None if it will not."""
    context = fleet.context
    unknown_quiet = context.settings.advanced.unknown_operator_quiet
    deployment = _deployment(fleet)
    if deployment is None or deployment.wanted == 0:
        return _quiet_blocker(fleet, deployment, None, unknown_quiet, timers)
    if not deployment.rolled_out:
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
    # If the leader's name does not contain the whole name of its ReplicaSet, it may be an old or a new pod.
    named = not deployment.named_by_host and _prefix(current).endswith("-")
    quiet = context.settings.advanced.operator_quiet if named and _is_comparable(context) else unknown_quiet
    return _quiet_blocker(fleet, deployment, lease, quiet, timers)


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


def _is_comparable(context: Context) -> bool:
    """Return whether the driver images show that the operator has rendered the policy.

    An image that cannot be compared, or that an admission webhook rewrote, does not show it.
    """
    return not context.rewritten and all(rollout.comparable(source) for source in context.sources)


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
    # The generation ignores changes of metadata, which some tools write every few seconds.
    generations = ",".join(f"{policy.uid}:{policy.generation}" for policy in policies)
    revisions = ",".join(f"{revision.hash}:{revision.revision}:{revision.created}" for revision in newest)
    unchanged = timers.held(f"quiet/{leading_since}/{rolled_out}/{generations}/{revisions}")
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
