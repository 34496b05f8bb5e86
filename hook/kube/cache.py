"""Cache: all informers that a decision needs, and the snapshot that they show together."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from hook.decide import rollout
from hook.decide.clients import find
from hook.errors import ClusterError
from hook.kube import requests, retry
from hook.kube.confirm import SecondRead
from hook.kube.informer import (
    DAEMON_SETS,
    DEPLOYMENTS,
    DRIVER_PODS,
    INTENT,
    LEASES,
    NODES,
    PLUGIN_PODS,
    POLICIES,
    POOLS,
    PREREQUISITE_PODS,
    REPLICA_SETS,
    REVISIONS,
    SLICES,
    Informer,
    Source,
    assembled,
)
from hook.kube.requests import ListOptions
from hook.objects import readers
from hook.objects.drivers import STACKS, is_driver, selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hook.config import Settings
    from hook.kube.client import Api
    from hook.kube.informer import Found, OutOfSync
    from hook.objects.decoding import Reader
    from hook.objects.drivers import Stack
    from hook.objects.views import DaemonSet, Snapshot

log = logging.getLogger(__name__)

FIRST_ASK_SECONDS: Final = 2.0
"""Between two questions which version of ResourceSlices the server has: nothing can be judged before."""
ASK_SECONDS: Final = 60.0
"""Between two such questions while the server has none, or no longer has ours: an upgrade of Kubernetes takes away old
versions of an API, and may bring the first one."""
UNWANTED_SECONDS: Final = 600.0
"""After its DaemonSet is gone, a plugin's pods are watched for a while: releases are reinstalled under other names."""
ANSWER_SECONDS: Final = 5.0
"""The loop waits for this answer. It must look at its deadline, and show that it lives."""


