"""Rules of the whole fleet: what makes a run pointless, what holds its end back, and what is remembered."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from hook.config import ControllerLimits, ControllerSettings, DriverClient, Duration, Expect, OnMissingPlugin, Settings
from hook.decide import decide
from hook.decide.decide import first_look
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.decide.state import restart_key
from hook.format import Bound
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons, stale, stale_plugin
from tests.fixtures.following import Controller
from tests.fixtures.modes import Pool, network, ofed_pod, owner, pool_daemonset, pooled, with_ofed
from tests.fixtures.objects import Object, conditions, driver_pod, merged, obj, parsed, plugin_pod, stamp

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
EXPORTER = (DriverClient("gpu", "monitoring", "dcgm-exporter"),)
SEEN = 3600
"""Seconds from the fixtures' D to the first decision of a controller."""


# What makes a run pointless.


def managed_plugin() -> Object:
    """Return the DaemonSet of a plugin that the operator restarts itself."""
    metadata = {"name": "nvidia-dra-driver-kubelet-plugin", "namespace": "gpu-operator", "uid": "managed"}
    return obj("plugin-daemonset", {"metadata": {**metadata, "ownerReferences": owner("gc", "GPUCluster")}})


def test_a_plugin_that_the_operator_manages_does_not_speak_for_the_others() -> None:
    """A named plugin next to it is stale all the same; alone it ends the run, also one that waits for plugins."""
    both = stale().put("daemonset", managed_plugin())
    assert 1 == len(both.decide()[0].actions)
    both.drop("daemonset", PLUGIN).drop("plugin-pod")
    waiting = Settings(on_missing_plugin=OnMissingPlugin.WAIT)
    assert [Reason.OPERATOR_MANAGED] * 2 == [both.decide(settings)[0].reason for settings in (None, waiting)]


def test_labels_are_doubted_only_where_pods_are_around() -> None:
    """One plugin pod on one of the nodes is enough: the operator may not have labelled them yet."""
    bare = cluster("gpu-0", "gpu-1").drop("driver-pod").drop("plugin-pod").change("policy", "status: {state: null}")
    bare.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "false"}}})
    decision, _memory = bare.decide()
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (decision.phase, decision.reason)
    assert Phase.SKIP is not bare.put("plugin-pod", plugin_pod("gpu-1")).decide()[0].phase


def test_a_fleet_that_was_seen_once_is_remembered_through_a_time_without_eligible_nodes() -> None:
    """What vanishes after all nodes were excluded for a while may come back like any other fleet."""
    found = stale()
    memory = found.decide()[1]
    found.change("node", labelled(skip="true")).change("policy", "status: {state: notReady}")
    memory = found.decide(memory=memory)[1]
    decision, _memory = found.drop("policy").decide(memory=memory)
    assert (Phase.WAIT, Reason.NO_POLICY) == (decision.phase, decision.reason)


def test_what_vanishes_for_another_reason_is_waited_for_anew() -> None:
    """First the policy was gone, now the plugin is: neither for as long as the grace."""
    memory = cluster().decide()[1]
    memory = cluster().drop("policy").decide(memory=memory)[1]
    without = cluster().drop("daemonset", PLUGIN).drop("plugin-pod")
    decision, _memory = without.decide(memory=memory, now=LATER + timedelta(minutes=5))
    assert (Phase.WAIT, Reason.NO_PLUGIN) == (decision.phase, decision.reason)


def test_every_decision_says_which_stack_and_which_nodes_it_is_about() -> None:
    """Done, pending, skipped, or on the way to one of them: reports and metrics are by stack."""
    memory = cluster().decide()[1]
    gone = cluster().drop("policy")
    late = LATER + timedelta(hours=1)
    disabled = cluster().change("policy", "spec: {driver: {enabled: false}}")
    for decision in (
        cluster().decide()[0],
        stale().decide()[0],
        disabled.decide()[0],
        gone.decide(memory=memory)[0],
        gone.decide(memory=memory, now=late)[0],
        gone.decide(memory=replace(memory, first_seen={}, started=LATER - timedelta(hours=1)))[0],
    ):
        assert ("gpu", ["gpu"]) == (decision.stack, [one.stack for one in decision.statuses]), decision
    first = first_look(disabled.seen(), Settings())
    assert first is not None
    assert "gpu" == first.stack


