"""Freshness: whether a plugin pod is proven to run on the driver that is loaded now."""

from __future__ import annotations

from datetime import datetime

import pytest

from hook.decide import freshness
from hook.decide.freshness import Evidence, Freshness
from hook.objects import read_pod
from hook.objects.stacks import DRA_PLUGIN, GPU_OPERATOR
from tests.fixtures.objects import Object, R, at, conditions, driver_pod, finished, merged, plugin_pod, running, waiting

FRESH, STALE, STARTING = Freshness.FRESH, Freshness.STALE, Freshness.STARTING
UNLOADER = "k8s-driver-manager"
DRIVER = driver_pod()
NEVER_READY = driver_pod(ready=None)


def with_status(pod: Object, init: list[Object] | None = None, main: list[Object] | None = None) -> Object:
    """Return a pod with other statuses of its init containers, or of its main containers."""
    given = {"initContainerStatuses": init, "containerStatuses": main}
    whole: Object = merged(pod, {"status": {key: value for key, value in given.items() if value is not None}})
    return whole


def untimed(name: str) -> Object:
    """Return the status of a container that ended at an unknown time."""
    return {"name": name, "state": {"terminated": {"exitCode": 0}}}


OTHER_CONTAINER = with_status(merged(DRIVER, {"spec": {"containers": [{"name": "vgpu-ctr"}]}}),
                              main=[running("vgpu-ctr", 0)])  # fmt: skip
NOT_STARTED = with_status(DRIVER, main=[waiting("nvidia-driver-ctr", "CrashLoopBackOff")])


def evidence(plugin: Object, driver: Object) -> Evidence:
    """Evaluate a plugin pod on a node with this driver pod."""
    return freshness.evaluate(read_pod(plugin), DRA_PLUGIN, read_pod(driver), GPU_OPERATOR)


def main_containers(first: float, second: float) -> Object:
    """Return a plugin pod without a waiting init container, whose containers started at two moments."""
    return with_status(plugin_pod(waited=None), main=[running("compute-domains", first), running("gpus", second)])


def half_running(first: float, waited: float = -99) -> Object:
    """Return a plugin pod of which one container started at a moment, and the other one backs off."""
    statuses = [waiting("gpus", "CrashLoopBackOff"), running("compute-domains", first)]
    return with_status(plugin_pod(waited=min(waited, first), ready=None), main=statuses)


def test_fresh_only_with_a_proof() -> None:
    """A plugin is fresh if its start-up or its start time proves it; equal times and doubt are stale."""
    waited = plugin_pod(waited=30, started=31)
    crashed_in_place = driver_pod(unloaded=-2, ended_before=-1, restarts=1)
    rebooted = driver_pod(unloaded=-2, ended_before=-60, restarts=1)
    no_unloader: Object = {"spec": {"initContainers": []}, "status": {"initContainerStatuses": []}}
    # After an outage of the node, the node controller has moved Ready, but not ContainersReady.
    node_outage = merged(DRIVER, {"status": {"conditions": [conditions(5000)[0], conditions(R)[1]]}})
    for name, plugin, driver, expected in (
        ("started on the old driver", plugin_pod(waited=-90, started=-88), DRIVER, STALE),
        ("waited for it, and started before it was ready", waited, DRIVER, FRESH),
        ("waiter ended in the second of the start", plugin_pod(waited=0, started=1), DRIVER, STALE),
        ("waiter ended a second later", plugin_pod(waited=1, started=1), DRIVER, FRESH),
        ("waiter saw the old driver", plugin_pod(waited=-5, started=-4), DRIVER, STALE),
        ("waiter failed", with_status(waited, init=[finished("init-container", 5, exit_code=1)]), DRIVER, STALE),
        ("waiter ended at no time", with_status(waited, init=[untimed("init-container")]), DRIVER, STALE),
        ("restarted in place, old root mounted", waited, crashed_in_place, STALE),
        ("in place, but started after ready", plugin_pod(waited=80, started=81), crashed_in_place, FRESH),
        ("reboot, unloader ran again", waited, rebooted, FRESH),
        ("unloader ended with the crash", waited, driver_pod(unloaded=-60, ended_before=-60, restarts=1), STALE),
        ("unloader ended a second later", waited, driver_pod(unloaded=-59, ended_before=-60, restarts=1), FRESH),
        ("restarted, but its past is unknown", waited, driver_pod(restarts=1), STALE),
        ("no unloader", waited, merged(DRIVER, no_unloader), STALE),
        ("unloader failed", waited, with_status(DRIVER, init=[finished(UNLOADER, -2, 1)]), STALE),
        ("unloader still runs", waited, with_status(DRIVER, init=[running(UNLOADER, -2)]), STALE),
        ("unloader ended at no time", waited, with_status(rebooted, init=[untimed(UNLOADER)]), STALE),
        ("unknown driver container", waited, OTHER_CONTAINER, STALE),
        ("unknown driver container, but later", plugin_pod(waited=80, started=81), OTHER_CONTAINER, FRESH),
        ("driver container not running", waited, NOT_STARTED, STALE),
        ("driver never ready", plugin_pod(waited=-5, started=99), NEVER_READY, STALE),
        ("no waiter, started after ready", plugin_pod(waited=None, started=R + 1), DRIVER, FRESH),
        ("no waiter, same second as ready", plugin_pod(waited=None, started=R), DRIVER, STALE),
        ("no waiter, started before ready", plugin_pod(waited=None, started=R - 1), DRIVER, STALE),
        ("one of several containers is older", main_containers(R + 9, R - 1), DRIVER, STALE),
        ("one of several started while the driver loaded", main_containers(R + 6, 5), DRIVER, STALE),
        ("one of several started before the driver", main_containers(-5, R + 6), DRIVER, STALE),
        ("all containers are newer", main_containers(R + 9, R + 1), DRIVER, FRESH),
        ("a node outage moves only Ready", plugin_pod(), node_outage, FRESH),
        ("a node outage, no waiter", main_containers(R + 9, R + 9), node_outage, FRESH),
        ("half of it since before the driver", half_running(-90), DRIVER, STALE),
        ("half of it since the second of the start", half_running(0), DRIVER, STALE),
        ("half of it since after the start", half_running(1), DRIVER, STARTING),
        ("half of it, and no driver to compare with", half_running(-90), NOT_STARTED, STARTING),
        ("half of it, after it waited", half_running(1, waited=5), DRIVER, STARTING),
    ):  # fmt: skip
        assert expected is evidence(plugin, driver).freshness, name
    without_time = evidence(plugin_pod(waited=None), NEVER_READY).because
    assert "its node's driver has no ready time to compare with" == without_time


