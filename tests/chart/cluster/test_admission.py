"""The admission policy on a real API server: what the chart's ServiceAccounts may do.

Each account also gets rights that the chart never grants (deletecollection, evictions), so that the admission policy
refuses what is refused.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from devcluster.boot.cluster import Cluster
from hook.kube.events import COMPONENT
from hook.kube.taints import Release
from hook.objects import names
from hook.objects.taints import Place, spec_of
from tests.chart.cluster.scene import (
    ALONE,
    DRA,
    HOME,
    OTHER,
    PLUGIN,
    Account,
    accepted,
    apply,
    assert_no_warnings,
    denied,
    grant,
    install,
    pod_of,
    scene,
    wait_for_pods,
)  # fmt: skip
from tests.client.server import until
from tests.fixtures.objects import merged

pytestmark = pytest.mark.e2e

CLIENTS: Final = [{"namespace": OTHER, "name": "exporter"}, {"labels": {"tier": "profiling"}}]
ALL: Final = ["get", "create", "update", "patch", "delete"]


@pytest.fixture(scope="module", autouse=True)
def _scene(cluster: Cluster) -> None:
    apply(cluster, scene())
    wait_for_pods(cluster)


@pytest.fixture(scope="module")
def everywhere(cluster: Cluster) -> Account:
    """Return an account that refreshes plugins in any namespace, and two driver clients."""
    account = install(cluster, "everywhere", {"driverClients": CLIENTS})
    grant(cluster, [account], pods=["delete", "deletecollection"], pods_eviction=["create"])
    _in_effect(account)
    return account


@pytest.fixture(scope="module")
def narrow(cluster: Cluster) -> Account:
    """Return an account that refreshes plugins in one namespace, and may delete any pod by another role."""
    account = install(cluster, "narrow", {"plugin.namespace": DRA})
    grant(cluster, [account], pods=["delete"])
    _in_effect(account)
    return account


def _in_effect(account: Account) -> None:
    until(lambda: denied(account.try_to(_delete(DRA, "innocent"))), "the policy for pods is in effect")


def _delete(namespace: str, part: str, *options: str) -> str:
    return " ".join(["delete pods", f"-n {namespace} -l scene={part} --wait=false", *options])


def _collection(namespace: str) -> str:
    return f"delete --raw /api/v1/namespaces/{namespace}/pods?dryRun=All -f -"


def _options(**options: object) -> dict[str, object]:
    return {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"], **options}


MAY_DELETE: Final = {
    "a plugin": _delete(DRA, "plugin"),
    "a plugin of the same name in another namespace": _delete(OTHER, "namesake"),
    "a driver client by name, whose grace period is 0": _delete(OTHER, "exporter"),
    "a driver client by labels": _delete(OTHER, "profiler"),
}
MAY_NOT_DELETE: Final = {
    "a plugin by force": _delete(DRA, "plugin", "--force", "--grace-period=0"),
    "a plugin with a short grace period": _delete(DRA, "plugin", "--grace-period=1"),
    "another DaemonSet": _delete(DRA, "innocent"),
    "a driver client's name in another namespace": _delete(DRA, "exporters-namesake"),
    "a bare pod with a driver client's labels": _delete(OTHER, "bare"),
    "a ReplicaSet with a plugin's name": _delete(OTHER, "replicaset"),
    "a driver with a client's labels": _delete(OTHER, "driver"),
    "a driver by its container": _delete(OTHER, "relabelled"),
    "a network driver with a client's labels": _delete(OTHER, "ofed"),
    "the container toolkit with a client's labels": _delete(OTHER, "toolkit"),
}


@pytest.mark.parametrize("command", MAY_DELETE.values(), ids=MAY_DELETE.keys())
def test_what_it_may_delete(everywhere: Account, command: str) -> None:
    """It may delete pods of plugins and of driver clients."""
    assert accepted(everywhere.try_to(command))


@pytest.mark.parametrize("command", MAY_NOT_DELETE.values(), ids=MAY_NOT_DELETE.keys())
def test_what_it_may_not_delete(everywhere: Account, command: str) -> None:
    """It may delete no other pod, and none by force."""
    assert denied(everywhere.try_to(command))


def test_a_plugin_is_deleted_as_the_program_does(cluster: Cluster, everywhere: Account) -> None:
    """With preconditions; but not by force, in no part of the request."""
    metadata = pod_of(cluster, "plugin")["metadata"]
    raw = f"delete --raw /api/v1/namespaces/{DRA}/pods/{metadata['name']}?dryRun=All"
    conditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert accepted(everywhere.try_to(f"{raw} -f -", _options(preconditions=conditions)))
    assert denied(everywhere.try_to(f"{raw} -f -", _options(gracePeriodSeconds=-1)))
    assert denied(everywhere.try_to(f"{raw}&gracePeriodSeconds=0"))


def test_collections_and_evictions(cluster: Cluster, everywhere: Account) -> None:
    """A collection may have plugins only, and none by force. An eviction does not show whose pod it is."""
    assert accepted(everywhere.try_to(_collection(ALONE), _options()))
    assert denied(everywhere.try_to(_collection(ALONE), _options(gracePeriodSeconds=0)))
    assert denied(everywhere.try_to(_collection(DRA), _options()))
    for part in ("plugin", "bare"):
        metadata = pod_of(cluster, part)["metadata"]
        address = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction?dryRun=All"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": metadata["name"]}}
        assert denied(everywhere.try_to(f"create --raw {address} -f -", eviction))


def test_what_it_may_delete_with_plugins_in_one_namespace(cluster: Cluster, narrow: Account) -> None:
    """The policy refuses the other namespaces, and the chart grants nothing there."""
    charted = install(cluster, "as-charted", {"plugin.namespace": DRA})
    assert accepted(narrow.try_to(_delete(DRA, "plugin")))
    assert denied(narrow.try_to(_delete(OTHER, "namesake")))
    assert accepted(charted.try_to(_delete(DRA, "plugin")))
    refused = charted.try_to(_delete(OTHER, "namesake"))
    assert ("Forbidden" in refused.stderr, denied(refused)) == (True, False)


def test_no_other_user_is_affected(cluster: Cluster, everywhere: Account, narrow: Account) -> None:
    """An administrator may delete any pod. The API server warns about no expression."""
    assert accepted(Account(cluster).try_to(_delete(DRA, "innocent", "--force", "--grace-period=0")))
    assert_no_warnings(cluster, [everywhere, narrow])


OWN: Final[dict[str, Any]] = {"source": {"component": COMPONENT}, "reportingComponent": COMPONENT}
KUBELETS: Final[dict[str, Any]] = {"source": {"component": "kubelet"}, "reportingComponent": "kubelet"}


def _event(name: str, kind: str = "DaemonSet", **more: object) -> dict[str, Any]:
    """Describe an Event as the program writes it."""
    about = {"kind": kind, "name": PLUGIN, "namespace": DRA}
    head = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": DRA}}
    return {**head, "involvedObject": about, "reason": "Test", **OWN, **more}


@pytest.fixture(scope="module")
def recorder(cluster: Cluster) -> Account:
    """Return an account, with an Event of its own and one of another component in the cluster."""
    account = install(cluster, "recorder", {"controller.enabled": True})
    grant(cluster, [account], events=["get"])  # kubectl reads what it patches
    until(lambda: denied(account.try_to("create -f -", _event("try", "Node"))), "the policy for Events is in effect")
    apply(cluster, [_event("own"), _event("theirs", **KUBELETS)])
    return account


@pytest.mark.parametrize("kind", ["DaemonSet", "Deployment", "Job"])
def test_which_events_it_may_create(recorder: Account, kind: str) -> None:
    """It may write its own, on what it reports."""
    assert accepted(recorder.try_to("create -f -", _event("new", kind)))


FOREIGN: Final = {
    "of another component": _event("new", source={"component": "kubelet"}),
    "that another component reports": _event("new", reportingComponent="kubelet"),
    "on a node": _event("new", "Node"),
    "on a pod": _event("new", "Pod"),
}


@pytest.mark.parametrize("event", FOREIGN.values(), ids=FOREIGN.keys())
def test_which_events_it_may_not_create(recorder: Account, event: dict[str, Any]) -> None:
    """It may write none in another's name, and none on other kinds."""
    assert denied(recorder.try_to("create -f -", event))


