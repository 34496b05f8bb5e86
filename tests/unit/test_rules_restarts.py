"""Rules of restarting: what is due, in which order, how many at once, and what is remembered of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from hook.config import ControllerLimits, DriverClient, Settings, Strategy
from hook.decide import decide
from hook.decide.reasons import Reason
from hook.decide.restarts import DisruptionBudget
from hook.decide.result import Cause, Decision, DeletePod, NodeState, Phase, RolloutRestart
from hook.decide.state import Memory, restart_key
from hook.format import Bound
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons, stale, stale_plugin
from tests.fixtures.following import Controller
from tests.fixtures.limits import FOLLOWING, down, of
from tests.fixtures.modes import with_exporter, with_toolkit
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, parsed, plugin_pod, running, waiting

PLUGIN = "nvidia-dra-driver-gpu/dra-driver-nvidia-gpu-kubelet-plugin"
POD = "nvidia-dra-driver-gpu/plugin-gpu-0"
BOTH = Settings(driver_clients=(DriverClient("gpu", "monitoring", "dcgm-exporter"),))
TOOLKIT = Settings(refresh_after=("toolkit",))
DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
TAINT = "spec: {taints: [{key: mine, effect: NoSchedule}]}"
NOT_READY: Object = {"status": {"conditions": conditions(None)}}
STARTING = merged(NOT_READY, {"status": {"containerStatuses": [waiting("gpus", "ContainerCreating")]}})


def deleted(decision: Decision) -> list[str]:
    """Return the names of the pods that are deleted now."""
    return [action.pod.name for action in decision.actions if isinstance(action, DeletePod)]


def stamped(decision: Decision) -> list[str]:
    """Return the names of the DaemonSets that are stamped now."""
    return [action.name for action in decision.actions if isinstance(action, RolloutRestart)]


def in_place() -> Cluster:
    """Return a node whose plugin started in the second in which a driver that crashed in place was ready."""
    found = cluster().only("driver-pod", driver_pod(restarts=1, ended_before=-1, unloaded=-300))
    return found.only("plugin-pod", plugin_pod(waited=-50, started=R, ready=R + 3))


# What is due.


@pytest.mark.parametrize(
    ("found", "reason", "subject"),
    [
        pytest.param(cluster(), Reason.VERIFIED, POD, id="verified"),
        pytest.param(stale(), Reason.PLUGIN_STALE, POD, id="stale"),
        pytest.param(stale().change("node", TAINT), Reason.TAINT_NOT_TOLERATED, POD, id="unwelcome"),
        pytest.param(cluster().change("node", TAINT), Reason.VERIFIED, POD, id="fresh-on-a-tainted-node"),
        pytest.param(cluster().change("plugin-pod", DELETING), Reason.PLUGIN_RESTARTING, POD, id="terminating"),
        pytest.param(cluster().change("plugin-pod", STARTING), Reason.PLUGIN_STARTING, POD, id="starting"),
        pytest.param(cluster().change("plugin-pod", NOT_READY), Reason.PLUGIN_NOT_READY, POD, id="not-ready"),
        pytest.param(cluster().drop("plugin-pod"), Reason.PLUGIN_MISSING, PLUGIN, id="missing"),
        pytest.param(cluster().drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}"),
                     Reason.NOTHING_TO_REFRESH, "", id="none-wanted"),
    ],
)  # fmt: skip
def test_a_node_whose_driver_is_settled_names_its_client_and_its_pod(
    found: Cluster, reason: Reason, subject: str
) -> None:
    """Remedies, reports and the time that is left are by client."""
    judgement = found.judge()
    assert (reason, PLUGIN, subject) == (judgement.reason, judgement.plugin, judgement.subject)


def test_a_stale_plugin_that_would_not_come_back_fails_after_the_plugins_timeout() -> None:
    """Only a toleration, or the end of the taint, changes anything."""
    found, states = stale().change("node", TAINT), []
    memory = None
    for seconds in (0, 299, 300):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        states.append(decision.statuses[0].state)
    assert [NodeState.WAITING, NodeState.WAITING, NodeState.FAILED] == states


def test_a_stale_plugin_says_what_it_did_not_start_after() -> None:
    """Metrics count restarts by this cause."""
    late = with_toolkit(cluster(), ready=R + 900)
    for found, expected in ((stale(), Cause.DRIVER), (late, Cause.PREREQUISITE), (in_place(), Cause.DOUBT)):
        pod = found.judge(TOOLKIT if found is late else None).stale_pod
        assert pod is not None
        assert expected is pod.cause


def test_a_toolkit_pod_on_its_way_out_is_not_what_a_plugin_must_start_after() -> None:
    """Neither for its freshness, nor for the run that a restart was asked under."""
    late = with_toolkit(cluster(), ready=R + 900).of("provider-pod")
    ending = [merged(pod, parsed(f"{DELETING[:-1]}, name: a, uid: a}}")) for pod in late]
    found = with_toolkit(cluster())
    assert Reason.VERIFIED is found.put("provider-pod", *ending).judge(TOOLKIT).reason
    runs = set()
    for pods in (found.of("provider-pod"), found.of("provider-pod")[:1]):
        pod = found.only("plugin-pod", stale_plugin()).only("provider-pod", *pods).judge(TOOLKIT).stale_pod
        assert pod is not None
        runs.add(pod.driver_run)
    assert 1 == len(runs)


def test_a_restart_that_was_refused_has_no_successor() -> None:
    """Another pod there came by itself, so that its second proves nothing."""
    found = in_place()
    first, memory = found.decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER, refused="no")
    found.change("plugin-pod", "metadata: {name: other, uid: other}")
    assert ["RestartDidNotHelp"] == reasons(found.decide(memory=memory)[0].statuses)


def test_a_container_that_came_back_this_second_is_not_proven() -> None:
    """It had no time to crash again."""
    status = [running("gpus", 3600, restarts=1, ended_before=3599), running("compute-domains", R + 6)]
    found = cluster().change("plugin-pod", {"status": {"containerStatuses": status}})
    told = [found.judge(now=LATER + timedelta(seconds=seconds)).reason for seconds in (0, 9, 10)]
    assert [Reason.PLUGIN_NOT_READY, Reason.PLUGIN_NOT_READY, Reason.VERIFIED] == told


@pytest.mark.parametrize("refused", ["", "not on a Friday"])
def test_a_plugin_that_was_verified_is_restarted_for_a_new_run_however_soon_that_comes(refused: str) -> None:
    """The restart before it helped, by the program or by other hands, so there is nothing to wait for."""
    controller = Controller(stale())
    controller.act(0, refused)
    controller.found.only("plugin-pod", plugin_pod())
    assert ["Verified"] == reasons(controller.look(5).statuses)
    controller.found.only("driver-pod", driver_pod(started=3600, ready=3605, restarts=1, ended_before=3599))
    controller.found.change("plugin-pod", "metadata: {name: next, uid: next}")
    controller.act(10)
    assert [(0, "gpu-0"), (10, "gpu-0")] == controller.restarted


def test_a_rollout_that_was_asked_for_is_under_way_until_its_pods_are_replaced() -> None:
    """The pod that is still there is no successor that was not helped."""
    controller = Controller(stale(), structs.replace(FOLLOWING, strategy=Strategy.ROLLOUT))
    assert 1 == len(controller.stamped(0))
    (judgement,) = controller.look(10).statuses
    assert (NodeState.RESTARTING, Reason.PLUGIN_RESTARTING) == (judgement.state, judgement.reason)


def test_a_plugin_that_did_not_come_back_is_looked_for_at_its_daemonset() -> None:
    """There is no pod to describe."""
    controller = Controller(stale())
    controller.act(0)
    controller.found.drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", PLUGIN.split("/")[1])
    (judgement,) = controller.look(1).statuses
    assert (Reason.PLUGIN_MISSING, PLUGIN) == (judgement.reason, judgement.subject)


# In which order, and how many at once.


def test_a_plugin_whose_restart_failed_waits_behind_all_others() -> None:
    """Also where it has waited longest: each failed try takes time that the others may need."""
    found = stale("a", "b", "c").put("driver-pod", driver_pod("a", ready=R - 20))
    first, memory = found.decide()
    for action in first.actions[:2]:
        assert isinstance(action, DeletePod)
        memory = memory.troubled(action.pod, "no answer")
    decision, _memory = found.decide(memory=memory)
    assert ["plugin-c", "plugin-a", "plugin-b"] == deleted(decision)
    assert [True, True, False] == ["no answer" in one.message for one in decision.statuses]
    (again, *_others) = decision.actions
    assert isinstance(again, DeletePod)
    memory = memory.asked(again.node, again.pod, LATER).troubled(again.pod, "no answer")
    restarting = found.decide(memory=memory)[0].statuses[2]
    assert (NodeState.RESTARTING, False) == (restarting.state, "no answer" in restarting.message)


@pytest.mark.parametrize(
    ("part", "name", "patch"),
    [
        pytest.param("plugin-pod", "plugin-a", parsed(DELETING), id="terminating"),
        pytest.param("plugin-pod", "plugin-a", STARTING, id="starting"),
        pytest.param("plugin-pod", "plugin-a", NOT_READY, id="not-ready"),
        pytest.param("slice", "0-gpu.nvidia.com-a", {"spec": {"devices": []}}, id="no-devices"),
        pytest.param("slice", "0-gpu.nvidia.com-a",
                     {"spec": {"devices": [{"attributes": {"driverVersion": {"version": "570.1.2"}}}]}},
                     id="other-devices"),
    ],
)  # fmt: skip
def test_a_plugin_that_does_not_serve_takes_a_place(part: str, name: str, patch: Object) -> None:
    """Whatever is missing, and whether or not a restart was the cause."""
    found = cluster("a", "b").put("plugin-pod", stale_plugin("b")).change(part, patch, name)
    assert [] == deleted(found.decide(down(1))[0])


def test_a_missing_plugin_takes_a_place() -> None:
    """The DaemonSet wants a pod that is not there."""
    found = stale("a", "b").drop("plugin-pod", "plugin-a")
    assert [] == deleted(found.decide(down(1))[0])


def test_a_plugin_on_its_way_out_takes_a_place_although_no_restart_is_remembered() -> None:
    """Memory is lost when a run ends, and the pod is going all the same."""
    found = stale("a", "b").change("plugin-pod", DELETING, "plugin-a")
    assert [] == deleted(found.decide(Settings(max_parallel_restarts=1))[0])


def test_each_client_that_was_restarted_on_a_node_takes_its_place() -> None:
    """One of two on the same node is enough to fill the only place."""
    settings = structs.replace(BOTH, max_parallel_restarts=1)
    found = with_exporter(stale("a", "b"))
    first, memory = found.decide(settings)
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    assert "a" == action.node
    found.put("plugin-pod", merged(plugin_pod("a"), NOT_READY))
    assert [] == deleted(found.decide(settings, memory.asked("a", action.pod, LATER))[0])


def test_a_stale_pod_that_serves_nothing_needs_no_place_whatever_else_runs_on_its_node() -> None:
    """Another client's pod there is Ready, which does not make this one serve."""
    found = with_exporter(stale("a", "b")).change("plugin-pod", NOT_READY, "plugin-a")
    # The one that serves would be first in line for the only place, which the other one has taken.
    found.put("driver-pod", driver_pod("b", ready=R - 20))
    assert ["plugin-a"] == deleted(
        found.decide(structs.replace(of(BOTH, controller=True), controller=ControllerLimits(max_unavailable=Bound(1))))[
            0
        ]
    )


