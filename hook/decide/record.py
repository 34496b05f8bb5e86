"""What the program remembers between two decisions: above all, what it did to each plugin on each node.

A pod that came after a restart under the same load of its driver is fresh, so no restart is repeated under one load. A
restart that the API server refused needs manual action. A Job fails the node. The controller reports the node at once
and tries again, because the cause (an admission policy) may be fixed by then. The first restart is immediate. Each
further one waits twice as long as the previous one, up to a limit. The count starts again once a plugin was verified
on the node and its driver has been reloaded since.

A process that loses its memory loses time, never correctness. A new leader starts without any: at most one extra
restart per process that ends. Only the kubelet's backoff limits a process that ends again and again
(docs/dev/reliability.md, "The controller", "Not survived").
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Patience
from hook.format import timestamp

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from hook.decide.fleet import Context, Fleet, NodeView
    from hook.decide.result import NodeStatus, StalePlugin
    from hook.objects import Pod
    from hook.settings import Settings

ASK_AGAIN: Final = timedelta(seconds=30)
"""Time after which a deletion that no watch has shown did not happen. Watches deliver within about a second."""
MOST_DOUBLINGS: Final = 22
"""Limit on doublings, to prevent an overflow. 2^22 s is longer than any duration that a flag accepts."""

LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

Key = tuple[str, str]
"""Node, and UID of the plugin's DaemonSet."""


class Trouble(NamedTuple):
    """A request to delete a pod that failed, and is tried again."""

    pod: str
    why: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Record:
    """What was done to a plugin on a node: its last restart, if there was one."""

    pod: str = ""
    """UID of the pod that was deleted."""
    before: frozenset[str] = frozenset()
    """UIDs of the pods that ran there then, with that of the deleted one. None of them replaced it."""
    load: str = ""
    """The load of the driver under which the pod was stale. Empty if the restart proves nothing any more."""
    at: datetime = LONG_AGO
    tries: int = 0
    """Consecutive restarts without a verified plugin, including this one."""
    refused: str = ""
    """The API server's message, if it refused the restart for good."""
    deleted_at: datetime | None = None
    """When the API server accepted the deletion, by its own clock; None if its answer did not show that."""
    came_back: bool = False
    """A plugin was verified on the node since."""
    trouble: Trouble | None = None

    def after(self, stale: StalePlugin, at: datetime, refused: str) -> Record:
        """Return the record of a restart that was issued, or refused for good, after this one."""
        pod = stale.pod.uid
        tries = 1 if self.refreshed(stale) else self.tries + (bool(self.refused) or pod not in self.before)
        return Record(pod, stale.others | {pod}, stale.load, at, tries, refused)

    def refreshed(self, stale: StalePlugin) -> bool:
        """Return whether a plugin was verified since, and is stale only because its driver was reloaded."""
        return self.came_back and self.load != stale.load

    @property
    def awaited(self) -> bool:
        """Return whether a pod was deleted, and no plugin was verified since."""
        return bool(self.pod) and not self.refused and not self.came_back

    def follows(self, pod: Pod, load: str) -> bool:
        """Return whether a pod replaced the deleted one, under the same load of the driver.

        It was not there before the restart. A watch that was behind may have missed a pod, so the pod was not created
        before the deletion either: both times are the API server's.
        """
        if self.refused or self.load != load or pod.uid in self.before:
            return False
        return pod.created is None or self.deleted_at is None or pod.created >= self.deleted_at


