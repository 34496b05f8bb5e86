"""The chart's RBAC rules and the requests that the program makes are one list, kept in two places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from hook.cluster.requests import JOBS, STRATEGY_PERMISSIONS, permissions
from hook.core.stacks import GPU_OPERATOR, NETWORK_OPERATOR, STACKS
from hook.settings import WaitFor
from tests.chart.rendering import Helm, Manifests, Values
from tests.e2e.identity import Right, rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hook.cluster.requests import Resource

SCOPES: Final[Mapping[str, Values]] = {
    "cluster": {},
    "namespace": {"rbac.scope": "namespace", "rbac.namespaces": ["operator", "dra"]},
}
VARIANTS: Final[Mapping[str, Values]] = {
    f"{'+'.join(stacks)}-{wait_for}-{strategy}": {"stacks": stacks, "waitFor": wait_for, "strategy": strategy}
    for stacks in ([GPU_OPERATOR.name], [NETWORK_OPERATOR.name], list(STACKS))
    for wait_for in WaitFor
    for strategy in STRATEGY_PERMISSIONS
    if wait_for is WaitFor.NODES or all(STACKS[name].policy.tells_since for name in stacks)
}
"""Everything on which permissions depend, but what chart and program refuse together."""


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Give one real Helm; that both render alike is the chart's own test."""
    return Helm(binaries.ensure(["helm4"])["helm4"])


def _needed(variant: str) -> Iterator[tuple[Resource, Right]]:
    """Spell out what the program asks for."""
    values = VARIANTS[variant]
    stacks = [STACKS[name] for name in values["stacks"]]
    sees_nodes = values["waitFor"] == WaitFor.NODES
    for resource, verbs in permissions(stacks, values["strategy"], sees_nodes=sees_nodes).items():
        for verb in verbs:
            yield resource, Right(resource.group, resource.plural, verb)


def _granted(rendered: Manifests, resource: Resource) -> list[set[Right]]:
    """Give what each role that must allow a resource allows: one in its scope, or one in each namespace."""
    everywhere = rights(rendered.one("ClusterRole")["rules"])
    own, *fleet = rendered.all("Role")
    if resource is JOBS:
        return [rights(own["rules"])]
    if not resource.namespaced or not fleet:
        return [everywhere]
    return [rights(role["rules"]) for role in fleet]


CASES: Final = sorted({(variant, right, resource) for variant in VARIANTS for resource, right in _needed(variant)},
                      key=lambda case: case[:2])  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("variant", "right", "resource"),
    [pytest.param(*case, id=f"{case[0]}-{case[1].verb}-{case[1].resource}") for case in CASES],
)
def test_what_the_program_needs_is_granted(
    helm: Helm, scope: str, variant: str, right: Right, resource: Resource
) -> None:
    """Each right, in both scopes: taking a rule away fails the test that is named after it."""
    rendered = helm.render({**SCOPES[scope], **VARIANTS[variant]})
    assert all(right in granted for granted in _granted(rendered, resource))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_granted_is_needed(helm: Helm, scope: str, variant: str) -> None:
    """No role allows what the program does not ask for."""
    rendered = helm.render({**SCOPES[scope], **VARIANTS[variant]})
    needed = {right for _, right in _needed(variant)}
    for role in (*rendered.all("ClusterRole"), *rendered.all("Role")):
        assert rights(role["rules"]) <= needed


@pytest.mark.parametrize("scope", SCOPES)
def test_a_dry_run_is_granted_no_write(helm: Helm, scope: str) -> None:
    """A dry run cannot write, whatever the program does."""
    rendered = helm.render({**SCOPES[scope], "dryRun": True})
    roles = (*rendered.all("ClusterRole"), *rendered.all("Role"))
    assert {right.verb for role in roles for right in rights(role["rules"])} == {"get", "list", "watch"}
