"""What this program did to a plugin on a node: one record each, which decides whether and when it acts again.

A pod that came after a restart under the same load of its driver is fresh, so no restart is repeated under one load. A
restart that the API server refused needs manual action. A Job fails the node. The controller reports the node at once
and tries again, because the cause (an admission policy) may be fixed by then. The first restart is immediate. Each
further one waits twice as long as the previous one, up to a limit. The count starts again once a plugin was verified
on the node and its driver has been reloaded since.

Records are in memory only, so a new leader starts without any: at most one extra restart per process that
ends. Only the kubelet's backoff limits a process that ends again and again (docs/dev/reliability.md, "Not survived").
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Patience
from hook.format import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from hook.decide.fleet import Context, Fleet
    from hook.decide.result import NodeStatus, StalePod
    from hook.objects import Pod
    from hook.settings import Settings

ASK_AGAIN: Final = timedelta(seconds=30)
"""Time after which a deletion that no watch has shown did not happen. Watches deliver within about a second."""
CLOCK_TOLERANCE: Final = timedelta(seconds=3)
"""A time of creation has whole seconds, and the time of a decision is within two of the API server's clock
(``hook.kube.client.CLOCK_TOLERANCE``)."""
MOST_DOUBLINGS: Final = 22
"""Limit on doublings, to prevent an overflow. 2^22 s is longer than any duration that a flag accepts."""


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """Record of a restart that was issued."""

    pod_uid: str
    load: str
    at: datetime
    others: frozenset[str] = frozenset()
    """UIDs of pods that ran next to it. None of them replaced it."""
    orphan: bool = False
    """No DaemonSet controlled the pod. An admission policy may refuse its deletion until a DaemonSet adopts it."""
    refused: str = ""
    """The API server's message, if it refused the restart for good."""
    came_back: bool = False
    """A plugin was verified on the node since."""
    tries: int = 1
    """Consecutive restarts without a verified plugin, including this one."""

    @classmethod
    def of(cls, pod: StalePod, at: datetime, before: RestartRecord | None, refused: str = "") -> RestartRecord:
        """Return the record of a restart that was issued, or refused for good, after an earlier one."""
        again = before is not None and before.load == pod.load and pod.uid in before.others
        return cls(
            pod.uid,
            pod.load,
            at,
            # Those that ran next to this pod, and next to its predecessor if the load is the same.
            others=pod.others & before.others if before is not None and again else pod.others,
            orphan=pod.orphan,
            refused=refused,
            tries=before.tries_with(pod) if before is not None else 1,
        )

    def served(self, pod: StalePod) -> bool:
        """Return whether a plugin was verified since, and is stale only because its driver was reloaded."""
        return self.came_back and self.load != pod.load

    def pending(self, pod: StalePod) -> bool:
        """Return whether this is the pod that was deleted and is still there: nothing was restarted yet."""
        return self.pod_uid == pod.uid and not self.refused

    def follows(self, pod: Pod) -> bool:
        """Return whether a pod was created after this restart. Only the clock of the API server is compared.

        A pod that is created next to the restarted one may be missing in what was seen then, if a watch was behind.
        """
        if pod.uid == self.pod_uid or pod.uid in self.others:
            return False
        return pod.created is None or pod.created > self.at - CLOCK_TOLERANCE

    def tries_with(self, pod: StalePod) -> int:
        """Return the number of consecutive restarts without a verified plugin, including this one."""
        if self.served(pod):
            return 1
        return self.tries if self.pending(pod) or pod.uid in self.others else self.tries + 1


def restart_key(daemonset_uid: str, node: str) -> str:
    """Return the key of one plugin on one node."""
    return f"{daemonset_uid}/{node}"


def came_back(restarts: Mapping[str, RestartRecord], verified: Iterable[NodeStatus]) -> dict[str, RestartRecord]:
    """Return the records, by key, of plugins that were verified after their restart.

    A status without a DaemonSet stands for all plugins of its node.
    """
    awaited = {key: record for key, record in restarts.items() if not record.came_back}
    if not awaited:
        return {}
    nodes = {key.partition("/")[2] for key in awaited}
    keys = {restart_key(status.daemonset_uid, status.node) for status in verified if status.node in nodes}
    return {
        key: replace(record, came_back=True)
        for key, record in awaited.items()
        if not keys.isdisjoint((key, restart_key("", key.partition("/")[2])))
    }


