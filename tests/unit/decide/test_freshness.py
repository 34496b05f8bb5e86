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


def half_running(first: float) -> Object:
    """Return a plugin pod of which one container started at a moment, and the other one backs off."""
    statuses = [waiting("gpus", "CrashLoopBackOff"), running("compute-domains", first)]
    return with_status(plugin_pod(waited=-99, ready=None), main=statuses)


WAITED = plugin_pod(waited=30, started=31)
CRASHED_IN_PLACE = driver_pod(unloaded=-2, ended_before=-1, restarts=1)
REBOOTED = driver_pod(unloaded=-2, ended_before=-60, restarts=1)
NO_UNLOADER: Object = {"spec": {"initContainers": []}, "status": {"initContainerStatuses": []}}
# After an outage of the node, the node controller has moved Ready, but not ContainersReady.
NODE_OUTAGE = merged(DRIVER, {"status": {"conditions": [conditions(5000)[0], conditions(R)[1]]}})


def set_up(seconds: float, restarts: int) -> Object:
    """Return a driver pod whose previous run is not known. Its unloader ended so long before the current one."""
    driver = driver_pod(restarts=2, unloaded=-seconds)
    driver["status"]["initContainerStatuses"][0]["restartCount"] = restarts
    return driver


WAITER_FAILED = with_status(WAITED, init=[finished("init-container", 5, exit_code=1)])
PROOFS = {
    "started on the old driver": (plugin_pod(waited=-90, started=-88), DRIVER, STALE),
    "waited for it, and started before it was ready": (WAITED, DRIVER, FRESH),
    "waiter ended in the second of the start": (plugin_pod(waited=0, started=1), DRIVER, STALE),
    "waiter ended a second later": (plugin_pod(waited=1, started=1), DRIVER, FRESH),
    "waiter failed": (WAITER_FAILED, DRIVER, STALE),
    "waiter ended at no time": (with_status(WAITED, init=[untimed("init-container")]), DRIVER, STALE),
    "restarted in place, old root mounted": (WAITED, CRASHED_IN_PLACE, STALE),
    "in place, but started after ready": (plugin_pod(waited=80, started=81), CRASHED_IN_PLACE, FRESH),
    "reboot, unloader ran again": (WAITED, REBOOTED, FRESH),
    "unloader ended with the crash": (WAITED, driver_pod(unloaded=-60, ended_before=-60, restarts=1), STALE),
    "unloader ended a second later": (WAITED, driver_pod(unloaded=-59, ended_before=-60, restarts=1), FRESH),
    "restarted, but its past is unknown": (WAITED, driver_pod(restarts=1), STALE),
    "its past is unknown, a reboot in the same second": (WAITED, set_up(0, 1), FRESH),
    "its past is unknown, a reboot with the longest start": (WAITED, set_up(10, 1), FRESH),
    "its past is unknown, the unloader had failed once": (WAITED, set_up(11, 1), STALE),
    "its past is unknown, a crash": (WAITED, set_up(3, 0), STALE),
    "no unloader": (WAITED, merged(DRIVER, NO_UNLOADER), STALE),
    "unloader failed": (WAITED, with_status(DRIVER, init=[finished(UNLOADER, -2, 1)]), STALE),
    "unloader still runs": (WAITED, with_status(DRIVER, init=[running(UNLOADER, -2)]), STALE),
    "unloader ended at no time": (WAITED, with_status(REBOOTED, init=[untimed(UNLOADER)]), STALE),
    "unknown driver container": (WAITED, OTHER_CONTAINER, STALE),
    "unknown driver container, but later": (plugin_pod(waited=80, started=81), OTHER_CONTAINER, FRESH),
    "driver container not running": (WAITED, NOT_STARTED, STALE),
    "driver never ready": (plugin_pod(waited=-5, started=99), NEVER_READY, STALE),
    "no waiter, started after ready": (plugin_pod(waited=None, started=R + 1), DRIVER, FRESH),
    "no waiter, same second as ready": (plugin_pod(waited=None, started=R), DRIVER, STALE),
    "one of several containers is older": (main_containers(R + 9, R - 1), DRIVER, STALE),
    "one of several started before the driver": (main_containers(-5, R + 6), DRIVER, STALE),
    "a node outage moves only Ready": (main_containers(R + 9, R + 9), NODE_OUTAGE, FRESH),
    "half of it since before the driver": (half_running(-90), DRIVER, STALE),
    "half of it since the second of the start": (half_running(0), DRIVER, STALE),
    "half of it since after the start": (half_running(1), DRIVER, STARTING),
    "half of it, and no driver to compare with": (half_running(-90), NOT_STARTED, STARTING),
}


@pytest.mark.parametrize(("plugin", "driver", "expected"), PROOFS.values(), ids=PROOFS)
def test_fresh_only_with_a_proof(plugin: Object, driver: Object, expected: Freshness) -> None:
    """A plugin is fresh if its start-up or its start time proves it; equal times and doubt are stale."""
    assert expected is evidence(plugin, driver).freshness


def test_without_a_ready_time_the_plugin_is_explained_so() -> None:
    """There is nothing to compare with."""
    because = evidence(plugin_pod(waited=None), NEVER_READY).because
    assert "its node's driver has no ready time to compare with" == because


def _crashing(restarts: int, ended_before: float = -1, init: list[Object] | None = None) -> Object:
    return with_status(driver_pod(unloaded=-60, ended_before=ended_before, restarts=restarts), init)


ONE_FAILED = [finished(UNLOADER, -60), finished("mesh", 9, 1)]
ONE_RAN_AGAIN = [finished("mesh", -60), finished(UNLOADER, -2)]
CRASHES = {
    "crashed once": (_crashing(1), False),
    "crashed twice": (_crashing(2), True),
    "ended in the second in which it was set up": (_crashing(2, ended_before=-60), True),
    "rebooted twice": (_crashing(2, ended_before=-61), False),
    "restarted, but its past is unknown": (driver_pod(restarts=2), False),
    "no unloader that shows a reboot": (_crashing(2, init=[]), False),
    "one init container failed": (_crashing(2, init=ONE_FAILED), True),
    "one init container ran again, the other one not yet": (
        _crashing(2, ended_before=-30, init=ONE_RAN_AGAIN), False),
    "one init container ended at no time": (_crashing(9, init=[untimed("mesh"), finished(UNLOADER, -60)]), True),
    "no such container": (OTHER_CONTAINER, False),
}  # fmt: skip


@pytest.mark.parametrize(("driver", "expected"), CRASHES.values(), ids=CRASHES)
def test_a_driver_that_keeps_crashing_is_not_taken_for_a_reboot(driver: Object, *, expected: bool) -> None:
    """A reboot runs the pod's init containers again, a crash of the container does not; one crash may be bad luck."""
    assert expected is freshness.keeps_crashing(read_pod(driver), GPU_OPERATOR)


@pytest.mark.parametrize(("driver", "started"), [(DRIVER, at(0)), (NOT_STARTED, None), (OTHER_CONTAINER, None)])
def test_a_driver_begins_with_the_current_run_of_its_container(driver: Object, started: datetime | None) -> None:
    """If there is one."""
    assert started == freshness.driver_started(read_pod(driver), GPU_OPERATOR)


def test_a_driver_may_be_ready_in_the_second_of_its_start() -> None:
    """Kubernetes writes whole seconds."""
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
