"""The chart grants each account what the program needs, where it needs it, and nothing else.

`cluster/test_permissions.py` removes each right, one at a time, and the program reports it as missing.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from hook.kube.taints import Release
from hook.objects.stacks import STACKS, StackName
from tests.chart.rendering import NAMESPACE, RELEASE, Helm, Manifests, Values
from tests.e2e.identity import Right, rights

CONTROLLER: Final = f"{RELEASE}-controller"
BOTH: Final[Values] = {"controller.enabled": True}
READ: Final = ("list", "watch")
KINDS: Final = (
    ("", "nodes"),
    ("", "pods"),
    ("apps", "controllerrevisions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("coordination.k8s.io", "leases"),
)
"""What the program reads with every stack."""
EVENTS: Final = {Right("", "events", "create"), Right("", "events", "patch")}
DELETE: Final = Right("", "pods", "delete")
OF_JOB: Final = {Right("batch", "jobs", "get"), Right("", "configmaps", "patch")}
OF_CONTROLLER: Final = {
    Right("apps", "deployments", "get"),
    Right("coordination.k8s.io", "leases", "create"),
    Right("coordination.k8s.io", "leases", "get"),
    Right("coordination.k8s.io", "leases", "patch"),
    Right("", "configmaps", "patch"),
}
NAMED: Final = [{"namespace": "monitoring", "name": "exporter"}, {"namespace": "dra", "name": "profiler"}]
LABELLED: Final = [*NAMED, {"labels": {"app": "profiler"}}]
EVERYWHERE: Final[dict[str, Values]] = {
    "default": {},
    "a client by name": {"driverClients": NAMED},
    "a client by labels": {"plugin.namespace": "dra", "driverClients": LABELLED},
}
"""A plugin or a driver client may be in any namespace."""
SOMEWHERE: Final[dict[str, tuple[Values, set[str]]]] = {
    "plugins alone": ({"plugin.namespace": "dra"}, {"dra"}),
    "clients by name": ({"plugin.namespace": "dra", "driverClients": NAMED}, {"dra", "monitoring"}),
    "its own namespace": ({"plugin.namespace": NAMESPACE}, {NAMESPACE}),
}


def _reads(stack: StackName) -> set[Right]:
    """Return what a row of the table of stacks needs."""
    row = STACKS[stack]
    kinds = {*KINDS, *((kind.group, kind.plural) for kind in (row.policy, row.pool) if kind)}
    if row.plugin.slice_driver:
        kinds.add(("resource.k8s.io", "resourceslices"))
    if row.plugin.claim_drivers:
        kinds.add(("resource.k8s.io", "resourceclaims"))
    return {Right(group, plural, verb) for group, plural in kinds for verb in READ}


def _granted(rendered: Manifests, account: str) -> dict[str, set[Right]]:
    """Return the rights of an account by namespace; those in the whole cluster have none."""
    granted: dict[str, set[Right]] = {}
    for role in rendered.roles_of(account):
        granted.setdefault(role["metadata"].get("namespace", ""), set()).update(rights(role["rules"]))
    return granted


@pytest.mark.parametrize("stack", StackName)
@pytest.mark.parametrize("where", EVERYWHERE)
def test_what_the_accounts_may_do_with_plugins_anywhere(helm: Helm, stack: StackName, where: str) -> None:
    """They read and delete pods in all namespaces; in that of the release, they write only their own objects."""
    rendered = helm.render({"stack": stack, **EVERYWHERE[where], **BOTH})
    in_cluster = {*_reads(stack), *EVENTS, DELETE}
    assert _granted(rendered, RELEASE) == {"": in_cluster, NAMESPACE: OF_JOB}
    assert _granted(rendered, CONTROLLER) == {"": in_cluster, NAMESPACE: OF_CONTROLLER}


@pytest.mark.parametrize("account", [RELEASE, CONTROLLER])
@pytest.mark.parametrize("where", SOMEWHERE)
def test_what_the_accounts_may_delete_with_plugins_in_one_namespace(account: str, helm: Helm, where: str) -> None:
    """The right to delete pods is a Role in each namespace that the values name, and nowhere else."""
    values, namespaces = SOMEWHERE[where]
    rendered = helm.render({**values, **BOTH})
    granted = _granted(rendered, account)
    assert {namespace for namespace, having in granted.items() if DELETE in having} == namespaces


@pytest.mark.parametrize("stack", StackName)
@pytest.mark.parametrize("where", [{}, SOMEWHERE["plugins alone"][0]], ids=["anywhere", "somewhere"])
def test_a_dry_run_may_only_read(helm: Helm, stack: StackName, where: Values) -> None:
    """No right to write is rendered, in no namespace."""
    rendered = helm.render({"stack": stack, "dryRun": True, **where})
    assert _granted(rendered, RELEASE) == {"": _reads(stack), NAMESPACE: {Right("batch", "jobs", "get")}}


TAINTS: Final[Values] = {"deviceTaints.enabled": True}


def test_device_taint_rules_are_written_only_where_the_values_ask(helm: Helm) -> None:
    """Each account may write rules, and read the ClusterRole that owns its own; no network stack and no dry run may."""
    rules = {Right("resource.k8s.io", "devicetaintrules", verb) for verb in (*READ, "create", "delete")}
    owner = Right("rbac.authorization.k8s.io", "clusterroles", "get")
    without, having = helm.render(BOTH), helm.render({**BOTH, **TAINTS})
    for account in (RELEASE, CONTROLLER):
        assert _granted(having, account)[""] - _granted(without, account)[""] == {*rules, owner}
    for role in _owners(having):
        (named,) = [rule["resourceNames"] for rule in role["rules"] if rule["resources"] == ["clusterroles"]]
        assert named == [role["metadata"]["name"]]
    for values in ({**BOTH, "stack": "network"}, {"dryRun": True}, {**BOTH, "rbac.create": False}):
        assert "devicetaintrules" not in str(helm.render({**values, **TAINTS}).objects)


@pytest.mark.parametrize("component", ["job", "controller"])
def test_rules_go_with_the_job_or_the_controller(helm: Helm, component: str) -> None:
    """One that is turned off leaves no owner of its rules, which nothing else deletes. The other keeps its own."""
    ours = Release(NAMESPACE, RELEASE, component)
    alone = helm.render({**BOTH, **TAINTS, f"{component}.enabled": False})
    owners = {role["metadata"]["name"] for role in _owners(helm.render({**BOTH, **TAINTS}))}
    assert owners - {role["metadata"]["name"] for role in _owners(alone)} == {ours.role}


def _owners(rendered: Manifests) -> list[dict[str, Any]]:
    return [each for each in rendered.all("ClusterRole") if "devicetaintrules" in str(each)]


def test_claims_are_read_for_a_report_only(helm: Helm) -> None:
    """Without the report of affected workloads, no account reads claims."""
    rendered = helm.render({"affectedWorkloads.enabled": False, **BOTH})
    assert "resourceclaims" not in str([*rendered.all("ClusterRole"), *rendered.all("Role")])


def test_a_plain_job_may_read_itself(helm: Helm) -> None:
    """Its name has a hash, which the Role follows."""
    rendered = helm.render({"hook.enabled": False})
    (role,) = [item for item in rendered.roles_of(RELEASE) if item["kind"] == "Role"]
    (names,) = [rule["resourceNames"] for rule in role["rules"] if rule["resources"] == ["jobs"]]
    assert names == [rendered.job["metadata"]["name"]]


def test_permissions_can_be_left_to_others(helm: Helm) -> None:
    """There is no role and no binding; the pod runs as the account that was named."""
    rendered = helm.render({"rbac.create": False, "serviceAccount.create": False, "serviceAccount.name": "mine"})
    assert {item["kind"] for item in rendered.objects} == {"ConfigMap", "Job"}
    assert rendered.pod["serviceAccountName"] == "mine"
