"""Which stale plugins are restarted now, and that nothing is asked for twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from hook.config import Duration, Settings
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons, stale, stale_plugin
from tests.fixtures.objects import Object, R, driver_pod, merged, parsed, plugin_pod, running

DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
ONE_AT_A_TIME = Settings(max_parallel_restarts=1)
TWO_AT_A_TIME = Settings(max_parallel_restarts=2)


def after(seconds: float) -> object:
    """Give the moment so long after the first decision."""
    return LATER + timedelta(seconds=seconds)


def asked_of(found: Cluster, *nodes: str) -> Memory:
    """Give the memory of a run that asked for restarts on these nodes at LATER."""
    decision, memory = found.decide()
    for action in decision.actions:
        assert isinstance(action, DeletePod)
        if action.node in nodes:
            memory = memory.asked(action.node, action.pod, LATER)
    return memory


def deleted(
    found: Cluster, settings: Settings | None = None, memory: Memory | None = None, seconds: float = 0
) -> list[str]:
    """Give the nodes on which the program now deletes a plugin pod."""
    decision, _memory = found.decide(settings, memory, LATER + timedelta(seconds=seconds))
    return [action.node for action in decision.actions if isinstance(action, DeletePod)]


def test_every_stale_plugin_on_a_settled_node_is_restarted_at_once() -> None:
    """Their nodes are down already: no bound by default; the others are left alone."""
    found = stale("a", "b", "c", "d").put("plugin-pod", plugin_pod("b")).drop("driver-pod", "driver-c")
    assert ["a", "d"] == deleted(found)


def test_who_waits_longest_is_served_first() -> None:
    """Whatever its name: where there is one place, or each deletion takes its time, the last name must not starve."""
    found = stale("a", "b", "c").put("driver-pod", driver_pod("a", ready=R + 20), driver_pod("c", ready=R - 20))
    assert ["c", "b", "a"] == deleted(found)
    assert ["c"] == deleted(found, ONE_AT_A_TIME)


def test_a_restart_names_the_very_pod_that_was_judged() -> None:
    """With UID and resourceVersion, for the preconditions, and why."""
    (action,) = stale().decide()[0].actions
    assert isinstance(action, DeletePod)
    pod = action.pod
    assert ("nvidia-dra-driver-gpu", "plugin-gpu-0", "plugin-gpu-0-uid", "200") == (
        pod.namespace, pod.name, pod.uid, pod.resource_version,
    )  # fmt: skip
    assert pod.because != ""


def test_a_stale_pod_on_delete_is_restarted_as_well() -> None:
    """Deleting a pod works with either update strategy."""
    found = stale().change("daemonset", "spec: {updateStrategy: {type: OnDelete}}")
    assert ["gpu-0"] == deleted(found)


def test_what_was_asked_is_not_asked_again() -> None:
    """The pod shows as restarting until its deletion is seen."""
    found = stale()
    decision, _memory = found.decide(memory=asked_of(found, "gpu-0"), now=LATER + timedelta(seconds=29))
    (judged,) = decision.statuses
    assert ((), NodeState.RESTARTING) == (decision.actions, judged.state)


def test_what_did_not_happen_is_asked_again() -> None:
    """A deletion that is not seen for half a minute did not happen."""
    found = stale()
    assert ["gpu-0"] == deleted(found, memory=asked_of(found, "gpu-0"), seconds=30)


def test_a_conflict_leads_to_the_same_request_for_the_pod_as_it_is_now() -> None:
    """A refused deletion is not remembered, and the next one carries the new resourceVersion."""
    memory = stale().decide()[1]
    changed = stale().change("plugin-pod", "metadata: {resourceVersion: '201'}")
    (action,) = changed.decide(memory=memory, now=LATER + timedelta(seconds=1))[0].actions
    assert isinstance(action, DeletePod)
    assert "201" == action.pod.resource_version


def test_a_second_restart_under_the_same_driver_run_needs_a_person() -> None:
    """The new pod is stale by its times again: a clock is wrong, and restarting would go on for ever."""
    found = stale()
    successor = merged(stale_plugin(), parsed("metadata: {name: next, uid: next}"))
    decision, _memory = found.only("plugin-pod", successor).decide(memory=asked_of(stale(), "gpu-0"))
    assert (Phase.FAIL, Reason.RESTART_DID_NOT_HELP, ()) == (decision.phase, decision.reason, decision.actions)


def test_a_new_driver_run_makes_a_plugin_stale_again() -> None:
    """The driver container restarted in place, or the node rotated twice: it is served again."""
    again = stale().change("plugin-pod", "metadata: {uid: next}")
    again.change("driver-pod", {"status": {"containerStatuses": [running("nvidia-driver-ctr", 60, restarts=1)]}})
    assert ["gpu-0"] == deleted(again, memory=asked_of(stale(), "gpu-0"), seconds=5)


def test_a_fresh_plugin_is_never_touched() -> None:
    """Whatever was asked before, and whatever its label says."""
    found = cluster("a", "b").change("node", labelled("a", state="pod-restart-required"), "a")
    assert [] == deleted(found, memory=asked_of(stale("a", "b"), "a", "b"))


def test_a_bound_on_parallel_restarts_queues_the_rest() -> None:
    """By node name; the others wait for their turn and say so."""
    decision, _memory = stale("a", "b", "c").decide(TWO_AT_A_TIME)
    assert ["PluginStale", "PluginStale", "PluginQueued"] == reasons(decision.statuses)
    assert ["a", "b"] == [one.node for one in decision.actions if isinstance(one, DeletePod)]


def unready(node: str) -> dict[str, object]:
    """Give a restarted plugin pod that is not Ready yet."""
    pod: dict[str, object] = merged(plugin_pod(node, ready=None), {"metadata": {"uid": f"{node}-next"}})
    return pod


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda found: found, [], id="asked-and-not-seen-yet"),
        pytest.param(lambda found: found.change("plugin-pod", DELETING, "plugin-a"), [], id="terminating"),
        pytest.param(lambda found: found.drop("plugin-pod", "plugin-a"), [], id="not-recreated-yet"),
        pytest.param(lambda found: found.put("plugin-pod", unready("a")), [], id="not-verified-yet"),
        pytest.param(lambda found: found.put("plugin-pod", plugin_pod("a")), ["b"], id="verified"),
    ],
)
def test_a_restarted_plugin_takes_its_place_until_it_is_verified(change: object, expected: list[str]) -> None:
    """The bound counts plugins that are down because of this program, not requests."""
    assert callable(change)
    found = change(stale("a", "b"))
    assert expected == deleted(found, ONE_AT_A_TIME, asked_of(stale("a", "b"), "a"), 5)


def test_plugins_that_are_down_by_themselves_take_no_place() -> None:
    """A plugin that somebody else restarted does not hold up those that are stale."""
    found = stale("a", "b").put("plugin-pod", unready("a"))
    assert ["b"] == deleted(found, ONE_AT_A_TIME)


def test_one_plugin_that_does_not_come_back_gives_its_place_back() -> None:
    """It would keep all others stale. A second one stops the restarts, and the run ends with the reason."""
    held = structs.replace(ONE_AT_A_TIME, plugin_timeout=Duration())
    memory = asked_of(stale("a", "b", "c"), "a")
    found = stale("a", "b", "c").put("plugin-pod", unready("a"))
    first, memory = found.decide(held, memory, LATER)
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    assert ("b", Phase.WAIT) == (action.node, first.phase)
    memory = memory.asked("b", action.pod, LATER)
    found.put("plugin-pod", unready("b"))
    second, memory = found.decide(held, memory, LATER)
    later, _memory = found.decide(held, memory, LATER + held.advanced.failed_grace)
    assert ((), Phase.WAIT) == (second.actions, second.phase)
    assert ((), Phase.FAIL, Reason.PLUGIN_NOT_READY) == (later.actions, later.phase, later.reason)
    assert ["PluginNotReady", "PluginNotReady", "PluginQueued"] == reasons(later.statuses)


def without_plugin(node: str) -> Cluster:
    """Give a served fleet whose plugin DaemonSet wants no pod on one of its two nodes, and has none there."""
    gone = cluster("a", "b").drop("plugin-pod", f"plugin-{node}")
    return gone.change("daemonset", "status: {desiredNumberScheduled: 1}", "dra-driver-nvidia-gpu-kubelet-plugin")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        pytest.param("a", ["PluginMissing", "Verified"], id="where-this-run-took-it-away"),
        pytest.param("b", ["Verified", "NothingToRefresh"], id="where-it-did-not"),
    ],
)
def test_a_node_whose_plugin_was_restarted_must_have_one_again(node: str, expected: list[str]) -> None:
    """Whatever the DaemonSet says: a taint put on the node since then makes it want none there."""
    decision, _memory = without_plugin(node).decide(memory=asked_of(stale("a", "b"), "a"))
    assert expected == reasons(decision.statuses)


def test_a_plugin_that_came_back_may_go_again() -> None:
    """It was verified after its restart; what its DaemonSet wants after that is not our business."""
    memory = asked_of(stale("a", "b"), "a")
    memory = cluster("a", "b").decide(memory=memory, now=LATER + timedelta(seconds=20))[1]
    decision, _memory = without_plugin("a").decide(memory=memory, now=LATER + timedelta(seconds=40))
    assert ["NothingToRefresh", "Verified"] == reasons(decision.statuses)


def test_a_plugin_that_never_comes_back_fails_after_the_plugins_timeout() -> None:
    """From when it went away."""
    memory, verdicts = asked_of(stale("a", "b"), "a"), []
    for seconds in (5, 304, 305):
        decision, memory = without_plugin("a").decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        verdicts.append(decision.phase)
    assert [Phase.WAIT, Phase.WAIT, Phase.FAIL] == verdicts
    assert (Reason.PLUGIN_MISSING, NodeState.FAILED) == (decision.reason, decision.statuses[0].state)


def test_nothing_is_restarted_after_the_last_word() -> None:
    """A deadline ends the run; what it would still do is left to the next one."""
    found, memory = stale(), Memory(started=LATER - timedelta(hours=1))
    decision, _memory = found.decide(memory=memory)
    assert (Phase.DEADLINE, ()) == (decision.phase, decision.actions)


def _same_second_as_ready(name: str) -> Object:
    """Give a plugin pod whose containers started in the second in which a driver that crashed in place was ready."""
    pod = plugin_pod(waited=-50, started=R, ready=R + 3)
    pod["metadata"]["uid"] = name
    pod["metadata"]["name"] = name
    return pod


def _in_place() -> Cluster:
    """Give a node whose driver container restarted in place, so that only times can prove a plugin."""
    found = cluster()
    return found.only("driver-pod", driver_pod(restarts=1, ended_before=-1, unloaded=-300))


def test_the_successor_of_our_own_restart_is_fresh_in_the_same_second() -> None:
    """It was created after the driver was seen ready; another run, which cannot know, doubts it once more."""
    found = _in_place().only("plugin-pod", _same_second_as_ready("old"))
    first, memory = found.decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    found.only("plugin-pod", _same_second_as_ready("new"))
    after, _memory = found.decide(memory=memory)
    assert ([Reason.VERIFIED], ()) == ([one.reason for one in after.statuses], after.actions)
    forgotten, _memory = found.decide()
    assert [Reason.PLUGIN_STALE] == [one.reason for one in forgotten.statuses]


def test_the_successor_is_fresh_too_where_the_driver_was_ready_in_the_second_of_its_start() -> None:
    """Its containers started in the second of D as well, which else shows that they are older than the driver."""
    driver = driver_pod(ready=0, restarts=1, ended_before=-1, unloaded=-300)
    first, memory = stale().only("driver-pod", driver).decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    successor = plugin_pod(waited=0, started=0, ready=3)
    successor["metadata"]["uid"] = "new"
    found = cluster().only("driver-pod", driver).only("plugin-pod", successor)
    after, _memory = found.decide(memory=memory.asked(action.node, action.pod, LATER))
    assert ([Reason.VERIFIED], ()) == ([one.reason for one in after.statuses], after.actions)


def test_the_successor_is_doubted_after_a_driver_that_crashed_again_within_the_second() -> None:
    """The start of the container is the same second, its count of restarts is not."""
    found = _in_place().only("plugin-pod", _same_second_as_ready("old"))
    first, memory = found.decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    again = driver_pod(restarts=2, ended_before=-1, unloaded=-300)
    found.only("driver-pod", again).only("plugin-pod", _same_second_as_ready("new"))
    after, _memory = found.decide(memory=memory.asked(action.node, action.pod, LATER))
    assert [Reason.PLUGIN_STALE] == [one.reason for one in after.statuses]


def test_the_successor_is_doubted_after_another_driver_run() -> None:
    """What was asked for under another run of the driver proves nothing."""
    found = _in_place().only("plugin-pod", _same_second_as_ready("old"))
    first, memory = found.decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, replace(action.pod, driver_run="another"), LATER)
    found.only("plugin-pod", _same_second_as_ready("new"))
    after, _memory = found.decide(memory=memory)
    assert [Reason.PLUGIN_STALE] == [one.reason for one in after.statuses]
