"""What is kept from one decision to the next, so that a node is evaluated again only if something about it changed.

The evaluation of a node is a pure function of its view, the context and the time. So a `Memo` changes no result:
without one, or with an empty one, a decision evaluates every node in the same way.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from hook.decide.fleet import Fleet, NodeView, context_of, plugin_pods
from hook.decide.nodes import evaluate_node
from hook.decide.plugins import STEADY_AFTER_CRASHES
from hook.decide.state import restart_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from hook.config import Settings
    from hook.decide.fleet import Context
    from hook.decide.result import NodeStatus
    from hook.decide.state import Memory, RestartRecord
    from hook.objects.views import DaemonSet, DeviceSlice, Malformed, Pod, Snapshot

NOTHING: Final[Mapping[str, Any]] = {}
NO_UIDS: Final[frozenset[str]] = frozenset()
"""Most nodes share these."""
IN_PLACE: Final = 100
"""Changes in place that are most likely all. With more, one object may have shifted all others."""


def index(snapshot: Snapshot, settings: Settings, memory: Memory | None = None) -> Fleet:
    """Take a snapshot apart."""
    return Memo().index(snapshot, settings, memory)


class Groups:
    """The objects of one field of a snapshot by node, or by another key."""

    def __init__(self, key: str) -> None:
        self._key = attrgetter(key)
        self._objects: Sequence[Any] = ()
        self.by_key: Mapping[str, tuple[Any, ...]] = {}

    def follow(self, objects: Sequence[Any]) -> set[str]:
        """Take over the objects of a snapshot. Return the keys whose objects changed."""
        if objects is self._objects:
            return set()
        key = self._key
        changed = set(map(key, differences(self._objects, objects)))
        self._objects = objects
        found: dict[str, list[Any]] = {}
        for each in objects if changed else ():
            if (name := key(each)) in changed:
                found.setdefault(name, []).append(each)
        kept = {**self.by_key, **{name: tuple(group) for name, group in found.items()}}
        for name in changed - found.keys():
            del kept[name]
        self.by_key = kept
        return changed


def differences(before: Sequence[Any], after: Sequence[Any]) -> Sequence[Any]:
    """Return the objects that are in one of two sequences only, and those that are not in the same order in both."""
    if len(before) == len(after):
        pairs = [pair for pair in zip(before, after, strict=True) if pair[0] is not pair[1]]
        if len(pairs) <= IN_PLACE:
            return list(chain.from_iterable(pairs))
    was, now = set(map(id, before)), set(map(id, after))
    kept, again = [each for each in before if id(each) in now], [each for each in after if id(each) in was]
    if len(kept) != len(again):
        return [*before, *after]
    moved = (pair for pair in zip(kept, again, strict=True) if pair[0] is not pair[1])
    gone, came = (each for each in before if id(each) not in now), (each for each in after if id(each) not in was)
    return [*gone, *came, *chain.from_iterable(moved)]


class Memo:
    """Views and statuses of the nodes, as of the last decision.

    It is not safe after an exception in a decision: it may have taken over objects without evaluating their nodes.
    """

    def __init__(self) -> None:
        self._nodes, self._drivers, self._plugins = Groups("name"), Groups("node"), Groups("node")
        self._prerequisites, self._slices, self._pools = Groups("node"), Groups("node"), Groups("pool")
        self._restarts: Mapping[str, RestartRecord] = NOTHING
        self._proven: Mapping[str, str] = NOTHING
        self._changes: Mapping[str, int] = NOTHING
        self._fleet: Fleet | None = None
        self._lasting: Context | None = None
        self._generations: dict[str, int] = {}
        """Newest generation of each pool of ResourceSlices."""
        self._due: set[str] = set()
        """Nodes whose views changed since the last evaluation."""
        self._statuses: dict[str, tuple[NodeStatus, ...]] = {}
        self._passing: set[str] = set()
        """Nodes whose evaluation changes with the time alone."""
        self._now: datetime | None = None
        self._uids: frozenset[str] = NO_UIDS
        """Of the plugin pods."""
        self._unrecorded: set[str] = set()
        """Nodes that were evaluated since the last memory was recorded."""
        self._fresh: Mapping[str, str] | None = None
        """What that memory has recorded as proven fresh."""

    @property
    def fleet(self) -> Fleet | None:
        """Return the fleet as of the last decision."""
        return self._fleet

    def renewed(self) -> Memo:
        """Return a memo that evaluates all nodes, and shares the statuses that are equal to those of this one."""
        memo = Memo()
        memo._statuses = self._statuses
        return memo

    def index(
        self,
        snapshot: Snapshot,
        settings: Settings,
        memory: Memory | None = None,
    ) -> Fleet:
        """Take a snapshot apart. The view of a node is the same object as before if nothing about it changed."""
        context = context_of(snapshot, settings)
        changed = self._follow(snapshot)
        changed |= self._recall(snapshot, memory)
        lasting, before = context.lasting, self._fleet
        if before is None or self._lasting != lasting:
            known = (self._nodes, self._drivers, self._plugins)
            views = self._views(chain.from_iterable(groups.by_key for groups in known), context)
        else:
            again = self._views(changed, context)
            views = {**before.nodes, **again}
            for name in changed & before.nodes.keys() - again.keys():
                del views[name]
            if views.keys() != before.nodes.keys():
                views = dict(sorted(views.items()))
        self._lasting = lasting
        self._fleet = Fleet(context=context, nodes=views, driver_pods=self._drivers.by_key, snapshot=snapshot)
        return self._fleet

    def evaluate(self, fleet: Fleet, now: datetime) -> Iterator[NodeStatus]:
        """Return the statuses of all nodes. The fleet is the one that was indexed last."""
        is_past = self._now is not None and now < self._now
        due = {*fleet.nodes} if is_past else (self._due | self._passing) & fleet.nodes.keys()
        again: dict[str, tuple[NodeStatus, ...]] = {}
        for name in due:
            view, before = fleet.nodes[name], self._statuses.get(name)
            found = evaluate_node(view, fleet.context, now)
            again[name] = before if before == found else found
            (self._passing.add if _is_passing(view, now) else self._passing.discard)(name)
        if self._statuses.keys() == fleet.nodes.keys():
            statuses = {**self._statuses, **again}
        else:
            statuses = {name: again.get(name) or self._statuses[name] for name in fleet.nodes}
            for name in self._statuses.keys() - fleet.nodes.keys():
                self._passing.discard(name)
        self._due, self._statuses, self._now = set(), statuses, now
        self._unrecorded |= due
        return chain.from_iterable(statuses.values())

    def recorded(self, memory: Memory) -> Memory:
        """Return a memory that has recorded which pods the last evaluation proved fresh.

        If the memory continues the one that was recorded last, it lacks only what was evaluated since.
        """
        again = self._unrecorded if memory.fresh is self._fresh else self._statuses
        statuses = chain.from_iterable(self._statuses.get(name, ()) for name in again)
        after = memory.with_fresh(statuses, self._uids)
        self._unrecorded, self._fresh = set(), after.fresh
        return after

    def _follow(self, snapshot: Snapshot) -> set[str]:
        """Take over the objects of a snapshot. Return the nodes whose objects changed."""
        changed = self._nodes.follow(tuple(snapshot.nodes.values()))
        changed |= self._drivers.follow(snapshot.driver_pods)
        if moved := self._plugins.follow(snapshot.plugin_pods):
            self._uids = frozenset(pod.uid for pod in snapshot.plugin_pods)
        changed |= moved
        changed |= self._prerequisites.follow(snapshot.prerequisite_pods)
        changed |= self._slices.follow(snapshot.slices or ())
        for pool in self._pools.follow(snapshot.slices or ()):
            slices = self._pools.by_key.get(pool, ())
            if slices:
                self._generations[pool] = max(each.generation for each in slices)
            else:
                self._generations.pop(pool, None)
            changed |= {each.node for each in slices}
        return changed

    def _recall(self, snapshot: Snapshot, memory: Memory | None) -> set[str]:
        """Take over what earlier decisions recorded. Return the nodes for which that changed."""
        restarts, proven = (memory.restarts, memory.fresh) if memory is not None else (NOTHING, NOTHING)
        changed = {key.partition("/")[2] for key in _differing(self._restarts, restarts)}
        uids = _differing(self._proven, proven)
        self._restarts, self._proven = restarts, proven
        changes = memory.changes if memory is not None else NOTHING
        changed |= _differing(self._changes, changes)
        self._changes = changes
        return changed | {pod.node for pod in (snapshot.plugin_pods if uids else ()) if pod.uid in uids}

    def _views(self, names: Iterable[str], context: Context) -> dict[str, NodeView]:
        """Build the views of those nodes that have a device, or a driver or plugin pod."""
        views = {name: self._view(name, context) for name in sorted({*names} - {""})}
        found = {name: view for name, view in views.items() if view is not None}
        self._due |= found.keys()
        return found

    def _view(self, name: str, context: Context) -> NodeView | None:
        named, raw = context.plugins.named, self._plugins.by_key.get(name, ())
        plugins, drivers = tuple(plugin_pods(raw, named)), self._drivers.by_key.get(name, ())
        (node,) = self._nodes.by_key.get(name, (None,))
        labelled = node is not None and node.labels.get(context.stack.nodes.present) == "true"
        if not (labelled or drivers or plugins):
            return None
        unnamed = tuple(pod for ds in context.plugins.unnamed for pod in raw if pod.owner_uid == ds.uid)
        required, orphans = self._prerequisites.by_key.get(name, ()), {pod.uid for pod in raw if not pod.owner_uid}
        return NodeView(
            name,
            node,
            driver_pods=drivers,
            plugin_pods=plugins,
            unnamed_pods=unnamed,
            prerequisite_pods=required,
            outdated=_outdated((*drivers, *required), context),
            slices=self._slices_of(name),
            malformed=_malformed_on(name, context.malformed) if context.malformed else (),
            orphans=frozenset(pod.uid for pod in plugins if pod.uid in orphans) if orphans else NO_UIDS,
            restarts=self._restarts_on(name, named) if self._restarts else NOTHING,
            changes=self._changes.get(name, 0),
            proven=tuple((pod.uid, self._proven[pod.uid]) for pod in (*plugins, *unnamed) if pod.uid in self._proven),
        )

    def _restarts_on(self, name: str, named: Iterable[DaemonSet]) -> Mapping[str, RestartRecord]:
        records = ((ds.uid, self._restarts.get(restart_key(ds.uid, name))) for ds in named)
        return {uid: record for uid, record in records if record is not None} or NOTHING

    def _slices_of(self, name: str) -> tuple[DeviceSlice, ...]:
        """Return the slices of a node. Drop older generations of a pool, as the scheduler does."""
        slices = self._slices.by_key.get(name, ())
        return tuple(each for each in slices if each.generation == max(self._generations[each.pool], 0))


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """Return the keys whose values differ."""
    if before is after:
        return set()
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _outdated(pods: Iterable[Pod], context: Context) -> frozenset[str]:
    """Return the UIDs of pods that are not of the newest revision, or whose newest revision is unknown."""
    newest = context.newest
    uids = [pod.uid for pod in pods if pod.owner_uid not in newest or pod.hash != newest[pod.owner_uid].hash]
    return frozenset(uids) if uids else NO_UIDS


def _malformed_on(name: str, malformed: Iterable[Malformed]) -> tuple[Malformed, ...]:
    return tuple(
        found for found in malformed if name in (found.node, found.name) or (found.kind == "Pod" and not found.node)
    )


def _is_passing(view: NodeView, now: datetime) -> bool:
    """Return whether the evaluation of a node may change with the time alone: a plugin crashed."""
    restarted = (container for pod in view.plugin_pods for container in pod.containers if container.restarts)
    return any(each.started_at is not None and now - each.started_at < STEADY_AFTER_CRASHES for each in restarted)
