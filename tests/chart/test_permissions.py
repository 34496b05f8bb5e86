"""The chart grants exactly the permissions that the program needs, and docs/security.md explains each of them."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hook.objects.drivers import STACKS
from tests.chart.needs import OWN, READ, Role, permissions
from tests.chart.rendering import CHART, NAMESPACE, RELEASE, ROOT, pod_of
from tests.e2e.identity import Right, rights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chart.rendering import Helm, Manifests, Object, Values

CONTROLLER: Final = f"{RELEASE}-controller"
BOTH: Final[Values] = {"controller.enabled": True}
DELEGATE: Final[Values] = {**BOTH, "job.mode": "delegate"}
DRIVERS: Final = (["gpu"], ["network"], ["gpu", "network"])
STRATEGIES: Final = ("delete-stale-pods", "rollout-restart")
MODES: Final[tuple[Values, ...]] = ({}, {"dryRun": True}, BOTH, DELEGATE)
SCOPED: Final[Values] = {"rbac.scope": "namespace", "rbac.namespaces": ["dra", "operator"]}
COMBINATIONS: Final[list[Values]] = [
    *({"drivers": drivers, "strategy": name, **mode} for drivers in DRIVERS for name in STRATEGIES for mode in MODES),
    *({"drivers": DRIVERS[-1], "strategy": name, **mode, **SCOPED} for name in STRATEGIES for mode in MODES),
]
"""Every setting on which permissions depend, apart from event targets."""
EVENTS: Final = {Right("", "events", "create"), Right("", "events", "patch")}
FLUX: Final = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system"}
ARGO_CD: Final = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd"}
TARGETS: Final = [{**FLUX, "name": RELEASE}, {**ARGO_CD, "name": "a"}, {**ARGO_CD, "name": "b"}]
READ_TARGETS: Final = {
    Right("helm.toolkit.fluxcd.io", "helmreleases", "get"),
    Right("argoproj.io", "applications", "get"),
}
CLAIMS: Final = {Right("resource.k8s.io", "resourceclaims", verb) for verb in READ}
"""Pods with claims are in other namespaces than those that are read."""


def _rights(*roles: Object) -> set[Right]:
    return rights(rule for role in roles for rule in role["rules"])


def _accounts(values: Values) -> dict[str, Role]:
    """Return the ServiceAccounts of a rendering, and how the program uses each."""
    job = Role.DELEGATE if values.get("job.mode") == "delegate" else Role.JOB
    return {RELEASE: job} | ({CONTROLLER: Role.CONTROLLER} if values.get("controller.enabled") else {})


def _needed(values: Values, role: Role) -> dict[str, set[Right]]:
    """Return what the program needs: by namespace, and without one what a ClusterRole grants."""
    everywhere: set[Right] = set()
    namespaced: set[Right] = set()
    own: set[Right] = set()
    for resource, verbs in permissions([STACKS[name] for name in values["drivers"]], values["strategy"], role).items():
        for verb in verbs if not values.get("dryRun") else {*verbs} & {*READ, "get"}:
            mine = verb in OWN[role].get(resource, ())
            place = own if mine else namespaced if resource.namespaced else everywhere
            place.add(Right(resource.group, resource.plural, verb))
    namespaced -= CLAIMS if "rbac.namespaces" in values else set()
    if "rbac.namespaces" not in values:
        return {"": everywhere | namespaced, NAMESPACE: own}
    events = namespaced & EVENTS
    return {"": everywhere, NAMESPACE: own | events, **dict.fromkeys(values["rbac.namespaces"], namespaced)}


def _granted(rendered: Manifests, account: str) -> dict[str, set[Right]]:
    """Return what an account is granted: by namespace, and without one by a ClusterRole."""
    return {role["metadata"].get("namespace", ""): _rights(role) for role in rendered.roles_of(account)}


def test_the_chart_grants_what_the_program_needs_and_nothing_else(helm: Helm) -> None:
    """Each account gets each right where it is needed: in the cluster, in the fleet's namespaces or in its own."""
    for values in COMBINATIONS:
        rendered = helm.render(values)
        for account, role in _accounts(values).items():
            assert _needed(values, role) == _granted(rendered, account), f"{account} with {values}"


