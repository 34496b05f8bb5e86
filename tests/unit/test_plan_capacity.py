"""How many GPUs an upgrade takes away, and where their number is from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hook.plan.result import Obstacle
from tests.fixtures.cluster import labelled
from tests.fixtures.planning import fleet, gpus, obstacles, only

if TYPE_CHECKING:
    from tests.fixtures.objects import Object

EVERY: Object = {"maxParallelUpgrades": 0, "maxUnavailable": "100%"}
RESOURCE: Object = {"status": {"capacity": {"nvidia.com/gpu": "4"}}}
SLICE = "devices in ResourceSlices"


def test_at_worst_the_largest_nodes_are_away_together() -> None:
    """Nobody knows the order."""
    found = fleet(4, {"maxParallelUpgrades": 2, "maxUnavailable": "50%"})
    for number, count in enumerate((8, 4, 8, 2)):
        found.change("node", gpus(count), f"gpu-{number}")
    capacity = only(found).capacity
    assert (22, 16, {"label nvidia.com/gpu.count": 4}) == (capacity.gpus, capacity.at_once, capacity.sources)
    assert 72.7 == pytest.approx(capacity.percent, abs=0.1)


def test_each_node_is_away_for_a_step() -> None:
    """Also while the controller has not looked yet: it stays cordoned. 32 GPUs for two minutes are 1.07 GPU-hours."""
    hours = only(fleet(4).change("node", gpus(8))).capacity.hours
    assert hours is not None
    assert (1.07, 1.07) == (round(hours.typical, 2), round(hours.slow, 2))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param({**gpus(8), **RESOURCE}, (8, "label nvidia.com/gpu.count"), id="the-label-first"),
        pytest.param(RESOURCE, (4, "capacity nvidia.com/gpu"), id="then-the-device-plugins-resource"),
        pytest.param({}, (1, SLICE), id="then-published-devices"),
        pytest.param({"metadata": {"labels": {"nvidia.com/gpu.count": "x"}}}, (1, SLICE), id="no-number"),
        pytest.param({"status": {"capacity": {"nvidia.com/gpu": "4k"}}}, (1, SLICE), id="no-plain-quantity"),
        pytest.param({"status": {"capacity": {"nvidia.com/gpu": "9" * 5000}}}, (1, SLICE), id="out-of-range"),
        pytest.param({"status": {"capacity": {"nvidia.com/gpu": 4}}}, (1, SLICE), id="no-quantity"),
    ],
)
def test_where_the_number_of_gpus_is_from(patch: Object, expected: tuple[int, str]) -> None:
    """The surest source that a node has."""
    capacity = only(fleet(1).change("node", patch)).capacity
    assert (expected[0], {expected[1]: 1}, ()) == (capacity.gpus, capacity.sources, capacity.unknown)


def test_what_nothing_tells_is_named() -> None:
    """Its GPUs count as none."""
    pool = only(fleet(2).drop("slice", "0-gpu.nvidia.com-gpu-1"))
    assert (1, ("gpu-1",)) == (pool.capacity.gpus, pool.capacity.unknown)
    assert obstacles(pool)[Obstacle.GPUS_UNKNOWN].nodes == ("gpu-1",)


def test_nodes_that_are_left_alone_keep_their_gpus() -> None:
    """They are part of the whole, and are never away."""
    found = fleet(4, EVERY).change("node", gpus(8)).change("node", labelled("gpu-3", skip="true"), "gpu-3")
    capacity = only(found).capacity
    assert (32, 24) == (capacity.gpus, capacity.at_once)


def test_nothing_is_away_where_nothing_moves() -> None:
    """No GPU-hours are made up for an upgrade that never comes."""
    capacity = only(fleet(4).change("node", {"spec": {"unschedulable": True}}, "gpu-0")).capacity
    assert (0, None) == (capacity.at_once, capacity.hours)


def test_no_gpus_are_no_share() -> None:
    """Instead of a division by zero."""
    assert (0, 0) == ((found := only(fleet(2).drop("slice")).capacity).gpus, found.percent)
