"""Rules of the circuit breaker: which nodes count, by which moment, and until when."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from hook.config import DriverClient, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.decide.state import Breaker, Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons
from tests.fixtures.following import Controller
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import with_exporter
from tests.fixtures.objects import Object, conditions, driver_pod, merged, parsed, plugin_pod, running, stamp, waiting

EXPORTER = (DriverClient("gpu", "monitoring", "dcgm-exporter"),)
CROWD = tuple(f"n{number}" for number in range(8))
SEEN = 3600
"""Seconds from the fixtures' D to the first decision of a controller."""
STARTING: Object = {"status": {"conditions": conditions(None), "containerStatuses": [
    running("compute-domains", 90), waiting("gpus", "CrashLoopBackOff")]}}  # fmt: skip
OPEN = Memory(started=LATER, breaker=Breaker(LATER - timedelta(seconds=1), "five of eight"))


def seen_once(found: Cluster, settings: Settings = FOLLOWING) -> Controller:
    """Return a controller that saw a fleet in order."""
    controller = Controller(found, settings)
    assert Phase.DONE is controller.look(-1).phase
    return controller


def jump(controller: Controller, *nodes: str, ready: float = SEEN) -> None:
    """Move the times of drivers on some nodes, without a reload."""
    controller.found.put("driver-pod", *(driver_pod(node, started=ready - 70, ready=ready) for node in nodes))


def test_nodes_that_were_excluded_since_they_turned_stale_are_no_part_of_a_crowd() -> None:
    """They are not restarted, so they do not count among those that would be."""
    controller = seen_once(cluster(*CROWD))
    jump(controller, *CROWD[:3])
    controller.look(0)
    for node in CROWD[:3]:
        controller.found.change("node", labelled(node, skip="true"), node)
    jump(controller, *CROWD[3:5])
    assert Reason.BREAKER_OPEN is not controller.look(10).reason


def test_one_stale_client_makes_its_node_count_whatever_the_others_are() -> None:
    """Clients that started since on the same nodes do not hide that plugins turned stale."""
    controller = seen_once(with_exporter(cluster(*CROWD)), structs.replace(FOLLOWING, driver_clients=EXPORTER))
    jump(controller, *CROWD[:5])
    started = {"status": {"conditions": conditions(SEEN + 2), "containerStatuses": [running("exporter", SEEN + 1)]}}
    for node in CROWD[:5]:
        controller.found.change("plugin-pod", started, f"exporter-{node}")
    decision = controller.look(2)
    assert {"PluginStale", "StaleUnexplained", "Verified"} >= set(reasons(decision.statuses))
    assert Reason.BREAKER_OPEN is decision.reason


def test_a_client_that_wants_no_pod_on_a_node_hides_nothing() -> None:
    """Its absence is neither fresh nor stale."""
    found = with_exporter(cluster(*CROWD)).change("daemonset", "status: {desiredNumberScheduled: 0}", "dcgm-exporter")
    for node in CROWD:
        found.drop("plugin-pod", f"exporter-{node}")
    controller = Controller(found, structs.replace(FOLLOWING, driver_clients=EXPORTER))
    assert {"Verified", "NothingToRefresh"} == set(reasons(controller.look(-1).statuses))
    jump(controller, *CROWD[:5])
    assert Reason.BREAKER_OPEN is controller.look(0).reason


NOT_READY: Object = {"status": {"conditions": conditions(None)}}
NO_DEVICES: Object = {"spec": {"devices": []}}
OTHER_VERSION: Object = {"spec": {"devices": [{"attributes": {"driverVersion": {"version": "570.1.2"}}}]}}


@pytest.mark.parametrize(
    ("part", "patch", "expected"),
    [
        pytest.param("plugin-pod", NOT_READY, "PluginNotReady", id="not-ready"),
        pytest.param("slice", NO_DEVICES, "SliceMissing", id="no-devices"),
        pytest.param("slice", OTHER_VERSION, "SliceOutdated", id="other-devices"),
    ],
)
def test_a_plugin_that_is_not_verified_yet_can_turn_stale(part: str, patch: Object, expected: str) -> None:
    """It started on the loaded driver, which no missing proof takes back."""
    controller = Controller(cluster(*CROWD).change(part, patch))
    assert {expected} == set(reasons(controller.look(-1).statuses))
    jump(controller, *CROWD[:5])
    assert Reason.BREAKER_OPEN is controller.look(0).reason


def test_a_stale_plugin_that_would_not_come_back_counts_like_any_other() -> None:
    """A taint on its node does not explain why it turned stale."""
    controller = seen_once(cluster(*CROWD).change("node", "spec: {taints: [{key: mine, effect: NoSchedule}]}"))
    jump(controller, *CROWD[:5])
    assert Reason.BREAKER_OPEN is controller.look(0).reason


def test_a_plugin_that_starts_again_leaves_what_was_known_of_its_node() -> None:
    """It was fresh before and is stale after, and its driver did not reload: the start in between says nothing."""
    controller = seen_once(cluster(*CROWD))
    for node in CROWD[:5]:
        controller.found.change("plugin-pod", STARTING, f"plugin-{node}")
    between = controller.look(0)
    assert {"PluginStarting", "Verified"} == set(reasons(between.statuses))
    assert Reason.BREAKER_OPEN is not between.reason
    controller.found.put("plugin-pod", *(plugin_pod(node) for node in CROWD[:5]))
    jump(controller, *CROWD[:5])
    assert Reason.BREAKER_OPEN is controller.look(1).reason


def test_a_driver_pod_on_its_way_out_is_not_the_loaded_driver() -> None:
    """That it is gone at the next look is no reload."""
    found = cluster(*CROWD)
    going = [merged(driver_pod(node), parsed(f"metadata: {{name: a-{node}, uid: a-{node}}}")) for node in CROWD]
    ending = [merged(pod, {"metadata": {"deletionTimestamp": stamp(SEEN)}}) for pod in going]
    pods = found.of("driver-pod")
    controller = seen_once(found.only("driver-pod", *ending, *pods))
    controller.found.only("driver-pod", *pods)
    jump(controller, *CROWD)
    assert Reason.BREAKER_OPEN is controller.look(0).reason