def test_which_events_it_may_change(cluster: Cluster, recorder: Account) -> None:
    """It may count its own; those of others are evidence and stay."""
    patch = f"patch event -n {DRA} --type=merge --patch-file=/dev/stdin"
    again = {"message": "again", "count": 2}
    assert accepted(recorder.try_to(f"{patch} own", again))
    assert accepted(Account(cluster).try_to(f"{patch} theirs", again))
    for name, body in (
        ("theirs", again),
        ("theirs", OWN),
        ("own", KUBELETS),
        ("own", {"involvedObject": {"kind": "Pod"}}),
    ):
        assert denied(recorder.try_to(f"{patch} {name}", body)), (name, body)
    assert_no_warnings(cluster, [recorder])


PATCH_LEASE: Final = """patch lease --type=merge -p '{"spec": {"holderIdentity": "another"}}'"""
PATCH_STATUS: Final = """patch configmap --type=merge -p '{"data": {"phase": "Progressing"}}'"""
MAY_WRITE: Final = {
    "its own Lease": f"{PATCH_LEASE} leader",
    "its status object": f"{PATCH_STATUS} leader-status",
}
MAY_NOT_WRITE: Final = {
    "another Lease": f"{PATCH_LEASE} others",
    "deletion of its Lease": "delete lease leader",
    "another ConfigMap": f"{PATCH_STATUS} settings",
    "deletion of the status object": "delete configmap leader-status",
}


