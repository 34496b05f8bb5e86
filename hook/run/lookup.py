"""What ``status`` reads: the fleet, and the Lease of the controller."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from hook.decide.reasons import Explanation, Reason, explained
from hook.decide.result import NodeState, Phase
from hook.errors import ApiError
from hook.format import as_text, printable, some, timestamp
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.resources import LEASES
from hook.objects import decoding, names, sharing
from hook.objects.decoding import MalformedObjectError, Text, Time, Value
from hook.objects.parts import Namespaced  # noqa: TC001 - msgspec evaluates it
from hook.run import report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.decide.result import Decision, NodeStatus
    from hook.kube.client import Api
    from hook.objects.decoding import Raw
    from hook.objects.stacks import Stack, StackName
    from hook.settings import Settings

PATIENCE_SECONDS: Final = 10.0
"""Shorter than the patience of a run, because a user waits at a terminal."""
LOOK_SECONDS: Final = 1.0
"""Longest wait for a change while the first lists are read."""
SHORT_SECONDS: Final = 0.1
"""Between two looks for claims and their pods. Their changes do not end a wait."""
RUNS: Final = "kubectl get jobs -A -l app.kubernetes.io/name=gpu-operator-post"
LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
ALIVE_WITHIN: Final = timedelta(seconds=20)
"""A leader renews every two seconds and loses its Lease after 15; clocks may differ by the rest."""
LOG: Final = "kubectl -n {namespace} logs -l app.kubernetes.io/component=controller --prefix --tail=50"


@dataclass(frozen=True, slots=True)
class Lease:
    """Lease of a controller."""

    namespace: str
    name: str
    holder: str = ""
    """Empty: no leader."""
    renewed: datetime | None = None

    def alive(self, now: datetime) -> bool:
        """Return whether the controller has a leader, as far as a single read can show."""
        return bool(self.holder) and self.renewed is not None and abs(now - self.renewed) <= ALIVE_WITHIN

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Lookup:
    """The controllers that were found, and when."""

    now: datetime
    lease: Lease | None = None
    problem: str = ""
    """Why it is not known whether a controller is alive."""

    @property
    def alive(self) -> Lease | None:
        """Return the Lease, if the controller is alive."""
        return self.lease if self.lease is not None and self.lease.alive(self.now) else None


# The cluster.


def read_cache(api: Api, settings: Settings, *, workloads: bool = False) -> Cache:
    """Return a synced cache, if wanted with the pods that hold claims, or the reason why these are not known."""
    cache = Cache(api, settings, retry.interactive(PATIENCE_SECONDS))
    cache.start()
    end = time.monotonic() + PATIENCE_SECONDS
    while not _complete(cache) or (workloads and cache.workloads.pending and time.monotonic() < end):
        cache.wait(SHORT_SECONDS if cache.synced else LOOK_SECONDS)
    return cache


def _complete(cache: Cache) -> bool:
    """Return whether everything is read, with the pods of the plugins that the first lists show."""
    if cache.synced:
        cache.watch_plugins()
    return cache.synced


# The controller.


def find_controller(api: Api, stack: StackName) -> Lookup:
    """Find the controller of a stack: of several, the one that renewed its Lease last.

    A missing permission is not an error.
    """
    labels = ",".join(f"{key}={value}" for key, value in {**names.OWN_LABELS, names.OWN_STACK_LABEL: stack}.items())
    try:
        _meta, found = api.list_page(LEASES.select(labels=labels), seconds=PATIENCE_SECONDS)
    except ApiError as error:
        return Lookup(api.now(), problem=f"cannot read whether a controller is alive: {error}")
    leases: list[Lease] = []
    problem = ""
    for answer in found:
        try:
            leases.append(_lease(answer))
        except MalformedObjectError as error:
            problem = f"cannot read the Lease of a controller: {error}"
    newest = max(leases, key=lambda lease: lease.renewed or LONG_AGO, default=None)
    return Lookup(api.now(), newest, "" if newest else problem)


class _Spec(Value, frozen=True):
    holder_identity: Text = ""
    renew_time: Time | None = None


class _Lease(Value, frozen=True):
    metadata: Namespaced
    spec: _Spec = _Spec()


def _lease(answer: Raw) -> Lease:
    lease = decoding.read(_Lease, answer)
    renewed = sharing.moment(lease.spec.renew_time)
    return Lease(lease.metadata.namespace, lease.metadata.name, lease.spec.holder_identity, renewed)


def advice(decision: Decision, found: Lookup, stack: Stack) -> list[str]:
    """Return the advice on a decision, and on what restarts the stale plugins."""
    stuck = [status for status in decision.statuses if report.needs_action(status)]
    stale = [status for status in stuck if _is_restartable(status)]
    settled = decision.count(NodeState.VERIFIED, NodeState.EXCLUDED)
    advised = report.advice(decision, stack) if decision.phase is not Phase.DONE else []
    if decision.reason is Reason.NODES_PENDING and len(stuck) + settled == len(decision.statuses):
        # No node reloads, so the advice to wait does not help.
        advised = []
    if not decision.unhappy:
        advised += report.advice_on((status for status in stuck if not _is_restartable(status)), stack).values()
    # No action is chosen before the expected driver is rendered. A restart in progress has its run or controller.
    due = decision.actions and not decision.count(NodeState.RESTARTING)
    return [*advised, *_on_stale(stale, found, stack)] if due else advised


def _is_restartable(status: NodeStatus) -> bool:
    """Return whether a status is about a stale pod that a run may restart. A pod of an unnamed plugin is not."""
    return status.state is NodeState.STALE and status.reason is not Reason.UNNAMED_PLUGIN


def _on_stale(stale: Sequence[NodeStatus], found: Lookup, stack: Stack) -> Iterator[str]:
    """Return the advice on stale plugins: whether a controller restarts them, or what else does."""
    if not stale:
        return
    lease = found.alive
    if lease is None:
        yield _advice(stale, _restart_by_hand(stale[0], found.problem, stack))
    else:
        meaning = f"The controller ({lease}) restarts the plugin. Its log shows what delays a restart."
        yield _advice(stale, Explanation(meaning, look=LOG.format(namespace=lease.namespace)))


def _restart_by_hand(status: NodeStatus, unsure: str, stack: Stack) -> Explanation:
    """Return what restarts a plugin that no controller is known to restart."""
    who = f"No controller is known to be active here ({unsure})" if unsure else "No controller is active here"
    return Explanation(
        f"{who}, so nothing restarts the plugin by itself unless a run is in progress. Run the release again (helm "
        "upgrade, or your deployment tool), enable the controller (controller.enabled), or restart the "
        "plugin yourself.",
        look=RUNS,
        fix=explained(Reason.PLUGIN_STALE, stack, status.node, status.subject).fix,
        precondition=f"if no run is in progress and the driver pod of node {status.node} is Ready",
    )


def _advice(stale: Sequence[NodeStatus], explanation: Explanation) -> str:
    nodes = some(list(dict.fromkeys(status.node for status in stale)))
    return f"{Reason.PLUGIN_STALE} ({nodes}): {explanation}"


# Text and JSON.


def as_lines(found: Lookup) -> list[str]:
    """Return sentences for a terminal; none where there is no controller."""
    lease = found.lease
    if lease is None:
        return [printable(found.problem)] if found.problem else []
    state = f"alive ({lease.holder})" if found.alive else "NOT ALIVE"
    return [printable(f"controller {lease}: {state}, last renewed {_ago(lease.renewed, found.now)}")]


def as_json(found: Lookup) -> dict[str, Any] | None:
    """Return the same for programs; null without a controller, `alive` null if that is not known."""
    lease = found.lease
    if lease is None:
        return {"alive": None, "problem": found.problem} if found.problem else None
    return {
        "alive": found.alive is not None,
        "lease": str(lease),
        "holder": lease.holder,
        "lastRenewed": timestamp(lease.renewed) if lease.renewed is not None else None,
        "problem": "",
    }


def _ago(when: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was; never negative, because clocks differ."""
    return f"{as_text(max(now - when, timedelta()))} ago" if when is not None else "never"