def matched(
    status: NodeStatus,
    settings: Settings,
    restarts: Mapping[str, RestartRecord],
    troubles: Mapping[str, str],
    now: datetime,
) -> NodeStatus:
    """Return the status of a stale pod in the light of the last restart on its node.

    A pod that this program deleted is restarting. If the API server refused the deletion, it needs manual action.
    """
    if status.reason is Reason.NOTHING_TO_REFRESH:
        return _awaited_again(status, restarts.get(restart_key(status.daemonset_uid, status.node)))
    stale = status.stale_pod
    if stale is None:
        return status
    record = restarts.get(restart_key(stale.daemonset_uid, status.node))
    if record is not None and not _is_about_another_pod(record, stale):
        compare = _compared_in_controller if settings.is_controller else _compared_in_job
        status = compare(status, stale, record, settings, now)
    trouble = troubles.get(stale.uid) if status.reason is Reason.PLUGIN_STALE else None
    if not trouble:
        return status
    message = f"{status.message}; restarting it failed: {trouble}"
    return replace(status, reason=Reason.RESTART_FAILING, message=message, patience=Patience.DRIVER)


def _awaited_again(status: NodeStatus, record: RestartRecord | None) -> NodeStatus:
    """Let a node without a plugin wait if this run deleted its plugin, even if the DaemonSet desires none."""
    if record is None or record.refused or record.came_back:
        return status
    return replace(
        status,
        state=NodeState.WAITING,
        reason=Reason.PLUGIN_MISSING,
        message=f"the plugin that was restarted here has not come back: {status.message}",
        subject=status.plugin,
        patience=Patience.PLUGIN,
    )


def _is_about_another_pod(record: RestartRecord, stale: StalePod) -> bool:
    """Return whether the recorded restart does not apply to a pod.

    The pod ran next to the one that was restarted, or the deletion was refused while it was an orphan and a DaemonSet
    has adopted it since.
    """
    return stale.uid in record.others or (bool(record.refused) and record.orphan and not stale.orphan)


def _compared_in_job(
    status: NodeStatus, stale: StalePod, record: RestartRecord, _settings: Settings, now: datetime
) -> NodeStatus:
    """Evaluate a stale pod by the result of its restart under this load of the driver.

    A deletion that no watch has shown yet is in progress, even if another load is seen already.
    """
    if record.pending(stale):
        return _deleted(status, stale, record, now)
    if record.load != stale.load or record.pod_uid != stale.uid:
        return status
    return status.failed(Reason.RESTART_REFUSED, _refused(status, record))


def _compared_in_controller(
    status: NodeStatus, stale: StalePod, record: RestartRecord, settings: Settings, now: datetime
) -> NodeStatus:
    """Evaluate a stale pod in the controller, which retries each failed restart after a longer pause."""
    successor = record.pod_uid != stale.uid
    until = held_until(record, stale, settings)
    if until is None:
        return status if successor else _deleted(status, stale, record, now)
    if now >= until:
        return status
    later = f"the next try (number {record.tries + 1}) is at {timestamp(until)}"
    if not successor:
        return status.failed(Reason.RESTART_REFUSED, f"{_refused(status, record)}; {later}")
    message = f"{status.message}, and its predecessor was never verified; {later}"
    return replace(status, reason=Reason.RESTART_BACKED_OFF, message=message)


def held_until(record: RestartRecord, pod: StalePod, settings: Settings) -> datetime | None:
    """Return when a pod may be restarted after an earlier restart, or None if the earlier one does not delay it."""
    if record.served(pod) or record.pending(pod):
        return None
    return record.at + _pause(record.tries, settings)


def _pause(tries: int, settings: Settings) -> timedelta:
    doubled: timedelta = settings.advanced.restart_backoff * 2 ** min(tries - 1, MOST_DOUBLINGS)
    return min(doubled, settings.advanced.restart_backoff_max)


def _deleted(status: NodeStatus, stale: StalePod, record: RestartRecord, now: datetime) -> NodeStatus:
    """Show a stale pod as restarting, until the deletion must be repeated."""
    if now - record.at >= ASK_AGAIN:
        return status
    message = f"plugin pod {stale.name} was deleted to restart it"
    return replace(status, state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING, message=message)


