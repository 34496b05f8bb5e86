"""Limits of an upgrade controller: what a policy says, and what it means."""

from __future__ import annotations

from typing import Any

import pytest

from ctl.plan.limits import Removal, UpgradePolicy, allowed, available, drain_selectors, upgrade_policy
from hook.objects import policies
from hook.objects.decoding import Json
from hook.objects.policies import Policy
from hook.objects.stacks import GPU_OPERATOR, NETWORK_OPERATOR, Stack
from hook.objects.views import reader
from tests.fixtures.cluster import cluster
from tests.fixtures.objects import Object, obj
from tests.fixtures.planning import fleet, only


def of_object(found: Json, kind: type[Policy] = policies.ClusterPolicy, stack: Stack = GPU_OPERATOR) -> UpgradePolicy:
    """Return the limits in an object."""
    return upgrade_policy(reader(kind)(found), stack)


def of(upgrade: Object) -> UpgradePolicy:
    """Return the limits in a ClusterPolicy with an upgrade policy."""
    return of_object(obj("policy", {"spec": {"driver": {"upgradePolicy": upgrade}}}))


def test_everything_is_read() -> None:
    """Each field has the place and the name of the real kind."""
    upgrade = {
        "maxParallelUpgrades": 0,
        "maxUnavailable": 3,
        "waitForCompletion": {"podSelector": "app=job", "timeoutSeconds": 600},
        "podDeletion": {"force": True, "deleteEmptyDir": True},
        "drain": {"enable": True, "deleteEmptyDir": True, "podSelector": "app=web"},
    }
    drain = Removal(delete_empty_dir=True, selector="app=web,nvidia.com/gpu-driver-upgrade-drain.skip!=true")
    assert UpgradePolicy(0, 3, "app=job", 600, Removal(force=True, delete_empty_dir=True), drain) == of(upgrade)
    found = cluster("gpu-0").change("policy", "spec: {driver: {upgradePolicy: {drain: {enable: true}}}}")
    assert drain_selectors(found.seen(), GPU_OPERATOR) == {GPU_OPERATOR.upgrade.drains}
    assert drain_selectors(cluster("gpu-0").seen(), GPU_OPERATOR) == set()


@pytest.mark.parametrize(
    ("name", "kind", "stack", "path", "unavailable"),
    [
        ("policy", policies.ClusterPolicy, GPU_OPERATOR, ["driver"], "25%"),
        ("pool/policy", policies.NvidiaDriver, GPU_OPERATOR, [], "25%"),
        ("network/policy", policies.NicClusterPolicy, NETWORK_OPERATOR, ["ofedDriver"], None),
    ],
)
def test_each_kind_has_its_own_place_and_defaults(
    name: str, kind: type[Policy], stack: Stack, path: list[str], unavailable: str | None
) -> None:
    """The network operator knows no limit of unavailable nodes."""
    spec: Object = {"upgradePolicy": {"maxParallelUpgrades": 7}}
    for key in path:
        spec = {key: spec}
    found = of_object(obj(name, {"spec": spec}), kind, stack)
    assert (7, unavailable) == (found.parallel, found.unavailable)
    assert of_object(obj(name), kind, stack).parallel == 1


@pytest.mark.parametrize(
    "upgrade",
    [
        {"maxParallelUpgrades": "3"},
        {"maxParallelUpgrades": True},
        {"maxParallelUpgrades": 10**30},
        {"podDeletion": [], "drain": "on", "waitForCompletion": 7},
        {"waitForCompletion": {"podSelector": 7}},
    ],
)
def test_odd_values_make_no_policy_malformed(upgrade: Object) -> None:
    """A run must continue where the operator does. What cannot be read has its default."""
    assert of({}) == of(upgrade)
    assert of({"drain": {"enable": True, "podSelector": 7}}).drain == Removal(selector=GPU_OPERATOR.upgrade.drains)


@pytest.mark.parametrize(
    ("limit", "total", "expected"),
    [
        ("25%", 4, 1), ("25%", 5, 2), ("1%", 3, 1), ("0%", 3, 0), ("200%", 3, 6), ("100%", 101, 101), ("50%", 101, 51),
        (7, 3, 7), (-1, 3, 0), (10**30, 3, 0), (True, 3, 0), (None, 3, 0), ("7", 3, 0), ("many", 3, 0), ("25 %", 3, 0),
        ("2.5%", 3, 0),
    ],
)  # fmt: skip
def test_a_limit_is_read_as_kubernetes_reads_it(limit: Any, total: int, expected: int) -> None:  # noqa: ANN401
    """A number as it is, a percentage rounded up. Anything else allows no node, because the controller stops."""
    assert expected == allowed(limit, total)


@pytest.mark.parametrize(
    ("nodes", "parallel", "most", "expected"),
    [
        pytest.param((10, 0, 0), 1, 3, 1, id="one at a time"),
        pytest.param((10, 0, 0), 5, 3, 3, id="bounded by maxUnavailable"),
        pytest.param((10, 0, 0), 0, 3, 3, id="no limit but maxUnavailable"),
        pytest.param((10, 0, 0), 0, 10, 10, id="everything at once"),
        pytest.param((8, 2, 2), 4, 3, 1, id="nodes in progress are unavailable too"),
        pytest.param((8, 2, 2), 2, 10, 0, id="as many in progress as allowed"),
        pytest.param((8, 3, 3), 2, 10, 0, id="more in progress than allowed"),
        pytest.param((10, 0, 3), 5, 3, 0, id="lost nodes use it up"),
        pytest.param((10, 0, 2), 5, 3, 1, id="lost nodes use some"),
        pytest.param((10, 0, 9), 5, 10, 5, id="lost nodes do not count where all may be unavailable"),
        pytest.param((10, 0, 10), 5, 10, 0, id="but they do if all are lost"),
        pytest.param((10, 0, 0), 5, 0, 0, id="none allowed"),
    ],
)
def test_available_nodes_are_counted_as_the_library_does(
    nodes: tuple[int, int, int], parallel: int, most: int, expected: int
) -> None:
    """Row by row what ``GetUpgradesAvailable`` returns for ten nodes: (required, in progress, lost)."""
    required, in_progress, lost = nodes
    given = {"required": required, "in_progress": in_progress, "total": 10, "lost": lost}
    assert expected == available(**given, parallel=parallel, most=most)


def test_only_nodes_with_a_driver_pod_are_managed() -> None:
    """Percentages refer to them."""
    assert only(fleet(4).drop("driver-pod", "driver-gpu-3")).budget.total == 3