def test_places_are_counted_down_one_by_one() -> None:
    """A pod that does not serve takes one of ours, and none of the bound for all."""
    places = DisruptionBudget(ours=2, anyones=1).take(up=False)
    assert (1, 1) == (places.ours, places.anyones)
    assert places.allows(up=True)
    assert not places.take(up=True).allows(up=False)


# A rollout.


def rolling(found: Cluster, settings: Settings = BOTH) -> Decision:
    """Decide with the strategy that stamps templates."""
    return found.decide(structs.replace(settings, strategy=Strategy.ROLLOUT))[0]


def test_a_client_that_would_not_come_back_holds_up_no_other_one() -> None:
    """One DaemonSet does not tolerate a taint, the other one does: only that one is stamped."""
    found = with_exporter(stale("a", "b"), started=-400).change("node", TAINT, "b")
    tolerant = "spec: {template: {spec: {tolerations: [{operator: Exists}]}}}"
    decision = rolling(found.change("daemonset", tolerant, "dcgm-exporter"))
    assert ["dcgm-exporter"] == stamped(decision)
    held = {one.state for one in decision.statuses if one.plugin == PLUGIN}
    assert {NodeState.WAITING} == held


def test_a_rollout_does_not_wait_for_a_node_that_is_excluded_by_now() -> None:
    """A node that never reported is waited for as long as any blip, and no longer."""
    settings = Settings(strategy=Strategy.ROLLOUT)
    found = stale("a", "b").change("node", "status: {conditions: []}", "b")
    first, memory = found.decide(settings)
    later, _memory = found.decide(settings, memory, LATER + timedelta(minutes=5))
    assert ([], 1) == (stamped(first), len(stamped(later)))


