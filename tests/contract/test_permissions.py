"""The chart's RBAC rules and the requests that the program makes are one list, kept in two places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from hook.cluster.requests import JOBS, STRATEGY_PERMISSIONS, permissions
from hook.core.stacks import GPU_OPERATOR
from tests.chart.rendering import Helm, Manifests, Values
from tests.e2e.identity import Right, rights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hook.cluster.requests import Resource

SCOPES: Final[Mapping[str, Values]] = {
    "cluster": {},
    "namespace": {"rbac.scope": "namespace", "rbac.namespaces": ["operator", "dra"]},
}
STRATEGIES: Final = tuple(STRATEGY_PERMISSIONS)


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Give one real Helm; that both render alike is the chart's own test."""
    return Helm(binaries.ensure(["helm4"])["helm4"])


def _needed(strategy: str) -> Iterator[tuple[Resource, Right]]:
    """Spell out what the program asks for."""
    for resource, verbs in permissions([GPU_OPERATOR], strategy).items():
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


CASES: Final = sorted({(strategy, right, resource) for strategy in STRATEGIES for resource, right in _needed(strategy)},
                      key=lambda case: case[:2])  # fmt: skip


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    ("strategy", "right", "resource"),
    [pytest.param(*case, id=f"{case[0]}-{case[1].verb}-{case[1].resource}") for case in CASES],
)
def test_what_the_program_needs_is_granted(
    helm: Helm, scope: str, strategy: str, right: Right, resource: Resource
) -> None:
    """Each right, in both scopes: taking a rule away fails the test that is named after it."""
    rendered = helm.render({**SCOPES[scope], "strategy": strategy})
    assert all(right in granted for granted in _granted(rendered, resource))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_granted_is_needed(helm: Helm, scope: str, strategy: str) -> None:
    """No role allows what the program does not ask for."""
    rendered = helm.render({**SCOPES[scope], "strategy": strategy})
    needed = {right for _, right in _needed(strategy)}
    for role in (*rendered.all("ClusterRole"), *rendered.all("Role")):
        assert rights(role["rules"]) <= needed


@pytest.mark.parametrize("scope", SCOPES)
def test_a_dry_run_is_granted_no_write(helm: Helm, scope: str) -> None:
    """A dry run cannot write, whatever the program does."""
    rendered = helm.render({**SCOPES[scope], "dryRun": True})
    roles = (*rendered.all("ClusterRole"), *rendered.all("Role"))
    assert {right.verb for role in roles for right in rights(role["rules"])} == {"get", "list", "watch"}
