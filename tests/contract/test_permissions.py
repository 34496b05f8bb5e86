"""The chart grants exactly the permissions that the program needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR, STACKS
from tests.chart.rendering import RELEASE, Helm, Manifests, Values
from tests.contract.needs import BY_STRATEGY, OWN, Role, permissions
from tests.e2e.identity import Right, rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


def _render(helm: Helm, scope: str, variant: str, role: Role) -> Manifests:
    return helm.render({**SCOPES[scope], **VARIANTS[variant], **ACCOUNTS[role][1]})


def _needed(variant: str, role: Role) -> Iterator[tuple[GroupVersionResource, Right]]:
    """Spell out what the program asks for."""
    values = VARIANTS[variant]
    stacks = [STACKS[name] for name in values["drivers"]]
    for resource, verbs in permissions(stacks, values["strategy"], role).items():
        for verb in verbs:
            yield resource, Right(resource.group, resource.plural, verb)


def _granted(rendered: Manifests, role: Role, resource: GroupVersionResource, verb: str) -> list[set[Right]]:
    """Give what each role that must allow something allows: one in its scope, or one in each namespace."""
    of_cluster, *fleet, own = rendered.roles_of(ACCOUNTS[role][0])
    if verb in OWN[role].get(resource, ()):
        return [rights(own["rules"])]
    if not resource.namespaced or not fleet:
        return [rights(of_cluster["rules"])]
    return [rights(one["rules"]) for one in fleet]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("role", Role)
def test_what_the_program_needs_is_granted(helm: Helm, role: Role, scope: str) -> None:
    """Each right, for each driver and strategy: a missing rule is named."""
    missing = [
        (variant, right)
        for variant in VARIANTS
        for resource, right in _needed(variant, role)
        for granted in _granted(_render(helm, scope, variant, role), role, resource, right.verb)
        if right not in granted
    ]
    assert missing == []


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("role", Role)
def test_what_is_granted_is_needed(helm: Helm, role: Role, scope: str) -> None:
    """No role allows what the program does not ask for, and only by name what it needs of its own."""
    needless = [
        (variant, right)
        for variant in VARIANTS
        for one in _render(helm, scope, variant, role).roles_of(ACCOUNTS[role][0])
        for right in rights(one["rules"]) - {right for _, right in _needed(variant, role)}
    ]
    assert needless == []


@pytest.mark.parametrize("role", Role)
def test_what_is_its_own_is_granted_by_name(helm: Helm, role: Role) -> None:
    """Only creating has no name yet, and Events have names that nobody knows before."""
    own = {right for resource, right in _needed(next(iter(VARIANTS)), role) if resource in OWN[role]}
    *_, role_of_its_own = _render(helm, "namespace", next(iter(VARIANTS)), role).roles_of(ACCOUNTS[role][0])
    unnamed = rights(rule for rule in role_of_its_own["rules"] if "resourceNames" not in rule)
    assert {right.verb for right in unnamed & own} <= {"create"}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_dry_run_is_granted_no_write(helm: Helm, scope: str) -> None:
    """A dry run cannot write, whatever the program does."""
    rendered = helm.render({**SCOPES[scope], "dryRun": True})
    roles = (*rendered.all("ClusterRole"), *rendered.all("Role"))
    assert {right.verb for role in roles for right in rights(role["rules"])} == {"get", "list", "watch"}