def test_only_stale_plugins_wait_for_a_place_of_a_rollout() -> None:
    """A plugin that is verified, or down by itself, waits for nothing."""
    found = stale("a", "b", "c").put("plugin-pod", plugin_pod("b"), merged(plugin_pod("c"), NOT_READY))
    decision = rolling(found, down(1))
    assert ["PluginQueued", "Verified", "PluginNotReady"] == reasons(decision.statuses)


def test_a_rollout_does_not_restart_a_suspect_along_with_others() -> None:
    """One node's driver reloaded, another's times moved alone: the template is stamped after the suspect's minute."""
    nodes = tuple(f"n{number}" for number in range(8))
    controller = Controller(cluster(*nodes), structs.replace(FOLLOWING, strategy=Strategy.ROLLOUT))
    controller.look(-1)
    reloaded = driver_pod("n0", started=3600, ready=3605, restarts=1)
    controller.found.put("driver-pod", reloaded, driver_pod("n1", started=3530, ready=3600))
    held = controller.look(10)
    assert ["StaleUnexplained", "StaleUnexplained"] == reasons(held.statuses)[:2]
    assert ([], 1) == (stamped(held), len(stamped(controller.look(72))))


def test_a_node_that_turned_stale_and_came_back_by_itself_is_no_suspect() -> None:
    """Only what would be restarted now is held for a minute."""
    nodes = tuple(f"n{number}" for number in range(8))
    controller = Controller(cluster(*nodes))
    controller.look(-1)
    controller.found.put("driver-pod", driver_pod("n0", started=3530, ready=3600))
    assert "waits for a minute" in controller.look(0).statuses[0].message
    controller.found.put("plugin-pod", plugin_pod("n0", waited=3601, started=3602, ready=3610))
    assert {"Verified"} == set(reasons(controller.look(10).statuses))