# What holds the end back.


def test_an_unreadable_slice_holds_done_back_also_on_an_excluded_node() -> None:
    """Only the pods of an excluded node are ignored: a slice proves devices wherever its node is."""
    found = cluster("gpu-0", "gpu-1")
    memory = found.decide()[1]
    found.change("node", labelled("gpu-1", present=None), "gpu-1")
    found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")
    found.change("daemonset", "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}")
    memory = found.decide(memory=memory)[1]
    later = LATER + timedelta(minutes=5)
    assert Phase.DONE is found.decide(memory=memory, now=later)[0].phase
    found.change("slice", "spec: {devices: 8}", "0-gpu.nvidia.com-gpu-1")
    decision, _memory = found.decide(memory=memory, now=later)
    assert NodeState.EXCLUDED is decision.statuses[1].state
    assert (Phase.WAIT, Reason.MALFORMED_OBJECT) == (decision.phase, decision.reason)


def test_a_deployment_outside_the_operators_namespace_says_nothing() -> None:
    """Where the policy names a namespace, only the Deployment there is the operator, whatever others are called."""
    other = obj("deployment", "{metadata: {namespace: a, uid: other}, status: {updatedReplicas: 0}}")
    assert Reason.NOTHING_STALE is cluster().put("deployment", other).decide()[0].reason


def test_a_pool_that_was_written_a_moment_ago_is_not_quiet() -> None:
    """The operator needs as long to render it as a policy."""
    found = pooled()
    for seconds, expected in ((14, Reason.OPERATOR_SETTLING), (15, Reason.NOTHING_STALE)):
        written = [{"manager": "kubectl", "time": (LATER - timedelta(seconds=seconds)).isoformat()}]
        assert expected is found.change("pool", {"metadata": {"managedFields": written}}).decide()[0].reason


def test_the_quiet_time_does_not_depend_on_the_order_in_which_daemonsets_are_listed() -> None:
    """With a clock ahead, only what was not seen to change counts as quiet."""
    found = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",)))
    found.change("revision", {"metadata": {"creationTimestamp": stamp(SEEN + 600)}})
    found.change("revision", "metadata: {labels: {controller-revision-hash: other}}", "b-new")
    found.change("driver-pod", "metadata: {labels: {controller-revision-hash: other}}", "driver-gpu-b")
    memory = found.decide()[1]
    found.only("daemonset", *reversed(found.of("daemonset")))
    decision, _memory = found.decide(memory=memory, now=LATER + timedelta(seconds=15))
    assert Reason.NOTHING_STALE is decision.reason


def test_a_rollback_of_a_daemonset_that_is_gone_says_nothing() -> None:
    """Its revisions stay behind, whichever was the newest."""
    gone = {"ownerReferences": owner("gone-ds")}
    old, young = (
        obj("revision", {"metadata": {**gone, "name": f"gone-{number}"}, "revision": number}) for number in (4, 3)
    )
    young["metadata"]["creationTimestamp"] = stamp(600)
    assert Reason.NOTHING_STALE is cluster().put("revision", old, young).decide()[0].reason


def test_a_revision_of_a_daemonset_that_is_gone_starts_no_quiet_time() -> None:
    """However young it is."""
    gone = obj("revision", {"metadata": {"name": "gone", "ownerReferences": owner("gone-ds")}})
    gone["metadata"]["creationTimestamp"] = stamp(SEEN - 3)
    assert Reason.NOTHING_STALE is cluster().put("revision", gone).decide()[0].reason


def test_a_revision_that_is_rendered_again_starts_the_quiet_time_anew() -> None:
    """A rollback between two reads brings the same hash back under a higher number."""
    found = cluster()
    memory = found.decide()[1]
    between = obj("revision", "{metadata: {name: b, labels: {controller-revision-hash: b}}, revision: 3}")
    between["metadata"]["creationTimestamp"] = stamp(SEEN + 10)
    found.put("revision", between).change("revision", "revision: 4", "nvidia-driver-daemonset-new")
    decision, _memory = found.decide(memory=memory, now=LATER + timedelta(seconds=20))
    assert Reason.OPERATOR_SETTLING is decision.reason


