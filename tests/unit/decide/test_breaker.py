"""Circuit breaker: a few nodes that become stale without a reload are held for a minute, a burst stops all restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from msgspec import structs

from hook.config import Advanced, Duration, Settings
from hook.decide.breaker import FEWEST
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, Phase
from hook.decide.state import Breaker, Memory
from hook.format import Bound
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons
from tests.fixtures.following import Controller, moment
from tests.fixtures.limits import FOLLOWING, breaking
from tests.fixtures.modes import avoiding, with_exporter, with_toolkit
from tests.fixtures.objects import conditions, driver_pod, merged, obj, plugin_pod, running, waiting
from tests.unit.decide import patches, runs

NODES = tuple(f"n{number}" for number in range(8))
BURST = NODES[:FEWEST]
"""More than half of the nodes."""
EXPORTER = structs.replace(FOLLOWING, driver_clients=(runs.EXPORTER,))
NOW = 3600
"""Seconds from the fixtures' D to the first decision of a controller."""


@dataclass
class Scene(Controller):
    """The controller of a fleet that is done, and what happens to its nodes."""

    found: Cluster = field(default_factory=lambda: cluster(*NODES))

    def jump(self, *nodes: str, ready: float = NOW) -> None:
        """Move the times of drivers, and nothing else."""
        self.found.put("driver-pod", *(driver_pod(node, started=ready - 70, ready=ready) for node in nodes))

    def reload(self, *nodes: str, seconds: float = 0) -> None:
        """Restart the containers of drivers in their pods."""
        began = NOW + seconds
        self.found.put("driver-pod", *(driver_pod(node, started=began, ready=began + 5, restarts=1) for node in nodes))

    def refresh(self, *nodes: str, seconds: float = 0) -> None:
        """Replace plugin pods by ones that start now."""
        began = NOW + seconds
        pods = (plugin_pod(node, waited=began, started=began + 1, ready=began + 5) for node in nodes)
        self.found.put("plugin-pod", *pods)

    def bursts(self, seconds: float = 0) -> bool:
        """Move the times of most drivers, and return whether the breaker is open then."""
        self.jump(*BURST)
        return opened(self.look(seconds))

    def restarts(self, seconds: float) -> list[str]:
        """Return the nodes whose plugins are restarted at a moment."""
        return [action.node for action in self.look(seconds).actions]


def seen_once(found: Cluster | None = None, settings: Settings = FOLLOWING) -> Scene:
    """Return a fleet that a controller has seen once, with nothing to do."""
    made = Scene(found or cluster(*NODES), settings)
    assert Phase.DONE is made.look(-1).phase
    return made


@pytest.fixture
def scene() -> Scene:
    """Return a fleet of eight nodes that a controller has seen once."""
    return seen_once()


@pytest.fixture
def tripped(scene: Scene) -> Scene:
    """Return a fleet whose breaker has just opened."""
    assert scene.bursts()
    return scene


def opened(decision: Decision) -> bool:
    """Return whether a decision reports an open breaker. Then it restarts nothing."""
    is_open = (decision.phase, decision.reason) == (Phase.WAIT, Reason.BREAKER_OPEN)
    assert not is_open or decision.actions == ()
    return is_open


# What is a burst.


def test_a_burst_is_counted_over_a_minute_and_none_of_it_is_restarted(scene: Scene) -> None:
    """Clocks are set one after the other, so the first nodes are held until it is known whether others follow."""
    for number, node in enumerate(BURST):
        scene.jump(node)
        decision = scene.act(number * 15)
    assert opened(decision)
    assert [] == scene.restarted
    # Over a longer time they are no burst: each is held for its own minute.
    slow = seen_once()
    for number, node in enumerate(NODES):
        slow.jump(node)
        assert not opened(slow.act(number * 16))
        slow.refresh(*(restarted for _seconds, restarted in slow.restarted), seconds=9999)
    assert 4 == len(slow.restarted)


def test_a_few_nodes_are_restarted_after_a_minute(scene: Scene) -> None:
    """While they are held, they are stale with a reason of its own."""
    scene.jump(*NODES[:4])
    assert {"StaleUnexplained", "Verified"} == set(reasons(scene.act(0).statuses))
    assert {NodeState.STALE, NodeState.VERIFIED} == {status.state for status in scene.act(60).statuses}
    assert [] == scene.restarted
    scene.act(61)
    assert [(61, node) for node in NODES[:4]] == scene.restarted


def test_reloads_of_all_drivers_at_once_are_no_fault() -> None:
    """In their pods, as after a crash or a reboot, or in new pods: neither depends on a clock."""
    in_place, rollout = seen_once(), seen_once()
    in_place.reload(*NODES)
    pods = (driver_pod(node, started=NOW, ready=NOW + 5) for node in NODES)
    new = [merged(pod, {"metadata": {"name": f"next-{at}", "uid": "next"}}) for at, pod in enumerate(pods)]
    rollout.found.only("driver-pod", *new)
    for name, scene in (("in place", in_place), ("rollout", rollout)):
        assert not opened(scene.act(10)), name
        assert len(NODES) == len(scene.restarted), name