def _refused(status: NodeStatus, record: RestartRecord) -> str:
    return f"{status.message}, and its deletion failed: {record.refused}"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A fleet with the statuses of its nodes, as of one decision."""

    fleet: Fleet
    statuses: Mapping[str, tuple[NodeStatus, ...]]
    """By node, sorted by name."""
    passing: frozenset[str]
    """Nodes whose statuses may change with the time alone."""
    now: datetime
    restarts: Mapping[str, RestartRecord]
    """The restarts that were known."""

    def holds(self, context: Context, now: datetime) -> bool:
        """Return whether the statuses of nodes about which nothing changed are still true."""
        return self.now <= now and self.fleet.context.lasting == context.lasting


@dataclass(frozen=True, slots=True)
class Memory:
    """Since when conditions hold, which restarts were issued, and which nodes this run has seen."""

    started: datetime
    """Start of the Job. All its retries share one deadline."""
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Since when a condition holds without interruption, by condition."""
    restarts: Mapping[str, RestartRecord] = field(default_factory=dict)
    """Last restart that was issued, by ``restart_key``."""
    fresh: Mapping[str, str] = field(default_factory=dict)
    """Load under which a plugin pod was proven fresh, by its UID."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """Why a restart could not be issued and is tried again, by UID of the pod. The most recent one is last."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """How many decisions have seen the devices of a node being changed, by node. A higher number is another change."""
    eligible: frozenset[str] = frozenset()
    """Nodes that were eligible at some time of this run."""
    saw_fleet: bool = False
    """Some node was eligible. If the fleet is gone after that, it may come back."""
    evaluation: Evaluation | None = field(default=None, compare=False, repr=False)
    """The evaluation of all nodes in the last decision. It saves work, and changes no decision."""

    @property
    def restarted(self) -> int:
        """Return how many recorded restarts the API server accepted."""
        return sum(not restart.refused for restart in self.restarts.values())

    def restart_of(self, daemonset_uid: str, node: str) -> RestartRecord | None:
        """Return the last restart of a plugin that was issued on a node."""
        return self.restarts.get(restart_key(daemonset_uid, node))

    def asked(self, node: str, pod: StalePod, at: datetime, refused: str = "") -> Memory:
        """Record a restart that was issued, or refused for good."""
        key = restart_key(pod.daemonset_uid, node)
        record = RestartRecord.of(pod, at, self.restarts.get(key), refused)
        return replace(self, restarts={**self.restarts, key: record})

    def changing(self, nodes: Iterable[str]) -> Memory:
        """Record that the devices of these nodes are being changed."""
        seen = {node: self.changes.get(node, 0) + 1 for node in nodes}
        return replace(self, changes={**self.changes, **seen}) if seen else self

    def troubled(self, pod: StalePod, why: str) -> Memory:
        """Record why a restart could not be issued. It is tried again."""
        others = {uid: trouble for uid, trouble in self.troubles.items() if uid != pod.uid}
        return replace(self, troubles={**others, pod.uid: why})

    def with_verified(self, verified: Iterable[NodeStatus]) -> Memory:
        """Record that plugins were verified after their restart.

        A status without a DaemonSet stands for all plugins of its node.
        """
        back = came_back(self.restarts, verified)
        return replace(self, restarts={**self.restarts, **back}) if back else self

    def with_fresh(self, statuses: Iterable[NodeStatus], existing: AbstractSet[str]) -> Memory:
        """Record which pods were proven fresh, and forget pods that no longer exist."""
        found = ((uid, load) for status in statuses for uid, load in status.fresh)
        new = {uid: load for uid, load in found if uid in existing and self.fresh.get(uid) != load}
        if not new and self.fresh.keys() <= existing:
            return self
        kept = {uid: load for uid, load in self.fresh.items() if uid in existing}
        return replace(self, fresh={**kept, **new})

    def about(self, daemonsets: AbstractSet[str], nodes: AbstractSet[str], pods: AbstractSet[str]) -> Memory:
        """Forget all other plugins, nodes and pods."""
        parts = ((key, key.partition("/")) for key in self.restarts)
        gone = {key for key, (uid, _slash, node) in parts if uid not in daemonsets or node not in nodes}
        kept = {key: record for key, record in self.restarts.items() if key not in gone}
        return replace(
            self,
            restarts=kept if gone else self.restarts,
            troubles={uid: trouble for uid, trouble in self.troubles.items() if uid in pods},
            changes={node: count for node, count in self.changes.items() if node in nodes},
            eligible=self.eligible if self.eligible <= nodes else self.eligible & nodes,
        )


class Timers:
    """Time for which each condition has held. A condition that one decision does not ask for starts again."""

    def __init__(self, memory: Memory, now: datetime) -> None:
        self._before = memory.first_seen
        self.now = now
        self.first_seen: dict[str, datetime] = {}

    def keep(self, condition: str) -> None:
        """Continue a condition that holds already, but do not start it."""
        if condition in self._before:
            self.first_seen[condition] = self._before[condition]

    def held(self, condition: str) -> timedelta:
        """Return for how long a condition has held; zero if it is new."""
        since = self.first_seen.setdefault(condition, self._before.get(condition, self.now))
        return self.now - since