def test_a_rule_on_one_side_only_is_found(helm: Helm, tmp_path: Path) -> None:
    """The comparison names a right that is missing, and one that is not needed."""
    shutil.copytree(CHART, tmp_path / "chart")
    rules = tmp_path / "chart" / "templates" / "rbac.yaml"
    rules.write_text(rules.read_text().replace("resources: [resourceslices]", "resources: [deviceclasses]"))
    for values in (COMBINATIONS[0], COMBINATIONS[-4]):
        needed = _needed(values, Role.JOB)[""]
        granted = _granted(helm.render(values, chart=tmp_path / "chart"), RELEASE)[""]
        assert {right.resource for right in needed - granted} == {"resourceslices"}, values
        assert {right.resource for right in granted - needed} == {"deviceclasses"}, values


class Row(NamedTuple):
    """One row of the table in docs/security.md."""

    rights: set[Right]
    reason: str
    conditions: set[str]
    accounts: set[str]


PAGE: Final = (ROOT / "docs" / "security.md").read_text()
ROW: Final = re.compile(r"^\| `([^`]+)` \| `([a-z]+)` \| ([a-z, ]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
WHOSE: Final = {"both": {RELEASE, CONTROLLER}, "Job": {RELEASE}, "controller": {CONTROLLER}}
"""The last column of the table."""
CONDITIONS: Final[dict[str, Callable[[Values, str], Any]]] = {
    "always": lambda _values, _account: True,
    "`drivers` has `gpu`": lambda values, _: "gpu" in values["drivers"],
    "`drivers` has `network`": lambda values, _: "network" in values["drivers"],
    "`strategy: delete-stale-pods`": lambda values, _: _strategy(values) == STRATEGIES[0],
    "`strategy: rollout-restart`": lambda values, _: _strategy(values) == STRATEGIES[1],
    "not `dryRun`": lambda values, _: "dryRun" not in values,
    "`eventTargets`": lambda values, _: "eventTargets" in values and "dryRun" not in values,
    "`job.mode: delegate`": lambda values, _: "job.mode" in values,
    "not `job.mode: delegate`": lambda values, account: account == CONTROLLER or "job.mode" not in values,
}
"""The column before it."""


def _strategy(values: Values) -> str:
    """Return the strategy; a dry run has none, because it writes nothing."""
    return "" if "dryRun" in values else str(values["strategy"])


def _rows() -> Iterator[Row]:
    for group, resource, verbs, reason, when, whose in ROW.findall(PAGE):
        granted = {Right("" if group == '""' else group, resource, verb) for verb in verbs.split(", ")}
        yield Row(granted, reason.strip(), {each.strip() for each in when.split(",")}, WHOSE[whose.strip()])


def test_the_security_page_lists_every_right(helm: Helm) -> None:
    """For each combination and account, no right is without a row, and no row without a right."""
    rows = list(_rows())
    assert [row for row in rows if not row.reason.endswith(".")] == []
    assert CONDITIONS.keys() == {condition for row in rows for condition in row.conditions}
    targets: list[Values] = [{**COMBINATIONS[number], "eventTargets": TARGETS[:1]} for number in (0, 1)]
    for values in [*(each for each in COMBINATIONS if "rbac.scope" not in each), *targets]:
        rendered = helm.render(values)
        for account in _accounts(values):
            holds = [row for row in rows if account in row.accounts
                     and all(CONDITIONS[condition](values, account) for condition in row.conditions)]  # fmt: skip
            listed = [right for row in holds for right in row.rights]
            assert sorted(listed) == sorted(_rights(*rendered.roles_of(account))), f"{account} with {values}"


STATUS: Final = f"{RELEASE}-status"


def test_own_objects_are_granted_by_name(helm: Helm) -> None:
    """A role cannot limit creation to a name; the admission policy does."""
    for values, names in (
        ({}, {RELEASE: {RELEASE, STATUS}}),
        ({"hook.enabled": False}, {RELEASE: {helm.render({"hook.enabled": False}).job["metadata"]["name"], STATUS}}),
        (DELEGATE, {RELEASE: {RELEASE, STATUS}, CONTROLLER: {RELEASE, CONTROLLER, STATUS}}),
    ):
        for account, expected in names.items():
            (role,) = [item for item in helm.render(values).roles_of(account) if item["kind"] == "Role"]
            named = [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] != ["create"]]
            assert {name for some in named for name in some} == expected, f"{account} with {values}"


