"""Which nodes share an upgrade policy, which of them reload, and how many GPUs that takes away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from ctl.plan.result import Capacity, Obstacle
from hook.decide.reasons import Reason
from tests.fixtures.cluster import Cluster, labelled, not_ready_since
from tests.fixtures.modes import Pool, pooled
from tests.fixtures.objects import Object, obj
from tests.fixtures.planning import EVERY, OLD, fleet, gpus, obstacles, only, planned

A, B = Pool("a", ("gpu-a",)), Pool("b", ("gpu-b", "gpu-c"))
LIMITS: Final = {"autoUpgrade": True, **EVERY}


def own(found: Cluster, name: str, upgrade: Object) -> Cluster:
    """Let a pool's object have an upgrade policy."""
    return found.change("pool", {"spec": {"upgradePolicy": upgrade}}, name)


def owned_by(name: str) -> Object:
    """Return a patch of a node that belongs to an NVIDIADriver by its label."""
    return {"metadata": {"labels": {"nvidia.com/gpu-operator.driver.owner": name}}}


def by_pool(found: Cluster) -> Mapping[str, tuple[str, ...]]:
    """Return the nodes of each pool."""
    return {pool.name: pool.nodes for pool in planned(found).pools}


# Pools.


def test_a_pool_with_an_upgrade_policy_stands_by_itself() -> None:
    """Each object has its own limits; the window is the longest pool's, because they are upgraded side by side."""
    found = own(pooled(A, B), "b", LIMITS)
    made = planned(found)
    assert {"NVIDIADriver a": ("gpu-a",), "NVIDIADriver b": ("gpu-b", "gpu-c")} == by_pool(found)
    assert [(1, 1), (2, 1)] == [(pool.budget.at_once, pool.turns) for pool in made.pools]
    assert 120 == (made.window.slow if made.window else None)
    endless = planned(own(found, "a", {"autoUpgrade": False}))
    assert ([None, 1], None, None) == ([pool.turns for pool in endless.pools], endless.window, endless.timeouts)


def test_the_label_of_newer_operators_separates_pools_too() -> None:
    """From 26.7 on each object has limits of its own. Up to 26.3 all nodes share those of the ClusterPolicy."""
    assert {"ClusterPolicy cluster-policy": ("gpu-a", "gpu-b", "gpu-c")} == by_pool(pooled(A, B))
    found = pooled(A, B).change("node", owned_by("a"), "gpu-a").change("node", owned_by("b"), "gpu-b")
    assert {"NVIDIADriver a", "NVIDIADriver b"} == by_pool(found).keys()
    unused = fleet(2).change("node", owned_by("default")).put("pool", obj("pool/policy"))
    assert ["ClusterPolicy cluster-policy"] == [*by_pool(unused)], "the policy does not use pools"


def test_a_node_without_a_driver_pod_belongs_where_its_label_says() -> None:
    """Its driver is about to come back. So does a node whose DaemonSet was replaced; without a label it has no pool."""
    found = own(pooled(A, B), "a", LIMITS).drop("driver-pod", "driver-gpu-b").change("node", owned_by("b"), "gpu-b")
    assert ("gpu-b", "gpu-c") == by_pool(found)["NVIDIADriver b"]
    found = own(pooled(A, B), "a", LIMITS).drop("daemonset", "nvidia-gpu-driver-b")
    found.change("node", owned_by("b"), "gpu-b")
    assert {"NVIDIADriver a": ("gpu-a",), "NVIDIADriver b": ("gpu-b",), "no NVIDIADriver": ("gpu-c",)} == by_pool(found)
    stray = planned(found).pools[-1]
    assert (None, True) == (stray.turns, Obstacle.AUTO_UPGRADE_OFF in obstacles(stray)), "it never gets a turn"


