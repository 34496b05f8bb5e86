"""How long things took the last time: what driver pods tell, what they do not, and what cannot be believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hook.plan.result import Obstacle, Reloads, Spread, Step
from hook.plan.timing import spread, step
from tests.fixtures.modes import network
from tests.fixtures.objects import Object, conditions, driver_pod
from tests.fixtures.planning import fleet, obstacles, only, rotated, unloaded_in

if TYPE_CHECKING:
    from tests.fixtures.cluster import Cluster

HOUR = 3600


def took(*seconds: float) -> Cluster:
    """Give a fleet of which each node's driver took so long, all begun together."""
    found = fleet(len(seconds))
    return found.put("driver-pod", *(driver_pod(f"gpu-{n}", ready=each) for n, each in enumerate(seconds)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param([7], Spread(7, 7, 1), id="one"),
        pytest.param([9, 1], Spread(1, 9, 2), id="two"),
        pytest.param(range(1, 11), Spread(5, 9, 10), id="ten"),
        pytest.param([*range(1, 101)], Spread(50, 90, 100), id="a-hundred"),
    ],
)
def test_percentiles_are_values_that_were_measured(values: list[float], expected: Spread | None) -> None:
    """By nearest rank, of however few."""
    assert expected == spread(values)


def test_reloads_are_measured_on_every_driver_pod() -> None:
    """From the driver container's start to Ready."""
    reloads = only(took(40, 50, 60, 70, 400)).reloads
    assert (Spread(60, 400, 5), None, 5) == (reloads.loading, reloads.whole, reloads.pods)


def test_unloading_counts_where_pods_tell_it() -> None:
    """The init containers' time, and the pull of the driver's image, are part of a reload."""
    found = unloaded_in(took(40, 50, 60), 30)
    reloads = only(found).reloads
    assert (Spread(50, 60, 3), Spread(80, 90, 3)) == (reloads.loading, reloads.whole)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(driver_pod("gpu-0", ready=None), id="not-ready"),
        pytest.param(driver_pod("gpu-0", ready=2 * HOUR), id="ready-hours-later"),
        pytest.param({**driver_pod("gpu-0"), "status": {"conditions": conditions(70)}}, id="no-container"),
    ],
)
def test_a_pod_that_cannot_be_believed_is_no_sample(pod: Object) -> None:
    """It counts as a pod that did not tell; the other one does."""
    reloads = only(took(40, 50).put("driver-pod", pod)).reloads
    assert (Spread(50, 50, 1), 2) == (reloads.loading, reloads.pods)


def test_without_any_sample_it_says_so() -> None:
    """A step is then what the upgrade controller's own pace makes of it."""
    pool = only(took(40).put("driver-pod", driver_pod("gpu-0", ready=None)))
    assert (None, Step(120, 120)) == (pool.reloads.loading, pool.step)
    assert Obstacle.RELOADS_UNKNOWN in obstacles(pool)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(driver_pod("gpu-0", started=500, ready=540, restarts=1, ended_before=490), id="crashed-in-place"),
        pytest.param(driver_pod("gpu-0", started=9000, ready=9040, unloaded=10), id="long-before"),
    ],
)
def test_an_unloading_of_another_start_does_not_count(pod: Object) -> None:
    """The init containers ran for a run of the driver container that is over."""
    for status in pod["status"]["initContainerStatuses"]:
        status["state"]["terminated"]["startedAt"] = "2026-01-01T09:59:00Z"
    reloads = only(took(40).put("driver-pod", pod)).reloads
    assert (Spread(40, 40, 1), None) == (reloads.loading, reloads.whole)


def test_steps_are_measured_in_the_last_rotation() -> None:
    """From one node's beginning to the next one's: the reload takes 70 s, the controller looks every 120 s."""
    pool = only(rotated(fleet(4), 0, 120, 240, 365))
    assert Step(120, 125, Spread(120, 125, 3)) == pool.step
    assert Obstacle.STEP_IS_ASSUMED not in obstacles(pool)


def test_nodes_that_went_side_by_side_are_one_turn() -> None:
    """Two at once, three turns."""
    assert Spread(130, 140, 2) == only(rotated(fleet(6), 0, 3, 130, 131, 270, 275)).step.measured


def test_a_node_that_begins_as_the_last_one_is_ready_has_a_turn_of_its_own() -> None:
    """Times are whole seconds."""
    assert Spread(70, 70, 3) == only(rotated(fleet(4), 0, 70, 140, 210)).step.measured


def test_a_step_is_never_shorter_than_a_reload() -> None:
    """Nodes that began one after another within one's reload were side by side: nothing is learnt of steps."""
    assert Step(480, 480) == only(rotated(fleet(3), 0, 60, 120, took=400)).step


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(rotated(fleet(3), 0, 0, 0), id="all-at-once"),
        pytest.param(rotated(fleet(3), 0, 120, 5 * HOUR), id="a-reboot-hours-later"),
        pytest.param(rotated(fleet(3), -2 * HOUR, -2 * HOUR + 120, -2 * HOUR + 240), id="before-the-revision"),
        pytest.param(rotated(fleet(3), 0, 120, 240).change("revision", {"revision": 1}), id="installed-one-by-one"),
        pytest.param(rotated(fleet(3), 0, 120, 240).drop("revision"), id="no-revision"),
        pytest.param(
            rotated(fleet(3), 0, 120, 240).change(
                "driver-pod", {"metadata": {"labels": {"controller-revision-hash": "old"}}}
            ),
            id="not-upgraded-yet",
        ),
    ],
)
def test_without_a_rotation_steps_are_assumed(found: Cluster) -> None:
    """And that is said."""
    pool = only(found)
    assert (None, Step(120, 120)) == (pool.step.measured, pool.step)
    assert Obstacle.STEP_IS_ASSUMED in obstacles(pool)


def test_an_early_reboot_does_not_lengthen_steps() -> None:
    """What came long after the rotation is another story."""
    assert Spread(120, 120, 2) == only(rotated(fleet(4), 0, 120, 240, 5 * HOUR)).step.measured


@pytest.mark.parametrize(
    ("loading", "expected"),
    [
        pytest.param(Spread(20, 119, 5), Step(120, 120), id="seen-at-the-next-look"),
        pytest.param(Spread(120, 121, 5), Step(120, 240), id="slow-ones-at-the-one-after"),
        pytest.param(Spread(300, 500, 5), Step(360, 600), id="long-ones"),
    ],
)
def test_an_assumed_step_ends_when_the_controller_looks(loading: Spread, expected: Step) -> None:
    """Every 120 s: nothing tells it that a driver is ready."""
    assert expected == step(Reloads(loading=loading), None)


def test_the_network_driver_is_measured_alike() -> None:
    """Its init container unloads nothing; its own container does both."""
    assert Spread(70, 70, 2) == only(network("a", "b")).reloads.loading