def test_every_role_is_bound_to_the_account_of_its_pod(helm: Helm) -> None:
    """Each binding is next to its role, in both scopes."""
    for scope in ({}, SCOPED):
        rendered = helm.render({**scope, **BOTH, "eventTargets": TARGETS})
        accounts = [pod_of(workload)["serviceAccountName"] for workload in (rendered.job, rendered.controller)]
        for kind in ("ClusterRole", "Role"):
            bindings = rendered.all(f"{kind}Binding")
            assert _keys(rendered.all(kind)) == _keys(bindings), scope
            for binding in bindings:
                name = binding["metadata"]["name"]
                assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, name)
                account = accounts[CONTROLLER in name]
                assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]


def test_two_releases_of_one_name_share_no_object(helm: Helm) -> None:
    """Names of objects outside of the release's namespace contain it; a namespace that is named twice counts once."""
    names = ["dra", "operator", "dra"]
    values = {**SCOPED, "rbac.namespaces": names, **BOTH, "eventTargets": TARGETS}
    first, second = (
        [(item["kind"], *key) for item, key in zip(objects, _keys(objects, namespace), strict=True)]
        for namespace in (NAMESPACE, "other")
        for objects in [helm.render(values, f"--namespace={namespace}").objects]
    )
    assert len(first) == len(set(first))
    assert set(first) & set(second) == set()


def test_nothing_by_default_needs_another_namespace(helm: Helm) -> None:
    """On a first installation the namespace of the DRA driver does not exist yet."""
    assert {namespace for _, namespace in _keys(helm.render().objects)} == {NAMESPACE}


def test_permissions_can_be_left_to_others(helm: Helm) -> None:
    """There is no role and no binding; the pod runs as the account that was named."""
    rendered = helm.render({"rbac.create": False, "serviceAccount.create": False, "serviceAccount.name": "mine"})
    assert {item["kind"] for item in rendered.objects} == {"ConfigMap", "Job"}
    assert rendered.pod["serviceAccountName"] == "mine"


def test_service_accounts(helm: Helm) -> None:
    """Name, annotations and token mounting reach the account, its pod and its bindings, for the Job and controller."""
    values: Values = {**BOTH, "serviceAccount.automountServiceAccountToken": False}
    names = {"": "mine", "controller.": "other"}
    for part, name in names.items():
        values |= {f"{part}serviceAccount.name": name, f"{part}serviceAccount.annotations": {"a": name}}
    rendered = helm.render(values)
    accounts = {item["metadata"]["name"]: item for item in rendered.all("ServiceAccount")}
    for name, workload in zip(names.values(), (rendered.job, rendered.controller), strict=True):
        assert accounts[name]["metadata"]["annotations"] == {"a": name}
        assert pod_of(workload)["serviceAccountName"] == name
        assert pod_of(workload)["automountServiceAccountToken"] is False, name
    assert accounts["mine"]["automountServiceAccountToken"] is False
    brought = helm.render({**values, "controller.serviceAccount.create": False})
    assert brought.one("ServiceAccount")["metadata"]["name"] == "mine"
    assert brought.roles_of("other")


