"""The guard on a real API server: what the chart's own ServiceAccount may do with its own token.

Each account also gets rights that the chart never grants (deletecollection, evictions), so that what
is refused is refused by the guard.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from devcluster import binaries
from devcluster.client import path
from hook.objects.drivers import STACKS
from hook.objects.names import PLUGIN_DAEMONSETS
from tests.chart.admission_scene import (
    ALONE,
    DRA,
    HOME,
    NAMESPACES,
    OTHER,
    PLUGIN,
    SOURCES,
    Account,
    account_of_chart,
    administrator,
    with_rights,
)
from tests.chart.admission_trial import (
    EVENTS,
    GROUP,
    MORE,
    OWN,
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
from tests.chart.rendering import Helm

if TYPE_CHECKING:
    from devcluster.cluster import Cluster
    from hook.objects.drivers import Stack

pytestmark = pytest.mark.e2e

CONSUMERS: Final = [{"namespace": OTHER, "name": "exporter"}, {"labels": {"tier": "profiling"}}]
RESTART: Final = {"kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z"}


def _by_rbac(account: Account, pod: str) -> bool:
    """Whether RBAC lets an account delete a pod, whatever the guard then says."""
    answer = account.delete(pod)
    return answer.code == 200 or answer.refused_by_guard


def test_what_it_may_delete(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """Pods of the named consumers, and no others; not by a collection, and not by an eviction."""
    innocent, plugin = pod_of(cluster, DRA, "innocent"), pod_of(cluster, DRA, PLUGIN)
    namesake, alone = pod_of(cluster, OTHER, PLUGIN), pod_of(cluster, ALONE, PLUGIN)
    until(lambda: all(map(partial(on_a_node, cluster), (plugin, alone))), "plugins are on a node")
    bare = path("v1", "pods", namespace=OTHER, name="bare")
    everywhere = account_of_chart(cluster, "everywhere", {"driverClients": CONSUMERS}, MORE)
    narrow = account_of_chart(cluster, "narrow", {"plugin.namespace": DRA}, MORE)
    scoped = account_of_chart(cluster, "scoped", {"rbac.scope": "namespace", "rbac.namespaces": [DRA]}, MORE)
    for account in (everywhere, narrow, scoped):
        in_effect(account, innocent, daemonset(DRA, "innocent"))
    allowed = {
        "a plugin": everywhere.delete(plugin),
        "a plugin of the same name in another namespace": everywhere.delete(namesake),
        "a further consumer by name": everywhere.delete(pod_of(cluster, OTHER, "exporter")),
        "a further consumer by labels": everywhere.delete(pod_of(cluster, OTHER, "profiler")),
        "the plugin in the only namespace of discovery": narrow.delete(plugin),
        "the plugin in a namespace of the scope": scoped.delete(plugin),
        "all pods of a namespace that are plugins": everywhere.delete(path("v1", "pods", namespace=ALONE)),
        "a plugin as the program does": everywhere.delete(plugin, preconditions=as_it_is(cluster, plugin)),
    }
    refused = {
        "a plugin by force": everywhere.delete(plugin, gracePeriodSeconds=0),
        "a plugin by force in the address": everywhere.delete_by_query(plugin, gracePeriodSeconds="0"),
        "a plugin in a hurry": everywhere.delete(plugin, gracePeriodSeconds=1),
        "a plugin with less than no grace": everywhere.delete(plugin, gracePeriodSeconds=-1),
        "all pods of a namespace by force": everywhere.delete(
            path("v1", "pods", namespace=ALONE), really=True, gracePeriodSeconds=0
        ),
        "another DaemonSet": everywhere.delete(innocent),
        "a consumer's name in another namespace": everywhere.delete(pod_of(cluster, DRA, "exporter")),
        "a bare pod with a consumer's labels": everywhere.delete(bare),
        "a ReplicaSet with a plugin's name": everywhere.delete(pod_of(cluster, OTHER, PLUGIN, "ReplicaSet")),
        "a plugin out of the only namespace of discovery": narrow.delete(namesake),
        "a plugin out of the scope": scoped.delete(namesake),
        "a collection with an innocent pod": everywhere.delete(path("v1", "pods", namespace=DRA), really=True),
        "an eviction of a plugin": everywhere.evict(DRA, plugin.rpartition("/")[2]),
        "an eviction of another pod": everywhere.evict(OTHER, "bare"),
    }
    refused |= {
        f"the {name} with a consumer's labels": everywhere.delete(pod_of(cluster, OTHER, name)) for name in SOURCES
    }
    judge(subtests, allowed, refused)
    assert cluster.get(innocent)["metadata"].get("deletionTimestamp") is None
    assert everywhere.delete(namesake, really=True).code == 200


def test_whom_it_concerns(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """Nobody but its own ServiceAccount; and where it is turned off, RBAC alone decides."""
    innocent = pod_of(cluster, DRA, "innocent")
    guarded = account_of_chart(cluster, "guarded", {})
    until(lambda: guarded.delete(innocent).refused_by_guard, "the guard is in effect")
    unguarded = account_of_chart(cluster, "unguarded", {"rbac.admissionPolicy.enabled": False})
    others = {
        "an account of the same name elsewhere": with_rights(cluster, OTHER, "guarded", MORE),
        "another account beside it": with_rights(cluster, HOME, "guarded-too", MORE),
        "the same account with the guard off": unguarded,
        "an administrator": administrator(cluster),
    }
    for account in others.values():
        until(partial(_by_rbac, account, innocent), "the role is in effect")
    eviction = (DRA, innocent.rpartition("/")[2])
    theirs = daemonset(DRA, "innocent")
    allowed = {f"{who} deletes a pod": account.delete(innocent) for who, account in others.items()}
    allowed |= {f"{who} forces it": account.delete(innocent, gracePeriodSeconds=0) for who, account in others.items()}
    del others["the same account with the guard off"]
    allowed |= {f"{who} evicts a pod": account.evict(*eviction) for who, account in others.items()}
    allowed |= {f"{who} changes a DaemonSet": account.patch(theirs, image("x")) for who, account in others.items()}
    judge(subtests, allowed, {})
    with subtests.test("the expressions fit the kinds that they judge"):
        assert_no_warnings(cluster, ["guarded"])
    with subtests.test("the API server fills nothing into a list, which GitOps tools would take for a difference"):
        rendered = Helm(cluster.binary("helm4")).render({"fullnameOverride": "guarded"})
        for policy in rendered.all("ValidatingAdmissionPolicy"):
            url = path(GROUP, "validatingadmissionpolicies", name=policy["metadata"]["name"])
            assert _lists(policy) == _lists(cluster.get(url))


def test_what_it_may_change_of_a_daemonset(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """With strategy rollout: the restart annotation of a consumer's template, which is no way to become root."""
    plugin, innocent = daemonset(DRA, PLUGIN), daemonset(DRA, "innocent")
    rollout = account_of_chart(cluster, "rollout", {"strategy": "rollout-restart", "driverClients": CONSUMERS})
    until(lambda: rollout.patch(innocent, _template(annotations=RESTART)).refused_by_guard, "the guard is in effect")
    allowed = {
        "a restart": rollout.patch(plugin, _template(annotations=RESTART), really=True),
        "another restart": rollout.patch(plugin, _template(annotations={next(iter(RESTART)): "later"})),
        "a restart of a consumer by name": rollout.patch(daemonset(OTHER, "exporter"), _template(annotations=RESTART)),
        "a restart by labels": rollout.patch(daemonset(OTHER, "profiler"), _template(annotations=RESTART)),
        "anything by an administrator": administrator(cluster).patch(plugin, image("other")),
    }
    refused = {
        "a restart of another DaemonSet": rollout.patch(innocent, _template(annotations=RESTART)),
        "a restart in another namespace": rollout.patch(daemonset(DRA, "exporter"), _template(annotations=RESTART)),
        "an image": rollout.patch(plugin, image("other")),
        "an image beside a restart": rollout.patch(plugin, image("other", annotations=RESTART)),
        "the host's processes": rollout.patch(plugin, _template_spec(hostPID=True)),
        "another annotation of the template": rollout.patch(plugin, _template(annotations={**RESTART, "a": "b"})),
        "an annotation taken away": rollout.patch(plugin, _template(annotations={"checksum/config": None})),
        "a label of the template": rollout.patch(plugin, _template(labels={"a": "b"})),
        "a finalizer of the template": rollout.patch(plugin, _template(finalizers=["a.b/c"])),
        "the strategy": rollout.patch(plugin, {"spec": {"updateStrategy": {"type": "OnDelete"}}}),
        "the history": rollout.patch(plugin, {"spec": {"revisionHistoryLimit": 0}}),
        "a label": rollout.patch(plugin, {"metadata": {"labels": {"a": "b"}}}),
        "an annotation": rollout.patch(plugin, {"metadata": {"annotations": {"a": "b"}}}),
        "a finalizer": rollout.patch(plugin, {"metadata": {"finalizers": ["a.b/c"]}}),
    }
    refused |= {
        f"a restart of the {name}": rollout.patch(daemonset(OTHER, name), _template(annotations=RESTART))
        for name in SOURCES
    }
    judge(subtests, allowed, refused)
    with subtests.test("the expressions fit the kinds that they judge"):
        assert_no_warnings(cluster, ["rollout"])


