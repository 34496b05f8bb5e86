"""Evaluate whether the operator may still render the driver a second time.

During an operator upgrade the old operator, which still runs, renders the new policy first. About 20 s later the new
operator renders it again from another template, and every node reloads its driver twice. So a run is not done before
the new operator leads and has been quiet. To refresh a node before that is harmless: the plugin becomes stale again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.core import intent
from hook.core.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hook.core.fleet import Fleet
    from hook.core.memory import Timers
    from hook.core.verdicts import Hold
    from hook.objects.views import Deployment, Lease, ReplicaSet

LONGEST_PREFIX: Final = 58
"""Characters of the ReplicaSet's name with a hyphen that a pod's name begins with.

The API server appends five random characters and cuts the name to 63 (K8S ``apiserver/pkg/storage/names``).
"""


def unsettled(fleet: Fleet, timers: Timers, now: datetime) -> Hold | None:
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
) -> Hold | None:
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
