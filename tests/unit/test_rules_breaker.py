"""Rules of the circuit breaker: which nodes count, by which moment, and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from hook.core.memory import Breaker, Memory
from hook.core.reasons import Reason
from hook.core.verdicts import Verdict
from hook.settings import Bound, Settings, Wanted
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons
from tests.fixtures.following import FOLLOWING, Follower, moment
from tests.fixtures.modes import with_exporter
from tests.fixtures.objects import Object, conditions, driver_pod, merged, parsed, plugin_pod, running, stamp, waiting

EXPORTER = (Wanted("gpu", "monitoring", "dcgm-exporter"),)
CROWD = tuple(f"n{number}" for number in range(8))
SEEN = 3600
"""Seconds from the fixtures' D to the first decision of a controller."""
STARTING: Object = {"status": {"conditions": conditions(None), "containerStatuses": [
    running("compute-domains", 90), waiting("gpus", "CrashLoopBackOff")]}}  # fmt: skip
OPEN = Memory(started=LATER, breaker=Breaker(LATER - timedelta(seconds=1), "five of eight"))


def seen_once(found: Cluster, settings: Settings = FOLLOWING) -> Follower:
    """Return a controller that saw a fleet in order."""
    controller = Follower(found, settings)
    assert Verdict.DONE is controller.look(-1).verdict
    return controller


def jump(controller: Follower, *nodes: str, ready: float = SEEN) -> None:
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
    controller = seen_once(with_exporter(cluster(*CROWD)), replace(FOLLOWING, consumers=EXPORTER))
    jump(controller, *CROWD[:5])
    started = {"status": {"conditions": conditions(SEEN + 2), "containerStatuses": [running("exporter", SEEN + 1)]}}
    for node in CROWD[:5]:
        controller.found.change("plugin-pod", started, f"exporter-{node}")
    decision = controller.look(2)
    assert {"PluginStale", "PluginSuspect", "Verified"} >= set(reasons(decision.judgements))
    assert Reason.BREAKER_OPEN is decision.reason


def test_a_client_that_wants_no_pod_on_a_node_hides_nothing() -> None:
    """Its absence is neither fresh nor stale."""
    found = with_exporter(cluster(*CROWD)).change("daemonset", "status: {desiredNumberScheduled: 0}", "dcgm-exporter")
    for node in CROWD:
        found.drop("plugin-pod", f"exporter-{node}")
    controller = Follower(found, replace(FOLLOWING, consumers=EXPORTER))
    assert {"Verified", "NothingToRefresh"} == set(reasons(controller.look(-1).judgements))
    # Minutes apart, so that these would be no crowd at a first look.
    for number, node in enumerate(CROWD[:5]):
        jump(controller, node, ready=SEEN - 120 * number)
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
    controller = Follower(cluster(*CROWD).change(part, patch))
    assert {expected} == set(reasons(controller.look(-1).judgements))
    for number, node in enumerate(CROWD[:5]):
        jump(controller, node, ready=SEEN - 120 * number)
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
    assert {"PluginStarting", "Verified"} == set(reasons(between.judgements))
    assert Reason.BREAKER_OPEN is not between.reason
    controller.found.put("plugin-pod", *(plugin_pod(node) for node in CROWD[:5]))
    jump(controller, *CROWD[:5])
    assert Reason.BREAKER_OPEN is controller.look(1).reason


def test_a_driver_that_was_ready_at_the_first_look_was_not_seen_coming() -> None:
    """A plugin that was starting then, and is stale now, counts from when its driver became ready."""
    controller = Follower(cluster(*CROWD))
    jump(controller, *CROWD)
    for node in CROWD:
        started = merged(STARTING, {"status": {"containerStatuses": [waiting("compute-domains", "Error")]}})
        controller.found.change("plugin-pod", started, f"plugin-{node}")
    assert {"PluginStarting"} == set(reasons(controller.look(0).judgements))
    controller.found.put("plugin-pod", *(plugin_pod(node) for node in CROWD))
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


# What is stale at the first look.


def first_look(
    created: float, *, ready: float = -900, step: float = 0, patch: Object | None = None
) -> Verdict | Reason:
    """Return the reason of the first decision about plugins that started 900 s before it, like their drivers."""
    found = cluster(*CROWD).change("revision", {"metadata": {"creationTimestamp": stamp(SEEN + created)}})
    for number, node in enumerate(CROWD):
        at = SEEN + ready + step * number
        found.put("driver-pod", driver_pod(node, started=at - 70, ready=at))
        started = plugin_pod(node, waited=None, started=SEEN - 2000)
        found.put("plugin-pod", merged(started, patch or {}))
    return Follower(found).look(0).reason


def test_only_a_revision_that_is_younger_than_the_plugin_was_rolled_out_since() -> None:
    """In the same second nothing shows which of the two came first."""
    assert Reason.BREAKER_OPEN is first_look(-2000)
    assert Reason.BREAKER_OPEN is not first_look(-1999)


def test_one_container_older_than_the_revision_shows_a_rollout() -> None:
    """Another one may have restarted since, or wait to."""
    statuses = [running("compute-domains", SEEN - 2000), running("gpus", SEEN - 1000)]
    both: Object = {"status": {"conditions": conditions(SEEN - 990), "containerStatuses": statuses}}
    assert Reason.BREAKER_OPEN is not first_look(-1999, patch=both)
    half = [waiting("compute-domains", "CrashLoopBackOff"), running("gpus", SEEN - 2000)]
    waits: Object = {"status": {"conditions": conditions(None), "containerStatuses": half}}
    assert Reason.BREAKER_OPEN is not first_look(-1999, patch=waits)


@pytest.mark.parametrize("step", [16, -16])
def test_a_minute_is_a_minute_in_whatever_order_the_nodes_are_named(step: float) -> None:
    """Drivers that became ready a quarter of a minute apart are at most four in a minute, first or last name first."""
    assert Reason.BREAKER_OPEN is not first_look(-3000, ready=-900, step=step)
    assert Reason.BREAKER_OPEN is first_look(-3000, ready=-900, step=step / 2)


# Until when.


def test_excluded_nodes_do_not_keep_what_a_closed_breaker_let_through() -> None:
    """Once all the others are verified, what turns stale next counts again."""
    found = cluster(*CROWD).change("node", labelled("n0", skip="true"), "n0")
    controller = Follower(found, memory=Memory(started=LATER).with_breaker_closed(moment(-2)))
    controller.look(-1)
    assert controller.memory.breaker.closed_at is None


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(Bound(100, percent=True), False, id="all-of-them"),
        pytest.param(Bound(0), False, id="none"),
        pytest.param(Bound(100), True, id="a-number"),
    ],
)
def test_an_open_breaker_closes_where_it_can_never_open(share: Bound, *, expected: bool) -> None:
    """A bound that no fleet exceeds turns it off; a hundred nodes are not all nodes."""
    controller = Follower(cluster(*CROWD), replace(FOLLOWING, breaker_share=share), OPEN)
    assert expected is (Reason.BREAKER_OPEN is controller.look(0).reason)
