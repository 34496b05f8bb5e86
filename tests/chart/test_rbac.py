"""Permissions: what each scope and strategy allows, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.chart.rendering import Helm, Manifests, Object, Values

READ = ("list", "watch")
SCOPED: Values = {"rbac.scope": "namespace", "rbac.namespaces": ["dra", "operator"]}


class Right(NamedTuple):
    """One thing that somebody may do."""

    group: str
    resource: str
    verb: str


def rights(*roles: Object) -> set[Right]:
    """Spell out what roles allow."""
    return {
        Right(group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def reads(*resources: tuple[str, str]) -> set[Right]:
    """Spell out list and watch of resources."""
    return {Right(group, resource, verb) for group, resource in resources for verb in READ}


WITHOUT_NAMESPACE = reads(
    ("nvidia.com", "clusterpolicies"),
    ("nvidia.com", "nvidiadrivers"),
    ("", "nodes"),
    ("resource.k8s.io", "resourceslices"),
)
IN_NAMESPACES = reads(
    ("apps", "daemonsets"),
    ("apps", "controllerrevisions"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("", "pods"),
    ("coordination.k8s.io", "leases"),
)
EVENTS = {Right("", "events", "create"), Right("", "events", "patch")}
DELETE_PODS = {Right("", "pods", "delete")}
PATCH_DAEMONSETS = {Right("apps", "daemonsets", "patch")}
OWN_JOB = {Right("batch", "jobs", "get")}
SEE_LEASE = {Right("coordination.k8s.io", "leases", "get")}
OWN_LEASE = SEE_LEASE | {Right("coordination.k8s.io", "leases", verb) for verb in ("create", "patch")}
OWN_DEPLOYMENT = {Right("apps", "deployments", "get")}
FOLLOWER = "gpu-operator-post-controller"
REGARDING = [
    {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "namespace": "flux-system",
        "name": "gpu-operator-post",
    },
    {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "a"},
    {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "b"},
]
READ_OBJECTS = {
    Right("helm.toolkit.fluxcd.io", "helmreleases", "get"),
    Right("argoproj.io", "applications", "get"),
}
GUARD = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
CLUSTER_SCOPED = ("ClusterRole", "ClusterRoleBinding", *GUARD)


@pytest.mark.parametrize(
    ("values", "writes"),
    [
        pytest.param({}, DELETE_PODS | EVENTS, id="delete-stale-pods"),
        pytest.param({"strategy": "rollout-restart"}, PATCH_DAEMONSETS | EVENTS, id="rollout"),
        pytest.param({"dryRun": True}, set(), id="dry-run"),
        pytest.param({"dryRun": True, "strategy": "rollout-restart"}, set(), id="dry-run-of-rollout"),
    ],
)
def test_cluster_scope_allows_what_the_strategy_needs(helm: Helm, values: Values, writes: set[Right]) -> None:
    """One ClusterRole with the reads and one strategy's writes; a dry run cannot write at all."""
    assert WITHOUT_NAMESPACE | IN_NAMESPACES | writes == rights(helm.render(values).one("ClusterRole"))


@pytest.mark.parametrize("values", [{}, {"hook.enabled": False}], ids=["hook", "plain"])
def test_it_may_get_its_own_job_and_no_other(helm: Helm, values: Values) -> None:
    """By name and in the release's namespace, in both modes."""
    rendered = helm.render(values)
    role = rendered.one("Role")
    assert rights(role) == OWN_JOB
    assert role["metadata"]["namespace"] == "gpu-operator"
    assert role["rules"][0]["resourceNames"] == [rendered.job["metadata"]["name"]]


@pytest.mark.parametrize(
    ("values", "writes"),
    [
        pytest.param({}, DELETE_PODS | EVENTS, id="delete-stale-pods"),
        pytest.param({"strategy": "rollout-restart"}, PATCH_DAEMONSETS | EVENTS, id="rollout"),
        pytest.param({"dryRun": True}, set(), id="dry-run"),
    ],
)
def test_namespace_scope_limits_all_but_what_has_no_namespace(helm: Helm, values: Values, writes: set[Right]) -> None:
    """The ClusterRole keeps three reads; a Role in each named namespace holds the rest."""
    rendered = helm.render(SCOPED | values)
    *fleet, own = rendered.all("Role")
    assert rights(rendered.one("ClusterRole")) == WITHOUT_NAMESPACE
    assert OWN_JOB | (writes & EVENTS) == rights(own)
    assert [role["metadata"]["namespace"] for role in fleet] == ["dra", "operator"]
    for role in fleet:
        assert IN_NAMESPACES | writes == rights(role)


