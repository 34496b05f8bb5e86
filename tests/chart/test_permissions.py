"""The chart grants exactly the permissions that the program needs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR, STACKS
from tests.chart.needs import BY_STRATEGY, OWN, Role, permissions
from tests.chart.rendering import CHART, RELEASE, Helm, Manifests, Object, Values
from tests.e2e.identity import Right, rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hook.kube.requests import GroupVersionResource

SCOPES: Final[Mapping[str, Values]] = {
    "cluster": {},
    "namespace": {"rbac.scope": "namespace", "rbac.namespaces": ["operator", "dra"]},
}
VARIANTS: Final[Mapping[str, Values]] = {
    f"{'+'.join(stacks)}-{strategy}": {"drivers": stacks, "strategy": strategy}
    for stacks in ([GPU_OPERATOR.name], [NETWORK_OPERATOR.name], list(STACKS))
    for strategy in BY_STRATEGY
}
"""Everything on which permissions depend."""


ACCOUNTS: Final[Mapping[Role, tuple[str, Values]]] = {
    Role.JOB: (RELEASE, {}),
    Role.DELEGATE: (RELEASE, {"controller.enabled": True, "job.mode": "delegate"}),
    Role.CONTROLLER: (f"{RELEASE}-controller", {"controller.enabled": True, "job.mode": "delegate"}),
}
"""As whom the program runs, in which rendering."""


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Return one real Helm; the chart's own tests compare both."""
    return Helm(binaries.ensure(["helm4"])["helm4"])


def _render(helm: Helm, scope: str, variant: str, role: Role, chart: Path = CHART) -> Manifests:
    return helm.render({**SCOPES[scope], **VARIANTS[variant], **ACCOUNTS[role][1]}, chart=chart)


def _needed(variant: str, role: Role) -> Iterator[tuple[GroupVersionResource, Right]]:
    """Spell out what the program asks for."""
    values = VARIANTS[variant]
    stacks = [STACKS[name] for name in values["drivers"]]
    for resource, verbs in permissions(stacks, values["strategy"], role).items():
        for verb in verbs:
            yield resource, Right(resource.group, resource.plural, verb)


def _granted(rendered: Manifests, role: Role, resource: GroupVersionResource, verb: str) -> list[set[Right]]:
    """Return what each role allows that must allow something: one in its scope, or one in each namespace."""
    roles = rendered.roles_of(ACCOUNTS[role][0])
    if verb in OWN[role].get(resource, ()):
        return [rights(_own(rendered, role)["rules"])]
    fleet = [one for one in roles if one["metadata"]["name"].endswith("-fleet")]
    if not resource.namespaced or not fleet:
        return [rights(one["rules"]) for one in roles if one["kind"] == "ClusterRole"]
    return [rights(one["rules"]) for one in fleet]


def _own(rendered: Manifests, role: Role) -> Object:
    """Return the role for the account's own objects."""
    name = ACCOUNTS[role][0]
    (found,) = [one for one in rendered.roles_of(name) if (one["kind"], one["metadata"]["name"]) == ("Role", name)]
    return found


def _missing(helm: Helm, role: Role, scope: str, chart: Path = CHART) -> list[tuple[str, Right]]:
    """Return each right that the program needs and a role does not grant."""
    return [
        (variant, right)
        for variant in VARIANTS
        for resource, right in _needed(variant, role)
        for granted in _granted(_render(helm, scope, variant, role, chart), role, resource, right.verb)
        if right not in granted
    ]


def _needless(helm: Helm, role: Role, scope: str, chart: Path = CHART) -> list[tuple[str, Right]]:
    """Return each right that a role grants and the program does not need."""
    return [
        (variant, right)
        for variant in VARIANTS
        for one in _render(helm, scope, variant, role, chart).roles_of(ACCOUNTS[role][0])
        for right in rights(one["rules"]) - {right for _, right in _needed(variant, role)}
    ]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("role", Role)
def test_what_the_program_needs_is_granted(helm: Helm, role: Role, scope: str) -> None:
    """Each right, for each driver and strategy."""
    assert _missing(helm, role, scope) == []


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("role", Role)
def test_what_is_granted_is_needed(helm: Helm, role: Role, scope: str) -> None:
    """No role allows what the program does not ask for."""
    assert _needless(helm, role, scope) == []


@pytest.mark.parametrize("scope", SCOPES)
def test_a_rule_on_one_side_only_is_found(helm: Helm, tmp_path: Path, scope: str) -> None:
    """A right that the chart does not grant, or that the program does not need, is named."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    rules = chart / "templates" / "rbac.yaml"
    text = rules.read_text()
    assert "resources: [resourceslices]" in text
    rules.write_text(text.replace("resources: [resourceslices]", "resources: [deviceclasses]"))
    for found, resource in ((_missing, "resourceslices"), (_needless, "deviceclasses")):
        assert {right.resource for _, right in found(helm, Role.JOB, scope, chart)} == {resource}


@pytest.mark.parametrize("role", Role)
def test_what_is_its_own_is_granted_by_name(helm: Helm, role: Role) -> None:
    """Only creating has no name yet, and Events have names that nobody knows before."""
    own = {right for resource, right in _needed(next(iter(VARIANTS)), role) if resource in OWN[role]}
    role_of_its_own = _own(_render(helm, "namespace", next(iter(VARIANTS)), role), role)
    unnamed = rights(rule for rule in role_of_its_own["rules"] if "resourceNames" not in rule)
    assert {right.verb for right in unnamed & own} <= {"create"}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_dry_run_is_granted_no_write(helm: Helm, scope: str) -> None:
    """A dry run cannot write, whatever the program does."""
    rendered = helm.render({**SCOPES[scope], "dryRun": True})
    roles = (*rendered.all("ClusterRole"), *rendered.all("Role"))
    assert {right.verb for role in roles for right in rights(role["rules"])} == {"get", "list", "watch"}