@pytest.mark.parametrize("upgrade", [LIMITS, {"autoUpgrade": False}])
def test_a_pool_of_which_every_node_is_excluded_is_done_at_once(upgrade: Object | dict[str, bool]) -> None:
    """It has no turns, no figures to be unsure of, and waits for no manual upgrade."""
    found = own(pooled(A, B), "a", upgrade).change("node", labelled("gpu-a", skip="true"), "gpu-a")
    made = planned(own(found, "b", LIMITS))
    empty = made.pools[0]
    assert ((), 0, [Obstacle.NODES_LEFT_ALONE]) == (empty.nodes, empty.turns, list(obstacles(empty)))
    assert made.window is not None


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        (labelled("gpu-1", skip="true"), Reason.NODE_SKIPPED),
        (not_ready_since(0), Reason.NODE_NOT_READY),
        (labelled("gpu-1", state="upgrade-failed"), Reason.UPGRADE_FAILED),
    ],
)
def test_nodes_that_will_not_reload_are_named(patch: Object, reason: Reason) -> None:
    """By the same rule as in a run, and the failed one by the upgrade controller's."""
    pool = only(fleet(3).change("node", patch, "gpu-1"))
    excluded = [(one.node, one.reason) for one in pool.excluded]
    assert (("gpu-0", "gpu-2"), [("gpu-1", reason)]) == (pool.nodes, excluded)
    assert obstacles(pool)[Obstacle.NODES_LEFT_ALONE].nodes == ("gpu-1",)


def test_without_automatic_upgrades_an_outdated_node_is_not_excluded() -> None:
    """No more than the others."""
    pool = only(fleet(2, {"autoUpgrade": False}).change("driver-pod", OLD, "driver-gpu-1"))
    assert (("gpu-0", "gpu-1"), (), None) == (pool.nodes, pool.excluded, pool.turns)


# Capacity.


def test_at_worst_the_largest_nodes_are_away_together() -> None:
    """The order in which the controller takes the nodes is not known."""
    found = fleet(4, {"maxParallelUpgrades": 2, "maxUnavailable": "50%"})
    for number, count in enumerate((8, 4, 8, 2)):
        found.change("node", gpus(count), f"gpu-{number}")
    assert Capacity(gpus=22, away=16, unknown=()) == only(found).capacity


def of_capacity(quantity: object) -> Object:
    """Return a patch of a node with a number of GPUs in its capacity."""
    return {"status": {"capacity": {"nvidia.com/gpu": quantity}}}


@pytest.mark.parametrize(
    ("patch", "count"),
    [
        pytest.param({**gpus(8), **of_capacity("4")}, 8, id="label"),
        pytest.param(of_capacity("4"), 4, id="resource of the device plugin"),
        pytest.param({}, 1, id="published devices"),
        pytest.param({"metadata": {"labels": {"nvidia.com/gpu.count": "x"}}}, 1, id="label that is no number"),
        pytest.param(of_capacity("9" * 5000), 1, id="resource that is no plausible number"),
        pytest.param(of_capacity(4), 1, id="resource that is no text"),
    ],
)
def test_the_most_reliable_number_of_gpus_counts(patch: Object, count: int) -> None:
    """A node's label, else the device plugin's resource, else its published devices."""
    assert Capacity(count, count, ()) == only(fleet(1, EVERY).change("node", patch)).capacity


def test_gpus_that_are_not_known_count_as_none() -> None:
    """Their nodes are named. Excluded nodes are part of the whole, and are never away."""
    assert Capacity(1, 1, ("gpu-1",)) == only(fleet(2, EVERY).drop("slice", "0-gpu.nvidia.com-gpu-1")).capacity
    assert Capacity(0, 0, ("gpu-0", "gpu-1")) == only(fleet(2, EVERY).drop("slice")).capacity
    found = fleet(4, EVERY).change("node", gpus(8)).change("node", labelled("gpu-3", skip="true"), "gpu-3")
    assert Capacity(32, 24, ()) == only(found).capacity
