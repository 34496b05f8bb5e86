"""How many plugins may be down at once, whoever took them down."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from hook.config import ControllerLimits, ControllerSettings, DriverClient, Settings, Strategy
from hook.decide.result import DeletePod
from hook.format import Bound
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import down
from tests.fixtures.modes import with_exporter
from tests.fixtures.objects import Object, driver_pod, merged, plugin_pod

if TYPE_CHECKING:
    from hook.decide.state import Memory

ONE = down(1)
EIGHT = tuple("abcdefgh")
DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
NOT_READY = {
    "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:00:00Z"}]}
}


def another(pod: Object) -> Object:
    """Return a pod that came after another one of its name."""
    later: Object = merged(pod, {"metadata": {"uid": "another"}})
    return later


def deleted(found: Cluster, settings: Settings = ONE, memory: Memory | None = None) -> list[str]:
    """Give the nodes whose plugin is restarted now."""
    decision, _memory = found.decide(settings, memory)
    return [action.node for action in decision.actions if isinstance(action, DeletePod)]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        pytest.param(Bound(1), "a", id="one"),
        pytest.param(Bound(3), "abc", id="three"),
        pytest.param(Bound(20), "abcdefgh", id="more-than-there-are"),
        pytest.param(Bound("25%"), "ab", id="a-quarter"),
        pytest.param(Bound("26%"), "abc", id="a-share-is-rounded-up"),
        pytest.param(Bound("1%"), "a", id="at-least-one"),
        pytest.param(Bound("100%"), "abcdefgh", id="all"),
    ],
)
def test_so_many_go_down_at_once(bound: Bound | None, expected: str) -> None:
    """A number, or a share of the eligible plugins."""
    assert [*expected] == deleted(stale(*EIGHT), down(bound))


def test_a_share_is_of_the_eligible_plugins() -> None:
    """Not of nodes that are left alone, nor of those that want none; a node that waits for its driver has one."""
    quarter = down("25%")
    found = stale(*EIGHT).change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-b")
    found.change("daemonset", "status: {desiredNumberScheduled: 7}", "dra-driver-nvidia-gpu-kubelet-plugin")
    assert ["c", "d"] == deleted(found, quarter)
    for node in "cd":
        found.change("node", labelled(node, skip="true"), node)
    assert ["e"] == deleted(found, quarter)
    found.put("driver-pod", driver_pod("e", ready=None))
    assert ["f"] == deleted(found, quarter)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda found: found.change("plugin-pod", DELETING, "plugin-a"), id="going"),
        pytest.param(lambda found: found.drop("plugin-pod", "plugin-a"), id="missing"),
        pytest.param(lambda found: found.put("plugin-pod", plugin_pod("a", ready=None)), id="not-ready"),
        pytest.param(lambda found: found.put("plugin-pod", plugin_pod("a")).drop("slice", "0-gpu.nvidia.com-a"),
                     id="without-devices"),
    ],
)  # fmt: skip
def test_a_plugin_that_is_down_takes_a_place_whoever_took_it_down(change: object) -> None:
    """Nobody asked for its restart; the one that waits says for whom."""
    assert callable(change)
    found = change(stale("a", "b"))
    assert [] == deleted(found)
    judged = found.decide(ONE)[0].statuses[1]
    assert "PluginQueued" == judged.reason.value
    assert judged.message.endswith("waits for its turn (max 1 of 2 plugins down at once, 1 are: a)")
    assert ["b"] == deleted(found, down(2))


def test_a_plugin_whose_driver_reloads_takes_no_place() -> None:
    """The upgrade controller has a bound of its own for that; a served node would be stale for as long."""
    found = stale("a", "b").put("driver-pod", driver_pod("a", ready=None))
    assert ["b"] == deleted(found)


def test_a_node_that_is_left_alone_takes_no_place() -> None:
    """Its plugin may be gone for weeks."""
    found = stale("a", "b").change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-a")
    assert ["b"] == deleted(found)


def test_a_stale_plugin_that_serves_nobody_needs_no_place() -> None:
    """It is down already: restarting it takes nothing away. But it is down, for the others."""
    found = stale("a", "b", "c")
    found.put("plugin-pod", merged(stale_plugin("b"), NOT_READY), merged(stale_plugin("c"), NOT_READY))
    assert ["b", "c"] == deleted(found)
    assert ["a", "b", "c"] == deleted(found, down(3))


def test_a_plugin_whose_node_was_only_silent_serves() -> None:
    """The node controller takes Ready away with the node and leaves ContainersReady: nothing went down there."""
    marked = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:59:00Z"}
    found = stale("a", "b", "c")
    for one in found.of("plugin-pod"):
        ready, containers_ready = one["status"]["conditions"]
        assert ("Ready", "ContainersReady") == (ready["type"], containers_ready["type"])
        one["status"]["conditions"] = [marked, containers_ready]
    assert ["a"] == deleted(found)


def test_both_bounds_hold() -> None:
    """The one on what is down because of us counts every restart."""
    found = stale(*EIGHT)
    assert ["a", "b"] == deleted(found, down(4, max_parallel_restarts=2))
    assert ["a", "b"] == deleted(found, down(2, max_parallel_restarts=4))
    found.put("plugin-pod", *(merged(stale_plugin(node), NOT_READY) for node in EIGHT))
    assert ["a", "b", "c"] == deleted(found, down(1, max_parallel_restarts=3))
    told = found.decide(down(1, max_parallel_restarts=3))[0].statuses[7].message
    assert "max 3 because of this program, max 1 of 8 plugins down at once, 8 are: a, b, c, d, e and 3 more" in told


def test_what_was_asked_for_takes_its_place_until_it_is_back() -> None:
    """From the moment of asking, before anything is seen of it."""
    found = stale("a", "b")
    decision, memory = found.decide(ONE)
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    assert [] == deleted(found, ONE, memory)
    assert ["b"] == deleted(found.put("plugin-pod", plugin_pod("a")), ONE, memory)


@pytest.mark.parametrize(
    "settings", [pytest.param(ONE, id="down"), pytest.param(Settings(max_parallel_restarts=1), id="because-of-us")]
)
@pytest.mark.parametrize(
    ("part", "patch"),
    [
        pytest.param("node", not_ready_since(3590), id="its-node-blips"),
        pytest.param("node", labelled("a", state="upgrade-required"), id="the-next-upgrade"),
        pytest.param("node", labelled("a", state="upgrade-failed"), id="its-upgrade-failed"),
        pytest.param("node", labelled("a", present=None), id="its-labels-are-gone"),
        pytest.param("driver-pod", NOT_READY, id="its-driver-reloads"),
    ],
)
@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(None, [], id="gone"),
        pytest.param(stale_plugin("a"), [], id="not-seen-to-go-yet"),
        pytest.param(another(plugin_pod("a", ready=None)), [], id="starting"),
        pytest.param(another(plugin_pod("a")), ["b"], id="back"),
    ],
)
def test_what_was_asked_for_takes_its_place_whatever_befalls_its_node(
    settings: Settings, part: str, patch: Object, pod: Object | None, expected: list[str]
) -> None:
    """It is down because of this program, also where nothing can be said of its plugin."""
    found = stale("a", "b")
    memory = asked_for_the_first(found, settings)
    found.drop("plugin-pod", "plugin-a").put("plugin-pod", *([pod] if pod else []))
    assert expected == deleted(found.change(part, patch, found.of(part)[0]["metadata"]["name"]), settings, memory)


def test_a_plugin_that_does_not_come_back_gives_its_place_away() -> None:
    """When its time to come back is over, a node of which nothing is known holds up no other."""
    found = stale("a", "b")
    memory = asked_for_the_first(found, ONE)
    found.drop("plugin-pod", "plugin-a").change("node", labelled("a", state="upgrade-required"), "a")
    decided = [found.decide(ONE, memory, LATER + timedelta(seconds=each))[0].actions for each in (299, 300)]
    assert [0, 1] == [len(actions) for actions in decided]


def test_a_node_that_is_left_alone_after_its_restart_takes_no_place() -> None:
    """Its label, or its silence, made the run stop waiting for it."""
    found = stale("a", "b")
    memory = asked_for_the_first(found, ONE)
    found.drop("plugin-pod", "plugin-a").change("node", labelled("a", skip="true"), "a")
    assert ["b"] == deleted(found, ONE, memory)


def test_a_plugin_that_came_back_before_its_driver_reloads_takes_no_place() -> None:
    """The reload took it down, not we."""
    found = stale("a", "b")
    memory = asked_for_the_first(found, ONE)
    decision, memory = found.put("plugin-pod", another(plugin_pod("a"))).decide(ONE, memory)
    assert ["b"] == [action.node for action in decision.actions if isinstance(action, DeletePod)]
    found.drop("plugin-pod", "plugin-a").change("driver-pod", NOT_READY, "driver-a")
    assert ["b"] == deleted(found, ONE, memory)


def test_the_other_plugin_of_its_node_takes_no_place() -> None:
    """One of two is down, and a label hides what each of them is."""
    settings = ControllerSettings(driver_clients=_exporter(), controller=ControllerLimits(max_unavailable=Bound(2)))
    found = with_exporter(stale("a", "b"))
    memory = asked_for_the_first(found, settings)
    found.drop("plugin-pod", "plugin-a").change("node", labelled("a", state="upgrade-failed"), "a")
    assert ["b"] == deleted(found, settings, memory)


def test_a_restart_that_was_refused_takes_no_place() -> None:
    """Nothing went down."""
    found = stale("a", "b")
    memory = asked_for_the_first(found, ONE, refused="by admission")
    assert ["b"] == deleted(found.put("driver-pod", driver_pod("a", ready=None)), ONE, memory)


def test_what_was_asked_for_takes_its_place_when_its_driver_crashes_before_it_is_seen_to_go() -> None:
    """The driver's watch may be ahead of the plugins'."""
    settings = ONE
    found = stale("a", "b")
    memory = asked_for_the_first(found, settings)
    found.put("driver-pod", driver_pod("a", started=3500, ready=3570, restarts=1, ended_before=3499))
    assert [] == deleted(found, settings, memory)


def asked_for_the_first(found: Cluster, settings: Settings, refused: str = "") -> Memory:
    """Return the memory of a run that asked for the restart on the first node a moment ago."""
    decision, memory = found.decide(settings)
    action = decision.actions[0]
    assert isinstance(action, DeletePod)
    return memory.asked(action.node, action.pod, LATER, refused)


def test_every_consumer_is_a_plugin() -> None:
    """Two on a node are two."""
    found = with_exporter(stale("a", "b"), started=-400)
    settings = ControllerSettings(driver_clients=_exporter(), controller=ControllerLimits(max_unavailable=Bound("50%")))
    assert 2 == len(deleted(found, settings))


def _exporter() -> tuple[DriverClient, ...]:
    return (DriverClient("gpu", "monitoring", "dcgm-exporter"),)


@pytest.mark.parametrize(("down", "expected"), [(0, 1), (1, 1), (2, 0)])
def test_a_rollout_begins_only_while_there_is_a_place(down: int, expected: int) -> None:
    """How it goes on is the DaemonSet's own affair."""
    found = stale(*EIGHT)
    found.put("plugin-pod", *(plugin_pod(node, ready=None) for node in EIGHT[:down]))
    settings = ControllerSettings(strategy=Strategy.ROLLOUT, controller=ControllerLimits(max_unavailable=Bound(2)))
    decision, _memory = found.decide(settings)
    assert expected == len(decision.actions)
    assert ("PluginQueued" in reasons(decision.statuses)) is not bool(expected)


def test_a_served_fleet_needs_no_place() -> None:
    """Whatever the bound."""
    assert [] == deleted(cluster(*EIGHT), structs.replace(ONE, strategy=Strategy.ROLLOUT))
