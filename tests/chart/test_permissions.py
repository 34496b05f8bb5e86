"""The chart grants exactly the permissions that the program needs; docs/reference/permissions.md explains each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from hook.kube.requests import CONFIG_MAPS
from hook.objects.drivers import STACKS, StackName
from tests.chart.needs import OWN, READ, Role, permissions
from tests.chart.rendering import NAMESPACE, RELEASE, ROOT, Helm, Object, Values
from tests.e2e.identity import Right, rights

CONTROLLER: Final = f"{RELEASE}-controller"
BOTH: Final[Values] = {"controller.enabled": True}
MODES: Final[tuple[Values, ...]] = ({}, {"dryRun": True}, BOTH)
NARROW: Final[Values] = {
    "plugin.namespace": "dra",
    "driverClients": [{"namespace": "monitoring", "name": "exporter"}, {"namespace": "dra", "name": "profiler"}],
}
LABELS: Final[Values] = {"plugin.namespace": "dra", "driverClients": [{"labels": {"app": "profiler"}}]}
"""A client by labels may be in any namespace."""
COMBINATIONS: Final[list[Values]] = [
    *({"stack": stack, **mode} for stack in StackName for mode in MODES),
    *({"stack": stack, **mode, **where} for stack in StackName for mode in MODES for where in (NARROW, LABELS)),
]
"""Every setting on which permissions depend."""
DELETE: Final = Right("", "pods", "delete")


def _rights(*roles: Object) -> set[Right]:
    return rights(rule for role in roles for rule in role["rules"])


def _accounts(values: Values) -> dict[str, Role]:
    return {RELEASE: Role.JOB} | ({CONTROLLER: Role.CONTROLLER} if values.get("controller.enabled") else {})


def _needed(values: Values, role: Role) -> dict[str, set[Right]]:
    """Return what the program needs: by namespace, and without one what a ClusterRole grants."""
    everywhere: set[Right] = set()
    own: set[Right] = set()
    for resource, verbs in permissions(STACKS[values["stack"]], role).items():
        if resource is CONFIG_MAPS and values.get("dryRun"):
            continue  # A dry run writes no status object.
        for verb in verbs if not values.get("dryRun") else {*verbs} & {*READ, "get"}:
            place = own if verb in OWN[role].get(resource, ()) else everywhere
            place.add(Right(resource.group, resource.plural, verb))
    needed = {"": everywhere, NAMESPACE: own}
    if DELETE not in everywhere or values.get("driverClients") != NARROW["driverClients"]:
        return needed
    return needed | {"": everywhere - {DELETE}, "dra": {DELETE}, "monitoring": {DELETE}}


def test_the_chart_grants_what_the_program_needs_and_nothing_else(helm: Helm) -> None:
    """Each account gets each right where it is needed: in the cluster, where plugins are, or in its own namespace."""
    for values in COMBINATIONS:
        rendered = helm.render(values)
        for account, role in _accounts(values).items():
            granted = {one["metadata"].get("namespace", ""): _rights(one) for one in rendered.roles_of(account)}
            assert _needed(values, role) == granted, f"{account} with {values}"


class Row(NamedTuple):
    """One row of the table in docs/reference/permissions.md."""

    rights: set[Right]
    reason: str
    conditions: set[str]
    accounts: set[str]


PAGE: Final = (ROOT / "docs" / "reference" / "permissions.md").read_text()
ROW: Final = re.compile(r"^\| `([^`]+)` \| `([a-z]+)` \| ([a-z, ]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
WHOSE: Final = {"both": {RELEASE, CONTROLLER}, "Job": {RELEASE}, "controller": {CONTROLLER}}
"""The last column of the table."""
CONDITIONS: Final[dict[str, Callable[[Values, str], Any]]] = {
    "always": lambda _values, _account: True,
    "`stack: gpu`": lambda values, _: values["stack"] == "gpu",
    "`stack: network`": lambda values, _: values["stack"] == "network",
    "not `dryRun`": lambda values, _: "dryRun" not in values,
}
"""The column before it."""


def _rows() -> Iterator[Row]:
    for group, resource, verbs, reason, when, whose in ROW.findall(PAGE):
        granted = {Right("" if group == '""' else group, resource, verb) for verb in verbs.split(", ")}
        yield Row(granted, reason.strip(), {each.strip() for each in when.split(",")}, WHOSE[whose.strip()])


def test_the_page_lists_every_right(helm: Helm) -> None:
    """For each combination and account, no right is without a row, and no row without a right."""
    rows = list(_rows())
    assert [row for row in rows if not row.reason.endswith(".")] == []
    assert CONDITIONS.keys() == {condition for row in rows for condition in row.conditions}
    for values in COMBINATIONS:
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
        (BOTH, {RELEASE: {RELEASE, STATUS}, CONTROLLER: {RELEASE, CONTROLLER, STATUS}}),
    ):
        for account, expected in names.items():
            (role,) = [item for item in helm.render(values).roles_of(account) if item["kind"] == "Role"]
            named = [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] != ["create"]]
            assert {name for some in named for name in some} == expected, f"{account} with {values}"


def test_two_releases_of_one_name_share_no_object(helm: Helm) -> None:
    """Names of objects outside of the release's namespace contain it; a namespace that is named twice counts once."""
    values = {**NARROW, **BOTH}
    first, second = (
        [(item["kind"], *key) for item, key in zip(objects, _keys(objects, namespace), strict=True)]
        for namespace in (NAMESPACE, "other")
        for objects in [helm.render(values, f"--namespace={namespace}").objects]
    )
    assert len(first) == len(set(first))
    assert set(first) & set(second) == set()


def test_permissions_can_be_left_to_others(helm: Helm) -> None:
    """There is no role and no binding; the pod runs as the account that was named."""
    rendered = helm.render({"rbac.create": False, "serviceAccount.create": False, "serviceAccount.name": "mine"})
    assert {item["kind"] for item in rendered.objects} == {"ConfigMap", "Job"}
    assert rendered.pod["serviceAccountName"] == "mine"


def _keys(objects: list[Object] | tuple[Object, ...], default: str = NAMESPACE) -> list[tuple[str, str]]:
    return [(item["metadata"]["name"], item["metadata"].get("namespace", default)) for item in objects]
