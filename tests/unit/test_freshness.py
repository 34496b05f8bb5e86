"""Whether a plugin pod is proven to run on the driver that is loaded now."""

from __future__ import annotations

import pytest

from hook.decide import freshness
from hook.decide.freshness import Freshness
from hook.objects import readers
from hook.objects.drivers import DRA_PLUGIN, GPU_OPERATOR
from tests.fixtures.objects import (
    Object,
    R,
    at,
    conditions,
    driver_pod,
    finished,
    merged,
    obj,
    plugin_pod,
    running,
    waiting,
)

FRESH, STALE, STARTING = Freshness.FRESH, Freshness.STALE, Freshness.STARTING
DRIVER = driver_pod()
CRASHED_IN_PLACE = driver_pod(unloaded=-2, ended_before=-1, restarts=1)
REBOOTED = driver_pod(unloaded=-2, ended_before=-60, restarts=1)
LOST_ITS_PAST = driver_pod(restarts=1)
WITHOUT_UNLOADER: Object = {"spec": {"initContainers": []}, "status": {"initContainerStatuses": []}}
NO_UNLOADER = merged(DRIVER, WITHOUT_UNLOADER)
UNLOADER_FAILED = merged(DRIVER, {"status": {"initContainerStatuses": [finished("k8s-driver-manager", -2, 1)]}})
SETTING_UP: Object = {"status": {"initContainerStatuses": [running("k8s-driver-manager", -2)]}}
UNLOADER_RUNS = merged(DRIVER, SETTING_UP)
UNLOADED_AT_NO_TIME = merged(
    driver_pod(ended_before=-60, restarts=1),
    {
        "status": {
            "initContainerStatuses": [{"name": "k8s-driver-manager", "state": {"terminated": {"exitCode": 0}}}],
        }
    },
)
OTHER_CONTAINER = merged(
    DRIVER,
    {"spec": {"containers": [{"name": "vgpu-ctr"}]}, "status": {"containerStatuses": [running("vgpu-ctr", 0)]}},
)
NOT_STARTED = merged(DRIVER, {"status": {"containerStatuses": [waiting("nvidia-driver-ctr", "CrashLoopBackOff")]}})
NEVER_READY = driver_pod(ready=None)
NODE_OUTAGE = merged(
    DRIVER, {"status": {"conditions": [{**conditions(5000)[0]}, conditions(R)[1]]}}
)  # Ready moved long after ContainersReady


def freshness_of(plugin: Object, driver: Object) -> Freshness:
    """Judge one pair of API objects."""
    return freshness.evaluate(readers.pod(plugin), DRA_PLUGIN, readers.pod(driver), GPU_OPERATOR).freshness


def main_containers(first: float, second: float) -> Object:
    """Give a plugin pod without a waiter, whose containers started at two moments."""
    statuses = [running("compute-domains", first), running("gpus", second)]
    pod: Object = merged(plugin_pod(waited=None), {"status": {"containerStatuses": statuses}})
    return pod


def half_running(first: float, waited: float | None = -99) -> Object:
    """Give a plugin pod of which one container started at a moment, and the other is in its back-off."""
    statuses = [waiting("gpus", "CrashLoopBackOff"), running("compute-domains", first)]
    waited = None if waited is None else min(waited, first)
    pod: Object = merged(plugin_pod(waited=waited, ready=None), {"status": {"containerStatuses": statuses}})
    return pod