def test_an_unreadable_pod_on_a_node_that_is_not_known_holds_done_back() -> None:
    """It may be a driver or a plugin on a node whose labels have not arrived yet."""
    found = cluster().put("driver-pod", merged(driver_pod("gpu-9"), parsed("spec: {containers: broken}")))
    decision, _memory = found.decide()
    assert (["Verified"], Reason.MALFORMED_OBJECT) == (reasons(decision.statuses), decision.reason)


def test_nothing_is_restarted_under_the_old_intent_while_some_of_it_is_not_rendered_either() -> None:
    """A policy that does not show the expected version comes before a DaemonSet that does not show the policy."""
    pools = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",)))
    pools.put("plugin-pod", stale_plugin("gpu-a"), stale_plugin("gpu-b"))
    pools.put("daemonset", pool_daemonset(Pool("a", ("gpu-a",), version="570.124.06")))
    assert ["gpu-b"] == [one.node for one in pools.decide()[0].actions if isinstance(one, DeletePod)]
    decision, _memory = pools.decide(Settings(expect=Expect(driver_version="590.1.2")))
    assert (Reason.EXPECTATION_UNMET, ()) == (decision.reason, decision.actions)


def test_one_node_that_wants_a_driver_needs_a_driver_daemonset() -> None:
    """Whatever the other nodes bring themselves."""
    found = cluster("gpu-0", "gpu-1").change("node", labelled("gpu-1", deploy_driver="pre-installed"), "gpu-1")
    found.drop("daemonset", "nvidia-driver-daemonset").drop("driver-pod")
    assert Reason.NOT_RENDERED is found.decide()[0].reason


def test_the_warnings_of_a_run_outlast_the_policys_veto() -> None:
    """After the grace the policy's state is one more warning, not the only one."""
    found = cluster().change("policy", "status: {state: notReady}")
    settings = Settings(driver_clients=EXPORTER)
    memory = found.decide(settings)[1]
    decision, _memory = found.decide(settings, memory, LATER + timedelta(minutes=2))
    assert Phase.DONE is decision.phase
    for words in (" is notReady", "no DaemonSet matches"):
        assert any(words in warning for warning in decision.warnings)


def test_excluded_nodes_are_no_part_of_the_progress() -> None:
    """Neither of the nodes that are done, nor of all."""
    found = stale("gpu-0", "gpu-1", "gpu-2").change("node", labelled("gpu-1", skip="true"), "gpu-1")
    assert "1 of 2 nodes" in found.put("plugin-pod", plugin_pod("gpu-2")).decide()[0].message


def test_each_state_on_the_way_is_further_than_the_one_before() -> None:
    """Or a fleet would seem to stall while it advances, or to advance while it goes back and forth."""
    states = ("WAITING", "STALE", "RESTARTING", "VERIFYING", "VERIFIED")
    waiting, *others = (decide.RANK[NodeState[state]] for state in states)
    ranks = [waiting, decide.RELOADING_RANK, *others]
    assert sorted(set(ranks)) == ranks
    assert (waiting, ranks[-1]) == (decide.RANK[NodeState.FAILED], decide.RANK[NodeState.EXCLUDED])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(cluster("a", "b").change("driver-pod", OLD_HASH, "driver-b"), Reason.DRIVER_OUTDATED,
                     id="outdated"),
        pytest.param(stale("a", "b"), Reason.PLUGIN_QUEUED, id="queued"),
        pytest.param(with_ofed(cluster("a", "b"), network("a", "b").put("driver-pod", ofed_pod("b", ready=None))),
                     Reason.PRIOR_DRIVER_UNSETTLED, id="another-driver-comes-first"),
    ],
)  # fmt: skip
def test_a_node_that_only_waits_for_its_turn_does_not_delay_a_failure(found: Cluster, reason: Reason) -> None:
    """What cannot progress by itself is waited for as long as the grace of a failed node, and no longer."""
    found.put("plugin-pod", merged(plugin_pod("a"), {"status": {"conditions": conditions(None)}}))
    settings = ControllerSettings(plugin_timeout=Duration(), controller=ControllerLimits(max_unavailable=Bound(1)))
    first, memory = found.decide(settings)
    assert (Phase.WAIT, reason) == (first.phase, first.statuses[1].reason)
    decision, _memory = found.decide(settings, memory, LATER + timedelta(minutes=5))
    assert (Phase.FAIL, Reason.PLUGIN_NOT_READY) == (decision.phase, decision.reason)


