"""The guard and the roles of a follower on a real API server, and of a Job that hands over to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster.client import path
from tests.chart.admission_scene import DRA, HOME, OTHER, PLUGIN, acting_as, administrator, install
from tests.chart.admission_trial import (
    EVENTS,
    MORE,
    PARTS,
    as_it_is,
    assert_no_warnings,
    daemonset,
    event,
    image,
    in_effect,
    judge,
    on_a_node,
    pod_of,
    until,
)

if TYPE_CHECKING:
    from devcluster.cluster import Cluster

pytestmark = pytest.mark.e2e

LEASES: Final = "coordination.k8s.io/v1"
ANY_LEASE: Final = (
    *MORE,
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "update", "patch", "delete"]},
)
HELD: Final = {"spec": {"holderIdentity": "somebody"}}


def test_what_a_follower_may_do(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """What the Job may, under the same rules; and one Lease, whatever others granted it."""
    innocent, plugin = pod_of(cluster, DRA, "innocent"), pod_of(cluster, DRA, PLUGIN)
    until(lambda: on_a_node(cluster, plugin), "the plugin is on a node")
    install(cluster, "leader", {"controller.enabled": True, "job.mode": "delegate"})
    job, controller = acting_as(cluster, "leader", ANY_LEASE), acting_as(cluster, "leader-controller", ANY_LEASE)
    in_effect(controller, innocent, daemonset(DRA, "innocent"))
    everybody = administrator(cluster)
    for name in ("leader", "others"):
        assert everybody.create(_leases(HOME), _lease(name), really=True).code in {200, 409}
    own, others = (path(LEASES, "leases", namespace=HOME, name=name) for name in ("leader", "others"))
    until(lambda: controller.patch(others, HELD).refused_by_guard, "the guard of Leases is in effect")
    allowed = {
        "a plugin": controller.delete(plugin),
        "a plugin as the program does": controller.delete(plugin, preconditions=as_it_is(cluster, plugin)),
        "its own Lease": controller.patch(own, HELD, really=True),
        "an event on its Deployment": controller.create(EVENTS, event("follower", kind="Deployment")),
        "an event on a DaemonSet": controller.create(EVENTS, event("follower")),
        "any Lease by an administrator": everybody.patch(others, HELD),
    }
    refused = {
        "another DaemonSet's pod": controller.delete(innocent),
        "a plugin by force": controller.delete(plugin, gracePeriodSeconds=0),
        "an eviction": controller.evict(DRA, plugin.rpartition("/")[2]),
        "an image": controller.patch(daemonset(DRA, PLUGIN), image("other")),
        "an event on a node": controller.create(EVENTS, event("node", kind="Node")),
        "another Lease": controller.patch(others, HELD),
        "a new Lease of another name": controller.create(_leases(HOME), _lease("fresh")),
        "a new Lease of a name to be made up": controller.create(_leases(HOME), _lease("", generateName="leader")),
        "a Lease of its name elsewhere": controller.create(_leases(OTHER), _lease("leader")),
        "an end of its Lease": controller.delete(own),
        "an end of another Lease": controller.delete(others),
        "another Lease by the Job": job.patch(others, HELD),
        "another DaemonSet's pod by the Job": job.delete(innocent),
    }
    judge(subtests, allowed, refused)
    with subtests.test("it may create its own"):
        assert everybody.delete(own, really=True).code == 200
        assert controller.create(_leases(HOME), _lease("leader"), really=True).code == 200
    with subtests.test("the expressions fit the kinds that they judge"):
        assert_no_warnings(cluster, ["leader"], (*PARTS, "leases"))


def test_what_roles_leave_a_job_that_hands_over(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """Without anything that others granted: it sees the Lease, and may neither write it nor restart a plugin."""
    plugin = pod_of(cluster, DRA, PLUGIN)
    until(lambda: on_a_node(cluster, plugin), "the plugin is on a node")
    install(cluster, "plain", {"controller.enabled": True, "job.mode": "delegate"})
    job, controller = acting_as(cluster, "plain"), acting_as(cluster, "plain-controller")
    own = path(LEASES, "leases", namespace=HOME, name="plain")
    until(
        lambda: controller.create(_leases(HOME), _lease("plain"), really=True).code in {200, 409}, "roles are in effect"
    )
    until(lambda: job.get(own).code == 200, "the Job's role is in effect")
    assert administrator(cluster).create(_leases(HOME), _lease("foreign"), really=True).code in {200, 409}
    foreign = path(LEASES, "leases", namespace=HOME, name="foreign")
    answers = {
        "the Job takes the Lease": job.patch(own, HELD),
        "the Job restarts a plugin": job.delete(plugin),
        "the Job reads another Lease": job.get(foreign),
        "the follower reads another Lease": controller.get(foreign),
        "the follower writes another Lease": controller.patch(foreign, HELD),
        "the follower ends its Lease": controller.delete(own),
        "the follower makes a Lease elsewhere": controller.create(_leases(OTHER), _lease("plain")),
        "the follower reads a Secret": controller.get(path("v1", "secrets", namespace=HOME)),
    }
    for what, answer in answers.items():
        with subtests.test(f"refused by roles: {what}"):
            assert (answer.code, answer.refused_by_guard) == (403, False), answer
    with subtests.test("the follower restarts a plugin"):
        assert controller.delete(plugin).code == 200
    with subtests.test("the follower keeps its Lease"):
        assert controller.patch(own, HELD, really=True).code == 200
        assert controller.get(own).code == 200


def _leases(namespace: str) -> str:
    return path(LEASES, "leases", namespace=namespace)


def _lease(name: str, **metadata: str) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"apiVersion": LEASES, "kind": "Lease", "metadata": {**named, **metadata}, **HELD}
