"""Cache: the informers of everything that a decision needs, and the snapshot of it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from hook.decide.fleet import active_policy, find_plugins
from hook.errors import ApiError
from hook.kube import requests, retry
from hook.kube.confirm import ConsistentRead
from hook.kube.informer import Informer
from hook.kube.listing import ListWatch
from hook.kube.requests import ListOptions
from hook.kube.workloads import WorkloadCache
from hook.objects import names, readers
from hook.objects.drivers import STACKS, is_driver, selector
from hook.objects.views import Malformed, Snapshot, node_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hook.config import Settings
    from hook.kube.client import Api
    from hook.kube.informer import OutOfSync
    from hook.objects.decoding import Reader
    from hook.objects.drivers import Stack
    from hook.objects.views import DaemonSet

log = logging.getLogger(__name__)

FIRST_DISCOVERY_SECONDS: Final = 2.0
"""Pause between two requests for the versions of ResourceSlices, until one succeeds: no node can be verified before."""
DISCOVERY_SECONDS: Final = 60.0
"""Pause between two such requests while the API server has no supported version, or no longer has the one in use:
an upgrade of Kubernetes removes old versions of an API, and may bring the first one."""
DISCOVERY_TIMEOUT_SECONDS: Final = 5.0
"""Timeout of such a request. The reconcile loop waits for it, and must keep its deadline and its heartbeat."""
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
    good = {field: _good(views, unique=field in OVERLAPPING) for field, views in found.items()}
    return Snapshot(
        policies=None if POLICIES in unknown else good.get(POLICIES, ()),
        pools=good.get(POOLS, ()),
        nodes={node.name: node for node in good.get(NODES, ())},
        daemonsets=good.get(DAEMON_SETS, ()),
        revisions=good.get(REVISIONS, ()),
        driver_pods=good.get(DRIVER_PODS, ()),
        prerequisite_pods=good.get(PREREQUISITE_PODS, ()),
        plugin_pods=good.get(PLUGIN_PODS, ()),
        slices=None if SLICES in unknown or SLICES not in good else good[SLICES],
        deployments=good.get(DEPLOYMENTS, ()),
        replicasets=good.get(REPLICA_SETS, ()),
        leases=good.get(LEASES, ()),
        malformed=tuple(malformed),
    )


def _good(views: Iterable[Any], *, unique: bool) -> tuple[Any, ...]:
    """Return the objects that are not malformed.

    Return each once if selectors may overlap: pods of v0.4.0 have the labels of both charts.
    """
    good = [view for view in views if type(view) is not Malformed]
    return tuple({getattr(view, "uid", view): view for view in good}.values()) if unique else tuple(good)


def _timed_labels(stack: Stack, settings: Settings) -> tuple[str, ...]:
    """Return the node labels of which the settings need the times."""
    known = [stack.prerequisites.get(name) for name in settings.refresh_after]
    return tuple(each.change.label for each in known if each is not None and each.change is not None)


def _everywhere(
    resource: requests.GroupVersionResource, read: Reader[Any], labels: str = "", fields: str = ""
) -> ListWatch:
    """Return the list and watch of a resource in all namespaces."""
    return ListWatch(ListOptions(resource, labels=labels, fields=fields), read)


class Cache:
    """Informers of everything that matters for the driver stack.

    It serves a Job of minutes and a controller of months: it watches kinds that are installed later, and stops
    informers that are no longer used.
    """

    def __init__(self, api: Api, settings: Settings, policy: retry.RetryPolicy) -> None:
        self._api, self._settings, self._policy = api, settings, policy
        self._stack = STACKS[settings.stack]
        self._timed_labels = _timed_labels(self._stack, settings)
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
        self.end = retry.FOREVER
        """Deadline of the run, by the monotonic clock. After it, the cache requests no versions."""
        self._slices: requests.GroupVersionResource | None = None
        self._discovered = False
        self._discover_after = float("-inf")
        self._failures, self._logged = retry.Failures(), ""
        drivers = self._stack.plugin.claim_drivers
        self.workloads = WorkloadCache(api, list(drivers) if settings.affected_workloads.enabled else [], policy)
        """Apart from everything else: no decision depends on it, and it need not be synced."""

    def watch_fleet(self) -> None:
        """Watch policies, DaemonSets, nodes, driver pods, revisions, slices and the operator.

        Call it again until the cache is synced, because it also requests the versions of ResourceSlices. Raises
        ApiError when the time for retries is over.
        """
        policy, operator = self._stack.policy, self._stack.operator
        self._add(POLICIES, [ListWatch(ListOptions(requests.policies_of(policy)), policy.read)])
        self._add(DAEMON_SETS, [_everywhere(requests.DAEMON_SETS, readers.daemonset)])
        self._watch_drivers()
        self._watch_nodes(self._intent())
        for part, resource, read in (
            (DEPLOYMENTS, requests.DEPLOYMENTS, readers.deployment),
            (REPLICA_SETS, requests.REPLICA_SETS, readers.replicaset),
        ):
            self._add(part, [_everywhere(resource, read, labels=operator.selector)])
        leader = f"metadata.name={operator.lease}"
        self._add(LEASES, [_everywhere(requests.LEASES, readers.lease, fields=leader)])
        self._add(SLICES, self._slices_of())
        self._watch_prerequisites()

    def watch_plugins(self) -> tuple[DaemonSet, ...]:
        """Watch what the current policies and DaemonSets refer to: pods of plugins, pools, other drivers.

        From now on, transient errors do not end the run. Return the plugins.
        """
        # This runs before every decision, so it reads the few objects that it needs, not the fleet.
        snapshot = self._intent()
        found = find_plugins(snapshot.daemonsets, self._settings)
        self._watch_what_policies_name(snapshot)
        self._policy = retry.synced(self._policy)
        # A DaemonSet that looks like a plugin and is not named is never restarted, but reported if it is stale.
        pods = [self._pods_of(ds) for ds in (*found.named, *found.unnamed)]
        self._replace(PLUGIN_PODS, pods, UNUSED_SECONDS)
        self._watch_nodes(snapshot)
        self._replace(SLICES, self._slices_of())
        self.workloads.watch(self._slices, discovered=self._discovered)
        return found.named

    @property
    def synced(self) -> bool:
        """Return whether everything was listed once. Raises the ApiError that ended an informer."""
        for informer in self._informers.values():
            if informer.problem is not None:
                raise informer.problem
        discovered = self._discovered or not self._stack.plugin.slice_driver
        return all(informer.synced for informer in self._informers.values()) and discovered

    @property
    def out_of_sync(self) -> OutOfSync | None:
        """Return the informer that has been out of sync for the longest time, or None. Meanwhile, restart nothing."""
        gaps = [informer.out_of_sync for informer in self._informers.values()]
        return min((gap for gap in gaps if gap is not None), key=lambda gap: gap.last_synced, default=None)

    def wait(self, seconds: float) -> None:
        """Wait until a view has changed since the last wait, at most `seconds`."""
        with self._condition:
            self._condition.wait_for(lambda: self._changed, timeout=seconds)
            self._changed = False

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
        """Return the snapshot as of this call or later, also if a watch is behind.

        It takes at most `seconds`. Raises the ApiError that prevented it.
        """
        read = ConsistentRead(self._api, seconds)
        lists = {list_watch: read.of(informer) for list_watch, informer in self._informers.items()}
        return assemble(self._fields, lists)

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
        selecting = [ds for ds in snapshot.daemonsets if is_driver(ds, self._stack)]
        selecting += find_plugins(snapshot.daemonsets, self._settings).named
        selectors = [*(ds.selected_by for ds in selecting), *(pool.node_selector for pool in snapshot.pools)]
        keys = {key for keys in selectors for key in keys if not key.startswith(names.NODE_LABEL_PREFIXES)}
        options = ListOptions(requests.NODES, labels=self._stack.nodes.present)
        reader = readers.node_with(tuple(sorted(keys)), self._timed_labels)
        self._replace(NODES, [ListWatch(options, reader)])

    def _watch_drivers(self) -> None:
        """Watch the driver pods, and the revisions that show which of them are outdated."""
        labels = selector(self._stack.driver.label)
        self._add(DRIVER_PODS, [_everywhere(requests.PODS, readers.pod, labels=labels)])
        self._add(REVISIONS, [_everywhere(requests.CONTROLLER_REVISIONS, readers.revision, labels=labels)])

    def _watch_prerequisites(self) -> None:
        for name, prerequisite in self._stack.prerequisites.items():
            if name in self._settings.refresh_after:
                labels = selector(prerequisite.label)
                revisions = _everywhere(requests.CONTROLLER_REVISIONS, readers.revision, labels=labels)
                self._add(PREREQUISITE_PODS, [_everywhere(requests.PODS, readers.pod, labels=labels)])
                self._add(REVISIONS, [revisions])

    def _watch_what_policies_name(self, snapshot: Snapshot) -> None:
        """Watch pools, and drivers whose labels were overridden."""
        stack = self._stack
        policy = active_policy(snapshot.policies or (), stack)
        if policy is not None and stack.pool is not None:
            # Pools have no effect unless the policy delegates to them.
            pools = ListWatch(ListOptions(requests.policies_of(stack.pool)), stack.pool.read)
            self._replace(POOLS, [pools] if policy.pooled else [])
        for daemonset in snapshot.daemonsets:
            key, value = stack.driver.label
            if is_driver(daemonset, stack) and daemonset.template_labels.get(key) != value:
                pods = self._pods_of(daemonset)
                revisions = ListOptions(requests.CONTROLLER_REVISIONS, pods.options.namespace, pods.options.labels)
                self._add(DRIVER_PODS, [pods])
                self._add(REVISIONS, [ListWatch(revisions, readers.revision)])

    def _pods_of(self, daemonset: DaemonSet) -> ListWatch:
        """Return the pods of a DaemonSet, by its selector."""
        labels = ",".join(f"{key}={value}" for key, value in daemonset.selector)
        return ListWatch(ListOptions(requests.PODS, daemonset.namespace, labels=labels), readers.pod)

    def _slices_of(self) -> list[ListWatch]:
        """Return the ResourceSlices in the version that the API server supports; none without DRA.

        Request the versions again if there is none, or if the one in use is no longer supported.
        """
        if not self._stack.plugin.slice_driver:
            return []
        current = [each for each, field in self._fields.items() if field == SLICES]
        if not current or any(self._informers[each].absent for each in current):
            self._discover()
        if self._slices is None:
            return []
        options = ListOptions(self._slices, fields=f"spec.driver={self._stack.plugin.slice_driver}")
        return [ListWatch(options, readers.device_slice)]

    def _discover(self) -> None:
        """Request the versions of ResourceSlices once, unless it is too soon. The next reconcile tries again."""
        if time.monotonic() < self._discover_after:
            return
        try:
            left = min(DISCOVERY_TIMEOUT_SECONDS, self.end - time.monotonic())
            served = self._api.served_versions(requests.RESOURCE_SLICES, left)
        except ApiError as error:
            pause = DISCOVERY_SECONDS if self._discovered else FIRST_DISCOVERY_SECONDS
            self._discover_after = time.monotonic() + max(pause, retry.retry_after(error))
            self._note_failure(error)
        else:
            self._slices, self._discovered, self._logged = requests.resource_slices(served), True, ""
            self._discover_after = time.monotonic() + DISCOVERY_SECONDS

    def _note_failure(self, error: ApiError) -> None:
        """Raise an error when the time for its retries is over, unless an earlier request succeeded.

        At the deadline of the run, the reconcile loop ends the run itself.
        """
        exceeded = self._failures.exceed(self._policy, error)
        if exceeded and not self._discovered and time.monotonic() < self.end:
            raise error
        # Each reason is logged once: no node can be verified meanwhile, and no other line reports it.
        level = logging.DEBUG if str(error) == self._logged else logging.WARNING
        log.log(level, "cannot read the versions of ResourceSlices, trying again: %s", error)
        self._logged = str(error)

    def _add(self, field: str, list_watches: Iterable[ListWatch]) -> None:
        """Fill a field of the snapshot in addition from these, each of which has one informer."""
        for list_watch in list_watches:
            self._fields[list_watch] = field
            if list_watch not in self._informers:
                informer = Informer(self._api, list_watch, self._note_change, self._policy, self._condition)
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
        self._add(field, list_watches)

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