def test_which_events_it_may_write(cluster: Cluster, subtests: pytest.Subtests) -> None:
    """Its own, on Jobs and DaemonSets, and their counts; those of others are evidence, and stay as they are."""
    recorder = account_of_chart(cluster, "teller", {})
    everybody = administrator(cluster)
    kubelets: dict[str, Any] = {"source": {"component": "kubelet"}, "reportingComponent": "kubelet"}
    assert everybody.create(EVENTS, event("theirs", **kubelets), really=True).code in {200, 409}
    until(lambda: recorder.create(EVENTS, event("try", **kubelets)).refused_by_guard, "the guard is in effect")
    assert recorder.create(EVENTS, event("own"), really=True).code in {200, 409}
    own, theirs = (path("v1", "events", namespace=DRA, name=name) for name in ("own", "theirs"))
    again = {"message": "again", "count": 2}
    allowed = {
        "an event on a Job": recorder.create(EVENTS, event("job", kind="Job")),
        "an own event again": recorder.patch(own, again),
        "anything by an administrator": everybody.patch(theirs, again),
    }
    refused = {
        "another's event": recorder.patch(theirs, again),
        "another's event as its own": recorder.patch(theirs, OWN),
        "an own event as another's": recorder.patch(own, kubelets),
        "an event of another component": recorder.create(EVENTS, event("a", source={"component": "kubelet"})),
        "an event that another component reports": recorder.create(EVENTS, event("a", reportingComponent="kubelet")),
        "an event on a node": recorder.create(EVENTS, event("a", kind="Node")),
        "an own event on a pod": recorder.patch(own, {"involvedObject": {"kind": "Pod"}}),
    }
    judge(subtests, allowed, refused)
    with subtests.test("the expressions fit the kinds that they judge"):
        assert_no_warnings(cluster, ["teller"])


