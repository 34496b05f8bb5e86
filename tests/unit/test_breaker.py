"""When nodes turn stale without a reload: one is held and served, a crowd stops everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from hook.config import Advanced, DriverClient, Duration, Settings, Strategy
from hook.decide.breaker import FEWEST
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, Phase
from hook.decide.state import Breaker, Memory
from hook.format import Bound
from tests.fixtures.cluster import LATER, cluster, labelled, reasons
from tests.fixtures.following import Controller, moment
from tests.fixtures.limits import FOLLOWING, breaking
from tests.fixtures.modes import with_exporter, with_toolkit
from tests.fixtures.objects import Object, driver_pod, merged, obj, plugin_pod, running, waiting

if TYPE_CHECKING:
    from tests.fixtures.cluster import Cluster

NODES = tuple(f"n{number}" for number in range(8))
CROWD = NODES[:FEWEST]
"""More than half of the nodes."""
EXPORTER = (DriverClient("gpu", "monitoring", "dcgm-exporter"),)
STARTING: Object = {
    "status": {"containerStatuses": [running("compute-domains", 3603), waiting("gpus", "ContainerCreating")]}
}
NOW = 3600
"""Seconds from the fixtures' D to a follower's first look."""


@dataclass
class Scene(Controller):
    """A follower of a fleet that is done; what happens to its nodes is told."""

    found: Cluster = field(default_factory=lambda: cluster(*NODES))

    def jump(self, *nodes: str, ready: float = NOW) -> None:
        """Let the times of drivers move, and nothing else."""
        self.found.put("driver-pod", *(driver_pod(node, started=ready - 70, ready=ready) for node in nodes))

    def reload(self, *nodes: str, seconds: float = 0) -> None:
        """Let the container of drivers restart in their pods."""
        began = NOW + seconds
        pods = (driver_pod(node, started=began, ready=began + 5, restarts=1) for node in nodes)
        self.found.put("driver-pod", *pods)

    def serve(self, *nodes: str, seconds: float = 0) -> None:
        """Let plugins come back that started long after everything."""
        began = NOW + seconds
        pods = (plugin_pod(node, waited=began, started=began + 1, ready=began + 5) for node in nodes)
        self.found.put("plugin-pod", *pods)


@pytest.fixture
def scene() -> Scene:
    """Give a fleet that a follower has seen in peace once."""
    made = Scene()
    assert Phase.DONE is made.look(-1).phase
    return made


def opened(decision: Decision) -> bool:
    """Whether a decision tells of an open breaker, and does nothing."""
    told = (decision.phase, decision.reason) == (Phase.WAIT, Reason.BREAKER_OPEN)
    assert not told or decision.actions == ()
    return told


def test_a_crowd_that_turns_stale_without_a_reload_stops_everything(scene: Scene) -> None:
    """The sentence says what was seen, when, and how it ends; the nodes are shown as they are."""
    scene.jump(*CROWD)
    decision = scene.look(0)
    assert opened(decision)
    assert {"PluginStale", "StaleUnexplained", "Verified"} >= set(reasons(decision.statuses))
    for words in ("5 of 8 nodes", "n0, n1, n2, n3, n4", "seen at 2026-01-01T11:00:00Z", "at 2026-01-01T11:30:00Z"):
        assert words in decision.message


def test_a_crowd_is_counted_over_a_minute_and_none_of_it_is_restarted(scene: Scene) -> None:
    """Clocks are set one after the other: the first ones are held until it is known whether others follow."""
    for number, node in enumerate(CROWD):
        scene.jump(node)
        decision = scene.act(number * 15)
    assert opened(decision)
    assert [] == scene.restarted


def test_what_turns_stale_alone_is_restarted_after_a_minute(scene: Scene) -> None:
    """It may be doubt; a suspect says so while it is held."""
    scene.jump(*NODES[:4])
    assert {"StaleUnexplained", "Verified"} == set(reasons(scene.act(0).statuses))
    assert {NodeState.STALE, NodeState.VERIFIED} == {one.state for one in scene.act(60).statuses}
    assert [] == scene.restarted
    scene.act(61)
    assert [(61, node) for node in NODES[:4]] == scene.restarted


def test_nodes_that_turn_stale_over_a_long_time_are_no_crowd(scene: Scene) -> None:
    """Each is held for its own minute."""
    for number, node in enumerate(NODES):
        scene.jump(node)
        assert not opened(scene.act(number * 16))
        scene.serve(*(served for _seconds, served in scene.restarted), seconds=9999)
    assert 4 == len(scene.restarted)


def test_drivers_that_reload_all_at_once_are_no_fault(scene: Scene) -> None:
    """In their pods, as after a crash or a reboot: one more restart is told by no clock."""
    scene.reload(*NODES)
    assert not opened(scene.act(10))
    assert len(NODES) == len(scene.restarted)


def test_a_rollout_of_all_nodes_at_once_is_no_fault(scene: Scene) -> None:
    """Another pod on each, whether it was seen to come or not."""
    again = {"metadata": {"name": "next", "uid": "next"}}
    pods = (merged(driver_pod(node, started=NOW, ready=NOW + 5), again) for node in NODES)
    scene.found.only("driver-pod", *(merged(pod, {"metadata": {"name": f"next-{at}"}}) for at, pod in enumerate(pods)))
    assert not opened(scene.act(10))
    assert len(NODES) == len(scene.restarted)


def test_a_kubelet_that_takes_ready_away_and_gives_it_again_reloads_nothing(scene: Scene) -> None:
    """In between the driver looks as if it were coming; its pod and its count of restarts say that it is not."""
    scene.found.put("driver-pod", *(driver_pod(node, ready=None) for node in CROWD))
    assert {"DriverNotReady", "Verified"} == set(reasons(scene.act(0).statuses))
    scene.jump(*CROWD)
    assert opened(scene.act(5))


@pytest.mark.parametrize(
    ("share", "jumped", "expected"),
    [
        pytest.param(Bound("50%"), 4, False, id="half-is-not-more-than-half"),
        pytest.param(Bound("49%"), 4, False, id="too-few-for-a-crowd"),
        pytest.param(Bound("62%"), 5, True, id="more-than-the-share"),
        pytest.param(Bound("63%"), 5, False, id="less-than-the-share"),
        pytest.param(Bound(5), 5, False, id="no-more-than-the-number"),
        pytest.param(Bound(5), 6, True, id="more-than-the-number"),
        pytest.param(Bound(1), 4, False, id="a-number-below-a-crowd"),
        pytest.param(Bound("99%"), 8, True, id="all-of-them"),
        pytest.param(Bound("100%"), 8, False, id="never-by-a-share"),
        pytest.param(Bound(0), 8, False, id="never-by-a-number"),
        pytest.param(Bound("0%"), 8, False, id="never-by-no-share"),
    ],
)
def test_how_many_are_a_crowd(scene: Scene, share: Bound, jumped: int, *, expected: bool) -> None:
    """More than the share of the eligible nodes, and never fewer than a handful."""
    scene.settings = structs.replace(FOLLOWING, controller=breaking(threshold=share))
    scene.jump(*NODES[:jumped])
    assert expected is opened(scene.look(0))


@pytest.mark.parametrize("share", [Bound(0), Bound("100%"), Bound(8)])
def test_where_no_crowd_is_possible_nobody_is_held(scene: Scene, share: Bound) -> None:
    """The breaker is off, or would need more nodes than there are."""
    scene.settings = structs.replace(FOLLOWING, controller=breaking(threshold=share))
    scene.jump(*NODES)
    assert len(NODES) == len(scene.look(0).actions)


def test_a_small_fleet_is_served_at_once() -> None:
    """Four restarts are all that could be saved."""
    small = Scene(cluster(*NODES[:4]))
    small.look(-1)
    small.jump(*NODES[:4])
    assert 4 == len(small.look(0).actions)


def test_nodes_that_are_left_alone_do_not_count(scene: Scene) -> None:
    """Neither as turned nor as nodes."""
    for node in NODES[5:]:
        scene.found.change("node", labelled(node, skip="true"), node)
    scene.settings = structs.replace(FOLLOWING, controller=breaking(threshold=Bound("80%")))
    scene.jump(*NODES[1:])
    assert not opened(scene.look(0))
    scene.jump(NODES[0])
    assert opened(scene.look(1))


def test_a_node_that_turns_stale_twice_counts_once(scene: Scene) -> None:
    """And one with two stale consumers, too."""
    scene.jump(*NODES[:4])
    scene.look(0)
    scene.serve(*NODES[:4], seconds=5)
    scene.look(5)
    scene.jump(*NODES[:4], ready=NOW + 10)
    assert not opened(scene.look(10))
    both = Scene(with_exporter(cluster(*NODES)), structs.replace(FOLLOWING, driver_clients=EXPORTER))
    both.look(-1)
    both.jump(*NODES[:3])
    decision = both.look(0)
    assert 6 == sum(one.reason is Reason.STALE_UNEXPLAINED for one in decision.statuses)
    assert not opened(decision)


def test_a_plugin_that_is_not_proven_yet_cannot_turn_stale(scene: Scene) -> None:
    """Its last container started only now; the first one was too early all the time, and the driver was reloaded."""
    scene.reload(*NODES)
    slow = (merged(plugin_pod(node, waited=NOW, started=NOW + 3), STARTING) for node in NODES)
    scene.found.put("plugin-pod", *slow)
    assert {"PluginStarting"} == set(reasons(scene.look(10).statuses))
    early = (plugin_pod(node, waited=NOW - 1, started=NOW + 3) for node in NODES)
    scene.found.put("plugin-pod", *early)
    decision = scene.look(15)
    assert {"PluginStale"} == set(reasons(decision.statuses))
    assert not opened(decision)


def test_successors_that_are_stale_did_not_turn(scene: Scene) -> None:
    """They were never fresh; backing off is enough for them."""
    scene.settings = structs.replace(FOLLOWING, controller=breaking(threshold=Bound(0)))
    scene.jump(*NODES)
    scene.act(0)
    scene.settings = FOLLOWING
    for node in NODES:
        scene.found.change("plugin-pod", {"metadata": {"uid": f"{node}-next"}}, f"plugin-{node}")
    assert not opened(scene.look(10))


# What is stale at the first look.


def test_what_is_stale_at_the_first_look_did_not_turn() -> None:
    """A new controller saw no node turn, however close together their drivers became ready: all are restarted."""
    first = Scene()
    first.jump(*NODES, ready=NOW - 30)
    decision = first.look(0)
    assert (8, False) == (len(decision.actions), opened(decision))
    assert {} == first.memory.breaker.unexplained


def test_a_controller_that_has_just_begun_sees_the_next_crowd() -> None:
    """Nodes that are fresh at its first look, and turn stale at the second."""
    first = Scene()
    first.look(0)
    first.jump(*CROWD)
    assert opened(first.look(1))


def test_nodes_that_join_are_no_fault(scene: Scene) -> None:
    """Their first driver is seen to come."""
    more = [f"m{number}" for number in range(20)]
    scene.found.put("node", *(obj("node", {"metadata": {"name": name}}) for name in more))
    scene.look(0)
    scene.jump(*more, ready=NOW + 30)
    scene.found.put("plugin-pod", *(plugin_pod(name, waited=None, started=NOW + 10, ready=NOW + 20) for name in more))
    decision = scene.look(40)
    assert (20, False) == (len(decision.actions), opened(decision))


# How it ends.


@pytest.fixture
def tripped(scene: Scene) -> Scene:
    """Give a fleet whose breaker opened a moment ago."""
    scene.jump(*CROWD)
    assert opened(scene.look(0))
    return scene


def test_it_closes_after_its_time_and_what_is_stale_is_served(tripped: Scene) -> None:
    """Without opening again for the same nodes."""
    assert opened(tripped.look(1799))
    assert list(CROWD) == [one.node for one in tripped.look(1800).actions]  # type: ignore[union-attr]
    assert tripped.memory.breaker.opened_at is None


def test_it_stays_open_though_the_nodes_are_well_again(tripped: Scene) -> None:
    """Whoever was called must find it so; the run is not done."""
    tripped.serve(*CROWD)
    assert opened(tripped.look(60))
    assert Phase.DONE is tripped.look(1800).phase


def test_a_restart_of_the_controller_closes_it(tripped: Scene) -> None:
    """A new process begins with a closed one, and what is stale by then does not open it."""
    again = Scene(found=tripped.found, memory=Memory(started=moment(10)))
    assert list(CROWD) == [one.node for one in again.look(10).actions]  # type: ignore[union-attr]


def test_only_a_restart_closes_it_where_no_time_is_given(tripped: Scene) -> None:
    """The message names the way."""
    tripped.settings = structs.replace(FOLLOWING, controller=breaking(reset=Duration()))
    decision = tripped.look(10**6)
    assert opened(decision)
    assert decision.message.endswith("until the breaker closes when the controller restarts")


def test_it_opens_again_for_others(tripped: Scene) -> None:
    """After it was closed, nodes that turn stale count as ever."""
    tripped.act(1800)
    tripped.serve(*CROWD, seconds=1820)
    tripped.look(1830)
    tripped.jump(*CROWD, ready=NOW + 2000)
    assert opened(tripped.look(2000))


def test_nothing_is_done_while_it_is_open(tripped: Scene) -> None:
    """Nor for nodes whose driver was reloaded, nor by a rollout; a failure of the moment does not speak either."""
    tripped.reload(*NODES, seconds=20)
    assert opened(tripped.look(40))
    tripped.settings = structs.replace(FOLLOWING, strategy=Strategy.ROLLOUT)
    assert opened(tripped.look(41))
    tripped.settings = structs.replace(FOLLOWING, plugin_timeout=Duration(), advanced=Advanced(failed_grace=Duration()))
    tripped.found.drop("plugin-pod")
    assert opened(tripped.look(42))


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(moment(24 * 3600), id="a-day"),
        pytest.param(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), id="most"),
    ],
)
def test_one_that_opened_by_a_clock_that_was_ahead_closes_in_time(ahead: datetime) -> None:
    """A clock that is wrong is what it opens for; set right, the time counts from then."""
    first = Scene(memory=Memory(started=LATER, breaker=Breaker(ahead, "seen before")))
    first.jump(*CROWD)
    decision = first.look(0)
    assert opened(decision)
    assert "seen at 2026-01-01T11:00:00Z" in decision.message
    assert [True, False] == [opened(first.look(seconds)) for seconds in (1799, 1800)]


def test_a_clock_that_is_set_back_neither_holds_nor_blinds(scene: Scene) -> None:
    """What turned stale by the wrong clock is held for a minute, and the next crowd is seen."""
    scene.jump(NODES[7])
    scene.look(24 * 3600 + 1)
    assert () == scene.look(0).actions
    assert [NODES[7]] == [one.node for one in scene.look(61).actions]  # type: ignore[union-attr]
    scene.jump(*CROWD, ready=NOW + 100)
    assert opened(scene.look(110))


def test_a_fleet_with_nothing_to_protect_says_that() -> None:
    """There is nothing to hold back; the breaker's time runs on."""
    first = Scene(memory=Memory(started=LATER, breaker=Breaker(moment(-60), "seen before")))
    first.found.drop("daemonset", "dra-driver-nvidia-gpu-kubelet-plugin").drop("plugin-pod")
    assert Phase.SKIP is first.look(0).phase
    assert first.memory.breaker.opened_at is not None
    first.look(1740)
    assert first.memory.breaker.opened_at is None