def _stack_rules(rendered: Manifests) -> list[tuple[str, list[str]]]:
    """Give group and resources of the rules for policies."""
    rules = rendered.one("ClusterRole")["rules"]
    return [(*rule["apiGroups"], rule["resources"]) for rule in rules if rule["apiGroups"][0].endswith(".com")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({}, [("nvidia.com", ["clusterpolicies", "nvidiadrivers"])], id="gpu"),
        pytest.param({"drivers": ["network"]}, [("mellanox.com", ["nicclusterpolicies"])], id="network"),
        pytest.param(
            {"drivers": ["gpu", "network"]},
            [("nvidia.com", ["clusterpolicies", "nvidiadrivers"]), ("mellanox.com", ["nicclusterpolicies"])],
            id="both",
        ),
    ],
)
def test_each_stack_adds_one_rule(helm: Helm, values: Values, expected: list[tuple[str, list[str]]]) -> None:
    """The policies of a stack that is not chosen are not read."""
    assert expected == _stack_rules(helm.render(values))


def test_events_on_its_job_are_not_allowed_twice(helm: Helm) -> None:
    """Where the release's namespace is among the named ones, its fleet Role already allows them."""
    *_, own = helm.render({"rbac.scope": "namespace", "rbac.namespaces": ["gpu-operator"]}).all("Role")
    assert rights(own) == OWN_JOB


def test_no_wildcard_and_no_other_writes(helm: Helm) -> None:
    """Whatever the values, no rule allows everything, and none reaches secrets or escalates."""
    for values in ({}, {"strategy": "rollout-restart"}, SCOPED):
        rendered = helm.render(values)
        granted = rights(*rendered.all("ClusterRole"), *rendered.all("Role"))
        assert "*" not in {part for right in granted for part in right}
        assert not {"secrets", "serviceaccounts", "roles", "clusterroles"} & {right.resource for right in granted}


@pytest.mark.parametrize("follow", [False, True], ids=["hook", "both"])
@pytest.mark.parametrize("scope", [{}, SCOPED], ids=["cluster", "namespace"])
def test_every_role_is_bound_to_the_service_account(helm: Helm, scope: Values, follow: bool) -> None:
    """Each binding stands beside its role and names the account that its pod runs as."""
    rendered = helm.render({**scope, "controller.enabled": follow, "eventTargets": REGARDING})
    accounts = [rendered.pod["serviceAccountName"], *([rendered.follower_pod["serviceAccountName"]] if follow else [])]
    for kind in ("ClusterRole", "Role"):
        bindings = rendered.all(f"{kind}Binding")
        assert _places(rendered.all(kind)) == _places(bindings)
        for binding in bindings:
            (subject,) = binding["subjects"]
            assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "gpu-operator")
            assert subject["name"] == accounts[FOLLOWER in binding["metadata"]["name"]]
            assert binding["roleRef"]["kind"] == kind
            assert binding["roleRef"]["name"] == binding["metadata"]["name"]


def test_nothing_by_default_needs_the_dra_namespace(helm: Helm) -> None:
    """On a first install that namespace does not exist yet."""
    namespaces = {item["metadata"].get("namespace", "gpu-operator") for item in helm.render().objects}
    assert namespaces == {"gpu-operator"}


def test_two_releases_of_one_name_do_not_fight_over_cluster_objects(helm: Helm) -> None:
    """The names of cluster-scoped objects hold the namespace."""
    first, second = helm.render(), helm.render({}, "--namespace=other")
    assert not _cluster_names(first) & _cluster_names(second)