def test_a_node_whose_operands_are_paused_has_begun() -> None:
    """A driver that is being unloaded is further than one that waits for its turn."""
    patient = Settings(timeout=Duration(days=1), stall_timeout=Duration(minutes=30))
    before, paused = {"state": "upgrade-required"}, {"state": "", "deploy_toolkit": "paused-for-driver-upgrade"}
    for after, expected in ((before, Phase.DEADLINE), (paused, Phase.WAIT)):
        found = cluster().change("node", labelled(**before))
        memory = found.decide(patient)[1]
        later = found.change("node", labelled(**after)).decide(patient, memory, LATER + timedelta(minutes=30))[0]
        assert expected is later.phase


def test_a_node_that_moves_is_waited_for_before_a_failure() -> None:
    """However long its driver takes to load: it is restarted first."""
    found = cluster("a", "b").put("driver-pod", driver_pod("b", ready=None))
    found.put("plugin-pod", merged(plugin_pod("a"), {"status": {"conditions": conditions(None)}}))
    settings, memory = Settings(plugin_timeout=Duration()), None
    for minutes in (0, 6, 12):
        decision, memory = found.decide(settings, memory, LATER + timedelta(minutes=minutes))
        assert Phase.WAIT is decision.phase


def test_a_restart_that_was_asked_for_is_an_advance() -> None:
    """The stall counts from then, not from when the plugin was first seen stale."""
    patient = Settings(timeout=Duration(days=1), stall_timeout=Duration(minutes=30))
    found = stale()
    first, memory = found.decide(patient)
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    asked = LATER + timedelta(minutes=29, seconds=50)
    memory = found.decide(patient, memory.asked(action.node, action.pod, asked), asked)[1]
    assert Phase.WAIT is found.decide(patient, memory, LATER + timedelta(minutes=30))[0].phase


def test_a_fleet_without_a_node_stalls_like_any_other() -> None:
    """What never appears never advances."""
    patient = Settings(
        timeout=Duration(days=1), stall_timeout=Duration(minutes=30), expect=Expect(chart_version="v27.1.0")
    )
    found = cluster().drop("node").drop("driver-pod").drop("plugin-pod")
    memory = found.decide(patient)[1]
    decision, _memory = found.decide(patient, memory, LATER + timedelta(minutes=30))
    assert Reason.STALLED is decision.reason


# What is remembered.


def test_a_restart_that_failed_is_forgotten_once_its_pod_goes() -> None:
    """A pod on its way out is restarted no more, so a controller does not keep what was wrong with it."""
    controller = Controller(stale())
    (judgement,) = controller.look().statuses
    assert judgement.stale_pod is not None
    controller.memory = controller.memory.troubled(judgement.stale_pod, "no answer")
    controller.look(1)
    assert {judgement.stale_pod.uid: "no answer"} == controller.memory.troubles
    controller.found.change("plugin-pod", "metadata: {deletionTimestamp: '2026-01-01T11:00:00Z'}")
    controller.look(2)
    assert {} == controller.memory.troubles


def test_a_node_without_a_plugin_is_not_one_whose_plugin_came_back() -> None:
    """After a refusal the pauses are counted on, although the node wanted no plugin for a while."""
    controller = Controller(stale())
    controller.act(0, refused="not on a Friday")
    controller.found.drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", PLUGIN)
    assert ["NothingToRefresh"] == reasons(controller.look(1).statuses)
    assert not controller.memory.restarts[restart_key("plugin-ds", "gpu-0")].came_back