# What is remembered.


def test_a_restart_is_remembered_as_long_as_its_node_is_there() -> None:
    """Also while no pod of the plugin is on it: that is when it matters."""
    controller = Controller(stale("gpu-0", "gpu-1"))
    controller.act(0)
    controller.found.drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", PLUGIN.split("/")[1])
    for seconds in (1, 2):
        assert ["PluginMissing"] * 2 == reasons(controller.look(seconds).statuses)
    controller.found.drop("node", "gpu-1").drop("driver-pod", "driver-gpu-1")
    controller.look(3)
    assert {restart_key("plugin-ds", "gpu-0")} == controller.memory.restarts.keys()


def test_only_eligible_nodes_are_remembered_as_such() -> None:
    """A node that was always excluded is not waited for when it loses its label."""
    controller = Controller(cluster("gpu-0", "gpu-1").change("node", labelled("gpu-1", skip="true"), "gpu-1"))
    controller.look(0)
    assert {"gpu-0"} == controller.memory.eligible


def test_the_trouble_with_one_pod_does_not_hide_that_with_another() -> None:
    """The last one is last, and one that is tried again moves there."""
    memory = Memory(started=LATER)
    pods = [one.stale_pod for one in stale("a", "b").decide()[0].statuses]
    for pod in (*pods, pods[0]):
        assert pod is not None
        memory = memory.troubled(pod, "no answer")
    assert ["plugin-b-uid", "plugin-a-uid"] == list(memory.troubles)


# Several stacks.


def test_work_that_is_left_in_one_stack_speaks_before_what_was_done_in_another() -> None:
    """The stack that restarted something speaks only among equal verdicts, and each stack is heard once."""
    done = Decision(Phase.DONE, Reason.REFRESHED, "two were restarted")
    wait = Decision(Phase.WAIT, Reason.NODES_PENDING, "one is left")
    both = decide.combined({"gpu": done, "network": wait})
    assert (Phase.WAIT, Reason.NODES_PENDING, "network") == (both.phase, both.reason, both.stack)
    assert "network: one is left; gpu: two were restarted" == both.message