NOTHING: Final = Record()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A fleet with the statuses of its nodes, as of one decision."""

    fleet: Fleet
    statuses: Mapping[str, tuple[NodeStatus, ...]]
    """By node, sorted by name."""
    records: Mapping[Key, Record]
    """The records that were known."""
    timed: frozenset[str]
    """Nodes whose statuses may change with time alone."""

    def holds(self, context: Context) -> bool:
        """Return whether the statuses of nodes about which nothing changed are still true."""
        return self.fleet.context == context


@dataclass(frozen=True, slots=True)
class Memory:
    """Since when conditions hold, what was done to plugins, and which of their pods are fresh."""

    started: datetime
    """Start of the Job. All its retries share one deadline."""
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Since when a condition holds without interruption, by condition."""
    records: Mapping[Key, Record] = field(default_factory=dict)
    fresh: Mapping[str, str] = field(default_factory=dict)
    """Load under which a plugin pod was proven fresh, by its UID."""
    eligible: frozenset[str] = frozenset()
    """Nodes that were eligible at some time, as long as they exist. One that lost its labels may come back. Only a Job
    waits for it: a controller sees the node when it is back."""
    saw_fleet: bool = False
    """Some node was eligible. If the fleet is gone after that, it may come back."""
    evaluation: Evaluation | None = field(default=None, compare=False, repr=False)
    """The evaluation of all nodes in the last decision. It saves work, and changes no decision."""

    @property
    def restarted(self) -> int:
        """Return on how many nodes the API server accepted a restart, of each plugin."""
        return sum(bool(record.pod) and not record.refused for record in self.records.values())

    def of(self, node: str, daemonset_uid: str) -> Record:
        """Return the record of a plugin on a node."""
        return self.records.get((node, daemonset_uid), NOTHING)

    def with_restart(
        self, stale: StalePlugin, at: datetime, refused: str = "", deleted_at: datetime | None = None
    ) -> Memory:
        """Record a restart that was issued, or refused for good.

        The admission policy of the chart refuses an orphan, which it cannot know for a plugin, until a DaemonSet adopts
        it.
        """
        if refused and not stale.pod.owner_uid:
            return self.troubled(stale, at, refused)
        record = self.of(stale.node, stale.daemonset_uid).after(stale, at, refused)
        return self._with(stale, replace(record, deleted_at=deleted_at))

    def troubled(self, stale: StalePlugin, at: datetime, why: str) -> Memory:
        """Record why a restart could not be issued. It is tried again."""
        record = self.of(stale.node, stale.daemonset_uid)
        return self._with(stale, replace(record, trouble=Trouble(stale.pod.uid, why, at)))

    def _with(self, stale: StalePlugin, record: Record) -> Memory:
        return replace(self, records={**self.records, (stale.node, stale.daemonset_uid): record})

    def evaluated(self, statuses: Iterable[NodeStatus], existing: AbstractSet[str]) -> Memory:
        """Record which pods were proven fresh and which plugins verified. Forget pods that no longer exist."""
        new: dict[str, str] = {}
        verified: set[Key] = set()
        for status in statuses:
            new.update((uid, load) for uid, load in status.fresh if self.fresh.get(uid) != load)
            if self.records and status.fresh and status.reason in (Reason.VERIFIED, Reason.MANUAL_UPGRADE):
                verified.add((status.node, status.daemonset_uid))
        back = dict(self._came_back(verified)) if verified else {}
        fresh, records = self.fresh, self.records
        if new or not fresh.keys() <= existing:
            fresh = {uid: load for uid, load in {**fresh, **new}.items() if uid in existing}
        return replace(self, fresh=fresh, records={**records, **back} if back else records)

    def _came_back(self, verified: AbstractSet[Key]) -> Iterator[tuple[Key, Record]]:
        """Yield the records of plugins that were verified. A status without a DaemonSet stands for all on its node."""
        for key, record in self.records.items():
            if not record.came_back and not verified.isdisjoint((key, (key[0], ""))):
                yield key, replace(record, came_back=True)

    def changing(self, views: Collection[NodeView]) -> Memory:
        """Void all proofs on nodes whose devices are being changed: plugins must start after the change."""
        if not views:
            return self
        names, pods = {view.name for view in views}, {pod.uid for view in views for pod in view.plugin_pods}
        return replace(
            self,
            records={key: replace(each, load="") if key[0] in names else each for key, each in self.records.items()},
            fresh={uid: load for uid, load in self.fresh.items() if uid not in pods},
        )

    def about(self, daemonsets: AbstractSet[str], nodes: AbstractSet[str]) -> Memory:
        """Forget all other plugins and nodes: the memory of a run without an end must not grow."""
        kept = {key: record for key, record in self.records.items() if key[0] in nodes and key[1] in daemonsets}
        return self if len(kept) == len(self.records) else replace(self, records=kept)


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


# The status of a plugin in the light of its record.


def compared(status: NodeStatus, record: Record, settings: Settings, now: datetime) -> NodeStatus:
    """Return the status of a stale pod, or of a node without a plugin, in the light of what was done there before.

    A pod that this program deleted is restarting. If the API server refused the deletion, it needs manual action.
    """
    stale = status.stale
    if stale is None:
        return _awaited(status) if status.reason is Reason.NOTHING_TO_REFRESH and record.awaited else status
    if record.pod == stale.pod.uid or (record.pod and stale.pod.uid not in record.before):
        status = _after_restart(status, stale, record, settings, now)
    if status.reason is not Reason.PLUGIN_STALE or record.trouble is None or record.trouble.pod != stale.pod.uid:
        return status
    message = f"{status.message}; restarting it failed: {record.trouble.why}"
    return replace(status, reason=Reason.RESTART_FAILING, message=message, patience=Patience.DRIVER)


def _awaited(status: NodeStatus) -> NodeStatus:
    """Let a node without a plugin wait if this run deleted its plugin, even if the DaemonSet desires none."""
    return replace(
        status,
        state=NodeState.WAITING,
        reason=Reason.PLUGIN_MISSING,
        message=f"the plugin that was restarted here has not come back: {status.message}",
        subject=status.plugin,
        patience=Patience.PLUGIN,
    )


def _after_restart(
    status: NodeStatus, stale: StalePlugin, record: Record, settings: Settings, now: datetime
) -> NodeStatus:
    """Return the status of a stale pod after a restart, of this pod or of its predecessor.

    A Job repeats no restart that was refused. The controller retries each failed restart after a longer pause.
    """
    same = record.pod == stale.pod.uid
    if same and not record.refused:
        # A deletion that no watch has shown is repeated after a while, whatever the load is by then.
        message = f"plugin pod {stale.pod.name} was deleted to restart it"
        restarting = replace(status, state=NodeState.RESTARTING, reason=Reason.PLUGIN_RESTARTING, message=message)
        return restarting if now - record.at < ASK_AGAIN else status
    refused = f"{status.message}, and its deletion failed: {record.refused}"
    if not settings.is_controller:
        return status.failed(Reason.RESTART_REFUSED, refused) if same and record.load == stale.load else status
    until = held_until(record, stale, settings)
    if until is None:
        return status
    if now >= until:
        return status
    later = f"the next try (number {record.tries + 1}) is at {timestamp(until)}"
    if same:
        return status.failed(Reason.RESTART_REFUSED, f"{refused}; {later}")
    message = f"{status.message}, and its predecessor was never verified; {later}"
    return replace(status, reason=Reason.RESTART_BACKED_OFF, message=message)


def held_until(record: Record, stale: StalePlugin, settings: Settings) -> datetime | None:
    """Return when a pod may be restarted after an earlier restart, or None if the earlier one does not delay it."""
    return None if record.refreshed(stale) else record.at + _pause(record.tries, settings)


def _pause(tries: int, settings: Settings) -> timedelta:
    doubled: timedelta = settings.advanced.restart_backoff * 2 ** min(tries - 1, MOST_DOUBLINGS)
    return min(doubled, settings.advanced.restart_backoff_max)
