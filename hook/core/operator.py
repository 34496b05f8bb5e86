"""Whether the operator may still render a second time.

During an operator upgrade the old one, still running, renders the new intent first; the new one
renders it again with another template some 20 s later, and every node rotates twice. So done waits
until the new operator leads and has been quiet. Serving a node early is harmless: it turns stale again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.core import intent
from hook.core.reasons import Reason

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from hook.core.fleet import Fleet
    from hook.core.memory import Timers
    from hook.objects.views import Deployment, Lease, ReplicaSet

LONGEST_PREFIX: Final = 58
"""Characters of a ReplicaSet's name, and a hyphen, that begin its pods' names; the API server adds five random ones
and cuts off what makes more than 63 (K8S ``apiserver/pkg/storage/names``)."""

Hold = tuple[Reason, str]
"""Why the end of a run is held back."""


def unsettled(fleet: Fleet, timers: Timers, now: datetime) -> Hold | None:
    """Say why a second render may still come; None when it will not."""
    deployment = _deployment(fleet)
    if deployment is None or deployment.wanted == 0:
        return _noisy(fleet, deployment, None, fleet.settings.unknown_operator_quiet, timers, now)
    if not deployment.rolled_out:
        message = (
            f"the {fleet.stack.operator.title}'s Deployment {deployment.namespace}/{deployment.name} is rolling out "
            f"({deployment.updated} of {deployment.wanted} updated, {deployment.available} available)"
        )
        return Reason.OPERATOR_ROLLING_OUT, message
    lease = next((one for one in fleet.seen.leases if one.namespace == deployment.namespace), None)
    current = _current(deployment, fleet.seen.replicasets)
    if lease is None or current is None:
        return _noisy(fleet, deployment, None, fleet.settings.unknown_operator_quiet, timers, now)
    if not lease.holder and timers.held("no-leader") < fleet.settings.unknown_operator_quiet:
        return Reason.OPERATOR_NOT_LEADING, "nobody holds the operator's lease: the next leader may render again"
    if lease.holder and not deployment.named_by_host and not lease.holder.startswith(_prefix(current)):
        message = f"the operator's lease is still held by {lease.holder}, not by a pod of {current.name}"
        return Reason.OPERATOR_NOT_LEADING, message
    named = not deployment.named_by_host and _prefix(current).endswith("-")
    return _noisy(fleet, deployment, lease, _quiet_time(fleet, named=named), timers, now)


def _prefix(replicaset: ReplicaSet) -> str:
    """Return how the names of a ReplicaSet's pods begin; a long name is cut off."""
    return f"{replicaset.name}-"[:LONGEST_PREFIX]


def _quiet_time(fleet: Fleet, *, named: bool) -> timedelta:
    """Return for how long nothing may change: longer where less can be compared.

    A leader that is not `named` by its ReplicaSet's whole name may be an old pod or a new one. An image that cannot be
    compared, or that an admission webhook rewrote, may be one that the operator has not rendered yet.
    """
    comparable = all(intent.comparable(one) for one in intent.sources(fleet.policy, fleet.seen.pools))
    rewritten = any(intent.rewritings(fleet.drivers.values(), fleet.intents, fleet.stack))
    exact = comparable and not rewritten and named
    return fleet.settings.operator_quiet if exact else fleet.settings.unknown_operator_quiet


def _deployment(fleet: Fleet) -> Deployment | None:
    """Return the operator's Deployment, in the namespace that the policy names where it does.

    One that is scaled to zero may be what a release under another name left behind.
    """
    namespace = fleet.policy.namespace if fleet.policy else ""
    found = [one for one in fleet.seen.deployments if namespace in ("", one.namespace)]
    return min(found, key=lambda one: (one.wanted == 0, one.namespace, one.name), default=None)


def _current(deployment: Deployment, replicasets: tuple[ReplicaSet, ...]) -> ReplicaSet | None:
    return next(
        (one for one in replicasets if one.owner_uid == deployment.uid and one.revision == deployment.revision),
        None,
    )


def _noisy(  # noqa: PLR0913, PLR0917 - everything that may still change
    fleet: Fleet, deployment: Deployment | None, lease: Lease | None, quiet: timedelta, timers: Timers, now: datetime
) -> Hold | None:
    """Ask for a quiet period since the last leader change, operator rollout and driver revision.

    By the API's times where they lie in the past, else by how long nothing was seen to change: either
    is enough, so that a wrong clock delays, but does not block. The operator's rollout counts by itself, because a
    new operator without a Lease, or under the name of its host, is seen to lead in no other way.
    """
    newest = [fleet.newest[uid] for uid in sorted(fleet.drivers) if uid in fleet.newest]
    moments = [one.created for one in newest]
    if lease is not None and lease.acquired is not None:
        moments.append(lease.acquired)
    rollout = deployment.changed if deployment is not None else None
    if rollout is not None:
        moments.append(rollout)
    # What changed may show in no version, image or label: the operator needs a moment to render it.
    intents = [one for one in (fleet.policy, *fleet.seen.pools) if one is not None]
    moments.extend(one.changed for one in intents if one.changed is not None)
    last = max(moments, default=None)
    led = lease.acquired if lease is not None else None
    # By generation: a tool that writes metadata alone, every few seconds, asks for no other driver.
    asked = ",".join(f"{one.uid}:{one.generation}" for one in intents)
    state = f"{led}/{rollout}/{asked}/{','.join(f'{one.hash}:{one.revision}:{one.created}' for one in newest)}"
    unchanged = timers.held(f"quiet/{state}")
    if last is None or unchanged >= quiet or (now - last >= quiet and not _rolled_back(fleet)):
        return None
    seconds = int(unchanged.total_seconds())
    message = (
        "policy, operator and driver revision must be unchanged for "
        f"{int(quiet.total_seconds())} s, this run has seen {seconds} s of it"
    )
    return Reason.OPERATOR_SETTLING, message


def _rolled_back(fleet: Fleet) -> bool:
    """Whether a driver's newest revision is an old one taken up again, whose creation says nothing."""
    owned = [one for one in fleet.seen.revisions if one.owner_uid in fleet.drivers]
    return any(one.created > fleet.newest[one.owner_uid].created for one in owned)