def _lease(name: str, namespace: str = HOME, **metadata: str) -> dict[str, Any]:
    named = {"name": name} if name else {}
    head = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**head, "metadata": {**named, "namespace": namespace, **metadata}}


@pytest.fixture(scope="module")
def leaders(cluster: Cluster) -> dict[str, Account]:
    """Return the accounts of a Job and of a controller that may write any Lease and ConfigMap by another role."""
    job = install(cluster, "leader", {"controller.enabled": True})
    controller = Account(cluster, "leader-controller")
    grant(cluster, [job, controller], pods=["delete"], leases=ALL, configmaps=ALL)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": HOME}}
    apply(cluster, [_lease("leader"), _lease("others"), settings])
    for account in (job, controller):
        _in_effect(account)
        until(lambda: denied(controller.try_to(f"{PATCH_LEASE} others -n {HOME}")), "the policy is in effect")
    return {"Job": job, "controller": controller}


@pytest.mark.parametrize("account", ["Job", "controller"])
@pytest.mark.parametrize("command", MAY_WRITE.values(), ids=MAY_WRITE.keys())
def test_what_it_may_write(leaders: dict[str, Account], account: str, command: str) -> None:
    """It may write the objects of its release."""
    assert accepted(leaders[account].try_to(f"{command} -n {HOME}"))


@pytest.mark.parametrize("account", ["Job", "controller"])
@pytest.mark.parametrize("command", MAY_NOT_WRITE.values(), ids=MAY_NOT_WRITE.keys())
def test_what_it_may_not_write(leaders: dict[str, Account], account: str, command: str) -> None:
    """It may write no other, whatever else it was granted, and delete none."""
    assert denied(leaders[account].try_to(f"{command} -n {HOME}"))


NEW_LEASES: Final = {
    "of another name": _lease("fresh"),
    "of a generated name": _lease("", generateName="leader"),
    "of its name elsewhere": _lease("leader", OTHER),
}


@pytest.mark.parametrize("lease", NEW_LEASES.values(), ids=NEW_LEASES.keys())
def test_which_leases_it_may_not_create(leaders: dict[str, Account], lease: dict[str, Any]) -> None:
    """A Role cannot limit a creation to a name."""
    assert denied(leaders["controller"].try_to("create -f -", lease))


def test_it_may_create_its_own_lease(cluster: Cluster, leaders: dict[str, Account]) -> None:
    """The controller creates it at its first start."""
    cluster.kubectl("delete", "lease", "leader", "-n", HOME)
    assert accepted(leaders["controller"].try_to("create -f -", _lease("leader")))
    assert_no_warnings(cluster, [leaders["Job"]])