def test_permissions_can_be_left_to_others(helm: Helm) -> None:
    """No role and no binding; the pod then runs as the account that was named."""
    rendered = helm.render({"rbac.create": False, "serviceAccount.create": False, "serviceAccount.name": "mine"})
    assert {"ConfigMap", "Job"} == {item["kind"] for item in rendered.objects}
    assert rendered.pod["serviceAccountName"] == "mine"


def test_service_account(helm: Helm) -> None:
    """Name, annotations and token mounting are passed on; the pod and the bindings follow the name."""
    values: Values = {
        "serviceAccount.name": "mine",
        "serviceAccount.annotations": {"a": "b"},
        "serviceAccount.automountServiceAccountToken": False,
    }
    rendered = helm.render(values)
    account = rendered.one("ServiceAccount")
    assert account["metadata"]["name"] == rendered.pod["serviceAccountName"] == "mine"
    assert account["metadata"]["annotations"] == {"a": "b"}
    assert account["automountServiceAccountToken"] is rendered.pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("scope", [{}, SCOPED], ids=["cluster", "namespace"])
def test_the_follower_may_what_the_job_may_and_lead(helm: Helm, scope: Values) -> None:
    """Instead of its Job it may read its Deployment; and it may create and keep its own Lease."""
    rendered = helm.render({**scope, "controller.enabled": True})
    job, follower = (rights(*rendered.roles_of(name)) for name in ("gpu-operator-post", FOLLOWER))
    assert rights(*helm.render(scope).all("ClusterRole"), *helm.render(scope).all("Role")) == job
    assert (job - OWN_JOB) | OWN_LEASE | OWN_DEPLOYMENT == follower


def test_it_may_touch_what_is_its_own_and_no_other(helm: Helm) -> None:
    """By name, but for creating, which a role cannot hold to a name: the guard does."""
    rendered = helm.render({"controller.enabled": True, "job.mode": "delegate"})
    for account, names in ((FOLLOWER, ["gpu-operator-post", FOLLOWER]), ("gpu-operator-post", ["gpu-operator-post"])):
        (role,) = [item for item in rendered.roles_of(account) if item["kind"] == "Role"]
        assert role["metadata"]["namespace"] == "gpu-operator"
        named = [rule for rule in role["rules"] if rule["verbs"] != ["create"]]
        assert sorted({name for rule in named for name in rule["resourceNames"]}) == names


@pytest.mark.parametrize("scope", [{}, SCOPED], ids=["cluster", "namespace"])
@pytest.mark.parametrize(
    ("strategy", "write"),
    [("delete-stale-pods", DELETE_PODS), ("rollout-restart", PATCH_DAEMONSETS)],
    ids=["delete-stale-pods", "rollout"],
)
def test_a_job_that_hands_over_may_restart_nothing(helm: Helm, scope: Values, strategy: str, write: set[Right]) -> None:
    """It reads, tells its story, and sees the follower's Lease; the follower alone may restart."""
    values = {**scope, "controller.enabled": True, "strategy": strategy}
    before, after = helm.render(values), helm.render({**values, "job.mode": "delegate"})
    job = rights(*before.roles_of("gpu-operator-post"))
    assert (job - write) | SEE_LEASE == rights(*after.roles_of("gpu-operator-post"))
    assert before.roles_of(FOLLOWER) == after.roles_of(FOLLOWER)
    assert write <= rights(*after.roles_of(FOLLOWER))


@pytest.mark.parametrize("scope", [{}, SCOPED], ids=["cluster", "namespace"])
def test_the_deployers_objects_are_nothing_to_who_tells_nothing_on_them(helm: Helm, scope: Values) -> None:
    """Without any, without a Job, in a dry run, and where permissions are left to others."""
    for values in (
        {},
        {"eventTargets": REGARDING, "dryRun": True},
        {"eventTargets": REGARDING, "job.enabled": False, "controller.enabled": True},
        {"eventTargets": REGARDING, "rbac.create": False},
    ):
        rendered = helm.render({**scope, **values})
        roles = (*rendered.all("ClusterRole"), *rendered.all("Role"))
        assert not rights(*roles) & READ_OBJECTS
        assert not [item for item in roles if _regarding(item)]