@pytest.mark.parametrize(
    ("plugin", "driver", "expected"),
    [
        pytest.param(plugin_pod(waited=-90, started=-88), DRIVER, STALE, id="started-on-the-old-driver"),
        pytest.param(
            plugin_pod(waited=30, started=31), DRIVER, FRESH, id="waited-for-it-and-started-before-it-was-ready"
        ),
        pytest.param(plugin_pod(waited=0, started=1), DRIVER, STALE, id="waiter-ended-in-the-second-of-the-start"),
        pytest.param(plugin_pod(waited=1, started=1), DRIVER, FRESH, id="waiter-ended-a-second-later"),
        pytest.param(plugin_pod(waited=-5, started=-4), DRIVER, STALE, id="waiter-saw-the-old-driver"),
        pytest.param(
            plugin_pod(waited=30, started=31), CRASHED_IN_PLACE, STALE, id="restarted-in-place-old-root-mounted"
        ),
        pytest.param(plugin_pod(waited=80, started=81), CRASHED_IN_PLACE, FRESH, id="in-place-but-started-after-ready"),
        pytest.param(plugin_pod(waited=30, started=31), REBOOTED, FRESH, id="reboot-unloader-ran-again"),
        pytest.param(plugin_pod(waited=30, started=31), LOST_ITS_PAST, STALE, id="restarted-but-its-past-is-unknown"),
        pytest.param(plugin_pod(waited=30, started=31), NO_UNLOADER, STALE, id="no-unloader"),
        pytest.param(plugin_pod(waited=30, started=31), UNLOADER_FAILED, STALE, id="unloader-failed"),
        pytest.param(plugin_pod(waited=30, started=31), UNLOADER_RUNS, STALE, id="unloader-still-runs"),
        pytest.param(plugin_pod(waited=30, started=31), UNLOADED_AT_NO_TIME, STALE, id="unloader-ended-at-no-time"),
        pytest.param(plugin_pod(waited=30, started=31), OTHER_CONTAINER, STALE, id="unknown-driver-container"),
        pytest.param(
            plugin_pod(waited=80, started=81), OTHER_CONTAINER, FRESH, id="unknown-driver-container-but-later"
        ),
        pytest.param(plugin_pod(waited=30, started=31), NOT_STARTED, STALE, id="driver-container-not-running"),
        pytest.param(plugin_pod(waited=-5, started=99), NEVER_READY, STALE, id="driver-never-ready"),
        pytest.param(plugin_pod(waited=None, started=R + 1), DRIVER, FRESH, id="no-waiter-started-after-ready"),
        pytest.param(plugin_pod(waited=None, started=R), DRIVER, STALE, id="no-waiter-same-second-as-ready"),
        pytest.param(plugin_pod(waited=None, started=R - 1), DRIVER, STALE, id="no-waiter-started-before-ready"),
        pytest.param(main_containers(R + 9, R - 1), DRIVER, STALE, id="one-of-several-containers-is-older"),
        pytest.param(main_containers(R + 9, R + 1), DRIVER, FRESH, id="all-containers-are-newer"),
        pytest.param(plugin_pod(), NODE_OUTAGE, FRESH, id="node-outage-moves-only-ready"),
        pytest.param(main_containers(R + 9, R + 9), NODE_OUTAGE, FRESH, id="node-outage-no-waiter"),
        pytest.param(half_running(-90), DRIVER, STALE, id="half-of-it-since-before-the-driver"),
        pytest.param(half_running(0), DRIVER, STALE, id="half-of-it-since-the-second-of-the-start"),
        pytest.param(half_running(1), DRIVER, STARTING, id="half-of-it-since-after-the-start"),
        pytest.param(half_running(-90), NOT_STARTED, STARTING, id="half-of-it-and-no-driver-to-compare-with"),
        pytest.param(half_running(1, waited=5), DRIVER, STARTING, id="half-of-it-after-waiting"),
    ],
)
def test_fresh_only_with_a_proof(plugin: Object, driver: Object, expected: Freshness) -> None:
    """A plugin is fresh if its start-up or its start time proves it; equality and doubt are stale."""
    assert expected == freshness_of(plugin, driver)


def statuses(init: list[Object], main: list[Object]) -> Object:
    """Give a plugin pod with these container statuses."""
    pod: Object = merged(plugin_pod(), {"status": {"initContainerStatuses": init, "containerStatuses": main}})
    return pod


