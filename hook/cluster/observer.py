"""Everything that a decision needs to see, kept up to date, and given as one snapshot."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hook.cluster import requests, retry
from hook.cluster.reflector import Reflector, list_views
from hook.cluster.requests import Selection
from hook.core import names, parse
from hook.core.views import Snapshot, Unreadable
from hook.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hook.cluster.api import Api
    from hook.core.stacks import Stack
    from hook.core.views import DaemonSet

POLICIES, DAEMON_SETS, NODES, DRIVER_PODS, CONSUMER_PODS = "policies", "daemonsets", "nodes", "driver_pods", "consumers"
REVISIONS, SLICES, DEPLOYMENTS, REPLICA_SETS, LEASES = "revisions", "slices", "deployments", "replicasets", "leases"


@dataclass(frozen=True, slots=True)
class Source:
    """One selection, how to read it, and which part of a snapshot it fills."""

    part: str
    selection: Selection
    read: Callable[[Any], Any]


class Observer:
    """A set of reflectors that grows as more becomes worth looking at."""

    def __init__(self, api: Api, stack: Stack, namespaces: tuple[str, ...], patience: retry.Patience) -> None:
        self._api, self._stack, self._patience = api, stack, patience
        self._namespaces = namespaces or ("",)
        self._reflectors: dict[Source, Reflector] = {}
        self._changed = threading.Condition()
        self._changes = 0
        self._slices_served = False

    def look_at_intent(self) -> None:
        """Start with what tells whether there is anything to protect: cheap on any cluster."""
        self._add([Source(POLICIES, Selection(requests.CLUSTER_POLICIES), parse.policy)])
        self._add(self._everywhere(DAEMON_SETS, requests.DAEMON_SETS, parse.daemonset))

    def look_at_fleet(self) -> None:
        """Go on with nodes, driver pods, revisions, slices and the operator."""
        stack = self._stack
        driver = f"{names.COMPONENT_LABEL}={stack.driver_component}"
        operator = f"{names.COMPONENT_LABEL}={names.OPERATOR_COMPONENT}"
        leader = f"metadata.name={names.OPERATOR_LEASE}"
        self._add([Source(NODES, Selection(requests.NODES, labels=stack.present_label), parse.node)])
        self._add(self._everywhere(DRIVER_PODS, requests.PODS, parse.pod, labels=driver))
        self._add(self._everywhere(REVISIONS, requests.CONTROLLER_REVISIONS, parse.revision, labels=driver))
        self._add(self._everywhere(DEPLOYMENTS, requests.DEPLOYMENTS, parse.deployment, labels=operator))
        self._add(self._everywhere(REPLICA_SETS, requests.REPLICA_SETS, parse.replicaset, labels=operator))
        self._add(self._everywhere(LEASES, requests.LEASES, parse.lease, fields=leader))
        self._add(self._slices())

    def look_at_consumers(self, consumers: Iterable[DaemonSet]) -> None:
        """Follow the pods of these DaemonSets, by their own selectors; from now on any outage is outlived."""
        self._patience = retry.WATCHING
        self._add(
            Source(
                CONSUMER_PODS,
                Selection(requests.PODS, ds.namespace, labels=",".join(f"{key}={value}" for key, value in ds.selector)),
                parse.pod,
            )
            for ds in consumers
        )

    @property
    def synced(self) -> bool:
        """Everything that is looked at was read once. Raises what made a reflector give up."""
        for reflector in self._reflectors.values():
            if reflector.problem is not None:
                raise reflector.problem
        return all(reflector.synced for reflector in self._reflectors.values())

    def wait(self, seconds: float) -> None:
        """Wait until something changed since the last wait, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes > 0, timeout=seconds)
            self._changes = 0

    def stop(self) -> None:
        """Tell all reflectors to end."""
        for reflector in self._reflectors.values():
            reflector.stop()

    def snapshot(self) -> Snapshot:
        """Give what is known now."""
        views: dict[str, list[Any]] = {}
        absent: set[str] = set()
        for source, reflector in self._reflectors.items():
            views.setdefault(source.part, []).extend(reflector.views())
            if reflector.absent:
                absent.add(source.part)
        return self._assemble(views, absent)

    def read_again(self) -> Snapshot:
        """Read everything anew from the API server, consistently: no watch may be behind in it."""
        views: dict[str, list[Any]] = {}
        absent: set[str] = set()
        retrier = retry.retrying(retry.WRITING, time.sleep)
        for source in self._reflectors:
            try:
                found, _version = list_views(self._api, source.selection, source.read, retrier)
            except NotFoundError:
                absent.add(source.part)
                found = {}
            views.setdefault(source.part, []).extend(found.values())
        return self._assemble(views, absent)

    def _assemble(self, views: dict[str, list[Any]], absent: set[str]) -> Snapshot:
        unreadable = tuple(one for part in views.values() for one in part if isinstance(one, Unreadable))
        good = {part: tuple(one for one in found if not isinstance(one, Unreadable)) for part, found in views.items()}
        # Selectors may overlap (v0.4.0 pods carry the labels of both charts): a pod counts once.
        consumer_pods = {pod.uid: pod for pod in good.get(CONSUMER_PODS, ())}
        return Snapshot(
            policies=None if POLICIES in absent else good.get(POLICIES, ()),
            nodes={node.name: node for node in good.get(NODES, ())},
            daemonsets=good.get(DAEMON_SETS, ()),
            revisions=good.get(REVISIONS, ()),
            driver_pods=good.get(DRIVER_PODS, ()),
            consumer_pods=tuple(consumer_pods.values()),
            slices=good.get(SLICES, ()) if self._slices_served and SLICES not in absent else None,
            deployments=good.get(DEPLOYMENTS, ()),
            replicasets=good.get(REPLICA_SETS, ()),
            leases=good.get(LEASES, ()),
            unreadable=unreadable,
        )

    def _slices(self) -> list[Source]:
        """Find out which version of ResourceSlices is served; none on a cluster without DRA."""
        retrier = retry.retrying(self._patience, time.sleep)
        resource = requests.resource_slices(retrier(self._api.served_versions, requests.RESOURCE_SLICES))
        self._slices_served = resource is not None
        if resource is None:
            return []
        selection = Selection(resource, fields=f"spec.driver={names.GPU_SLICE_DRIVER}")
        return [Source(SLICES, selection, parse.device_slice)]

    def _everywhere(
        self, part: str, resource: requests.Resource, read: Callable[[Any], Any], labels: str = "", fields: str = ""
    ) -> list[Source]:
        return [Source(part, Selection(resource, namespace, labels, fields), read) for namespace in self._namespaces]

    def _add(self, sources: Iterable[Source]) -> None:
        for source in sources:
            if source not in self._reflectors:
                reflector = Reflector(self._api, source.selection, source.read, self._note_change, self._patience)
                self._reflectors[source] = reflector
                reflector.start()

    def _note_change(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()
