"""Judge consumers by the policy's own status alone: simpler, and wrong whenever that status lies.

For comparison, and for clusters where nothing but policies, DaemonSets and their pods may be read.
A consumer counts as fresh if it started after the policy last became ready, so running this again
restarts nothing. What it cannot see, ``WARNING`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.core import intent
from hook.core.plugins import crashing, just_crashed
from hook.core.reasons import Reason
from hook.core.verdicts import Cause, Judgement, NodeState, Patience, StalePod

if TYPE_CHECKING:
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.objects.views import DaemonSet, Pod

ANY_NODE: Final = "(any)"
"""In place of a node's name, where nodes are not read."""
WARNING: Final = (
    "nodes are judged by the policy's status alone (wait-for policy-ready): it says ready for a moment after every "
    "upgrade, and up to operator 26.3 from the first node on, so plugins may be restarted too early and stay stale; "
    "skipped, unreachable and manually upgraded nodes cannot be told apart"
)


def judge(fleet: Fleet, now: datetime) -> list[Judgement]:
    """Give one judgement for each consumer pod that is not over, and one for pods that are missing."""
    wait = _not_ready(fleet)
    pods = [pod for name in sorted(fleet.consumer_pods) for pod in fleet.consumer_pods[name] if not pod.ended and name]
    since = fleet.policy.ready_since if fleet.policy is not None else None
    judged = [_waiting(pod, fleet, wait) if wait or since is None else _judge(pod, fleet, since, now) for pod in pods]
    # A pod that is terminating is waited for already; its successor comes when it is gone.
    accounted = {pod.owner_uid for pod in pods if pod.deleting} | fleet.complete
    return judged + [_incomplete(ds) for ds in fleet.consumers.named if ds.uid not in accounted]


def _incomplete(daemonset: DaemonSet) -> Judgement:
    """Wait for pods that are on no node yet."""
    message = f"{daemonset} has fewer pods than the {daemonset.desired} that it wants"
    return Judgement(
        ANY_NODE, NodeState.VERIFYING, Reason.PLUGIN_MISSING, message,
        subject=str(daemonset), consumer=str(daemonset), daemonset_uid=daemonset.uid, patience=Patience.PLUGIN,
    )  # fmt: skip


def _not_ready(fleet: Fleet) -> str:
    """Say what the policy does not say yet; or empty."""
    if fleet.policy is None:
        return f"there is no {fleet.stack.policy.kind} yet"
    unmet = intent.unmet_expectation(fleet.policy, fleet.seen.pools, fleet.stack, fleet.settings)
    if unmet or fleet.policy.state != "ready":
        return unmet or f"{fleet.policy} says {fleet.policy.state or 'nothing'}"
    # State and conditions are two writes: between them, nobody knows since when.
    return "" if fleet.policy.ready_since else f"{fleet.policy} says ready, but its Ready condition does not"


def _waiting(pod: Pod, fleet: Fleet, why: str) -> Judgement:
    return _judgement(pod, fleet, NodeState.WAITING, Reason.POLICY_SAYS_NOT_READY, why)


def _judge(pod: Pod, fleet: Fleet, ready_since: datetime, now: datetime) -> Judgement:
    if pod.deleting:
        return _verifying(pod, fleet, Reason.PLUGIN_RESTARTING, f"{pod.name} is terminating")
    pending = [one.name for one in pod.containers if one.started_at is None]
    if pending or not pod.containers:
        return _verifying(pod, fleet, Reason.PLUGIN_STARTING, f"{pod.name}: not all of its containers run yet")
    started = min(one.started_at for one in pod.containers if one.started_at is not None)
    if started <= ready_since:
        seconds = int((ready_since - started).total_seconds())
        return _stale(pod, fleet, ready_since, f"it started {seconds} s before the policy became ready")
    if not pod.ready:
        return _verifying(pod, fleet, Reason.PLUGIN_NOT_READY, f"{pod.name} is not Ready{crashing(pod)}")
    if shaky := just_crashed(pod, now):
        return _verifying(pod, fleet, Reason.PLUGIN_NOT_READY, f"{pod.name}: {shaky}")
    return _judgement(pod, fleet, NodeState.VERIFIED, Reason.VERIFIED, f"{pod.name} started after the policy was ready")


def _stale(pod: Pod, fleet: Fleet, ready_since: datetime, because: str) -> Judgement:
    stale = StalePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        daemonset_uid=pod.owner_uid,
        because=because,
        driver_run=f"policy/{ready_since.isoformat()}",
        cause=Cause.POLICY,
        driver_ready=ready_since,
    )
    return _judgement(pod, fleet, NodeState.STALE, Reason.PLUGIN_STALE, f"{pod.name} is stale: {because}", stale)


def _verifying(pod: Pod, fleet: Fleet, reason: Reason, message: str) -> Judgement:
    return _judgement(pod, fleet, NodeState.VERIFYING, reason, message)


def _judgement(  # noqa: PLR0913, PLR0917 - a judgement's own fields
    pod: Pod, fleet: Fleet, state: NodeState, reason: Reason, message: str, stale: StalePod | None = None
) -> Judgement:
    owner = next((str(ds) for ds in fleet.consumers.named if ds.uid == pod.owner_uid), "")
    return Judgement(
        node=pod.node,
        state=state,
        reason=reason,
        message=message,
        subject=str(pod),
        consumer=owner,
        daemonset_uid=pod.owner_uid,
        patience=Patience.PLUGIN if state is NodeState.VERIFYING else None,
        stale_pod=stale,
    )