def test_a_kubelet_that_takes_ready_away_and_gives_it_again_reloads_nothing(scene: Scene) -> None:
    """Meanwhile the driver seems to load, but its pod and its count of restarts stay."""
    scene.found.put("driver-pod", *(driver_pod(node, ready=None) for node in BURST))
    assert {"DriverNotReady", "Verified"} == set(reasons(scene.act(0).statuses))
    assert scene.bursts(5)


def test_how_many_nodes_are_a_burst() -> None:
    """More than the threshold, and never fewer than five. Where no burst is possible, no node is held."""
    for name, (threshold, jumped, expected, restarts) in {
        "half is not more than half": (Bound("50%"), 4, False, 0),
        "too few for a burst": (Bound("49%"), 4, False, 0),
        "more than the share": (Bound("62%"), 5, True, 0),
        "less than the share": (Bound("63%"), 5, False, 0),
        "no more than the number": (Bound(5), 5, False, 0),
        "more than the number": (Bound(5), 6, True, 0),
        "a number below a burst": (Bound(1), 4, False, 0),
        "all nodes": (Bound("99%"), 8, True, 0),
        "no share is enough": (Bound("100%"), 8, False, 8),
        "off by number": (Bound(0), 8, False, 8),
        "off by share": (Bound("0%"), 8, False, 8),
        "more nodes than there are": (Bound(8), 8, False, 8),
    }.items():
        scene = seen_once(settings=structs.replace(FOLLOWING, controller=breaking(threshold=threshold)))
        scene.jump(*NODES[:jumped])
        decision = scene.look(0)
        assert (expected, restarts) == (opened(decision), len(decision.actions)), name
    small = seen_once(cluster(*NODES[:4]))
    small.jump(*NODES[:4])
    assert 4 == len(small.look(0).actions), "a fleet of four nodes"


# Which nodes count.


def test_excluded_nodes_do_not_count(scene: Scene) -> None:
    """Neither as stale nor as nodes of the fleet, also if they were excluded since. A Job has no breaker."""
    for node in NODES[5:]:
        scene.found.change("node", labelled(node, skip="true"), node)
    scene.settings = structs.replace(FOLLOWING, controller=breaking(threshold=Bound("80%")))
    scene.jump(*NODES[1:])
    assert not opened(scene.look(0))
    scene.jump(NODES[0])
    assert opened(scene.look(1))
    scene = seen_once()
    scene.jump(*NODES[:3])
    scene.look(0)
    for node in NODES[:3]:
        scene.found.change("node", labelled(node, skip="true"), node)
    scene.jump(*NODES[3:5])
    assert not opened(scene.look(10))
    scene = seen_once(settings=Settings())
    scene.jump(*NODES)
    assert (8, Breaker()) == (len(scene.look(0).actions), scene.memory.breaker)


def test_a_node_counts_once_if_one_of_its_driver_clients_is_stale() -> None:
    """Neither two clients nor two times count twice, and a client that started since does not hide the other one."""
    twice = seen_once()
    twice.jump(*NODES[:4])
    twice.look(0)
    twice.refresh(*NODES[:4], seconds=5)
    twice.look(5)
    twice.jump(*NODES[:4], ready=NOW + 10)
    assert not opened(twice.look(10))
    both = seen_once(with_exporter(cluster(*NODES)), EXPORTER)
    both.jump(*NODES[:3])
    decision = both.look(0)
    assert (6, False) == (reasons(decision.statuses).count("StaleUnexplained"), opened(decision))
    restarted = seen_once(with_exporter(cluster(*NODES)), EXPORTER)
    started = {"status": {"conditions": conditions(NOW + 2), "containerStatuses": [running("exporter", NOW + 1)]}}
    for node in BURST:
        restarted.found.change("plugin-pod", started, f"exporter-{node}")
    restarted.jump(*BURST)
    assert opened(restarted.look(2))
    found = with_exporter(cluster(*NODES)).change("daemonset", avoiding(*NODES), "dcgm-exporter")
    unwanted = Scene(found.only("plugin-pod", *(plugin_pod(node) for node in NODES)), EXPORTER)
    assert {"Verified", "NothingToRefresh"} == set(reasons(unwanted.look(-1).statuses))
    assert unwanted.bursts()


def test_a_plugin_that_was_never_fresh_does_not_become_stale(scene: Scene) -> None:
    """Its last container started only now. The first one was too early all the time, and the driver was reloaded."""
    scene.reload(*NODES)
    starting = [running("compute-domains", NOW + 3), waiting("gpus", "ContainerCreating")]
    slow = [merged(plugin_pod(node, waited=NOW, started=NOW + 3), {"status": {"containerStatuses": starting}})
            for node in NODES]  # fmt: skip
    scene.found.put("plugin-pod", *slow)
    assert {"PluginStarting"} == set(reasons(scene.look(10).statuses))
    scene.found.put("plugin-pod", *(plugin_pod(node, waited=NOW - 1, started=NOW + 3) for node in NODES))
    decision = scene.look(15)
    assert ({"PluginStale"}, False) == (set(reasons(decision.statuses)), opened(decision))