class Cache:
    """A set of reflectors that follows what is worth looking at. What two stacks share is read once.

    It is the same for one run and for months: kinds that come are watched, and what nothing needs any more is dropped.
    """

    def __init__(self, api: Api, stacks: Sequence[Stack], settings: Settings, patience: retry.Patience) -> None:
        self._api, self._stacks, self._settings, self._patience = api, stacks, settings, patience
        self._namespaces = settings.namespaces or ("",)
        self._informers: dict[Source, Informer] = {}
        self._parts: dict[str, dict[Source, str]] = {}
        """By stack: which part of its snapshot a source fills."""
        self._unwanted: dict[tuple[str, Source], float] = {}
        """By stack and source: since when nothing needs it, by the monotonic clock."""
        self._changed = threading.Condition()
        self._changes = 0
        self.end = retry.FOREVER
        """When the time of a run is up, by the monotonic clock: its loop asks nothing then."""
        self._slices: requests.GroupVersionResource | None = None
        self._known = self._looked = False
        """Whether the version of ResourceSlices is known, and whether the fleet is looked at."""
        self._ask_after = float("-inf")
        self._failures, self._trouble = retry.Failures(), ""

    def look_at_intent(self) -> None:
        """Start with what tells whether there is anything to protect: cheap on any cluster."""
        for stack in self._stacks:
            policies = Source(ListOptions(requests.policies_of(stack.policy)), stack.policy.read)
            self._add(stack, POLICIES, [policies])
            self._add(stack, DAEMON_SETS, self._everywhere(requests.DAEMON_SETS, readers.daemonset))

    def look_at_fleet(self) -> None:
        """Go on with nodes, driver pods, revisions, slices and the operator.

        May be called again, as long as not all is synced: that asks for what could not be asked before. Raises the
        ClusterError for which there is no patience left.
        """
        self._looked = True
        for stack in self._stacks:
            self._look_at_drivers(stack)
            operator = stack.operator
            self._add(stack, NODES, [Source(ListOptions(requests.NODES, labels=stack.nodes.present), readers.node)])
            for part, resource, read in (
                (DEPLOYMENTS, requests.DEPLOYMENTS, readers.deployment),
                (REPLICA_SETS, requests.REPLICA_SETS, readers.replicaset),
            ):
                self._add(stack, part, self._everywhere(resource, read, labels=operator.selector))
            leader = f"metadata.name={operator.lease}"
            self._add(stack, LEASES, self._everywhere(requests.LEASES, readers.lease, fields=leader))
            self._add(stack, SLICES, self._slices_of(stack))
            self._look_at_providers(stack)

    def look_closer(self) -> Mapping[str, tuple[DaemonSet, ...]]:
        """Follow what the last snapshot shows to matter, and nothing else: pods of consumers, pools, other drivers.

        From now on any outage is outlived. Return the consumers of each stack.
        """
        known: dict[str, tuple[DaemonSet, ...]] = {}
        for stack in self._stacks:
            # Called before every decision: only the small parts are put together here, not the fleet.
            seen = assembled(self._parts[stack.name], self._views(stack))
            found = find(seen.daemonsets, stack, self._settings)
            known[stack.name] = found.named
            self._look_at_what_the_policy_says(stack, seen)
            self._patience = retry.watching(self._patience)
            # What looks like a plugin and was not named is never restarted, but a stale one is reported.
            pods = [self._pods_of(ds) for ds in (*found.named, *found.unnamed)]
            self._replace(stack, PLUGIN_PODS, pods, UNWANTED_SECONDS)
            if self._looked:
                self._replace(stack, SLICES, self._slices_of(stack))
        return known

    @property
    def synced(self) -> bool:
        """Everything that is looked at was read once, and nothing is left out because it could not be asked for.

        Raises what made a reflector give up.
        """
        for informer in self._informers.values():
            if informer.problem is not None:
                raise informer.problem
        wanted = self._looked and any(stack.plugin.slice_driver for stack in self._stacks)
        return all(informer.synced for informer in self._informers.values()) and (self._known or not wanted)

    @property
    def lost(self) -> OutOfSync | None:
        """Give the longest loss of contact; None while all that is known is of now, as far as we can know."""
        found = (informer.contact.lost for informer in self._informers.values())
        return min((one for one in found if one is not None), key=lambda one: one.since, default=None)

    def wait(self, seconds: float) -> None:
        """Wait until something changed since the last wait, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._changes > 0, timeout=seconds)
            self._changes = 0

    def stop(self) -> None:
        """Tell all reflectors to end."""
        for informer in self._informers.values():
            informer.stop()

    def snapshot(self) -> dict[str, Snapshot]:
        """Give what is known now, by the name of the stack."""
        views = self._views()
        return {name: assembled(parts, views) for name, parts in self._parts.items()}

    def read_again(self, seconds: float) -> dict[str, Snapshot]:
        """Return what is there now, at least as new as this call, consistently: no watch may be behind in it.

        It takes at most `seconds`; raises the ClusterError that kept it from being complete by then.
        """
        read = SecondRead(self._api, seconds)
        views = {source: read.of(source, informer) for source, informer in self._informers.items()}
        return {name: assembled(parts, views) for name, parts in self._parts.items()}

    def _views(self, intent_of: Stack | None = None) -> Found:
        """Give what the reflectors hold; of one stack's intent alone, if that is asked for."""
        wanted: Iterable[Source] = self._informers
        if intent_of is not None:
            wanted = [source for source, part in self._parts[intent_of.name].items() if part in INTENT]
        return {source: (self._informers[source].views(), self._informers[source].absent) for source in wanted}

    def _look_at_drivers(self, stack: Stack) -> None:
        """Read a stack's driver pods and the revisions that tell which of them are outdated."""
        labels = selector(stack.driver.label)
        self._add(stack, DRIVER_PODS, self._everywhere(requests.PODS, readers.pod, labels=labels))
        self._add(stack, REVISIONS, self._everywhere(requests.CONTROLLER_REVISIONS, readers.revision, labels=labels))

    def _look_at_providers(self, stack: Stack) -> None:
        for name, prerequisite in stack.prerequisites.items():
            if name in self._settings.prerequisites:
                labels = selector(prerequisite.label)
                revisions = self._everywhere(requests.CONTROLLER_REVISIONS, readers.revision, labels=labels)
                self._add(stack, PREREQUISITE_PODS, self._everywhere(requests.PODS, readers.pod, labels=labels))
                self._add(stack, REVISIONS, revisions)

    def _look_at_what_the_policy_says(self, stack: Stack, seen: Snapshot) -> None:
        """Follow pools, the driver that comes first, and drivers whose labels were overridden."""
        policy = rollout.active_policy(seen.policies or (), stack)
        if policy is not None and stack.pool is not None:
            # Pools mean nothing once the policy decides by itself again.
            pools = Source(ListOptions(requests.policies_of(stack.pool)), stack.pool.read)
            self._replace(stack, POOLS, [pools] if policy.pooled else [])
        if any(one.rdma for one in rollout.sources(policy, seen.pools)) and stack.after:
            prior = STACKS[stack.after]
            self._add(prior, DAEMON_SETS, self._everywhere(requests.DAEMON_SETS, readers.daemonset))
            self._look_at_drivers(prior)
        for daemonset in seen.daemonsets:
            key, value = stack.driver.label
            if is_driver(daemonset, stack) and daemonset.template_labels.get(key) != value:
                pods = self._pods_of(daemonset)
                revisions = ListOptions(requests.CONTROLLER_REVISIONS, pods.selection.namespace, pods.selection.labels)
                self._add(stack, DRIVER_PODS, [pods])
                self._add(stack, REVISIONS, [Source(revisions, readers.revision)])

    def _pods_of(self, daemonset: DaemonSet) -> Source:
        """Read a DaemonSet's pods by its own selector."""
        labels = ",".join(f"{key}={value}" for key, value in daemonset.selector)
        return Source(ListOptions(requests.PODS, daemonset.namespace, labels=labels), readers.pod)

    def _slices_of(self, stack: Stack) -> list[Source]:
        """Find out which version of ResourceSlices the server has; none on a cluster without DRA.

        Ask again where the server has none, or no longer has the one that is known.
        """
        if not stack.plugin.slice_driver:
            return []
        current = [source for source, part in self._parts[stack.name].items() if part == SLICES]
        if not current or any(self._informers[source].absent for source in current):
            self._ask()
        if self._slices is None:
            return []
        selection = ListOptions(self._slices, fields=f"spec.driver={stack.plugin.slice_driver}")
        return [Source(selection, readers.device_slice)]

    def _ask(self) -> None:
        """Ask once for the version of ResourceSlices, unless that was a moment ago. The next look asks again."""
        if time.monotonic() < self._ask_after:
            return
        try:
            left = min(ANSWER_SECONDS, self.end - time.monotonic())
            served = self._api.served_versions(requests.RESOURCE_SLICES, left)
        except ClusterError as error:
            pause = ASK_SECONDS if self._known else FIRST_ASK_SECONDS
            self._ask_after = time.monotonic() + max(pause, retry.asked(error))
            self._note_failure(error)
        else:
            self._slices, self._known, self._trouble = requests.resource_slices(served), True, ""
            self._ask_after = time.monotonic() + ASK_SECONDS

    def _note_failure(self, error: ClusterError) -> None:
        """Outlive an error while there is patience for it, or an earlier answer; when the time is up, the loop ends."""
        # Logged once for each reason: nothing is judged until this is known, and no other line reports it.
        level = logging.DEBUG if str(error) == self._trouble else logging.WARNING
        log.log(level, "cannot ask which ResourceSlices the API server has, asking again: %s", error)
        self._trouble = str(error)
        impatient = self._failures.exceed(self._patience, error)
        if impatient and not self._known and time.monotonic() < self.end:
            raise error

    def _everywhere(
        self, resource: requests.GroupVersionResource, read: Reader[Any], labels: str = "", fields: str = ""
    ) -> list[Source]:
        return [Source(ListOptions(resource, namespace, labels, fields), read) for namespace in self._namespaces]

    def _add(self, stack: Stack, part: str, sources: Iterable[Source]) -> None:
        """Let sources fill a part of a stack's snapshot; each selection is followed once."""
        filled = self._parts.setdefault(stack.name, {})
        for source in sources:
            filled[source] = part
            if source not in self._informers:
                informer = Informer(self._api, source.selection, source.read, self._note_change, self._patience)
                self._informers[source] = informer
                informer.start()

    def _replace(self, stack: Stack, part: str, sources: list[Source], grace: float = 0.0) -> None:
        """Fill a part from these sources alone; drop others once nothing has needed them for `grace` seconds."""
        now = time.monotonic()
        for source in [source for source, filled in self._parts[stack.name].items() if filled == part]:
            if source in sources:
                self._unwanted.pop((stack.name, source), None)
            elif now - self._unwanted.setdefault((stack.name, source), now) >= grace:
                self._drop(stack, source)
        self._add(stack, part, sources)

    def _drop(self, stack: Stack, source: Source) -> None:
        """Stop to follow a source, unless another stack needs it, too."""
        del self._parts[stack.name][source]
        del self._unwanted[stack.name, source]
        if not any(source in parts for parts in self._parts.values()):
            self._informers.pop(source).stop()

    def _note_change(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()