BOTH_WAIT = [waiting("compute-domains", "PodInitializing"), waiting("gpus", "PodInitializing")]


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        pytest.param(obj("plugin-pod", "{spec: {containers: []}, status: {containerStatuses: []}}"),
                     "it has no containers yet", id="no-containers"),
        pytest.param(statuses([running("init-container", 5)], BOTH_WAIT),
                     "its init container init-container is still waiting for a working driver", id="init-runs"),
        pytest.param(statuses([waiting("init-container", "ErrImagePull")], BOTH_WAIT),
                     "its init container init-container is not running (ErrImagePull)", id="init-cannot-start"),
        pytest.param(statuses([finished("init-container", 5, 1)], BOTH_WAIT),
                     "its init container init-container is not running (terminated)", id="init-failed"),
        pytest.param(statuses([finished("init-container", 5)], [running("compute-domains", 6), BOTH_WAIT[1]]),
                     "its container gpus is not running (PodInitializing)", id="one-of-two-waits"),
        pytest.param(statuses([finished("init-container", 5)], [finished("compute-domains", 9), running("gpus", 6)]),
                     "its container compute-domains is not running (terminated)", id="one-of-two-ended"),
        pytest.param(statuses([], []),
                     "its init container init-container is not running (ContainerCreating)", id="nothing-reported-yet"),
    ],
)  # fmt: skip
def test_a_pod_without_all_main_containers_running_is_starting(plugin: Object, expected: str) -> None:
    """It is neither fresh nor stale, and says what it waits for."""
    evidence = freshness.evaluate(readers.pod(plugin), DRA_PLUGIN, readers.pod(DRIVER), GPU_OPERATOR)
    assert (STARTING, expected) == (evidence.freshness, evidence.because)


@pytest.mark.parametrize(
    ("started", "driver", "expected"),
    [
        pytest.param(R - 30, DRIVER, "it started 30 s before this driver was ready", id="older"),
        pytest.param(R, DRIVER, "it started in the same second in which this driver became ready", id="same-second"),
        pytest.param(R, NEVER_READY, "its node's driver has no ready time to compare with", id="no-ready-time"),
    ],
)
def test_stale_says_why(started: float, driver: Object, expected: str) -> None:
    """The sentence carries the comparison that failed."""
    plugin = readers.pod(plugin_pod(waited=None, started=started))
    assert expected == freshness.evaluate(plugin, DRA_PLUGIN, readers.pod(driver), GPU_OPERATOR).because


def crashing(restarts: int, ended_before: float = -1) -> Object:
    """Give a driver pod that was set up a minute before D, whose container ended since then."""
    return driver_pod(unloaded=-60, ended_before=ended_before, restarts=restarts)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(DRIVER, False, id="first-run"),
        pytest.param(crashing(1), False, id="crashed-once"),
        pytest.param(crashing(2), True, id="crashed-twice"),
        pytest.param(crashing(2, ended_before=-60), True, id="ended-in-the-second-in-which-it-was-set-up"),
        pytest.param(crashing(2, ended_before=-61), False, id="rebooted-twice"),
        pytest.param(driver_pod(restarts=2), False, id="restarted-but-its-past-is-unknown"),
        pytest.param(merged(crashing(2), SETTING_UP), False, id="rebooted-and-being-set-up"),
        pytest.param(merged(crashing(2), WITHOUT_UNLOADER), False, id="no-unloader-to-tell-a-reboot-by"),
        pytest.param(OTHER_CONTAINER, False, id="no-such-container"),
    ],
)
def test_a_driver_that_keeps_crashing_is_told_from_one_that_is_set_up_anew(driver: Object, expected: bool) -> None:
    """A reboot runs the pod's init containers again, a crash of the container does not; one crash may be bad luck."""
    assert expected == freshness.keeps_crashing(readers.pod(driver), GPU_OPERATOR)


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        pytest.param(DRIVER, at(0), id="running"),
        pytest.param(NOT_STARTED, None, id="not-running"),
        pytest.param(OTHER_CONTAINER, None, id="no-such-container"),
    ],
)
def test_the_driver_run_is_known_by_its_container(driver: Object, expected: object) -> None:
    """D is the start of the driver container's current run, if there is one."""
    assert expected == freshness.driver_started(readers.pod(driver), GPU_OPERATOR)