def test_a_fresh_plugin_that_is_not_verified_yet_counts() -> None:
    """It started on the loaded driver, and a missing proof or a taint does not change that."""
    for part, patch, expected in (
        ("plugin-pod", {"status": {"conditions": conditions(None)}}, "PluginNotReady"),
        ("slice", {"spec": {"devices": []}}, "SliceMissing"),
        ("node", patches.TAINT, "Verified"),  # it would not come back
    ):
        scene = Scene(cluster(*NODES).change(part, patch))
        assert {expected} == set(reasons(scene.look(-1).statuses))
        assert scene.bursts(), expected


def test_what_is_stale_at_the_first_decision_does_not_count() -> None:
    """A new controller saw no node become stale. Nodes that become stale after it count."""
    first, next_one = Scene(), Scene()
    first.jump(*NODES, ready=NOW - 30)
    decision = first.look(0)
    assert (8, False) == (len(decision.actions), opened(decision))
    assert {} == first.memory.breaker.unexplained
    next_one.look(0)
    assert next_one.bursts(1)


def test_nodes_that_join_are_no_fault(scene: Scene) -> None:
    """Their first driver is seen to load."""
    more = [f"m{number}" for number in range(20)]
    scene.found.put("node", *(obj("node", {"metadata": {"name": name}}) for name in more))
    scene.look(0)
    scene.jump(*more, ready=NOW + 30)
    scene.found.put("plugin-pod", *(plugin_pod(name, waited=None, started=NOW + 10, ready=NOW + 20) for name in more))
    decision = scene.look(40)
    assert (20, False) == (len(decision.actions), opened(decision))


def test_a_replaced_provider_is_no_fault() -> None:
    """A container that restarted explains that plugins are stale. Where only its times move, nothing is stale."""
    for restarts in (0, 1):
        found = with_toolkit(cluster(*NODES))
        scene = seen_once(found, structs.replace(FOLLOWING, refresh_after=("toolkit",)))
        container = running("nvidia-container-toolkit-ctr", NOW - 1, restarts=restarts)
        with_toolkit(found, NOW).change("provider-pod", {"status": {"containerStatuses": [container]}})
        decision = scene.look(10)
        assert (8 * restarts, False) == (len(decision.actions), opened(decision)), restarts


# How it closes.


def test_it_closes_after_its_time_and_stale_plugins_are_restarted(tripped: Scene) -> None:
    """The same nodes do not open it again, others do. Until then it is open, though the nodes recover."""
    recovered = Scene(cluster(*NODES), memory=tripped.memory)
    recovered.refresh(*NODES)
    assert opened(recovered.look(60))
    assert Phase.DONE is recovered.look(1800).phase
    assert opened(tripped.look(1799))
    assert list(BURST) == tripped.restarts(1800)
    assert tripped.memory.breaker.opened_at is None
    tripped.act(1800)
    tripped.refresh(*BURST, seconds=1820)
    tripped.look(1830)
    tripped.jump(*BURST, ready=NOW + 2000)
    assert opened(tripped.look(2000))


def test_a_restart_of_the_controller_closes_it(tripped: Scene) -> None:
    """What is stale by then does not open it again. Without a reset time nothing else closes it."""
    assert list(BURST) == Scene(tripped.found, memory=Memory(started=moment(10))).restarts(10)
    tripped.settings = structs.replace(FOLLOWING, controller=breaking(reset=Duration()))
    assert opened(tripped.look(10**6))


def test_nothing_is_restarted_while_it_is_open(tripped: Scene) -> None:
    """Not after a reload either, and a failure does not take precedence."""
    tripped.reload(*NODES, seconds=20)
    assert opened(tripped.look(40))
    tripped.settings = structs.replace(FOLLOWING, plugin_timeout=Duration(), advanced=Advanced(failed_grace=Duration()))
    tripped.found.drop("plugin-pod")
    assert opened(tripped.look(42))


def test_a_clock_that_was_ahead_neither_holds_nor_hides_nodes(scene: Scene) -> None:
    """An open breaker closes in time: it counts from when the clock was corrected. The next burst is seen."""
    for ahead in (moment(24 * 3600), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)):
        late = Scene(memory=Memory(started=LATER, breaker=Breaker(ahead, "seen before")))
        late.jump(*BURST)
        assert "seen at 2026-01-01T11:00:00Z" in late.look(0).message, ahead
        assert [True, False] == [opened(late.look(seconds)) for seconds in (1799, 1800)], ahead
    scene.jump(NODES[7])
    scene.look(24 * 3600 + 1)
    assert [[], [NODES[7]]] == [scene.restarts(0), scene.restarts(61)]
    scene.jump(*BURST, ready=NOW + 100)
    assert opened(scene.look(110))