def _target_roles(rendered: Manifests) -> dict[str, Object]:
    roles = (*rendered.all("ClusterRole"), *rendered.all("Role"))
    return {role["metadata"].get("namespace", ""): role for role in roles if _is_for_targets(role)}


def _is_for_targets(item: Object) -> bool:
    return str(item["metadata"]["name"]).endswith(":event-targets")


def test_event_targets_are_not_read_where_no_events_are_written(helm: Helm) -> None:
    """That is without targets, without a Job, in a dry run, and where permissions are left to others."""
    written: Values = {"eventTargets": TARGETS}
    without: Values = {"job.enabled": False, "controller.enabled": True}
    for scope in ({}, SCOPED):
        for values in ({}, {**written, "dryRun": True}, {**written, **without}, {**written, "rbac.create": False}):
            rendered = helm.render({**scope, **values})
            assert not _rights(*rendered.all("ClusterRole"), *rendered.all("Role")) & READ_TARGETS, values
            assert not _target_roles(rendered), values


def test_event_targets_may_be_read_by_name(helm: Helm) -> None:
    """Only the Job may; a Role in a namespace that is missing, or forbidden, would fail the release."""
    rendered = helm.render({"eventTargets": TARGETS, **BOTH})
    assert {namespace for _, namespace in _keys(rendered.objects)} == {NAMESPACE}
    assert _rights(*rendered.roles_of(RELEASE)) >= READ_TARGETS
    assert not _rights(*rendered.roles_of(CONTROLLER)) & READ_TARGETS
    rules = [rule for role in rendered.all("ClusterRole") for rule in role["rules"] if "get" in rule["verbs"]]
    assert [rule["resourceNames"] for rule in rules] == [[RELEASE], ["a"], ["b"]]


def test_with_namespace_scope_event_targets_are_read_in_their_namespaces(helm: Helm) -> None:
    """A Role in each allows it, with Events where no other role allows them."""
    for namespaces, with_events in (
        (["dra", "operator"], {"flux-system", "argocd"}),
        (["dra", "argocd"], {"flux-system"}),
    ):
        rendered = helm.render({**SCOPED, "rbac.namespaces": namespaces, "eventTargets": TARGETS, **BOTH})
        roles = _target_roles(rendered)
        assert {"flux-system": [[RELEASE]], "argocd": [["a"], ["b"]]} == {
            namespace: [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] == ["get"]]
            for namespace, role in roles.items()
        }
        assert {namespace for namespace, role in roles.items() if _rights(role) >= EVENTS} == with_events
        assert _rights(*roles.values()) == READ_TARGETS | EVENTS
        assert list(roles.values()) == [role for role in rendered.roles_of(RELEASE) if _is_for_targets(role)]
        assert not [role for role in rendered.roles_of(CONTROLLER) if _is_for_targets(role)]
        assert not _rights(*rendered.all("ClusterRole")) & READ_TARGETS


def test_events_in_the_namespace_of_the_release_are_not_granted_twice(helm: Helm) -> None:
    """The Job's own Role, or that of the fleet where it is the same namespace, grants them already."""
    target = [{**TARGETS[0], "namespace": NAMESPACE}]
    assert not _rights(*_target_roles(helm.render({**SCOPED, "eventTargets": target})).values()) & EVENTS
    *_, own = helm.render({"rbac.scope": "namespace", "rbac.namespaces": [NAMESPACE]}).all("Role")
    assert _rights(own) == {Right("batch", "jobs", "get"), Right("", "configmaps", "patch")}


def _keys(objects: list[Object] | tuple[Object, ...], default: str = NAMESPACE) -> list[tuple[str, str]]:
    """Return name and namespace of each object; what has no namespace counts to that of the release."""
    return [(item["metadata"]["name"], item["metadata"].get("namespace", default)) for item in objects]
