"""The admission policy on a real API server: what the chart's ServiceAccounts may do with their tokens.

Each account also gets rights that the chart never grants (deletecollection, evictions), so that the admission policy
refuses what is refused.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from devcluster.client import path
from devcluster.cluster import Cluster
from tests.chart.cluster.scene import (
    ALONE,
    DRA,
    EVENTS,
    HOME,
    MORE,
    OTHER,
    OWN,
    PLUGIN,
    SOURCES,
    account_of_chart,
    acting_as,
    administrator,
    apply,
    as_it_is,
    assert_answers,
    assert_no_warnings,
    event,
    in_effect,
    pod_of,
    scene,
    scheduled,
)  # fmt: skip
from tests.chart.rendering import Values
from tests.client.server import until

pytestmark = pytest.mark.e2e

CLIENTS: Final = [{"namespace": OTHER, "name": "exporter"}, {"labels": {"tier": "profiling"}}]
KUBELETS: Final[dict[str, Any]] = {"source": {"component": "kubelet"}, "reportingComponent": "kubelet"}
PODS_ALONE: Final = path("v1", "pods", namespace=ALONE)


@pytest.fixture(scope="module", autouse=True)
def _scene(cluster: Cluster) -> None:
    apply(cluster, scene())


def test_what_it_may_delete(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """It may delete pods of plugins and driver clients, and no others; not as a collection, and not by an eviction."""
    innocent, plugin = pod_of(cluster, DRA, "innocent"), scheduled(cluster, DRA, PLUGIN)
    namesake, bare = pod_of(cluster, OTHER, PLUGIN), path("v1", "pods", namespace=OTHER, name="bare")
    scheduled(cluster, ALONE, PLUGIN)
    everywhere = account_of_chart(cluster, "everywhere", {"driverClients": CLIENTS}, MORE)
    narrow = account_of_chart(cluster, "narrow", {"plugin.namespace": DRA}, MORE)
    as_charted = account_of_chart(cluster, "as-charted", {"plugin.namespace": DRA})
    for account in (everywhere, narrow, as_charted):
        in_effect(account, innocent)
    allowed = {
        "a plugin of the same name in another namespace": everywhere.delete(namesake),
        "a driver client by name": everywhere.delete(pod_of(cluster, OTHER, "exporter")),
        "a driver client by labels": everywhere.delete(pod_of(cluster, OTHER, "profiler")),
        "the plugin in plugin.namespace": narrow.delete(plugin),
        "the plugin in plugin.namespace by the chart's Role": as_charted.delete(plugin),
        "all pods of a namespace that are plugins": everywhere.delete(PODS_ALONE),
        "another pod by an administrator": administrator(cluster).delete(innocent),
        "a plugin as the program does": everywhere.delete(plugin, preconditions=as_it_is(cluster, plugin)),
    }
    denied = {
        "a plugin by force": everywhere.delete(plugin, gracePeriodSeconds=0),
        "a plugin by force in the address": everywhere.delete_by_query(plugin, "gracePeriodSeconds=0"),
        "a plugin with a short grace period": everywhere.delete(plugin, gracePeriodSeconds=1),
        "a plugin with a negative grace period": everywhere.delete(plugin, gracePeriodSeconds=-1),
        "all pods of a namespace by force": everywhere.delete(PODS_ALONE, really=True, gracePeriodSeconds=0),
        "another DaemonSet": everywhere.delete(innocent),
        "a driver client's name in another namespace": everywhere.delete(pod_of(cluster, DRA, "exporter")),
        "a bare pod with a driver client's labels": everywhere.delete(bare),
        "a ReplicaSet with a plugin's name": everywhere.delete(pod_of(cluster, OTHER, PLUGIN, "ReplicaSet")),
        "a plugin outside of plugin.namespace": narrow.delete(namesake),
        "a collection with an innocent pod": everywhere.delete(path("v1", "pods", namespace=DRA), really=True),
        "an eviction of a plugin": everywhere.evict(plugin),
        "an eviction of another pod": everywhere.evict(bare),
        **{f"{name} with a client's labels": everywhere.delete(pod_of(cluster, OTHER, name)) for name in SOURCES},
    }
    assert_answers(subtests, allowed, denied)
    with subtests.test("no Role outside of plugin.namespace"):
        refused = as_charted.delete(namesake)
        assert (refused.code, refused.denied) == (403, False)
    assert_no_warnings(cluster, ["everywhere", "narrow", "as-charted"])
    assert cluster.get(innocent)["metadata"].get("deletionTimestamp") is None
    assert everywhere.delete(namesake, really=True).code == 200


def test_which_events_it_may_write(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """It may write its own, on Jobs and DaemonSets, and their counts; those of others are evidence and stay."""
    recorder, everybody = account_of_chart(cluster, "recorder", {}), administrator(cluster)
    everybody.create(EVENTS, event("theirs", **KUBELETS), really=True)
    until(lambda: recorder.create(EVENTS, event("try", **KUBELETS)).denied, "the policy is in effect")
    recorder.create(EVENTS, event("own"), really=True)
    own, theirs = (path("v1", "events", namespace=DRA, name=name) for name in ("own", "theirs"))
    again = {"message": "again", "count": 2}
    allowed = {
        "an event on a Job": recorder.create(EVENTS, event("job", kind="Job")),
        "an own event again": recorder.patch(own, again),
        "anything by an administrator": everybody.patch(theirs, again),
    }
    denied = {
        "another's event": recorder.patch(theirs, again),
        "another's event as its own": recorder.patch(theirs, OWN),
        "an own event as another's": recorder.patch(own, KUBELETS),
        "an event of another component": recorder.create(EVENTS, event("a", source={"component": "kubelet"})),
        "an event that another component reports": recorder.create(EVENTS, event("a", reportingComponent="kubelet")),
        "an event on a node": recorder.create(EVENTS, event("a", kind="Node")),
        "an event on a pod": recorder.create(EVENTS, event("a", kind="Pod")),
        "an own event on a pod": recorder.patch(own, {"involvedObject": {"kind": "Pod"}}),
    }
    assert_answers(subtests, allowed, denied)
    assert_no_warnings(cluster, ["recorder"])


LEASES: Final = "coordination.k8s.io/v1"
ANY_LEASE: Final = (
    *MORE,
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "update", "patch", "delete"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "patch", "delete"]},
)
HELD: Final = {"spec": {"holderIdentity": "another"}}
BOTH: Final[Values] = {"controller.enabled": True}


def test_what_a_controller_may_do(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """It may do what the Job may, under the same rules; and use one Lease, whatever else it was granted."""
    innocent, plugin = pod_of(cluster, DRA, "innocent"), scheduled(cluster, DRA, PLUGIN)
    job = account_of_chart(cluster, "leader", BOTH, ANY_LEASE)
    controller = acting_as(cluster, "leader-controller", ANY_LEASE)
    in_effect(controller, innocent)
    everybody = administrator(cluster)
    for name in ("leader", "others"):
        everybody.create(_leases(HOME), _lease(name), really=True)
    own, others = (path(LEASES, "leases", namespace=HOME, name=name) for name in ("leader", "others"))
    state, settings = (path("v1", "configmaps", namespace=HOME, name=name) for name in ("leader-status", "settings"))
    everybody.create(path("v1", "configmaps", namespace=HOME), {"metadata": {"name": "settings"}}, really=True)
    until(lambda: controller.patch(others, HELD).denied, "the policy for Leases is in effect")
    allowed = {
        "a plugin": controller.delete(plugin, preconditions=as_it_is(cluster, plugin)),
        "its own Lease": controller.patch(own, HELD, really=True),
        "its status object": controller.patch(state, {"data": {"phase": "Progressing"}}),
        "the status object by the Job": job.patch(state, {"data": {"phase": "Progressing"}}),
        "an event on its Deployment": controller.create(EVENTS, event("controller", kind="Deployment")),
        "any Lease by an administrator": everybody.patch(others, HELD),
    }
    denied = {
        "another DaemonSet's pod": controller.delete(innocent),
        "a plugin by force": controller.delete(plugin, gracePeriodSeconds=0),
        "an event on a node": controller.create(EVENTS, event("node", kind="Node")),
        "another Lease": controller.patch(others, HELD),
        "a new Lease of another name": controller.create(_leases(HOME), _lease("fresh")),
        "a new Lease of a generated name": controller.create(_leases(HOME), _lease("", generateName="leader")),
        "a Lease of its name elsewhere": controller.create(_leases(OTHER), _lease("leader")),
        "deletion of its Lease": controller.delete(own),
        "another ConfigMap": controller.patch(settings, {"data": {"a": "b"}}),
        "deletion of the status object": controller.delete(state),
        "another Lease by the Job": job.patch(others, HELD),
        "another ConfigMap by the Job": job.patch(settings, {"data": {"a": "b"}}),
        "another DaemonSet's pod by the Job": job.delete(innocent),
    }
    assert_answers(subtests, allowed, denied)
    with subtests.test("it may create its own"):
        assert everybody.delete(own, really=True).code == 200
        assert controller.create(_leases(HOME), _lease("leader"), really=True).code == 200
    assert_no_warnings(cluster, ["leader"])


def _leases(namespace: str) -> str:
    return path(LEASES, "leases", namespace=namespace)


def _lease(name: str, **metadata: str) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"apiVersion": LEASES, "kind": "Lease", "metadata": {**named, **metadata}, **HELD}