def test_a_driver_that_keeps_crashing_is_not_taken_for_a_reboot() -> None:
    """A reboot runs the pod's init containers again, a crash of the container does not; one crash may be bad luck."""

    def crashing(restarts: int, ended_before: float = -1, init: list[Object] | None = None) -> Object:
        return with_status(driver_pod(unloaded=-60, ended_before=ended_before, restarts=restarts), init)

    for name, driver, expected in (
        ("first run", DRIVER, False),
        ("crashed once", crashing(1), False),
        ("crashed twice", crashing(2), True),
        ("ended in the second in which it was set up", crashing(2, ended_before=-60), True),
        ("rebooted twice", crashing(2, ended_before=-61), False),
        ("restarted, but its past is unknown", driver_pod(restarts=2), False),
        ("no unloader that shows a reboot", crashing(2, init=[]), False),
        ("one init container failed", crashing(2, init=[finished(UNLOADER, -60), finished("mesh", 9, 1)]), True),
        (
            "one init container ran again, the other one not yet",
            crashing(2, ended_before=-30, init=[finished("mesh", -60), finished(UNLOADER, -2)]),
            False,
        ),
        ("one init container ended at no time", crashing(9, init=[untimed("mesh"), finished(UNLOADER, -60)]), True),
        ("no such container", OTHER_CONTAINER, False),
    ):
        assert expected is freshness.keeps_crashing(read_pod(driver), GPU_OPERATOR), name
    # D is the start of the driver container's current run, if there is one.
    for driver, started in ((DRIVER, at(0)), (NOT_STARTED, None), (OTHER_CONTAINER, None)):
        assert started == freshness.driver_started(read_pod(driver), GPU_OPERATOR)
    assert at(0) == freshness.ready_since(read_pod(driver_pod(started=0, ready=0)), "nvidia-driver-ctr")


@pytest.mark.parametrize(
    ("started", "restarts", "ready", "load"), [(R, 0, at(R), "0"), (R + 1, 0, None, "0"), (0, 1, at(R), "1")]
)
def test_any_container_may_load_a_driver_if_none_has_the_name(
    started: int, restarts: int, ready: datetime | None, load: str
) -> None:
    """Each of them must have started before the pod was ready, and each restart is another load."""
    mains = [running("vgpu-ctr", 0), running("side", started, restarts=restarts)]
    pod = read_pod(with_status(merged(DRIVER, {"spec": {"containers": [{"name": "vgpu-ctr"}]}}), main=mains))
    assert ready == freshness.ready_since(pod, "nvidia-driver-ctr")
    assert freshness.load_of(pod, GPU_OPERATOR).endswith(f"/{load}")
