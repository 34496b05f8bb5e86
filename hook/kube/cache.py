"""Cache: the informers of everything that a decision needs, and the snapshot of it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from hook.decide.fleet import active_policy, find_plugins, loads_driver
from hook.kube import resources
from hook.kube.informer import Informer, ListWatch
from hook.kube.workloads import WorkloadCache
from hook.objects import (
    Malformed,
    Snapshot,
    names,
    node_of,
    node_reader,
    read_daemonset,
    read_deployment,
    read_lease,
    read_pod,
    read_replicaset,
    read_revision,
    read_slice,
)
from hook.objects.stacks import STACKS
from hook.objects.views import reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.kube.client import Api
    from hook.kube.informer import OutOfSync
    from hook.kube.resources import Resource
    from hook.kube.retry import Patience
    from hook.objects import DaemonSet
    from hook.settings import Settings

UNUSED_SECONDS: Final = 600.0
"""Time for which pods of a plugin are watched after its DaemonSet is gone: it is often installed again."""

POLICIES, POOLS, DAEMON_SETS, NODES, SLICES = "policies", "pools", "daemonsets", "nodes", "slices"
DRIVER_PODS, PREREQUISITE_PODS, PLUGIN_PODS, REVISIONS = "driver_pods", "prerequisite_pods", "plugin_pods", "revisions"
DEPLOYMENTS, REPLICA_SETS, LEASES = "deployments", "replicasets", "leases"
"""Fields of a Snapshot."""
INTENT: Final = frozenset({POLICIES, POOLS, DAEMON_SETS})
"""Fields that decide what else is watched."""
OVERLAPPING: Final = frozenset({REVISIONS, DRIVER_PODS, PLUGIN_PODS})
"""Fields that several ListWatches may fill with the same objects."""

Lists = dict[ListWatch, tuple[tuple[Any, ...], bool]]
"""The views of each ListWatch, and whether the API server does not know the kind."""


def assemble(fields: Mapping[ListWatch, str], lists: Lists) -> Snapshot:
    """Build a snapshot, in which each ListWatch fills a field."""
    found: dict[str, list[Any]] = {}
    unknown: set[str] = set()
    for list_watch, field in fields.items():
        if list_watch not in lists:
            continue
        views, absent = lists[list_watch]
        found.setdefault(field, []).extend(views)
        if absent:
            unknown.add(field)
    malformed = [view for views in found.values() for view in views if type(view) is Malformed]
    good: dict[str, Any] = {field: _good(views, unique=field in OVERLAPPING) for field, views in found.items()}
    good[NODES] = {node.name: node for node in good.get(NODES, ())}
    good[SLICES] = None if SLICES in unknown else good.get(SLICES)
    if POLICIES in unknown:
        good[POLICIES] = None
    return Snapshot(**good, malformed=tuple(malformed))


def _good(views: Iterable[Any], *, unique: bool) -> tuple[Any, ...]:
    """Return the objects that are not malformed.

    Return each once if selectors may overlap: pods of v0.4.0 have the labels of both charts.
    """
    good = [view for view in views if type(view) is not Malformed]
    return tuple({(view.namespace, view.name): view for view in good}.values()) if unique else tuple(good)


class Cache:
    """Informers of everything that matters for the driver stack.

    It serves a Job of minutes and a controller of months: it watches kinds that are installed later, and stops
    informers that are no longer used.
    """

    def __init__(self, api: Api, settings: Settings, patience: Patience) -> None:
        self._api, self._settings, self._patience = api, settings, patience
        self._stack = STACKS[settings.stack]
        self._informers: dict[ListWatch, Informer] = {}
        self._fields: dict[ListWatch, str] = {}
        """The field of the snapshot that a ListWatch fills."""
        self._unused_since: dict[ListWatch, float] = {}
        """By the monotonic clock."""
        self._condition = threading.Condition()
        """Guards the views of all informers, and what follows."""
        self._changed = False
        """Whether a view has changed since the last wait."""
        self._changed_nodes: set[str] = set()
        """Nodes whose objects have changed since the last call of `observe`."""
        drivers = self._stack.plugin.claim_drivers
        self.workloads = WorkloadCache(api, list(drivers) if settings.affected_workloads.enabled else [])
        """Apart from everything else: no decision depends on it, and it need not be synced."""

    def start(self) -> None:
        """Watch policies, DaemonSets, nodes, driver pods, revisions, slices and the operator."""
        stack = self._stack
        self._add(POLICIES, ListWatch(resources.policies_of(stack.policy), reader(stack.policy)))
        self._add(DAEMON_SETS, ListWatch(resources.DAEMON_SETS, read_daemonset))
        self._add_pods(DRIVER_PODS, labels=stack.driver.label.selector)
        self._watch_nodes(self._intent())
        operator = stack.operator
        self._add(DEPLOYMENTS, ListWatch(resources.DEPLOYMENTS.select(labels=operator.selector), read_deployment))
        self._add(REPLICA_SETS, ListWatch(resources.REPLICA_SETS.select(labels=operator.selector), read_replicaset))
        leader = resources.LEASES.select(fields=f"metadata.name={operator.lease}")
        self._add(LEASES, ListWatch(leader, read_lease))
        if stack.plugin.slice_driver:
            slices = resources.RESOURCE_SLICES.select(fields=f"spec.driver={stack.plugin.slice_driver}")
            self._add(SLICES, ListWatch(slices, read_slice))
        for name, prerequisite in stack.prerequisites.items():
            if name in self._settings.refresh_after:
                self._add_pods(PREREQUISITE_PODS, labels=prerequisite.label.selector)

    def watch_plugins(self) -> tuple[DaemonSet, ...]:
        """Watch what the current policies and DaemonSets refer to: pods of plugins, pools, other drivers.

        From now on, an outage does not end the run. Return the plugins.
        """
        # This runs before every decision, so it reads the few objects that it needs, not the fleet.
        snapshot = self._intent()
        found = find_plugins(snapshot.daemonsets, self._settings)
        self._patience = self._patience.synced
        self._watch_what_policies_name(snapshot)
        pods = [ListWatch(_pods_of(ds), read_pod) for ds in found.named]
        self._replace(PLUGIN_PODS, pods, UNUSED_SECONDS)
        self._watch_nodes(snapshot)
        self.workloads.watch()
        return found.named

    @property
    def synced(self) -> bool:
        """Return whether everything was listed once. Raises the ApiError that ended an informer."""
        for informer in self._informers.values():
            if informer.problem is not None:
                raise informer.problem
        return all(informer.synced for informer in self._informers.values())

    @property
    def out_of_sync(self) -> OutOfSync | None:
        """Return the informer that has been out of sync for the longest time, or None. Meanwhile, restart nothing."""
        gaps = [informer.out_of_sync for informer in self._informers.values()]
        return min((gap for gap in gaps if gap is not None), key=lambda gap: gap.last_synced, default=None)

    def wait(self, seconds: float) -> bool:
        """Wait until a view has changed since the last wait, at most `seconds`. Return whether one has."""
        with self._condition:
            changed = self._condition.wait_for(lambda: self._changed, timeout=seconds)
            self._changed = False
        return changed

    def stop(self) -> None:
        """Stop all informers."""
        self.workloads.stop()
        for informer in self._informers.values():
            informer.stop()

    def snapshot(self) -> Snapshot:
        """Return the current snapshot."""
        return assemble(self._fields, self._lists(self._informers))

    def observe(self) -> tuple[Snapshot, set[str]]:
        """Return the current snapshot, and the nodes whose objects have changed since the last call."""
        with self._condition:
            lists = self._lists(self._informers)
            changed, self._changed_nodes = self._changed_nodes, set()
        return assemble(self._fields, lists), changed

    def read_consistently(self, seconds: float) -> Snapshot:
        """List everything again, also if a watch is behind (docs/dev/decisions/0013).

        It takes at most `seconds`. Raises the ApiError that prevented it.
        """
        end = time.monotonic() + seconds
        return assemble(self._fields, {each: found.read_again(end) for each, found in self._informers.items()})

    def _intent(self) -> Snapshot:
        """Return the snapshot with the fields of `INTENT` alone."""
        fields = {each: field for each, field in self._fields.items() if field in INTENT}
        return assemble(fields, self._lists(fields))

    def _lists(self, list_watches: Iterable[ListWatch]) -> Lists:
        return {each: (self._informers[each].views(), self._informers[each].absent) for each in list_watches}

    def _watch_nodes(self, snapshot: Snapshot) -> None:
        """Watch the nodes, with the labels by which pools, drivers and plugins select them.

        A DaemonSet that selects by another label than before lets all nodes be read again.
        """
        selecting = [ds for ds in snapshot.daemonsets if loads_driver(ds, self._stack)]
        selecting += find_plugins(snapshot.daemonsets, self._settings).named
        selectors = [*(ds.selected_by for ds in selecting), *(pool.driver.node_selector for pool in snapshot.pools)]
        keys = {key for keys in selectors for key in keys if not key.startswith(names.NODE_LABEL_PREFIXES)}
        nodes = resources.NODES.select(labels=self._stack.nodes.present)
        self._replace(NODES, [ListWatch(nodes, node_reader(tuple(sorted(keys))))])

    def _watch_what_policies_name(self, snapshot: Snapshot) -> None:
        """Watch pools, and drivers whose labels were overridden."""
        stack = self._stack
        policy = active_policy(snapshot.policies or (), stack)
        if policy is not None and stack.pool is not None:
            # Pools have no effect unless the policy delegates to them.
            pools = ListWatch(resources.policies_of(stack.pool), reader(stack.pool))
            self._replace(POOLS, [pools] if policy.driver.pooled else [])
        for daemonset in snapshot.daemonsets:
            key, value = stack.driver.label
            if loads_driver(daemonset, stack) and daemonset.template_labels.get(key) != value:
                pods = _pods_of(daemonset)
                self._add_pods(DRIVER_PODS, pods.namespace, pods.labels)

    def _add_pods(self, field: str, namespace: str = "", labels: str = "") -> None:
        """Watch pods of DaemonSets, and the revisions that show which of them are outdated."""
        self._add(field, ListWatch(resources.PODS.select(namespace, labels), read_pod))
        revisions = resources.CONTROLLER_REVISIONS.select(namespace, labels)
        self._add(REVISIONS, ListWatch(revisions, read_revision))

    def _add(self, field: str, list_watch: ListWatch) -> None:
        """Fill a field of the snapshot from this in addition."""
        self._fields[list_watch] = field
        if list_watch not in self._informers:
            informer = Informer(self._api, list_watch, self._patience, self._note_change, self._condition)
            self._informers[list_watch] = informer
            informer.start()

    def _replace(self, field: str, list_watches: list[ListWatch], grace: float = 0.0) -> None:
        """Fill a field from these alone. Drop the others once they have been unused for `grace` seconds."""
        now = time.monotonic()
        for list_watch in [each for each, filled in self._fields.items() if filled == field]:
            if list_watch in list_watches:
                self._unused_since.pop(list_watch, None)
            elif now - self._unused_since.setdefault(list_watch, now) >= grace:
                self._drop(list_watch)
        for list_watch in list_watches:
            self._add(field, list_watch)

    def _drop(self, list_watch: ListWatch) -> None:
        """Drop a ListWatch from the snapshot, and stop its informer."""
        del self._fields[list_watch], self._unused_since[list_watch]
        informer = self._informers.pop(list_watch)
        informer.stop()
        for view in informer.views():
            self._note_change(view, None)

    def _note_change(self, before: Any, after: Any) -> None:  # noqa: ANN401 - the views of any kind
        """Note the nodes that an object belonged to before and after a change."""
        with self._condition:
            self._changed = True
            self._changed_nodes |= {node_of(before), node_of(after)}
            self._condition.notify_all()


def _pods_of(daemonset: DaemonSet) -> Resource:
    """Return the pods of a DaemonSet, by its selector."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(daemonset.selector.items()))
    return resources.PODS.select(daemonset.namespace, labels)