def test_a_controller_may_delete_what_a_job_may(leaders: dict[str, Account]) -> None:
    """The same policies hold for both."""
    assert accepted(leaders["controller"].try_to(_delete(DRA, "plugin")))
    assert denied(leaders["controller"].try_to(_delete(DRA, "innocent")))
    assert denied(leaders["controller"].try_to(_delete(DRA, "plugin", "--force", "--grace-period=0")))


TAINTS: Final = {"controller.enabled": True, "deviceTaints.enabled": True}
PLACE: Final = Place("gpu.nvidia.com", "gpu-0")


def _rule(release: str, place: Place = PLACE, owner: str = "", **taint: str) -> dict[str, Any]:
    """Describe a rule as the program writes it, for a release or with another owner or taint."""
    mine = Release(HOME, release, "job")
    spec = spec_of(place, "DriverMissing")
    reference = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": owner or mine.role}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": f"new-{release}",
            "labels": {**mine.labels, names.COMPONENT_LABEL: mine.component},
            "ownerReferences": [{**reference, "uid": "any"}],
        },
        "spec": {**spec, "taint": {**spec["taint"], **taint}},
    }


WRONG_RULES: Final = {
    "of another release": _rule("other"),
    "with another key": _rule("tainting", key="mine"),
    "that evicts": _rule("tainting", effect="NoExecute"),
    "for another driver": _rule("tainting", Place("dra.example", "gpu-0")),
    "for all pools": merged(_rule("tainting"), {"spec": {"deviceSelector": {"pool": None}}}),
    "that would stay": _rule("tainting", owner="cluster-admin"),
    "that would stay after the Job": _rule("tainting", owner=f"{HOME}:tainting:device-taints:controller"),
    "without an owner": merged(_rule("tainting"), {"metadata": {"ownerReferences": None}}),
}


@pytest.fixture(scope="module")
def tainting(cluster: Cluster) -> Account:
    """Return an account that may write any rule by another role; there is one of it and one of a user."""
    account = install(cluster, "tainting", TAINTS)
    grant(cluster, [account], devicetaintrules=[*ALL, "deletecollection"])
    until(lambda: denied(account.try_to("create -f -", _rule("other"))), "the policy for rules is in effect")
    users = {**_rule("tainting"), "metadata": {"name": "users"}}
    owned = _rule("tainting")
    (role,) = (each for each in cluster.list("/apis/rbac.authorization.k8s.io/v1/clusterroles") if _owns(each, owned))
    owned["metadata"]["ownerReferences"][0]["uid"] = role["metadata"]["uid"]
    owned["metadata"]["name"] = "own"
    apply(cluster, [users, owned])
    return account


def _owns(role: dict[str, Any], rule: dict[str, Any]) -> bool:
    return bool(role["metadata"]["name"] == rule["metadata"]["ownerReferences"][0]["name"])


def test_it_may_write_its_own_rules(cluster: Cluster, tainting: Account) -> None:
    """It may create and delete them, in a collection, too. The API server warns about no expression."""
    assert accepted(tainting.try_to("create -f -", _rule("tainting")))
    assert accepted(tainting.try_to("delete devicetaintrule own"))
    assert_no_warnings(cluster, [tainting], "device-taints")


@pytest.mark.parametrize("rule", WRONG_RULES.values(), ids=WRONG_RULES.keys())
def test_which_rules_it_may_not_create(tainting: Account, rule: dict[str, Any]) -> None:
    """RBAC cannot tell one rule from another."""
    assert denied(tainting.try_to("create -f -", rule))


@pytest.mark.parametrize(
    "command",
    [
        "delete devicetaintrule users",
        """patch devicetaintrule own --type=merge -p '{"spec": {"taint": {"effect": "NoExecute"}}}'""",
    ],
    ids=["delete a user's", "change its own"],
)
def test_which_rules_it_may_not_change(tainting: Account, command: str) -> None:
    """A user's own rules stay, and a rule stays as it was created."""
    assert denied(tainting.try_to(command))