def _lists(policy: dict[str, Any]) -> dict[str, Any]:
    """Give the parts of a policy that are compared as wholes."""
    spec = policy["spec"]
    parts = {name: spec.get(name) for name in ("matchConditions", "validations", "variables")}
    return {**parts, "resourceRules": spec["matchConstraints"]["resourceRules"]}


def _template(**metadata: object) -> dict[str, Any]:
    return {"spec": {"template": {"metadata": metadata}}}


def _template_spec(**spec: object) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


def test_names_of_the_scene_are_those_of_the_chart() -> None:
    """The plugin here carries a default name, and the release's namespace is among those of the scene."""
    assert PLUGIN in PLUGIN_DAEMONSETS
    assert HOME in NAMESPACES


@pytest.mark.parametrize("stack", STACKS.values(), ids=lambda stack: stack.name)
def test_the_guard_knows_the_sources_of_every_stack(stack: Stack) -> None:
    """What the program never restarts is what the guard never lets it restart, also if it errs."""
    helm = Helm(binaries.ensure(["helm4"])["helm4"])
    labels = [stack.driver.label, *(prerequisite.label for prerequisite in stack.prerequisites.values())]
    policies = helm.render({"driverClients": CONSUMERS}).all("ValidatingAdmissionPolicy")
    for policy in (one for one in policies if not one["metadata"]["name"].endswith(".events")):
        expressions = str(policy["spec"]["variables"])
        assert [one for one in labels if f'[?"{one[0]}"] == optional.of("{one[1]}")' not in expressions] == []
        assert f'"{stack.driver.container}"' in expressions
