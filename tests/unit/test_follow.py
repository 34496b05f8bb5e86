"""A run that never ends: a verdict describes the moment, nothing is forgotten too early, and nothing grows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from hook.config import DriverClient, Settings
from hook.decide.decide import decide_all
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from tests.fixtures.cluster import LATER, cluster, labelled, not_ready_since, reasons, stale
from tests.fixtures.following import Controller, moment, successor
from tests.fixtures.limits import FOLLOWING, of
from tests.fixtures.modes import network, rdma_pod, with_exporter
from tests.fixtures.objects import driver_pod, merged, obj, plugin_pod

if TYPE_CHECKING:
    from hook.decide.state import Memory

YEAR = 365 * 24 * 3600
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
UNLABELLED = {"metadata": {"labels": {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}}}


def waiting() -> Controller:
    """Give a follower of a node whose driver does not come."""
    return Controller(cluster("a", "b").put("driver-pod", driver_pod("a", ready=None)))


def test_there_is_no_deadline_and_no_stall() -> None:
    """A year without an advance is a year of waiting."""
    controller = waiting()
    assert [Phase.WAIT, Phase.WAIT] == [controller.look(seconds).phase for seconds in (0, YEAR)]
    controller.found.put("driver-pod", driver_pod("a", started=YEAR, ready=YEAR + 70))
    assert ["a"] == [one.node for one in controller.act(YEAR).actions if isinstance(one, DeletePod)]


def test_done_is_said_of_the_moment() -> None:
    """The next reload is served as the one before."""
    controller = Controller(stale())
    controller.act(0)
    controller.found.only("plugin-pod", plugin_pod())
    assert Phase.DONE is controller.act(20).phase
    controller.found.only("driver-pod", driver_pod(started=YEAR, ready=YEAR + 5, restarts=1))
    assert (Phase.WAIT, 1) == ((found := controller.act(YEAR)).phase, len(found.actions))


def test_what_needs_a_person_does_not_hold_up_what_is_due() -> None:
    """A plugin that nobody named is said, and the consumers that were named are served."""
    found = with_exporter(cluster(), started=-400)
    found.change("daemonset", {"metadata": {"name": "my-own-plugin"}}, PLUGIN)
    exporter = (DriverClient("gpu", "monitoring", "dcgm-exporter"),)
    for follow in (True, False):
        decision = Controller(found, structs.replace(of(FOLLOWING, controller=follow), driver_clients=exporter)).look()
        assert (Phase.FAIL, Reason.UNNAMED_PLUGIN) == (decision.phase, decision.reason)
        assert int(follow) == len(decision.actions)


def test_nothing_is_touched_while_the_intent_cannot_be_read() -> None:
    """Whatever the verdict is."""
    controller = Controller(stale().put("revision", obj("revision", "{metadata: {name: odd}, revision: many}")))
    decision = controller.look()
    assert (["PluginStale"], ()) == (reasons(decision.statuses), decision.actions)


def test_a_fleet_that_vanishes_is_skipped_after_a_while_and_served_when_it_is_back() -> None:
    """An outage of NFD looks like the end of all nodes."""
    controller = Controller(stale())
    controller.act(0)
    controller.found.change("node", UNLABELLED).drop("driver-pod").drop("plugin-pod")
    controller.found.change("daemonset", "status: {desiredNumberScheduled: 0}")
    assert [Phase.WAIT, Phase.SKIP, Phase.SKIP] == [controller.look(at).phase for at in (10, 400, YEAR)]
    controller.found = stale()
    assert 1 == len(controller.look(YEAR + 10).actions)


def test_a_lost_node_is_judged_again_when_it_is_back() -> None:
    """Nobody has to run anything for that, and nobody is told to."""
    controller = Controller(stale("a", "b").change("node", not_ready_since(0), "a"))
    lost = controller.act(0).statuses[0]
    assert (NodeState.EXCLUDED, False) == (lost.state, "run the release again" in lost.message)
    controller.found.put("node", obj("node", {"metadata": {"name": "a"}}))
    controller.found.put("plugin-pod", plugin_pod("b"))
    assert ["a"] == [one.node for one in controller.act(YEAR).actions if isinstance(one, DeletePod)]
    job = stale("a", "b").change("node", not_ready_since(0), "a").decide(Settings())[0].statuses[0]
    assert "run the release again" in job.message


def test_a_plugin_that_took_too_long_is_well_again_when_it_is() -> None:
    """Its failure was one of the moment."""
    controller = Controller(cluster().put("plugin-pod", plugin_pod(ready=None)))
    assert [NodeState.VERIFYING, NodeState.FAILED] == [controller.look(at).statuses[0].state for at in (0, 300)]
    controller.found.put("plugin-pod", plugin_pod())
    assert Phase.DONE is controller.look(600).phase


def test_memory_does_not_grow() -> None:
    """Nodes come and go, their plugins are restarted, refused and in trouble; what is gone is forgotten."""
    controller = Controller(stale("n0"))
    for number in range(1, 50):
        controller.act(number * 100)
        (judged,) = controller.look(number * 100).statuses
        assert judged.stale_pod is not None
        controller.memory = controller.memory.troubled(judged.stale_pod, "busy")
        controller.found = stale(f"n{number}")
    controller.act(YEAR)
    memory = controller.memory
    assert ({"plugin-ds/n49"}, {}) == (set(memory.restarts), memory.troubles)
    assert {"n49"} == memory.eligible
    assert ({"n49"}, {"n49"}) == (set(memory.ranks), set(memory.breaker.observations))


def test_what_is_still_there_is_not_forgotten() -> None:
    """A node without its object but with a plugin, one that lost its labels, a pod in trouble."""
    controller = Controller(stale("a", "b"))
    decision = controller.act(0)
    (_first, second) = decision.statuses
    assert second.stale_pod is not None
    controller.memory = controller.memory.troubled(second.stale_pod, "busy")
    controller.found.drop("node", "a").change("node", UNLABELLED, "b")
    controller.look(1)
    assert {"plugin-ds/a", "plugin-ds/b"} == set(controller.memory.restarts)
    assert [second.stale_pod.uid] == list(controller.memory.troubles)
    assert {"a", "b"} == controller.memory.eligible


def test_a_consumer_that_is_gone_is_forgotten() -> None:
    """One that is installed anew has another UID."""
    controller = Controller(stale())
    controller.act(0)
    controller.found.change("daemonset", "metadata: {uid: another}", PLUGIN)
    controller.look(1)
    assert {} == controller.memory.restarts


def test_a_run_with_an_end_remembers_nodes_that_are_gone() -> None:
    """Until its end: one that was served may come back without its labels."""
    found = stale("a", "b")
    _decision, memory = found.decide(Settings())
    _decision, memory = (
        found.drop("node", "b").drop("driver-pod", "driver-b").drop("plugin-pod", "plugin-b").decide(Settings(), memory)
    )
    assert frozenset({"a", "b"}) == memory.eligible


def test_stacks_have_breakers_of_their_own() -> None:
    """One that is open stops its own stack; the verdict of both is to wait."""
    nodes = tuple(f"n{number}" for number in range(6))
    settings = structs.replace(FOLLOWING, drivers=("gpu", "network"))
    gpu, nic = cluster(*nodes), network(*nodes)
    memories: dict[str, Memory] = {}
    seen = {"gpu": gpu.seen(), "network": nic.seen()}
    _decision, memories = decide_all(seen, memories, settings, LATER)
    gpu.put("driver-pod", *(driver_pod(node, started=3500, ready=3600) for node in nodes))
    nic.put("driver-pod", merged(nic.of("driver-pod")[0], {"metadata": {"uid": "next"}}))
    nic.put("plugin-pod", rdma_pod("n0", started=-400))
    seen = {"gpu": gpu.seen(), "network": nic.seen()}
    decision, memories = decide_all(seen, memories, settings, moment(5))
    assert (Phase.WAIT, Reason.BREAKER_OPEN, "gpu") == (decision.phase, decision.reason, decision.stack)
    assert [("n0", "network")] == [(one.node, one.stack) for one in decision.actions if isinstance(one, DeletePod)]
    assert (True, False) == tuple(memories[name].breaker.opened_at is not None for name in ("gpu", "network"))


def test_what_failed_is_no_stall_of_the_others() -> None:
    """A node that backs off for ever, and another that reloads meanwhile."""
    controller = Controller(stale("a", "b"))
    controller.act(0)
    controller.found.only("plugin-pod", successor(1, "a"), plugin_pod("b"))
    controller.look(3600 * 24)
    controller.found.change("node", labelled("b", state="pod-restart-required"), "b")
    assert ["PluginStale", "Verified"] == reasons(controller.look(3600 * 24 + 1).statuses)


def test_a_deadline_is_never_reached() -> None:
    """However long ago it started."""
    assert LATER + timedelta(days=10**6) < FOLLOWING.deadline(LATER)


@pytest.mark.parametrize("follow", [True, False])
def test_only_the_moment_of_following_has_no_end(*, follow: bool) -> None:
    """The same fleet, hours later."""
    controller = waiting()
    controller.settings = of(FOLLOWING, controller=follow)
    assert (Phase.WAIT if follow else Phase.DEADLINE) is controller.look(YEAR).phase