def test_the_deployers_objects_may_be_read_by_name_whether_their_namespace_is_there_or_not(helm: Helm) -> None:
    """By the Job alone; a Role in a namespace that is missing, or not to be touched, would fail the whole release."""
    rendered = helm.render({"eventTargets": REGARDING, "controller.enabled": True})
    assert {"gpu-operator"} == {item["metadata"].get("namespace", "gpu-operator") for item in rendered.objects}
    job, follower = (rights(*rendered.roles_of(name)) for name in ("gpu-operator-post", FOLLOWER))
    assert job & READ_OBJECTS == READ_OBJECTS
    assert not follower & READ_OBJECTS
    rules = [rule for role in rendered.all("ClusterRole") for rule in role["rules"] if "get" in rule["verbs"]]
    assert [["gpu-operator-post"], ["a"], ["b"]] == [rule["resourceNames"] for rule in rules]


@pytest.mark.parametrize(
    ("scope", "with_events"),
    [
        pytest.param(SCOPED, {"flux-system", "argocd"}, id="apart"),
        pytest.param({**SCOPED, "rbac.namespaces": ["dra", "argocd"]}, {"flux-system"}, id="one-of-them"),
    ],
)
def test_with_namespace_scope_they_are_read_in_their_namespace_alone(
    helm: Helm, scope: Values, with_events: set[str]
) -> None:
    """By a Role in each, with Events where nothing else allows them."""
    rendered = helm.render({**scope, "eventTargets": REGARDING, "controller.enabled": True})
    roles = {role["metadata"]["namespace"]: role for role in rendered.all("Role") if _regarding(role)}
    assert {"flux-system": [["gpu-operator-post"]], "argocd": [["a"], ["b"]]} == {
        namespace: [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] == ["get"]]
        for namespace, role in roles.items()
    }
    for namespace, role in roles.items():
        assert (namespace in with_events) == (EVENTS <= rights(role))
    assert READ_OBJECTS | EVENTS == rights(*roles.values())
    assert list(roles.values()) == [role for role in rendered.roles_of("gpu-operator-post") if _regarding(role)]
    assert not [role for role in rendered.roles_of(FOLLOWER) if _regarding(role)]
    assert not rights(*rendered.all("ClusterRole")) & READ_OBJECTS


def test_events_on_an_object_in_the_releases_namespace_are_not_allowed_twice(helm: Helm) -> None:
    """The Job's own Role allows them there."""
    ours = [{**REGARDING[0], "namespace": "gpu-operator"}]
    (role,) = [one for one in helm.render({**SCOPED, "eventTargets": ours}).all("Role") if _regarding(one)]
    assert not rights(role) & EVENTS


def test_two_releases_of_one_name_do_not_fight_over_roles_in_the_deployers_namespace(helm: Helm) -> None:
    """One for each driver stack, say, from one Flux."""
    values = {**SCOPED, "eventTargets": REGARDING}
    first, second = (
        {(*_places([item])[0], item["kind"]) for item in helm.render(values, *options).objects if _regarding(item)}
        for options in ((), ("--namespace=other",))
    )
    assert 4 == len(first)
    assert not first & second


def test_two_releases_of_one_name_do_not_fight_over_roles_in_the_fleets_namespaces(helm: Helm) -> None:
    """One in the namespace of each operator, say, for the same namespaces, one of which was named twice."""
    values = {**SCOPED, "rbac.namespaces": ["dra", "operator", "dra"]}
    first, second = (
        [place for place in _places(helm.render(values, *options).all("Role")) if place[1] in ("dra", "operator")]
        for options in ((), ("--namespace=other",))
    )
    assert len(first) == len(set(first)) == 2
    assert not set(first) & set(second)


def _regarding(item: Object) -> bool:
    return str(item["metadata"]["name"]).endswith(":event-targets")


def _places(objects: Iterable[Object]) -> list[tuple[str, str | None]]:
    return [(item["metadata"]["name"], item["metadata"].get("namespace")) for item in objects]


def _cluster_names(rendered: Manifests) -> set[str]:
    return {item["metadata"]["name"] for kind in CLUSTER_SCOPED for item in rendered.all(kind)}
