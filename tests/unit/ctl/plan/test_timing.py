"""How long reloads and steps took the last time, and how long a step is without a measurement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from ctl.plan.result import Obstacle, Spread, Step
from ctl.plan.timing import spread, step
from tests.fixtures.cluster import Cluster
from tests.fixtures.modes import network
from tests.fixtures.objects import Object, conditions, driver_pod, finished, merged, stamp
from tests.fixtures.planning import OLD, fleet, obstacles, only, rotated, unloaded_in

HOUR: Final = 3600


def took(*seconds: float) -> Cluster:
    """Return a fleet of which each node's driver took so long, all begun together."""
    found = fleet(len(seconds))
    return found.put("driver-pod", *(driver_pod(f"gpu-{n}", ready=each) for n, each in enumerate(seconds)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([7], Spread(7, 7, 1)),
        ([9, 1], Spread(1, 9, 2)),
        (range(1, 11), Spread(5, 9, 10)),
        (range(1, 101), Spread(50, 90, 100)),
    ],
)
def test_percentiles_are_values_that_were_measured(values: Iterable[float], expected: Spread | None) -> None:
    """By nearest rank, of however few."""
    assert expected == spread(values)


def test_reloads_are_measured_on_every_driver_pod() -> None:
    """From the start of the driver container to Ready; from the beginning of the unloading where pods show it."""
    assert Spread(60, 400, 5) == only(took(40, 50, 60, 70, 400)).reload
    assert Spread(80, 90, 3) == only(unloaded_in(took(40, 50, 60), 30)).reload
    assert Spread(70, 70, 2) == only(network("a", "b")).reload


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(driver_pod("gpu-0", ready=None), id="not ready"),
        pytest.param(driver_pod("gpu-0", ready=2 * HOUR), id="ready hours later"),
        pytest.param({**driver_pod("gpu-0"), "status": {"conditions": conditions(70)}}, id="no container"),
    ],
)
def test_a_pod_that_cannot_be_believed_is_no_sample(pod: Object) -> None:
    """The other one is. Without any, the time is unknown, and a step is assumed."""
    assert Spread(50, 50, 1) == only(took(40, 50).put("driver-pod", pod)).reload
    pool = only(took(40).put("driver-pod", pod))
    assert (None, Step(120, 120)) == (pool.reload, pool.step)


SPANS: Final = {"k8s-driver-manager": (-50, -30), "mesh": (-30, -2)}


@pytest.mark.parametrize(
    ("pod", "seconds"),
    [
        pytest.param(driver_pod("gpu-0"), 120, id="with unloading"),
        pytest.param(driver_pod("gpu-0", started=500, ready=540, restarts=1, ended_before=490), 40, id="restarted"),
        pytest.param(driver_pod("gpu-0", started=9000, ready=9040), 40, id="hours before"),
    ],
)
def test_the_unloading_begins_with_the_first_init_container(pod: Object, seconds: float) -> None:
    """The others come after it. Those that ran for an earlier run of the driver container do not count."""
    statuses = [merged(finished(name, end), {"state": {"terminated": {"startedAt": stamp(start)}}})
                for name, (start, end) in SPANS.items()]  # fmt: skip
    found = fleet(1).put("driver-pod", merged(pod, {"status": {"initContainerStatuses": statuses}}))
    assert Spread(seconds, seconds, 1) == only(found).reload


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        pytest.param((0, 120, 240, 365), Step(120, 125, 3), id="one at a time"),
        pytest.param((0, 3, 130, 131, 270, 275), Step(130, 140, 2), id="two at once"),
        pytest.param((0, 70, 140, 210), Step(70, 70, 3), id="begins as the last one is ready"),
        pytest.param((0, 120, 240, 5 * HOUR), Step(120, 120, 2), id="a reboot hours later"),
    ],
)
def test_steps_are_measured_in_the_last_rotation(begins: tuple[float, ...], expected: Step) -> None:
    """From one turn's beginning to the next one's. A turn begins after all reloads before it, or in that second."""
    pool = only(rotated(fleet(len(begins)), *begins))
    assert (expected, False) == (pool.step, Obstacle.STEP_IS_ASSUMED in obstacles(pool))


def test_a_reload_that_ends_sooner_does_not_end_the_turn() -> None:
    """The turn ends with its longest reload."""
    spans = ((0, 300), (10, 80), (100, 170), (400, 470), (520, 590))
    found = fleet(len(spans)).change("revision", {"metadata": {"creationTimestamp": stamp(-HOUR)}})
    pods = (driver_pod(f"gpu-{n}", started=began, ready=ready) for n, (began, ready) in enumerate(spans))
    assert Step(120, 400, 2) == only(found.put("driver-pod", *pods)).step


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(rotated(fleet(3), 0, 0, 0), id="all at once"),
        pytest.param(rotated(fleet(3), 0, 120, 5 * HOUR), id="a reboot hours later"),
        pytest.param(rotated(fleet(3), -2 * HOUR, -2 * HOUR + 120, -2 * HOUR + 240), id="before the revision"),
        pytest.param(rotated(fleet(3), 0, 120, 240).change("revision", {"revision": 1}), id="installed one by one"),
        pytest.param(rotated(fleet(3), 0, 120, 240).drop("revision"), id="no revision"),
        pytest.param(rotated(fleet(3), 0, 120, 240).change("driver-pod", OLD), id="not upgraded yet"),
    ],
)
def test_without_a_rotation_steps_are_assumed(found: Cluster) -> None:
    """And the plan reports that."""
    pool = only(found)
    assert (Step(120, 120), True) == (pool.step, Obstacle.STEP_IS_ASSUMED in obstacles(pool))


@pytest.mark.parametrize(
    ("took", "pauses", "expected"),
    [
        (Spread(20, 119, 5), None, Step(120, 120)),
        (Spread(120, 121, 5), None, Step(120, 240)),
        (Spread(130, 130, 3), Spread(125, 200, 3), Step(130, 200, 3)),
    ],
)
def test_an_assumed_step_ends_when_the_controller_looks(took: Spread, pauses: Spread | None, expected: Step) -> None:
    """It looks every 120 s: nothing notifies it that a driver is ready. No step is shorter than a reload."""
    assert expected == step(took, pauses)