# Who has one.


def test_a_run_with_a_deadline_has_no_breaker() -> None:
    """People asked for what it does, and read its end."""
    scene = Scene(settings=Settings())
    scene.look(-1)
    scene.jump(*NODES)
    assert 8 == len(scene.look(0).actions)
    assert Breaker() == scene.memory.breaker


def test_a_replaced_provider_is_no_fault() -> None:
    """It restarted in place, so plugins must start after it, all at once. Where only its times move, nothing does."""
    for restarts in (0, 1):
        scene = Scene(with_toolkit(cluster(*NODES)), structs.replace(FOLLOWING, refresh_after=("toolkit",)))
        assert {"Verified"} == set(reasons(scene.look(-1).statuses))
        with_toolkit(scene.found, NOW).change(
            "provider-pod",
            {"status": {"containerStatuses": [running("nvidia-container-toolkit-ctr", NOW - 1, restarts=restarts)]}},
        )
        decision = scene.look(10)
        assert (8 * restarts, False) == (len(decision.actions), opened(decision))


def test_nodes_that_are_gone_are_forgotten(scene: Scene) -> None:
    """A run that never ends must not grow."""
    scene.jump(*NODES[:2])
    scene.look(0)
    for node in NODES[1:]:
        scene.found.drop("node", node).drop("driver-pod", f"driver-{node}").drop("plugin-pod", f"plugin-{node}")
    scene.look(30)
    assert {"n0"} == scene.memory.breaker.observations.keys()
    scene.look(100)
    assert {} == scene.memory.breaker.unexplained
