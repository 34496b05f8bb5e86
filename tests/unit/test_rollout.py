"""The strategy that stamps the plugin's pod template once all nodes are settled."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Settings, Strategy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase, RolloutRestart
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, reasons, stale, stale_plugin
from tests.fixtures.objects import merged, obj, parsed, plugin_pod

ROLLOUT = Settings(strategy=Strategy.ROLLOUT)
PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"


def test_one_stamp_restarts_all_stale_plugins() -> None:
    """It names the DaemonSet, the moment, and the stale pods that it is for."""
    (action,) = stale("a", "b").put("plugin-pod", plugin_pod("b")).decide(ROLLOUT)[0].actions
    assert isinstance(action, RolloutRestart)
    assert ("nvidia-dra-driver-gpu", PLUGIN, "plugin-ds", LATER) == (
        action.namespace, action.name, action.uid, action.at,
    )  # fmt: skip
    assert ["a"] == [node for node, _pod in action.pods]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale("a", "b"), 1, id="all-settled"),
        pytest.param(stale("a", "b").drop("driver-pod", "driver-b"), 0, id="one-still-reloads"),
        pytest.param(stale("a", "b").change("node", labelled("b", state="drain-required"), "b"), 0, id="one-is-vetoed"),
        pytest.param(stale("a", "b").change("node", labelled("b", skip="true"), "b"), 1, id="one-is-excluded"),
        pytest.param(cluster("a", "b"), 0, id="nothing-stale"),
    ],
)
def test_the_template_is_stamped_once_every_node_is_settled(found: Cluster, expected: int) -> None:
    """It restarts fresh plugins as well, so it must not have to be done twice."""
    assert expected == len(found.decide(ROLLOUT)[0].actions)


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param("metadata: {generation: 2}", id="not-observed"),
        pytest.param("status: {updatedNumberScheduled: 1}", id="old-pods-are-left"),
    ],
)
def test_a_rollout_that_is_going_on_is_not_started_anew(patch: str) -> None:
    """Whoever started it; its stale pods show as restarting."""
    decision, _memory = stale("a", "b").change("daemonset", patch, PLUGIN).decide(ROLLOUT)
    assert ((), {NodeState.RESTARTING}) == (decision.actions, {one.state for one in decision.statuses})


def test_a_rollout_that_hangs_runs_out_of_patience() -> None:
    """A pod that stays Terminating on a lost node would hold it for ever."""
    found = stale("a", "b").change("daemonset", "status: {updatedNumberScheduled: 1}", PLUGIN)
    memory = found.decide(ROLLOUT)[1]
    decision, _memory = found.decide(ROLLOUT, memory, LATER + timedelta(minutes=5))
    assert (Phase.FAIL, {NodeState.FAILED}) == (decision.phase, {one.state for one in decision.statuses})


def test_a_rollout_has_patience_anew_with_each_pod_that_it_updates() -> None:
    """Twelve nodes, one after another, forty seconds each: longer than the patience with one plugin."""
    nodes = tuple("abcdefghijkl")
    found, verdicts = stale(*nodes), set()
    memory = found.decide(ROLLOUT)[1]
    for number, node in enumerate(nodes[:-1]):
        found.change("daemonset", {"status": {"updatedNumberScheduled": number}}, PLUGIN)
        found.put("plugin-pod", plugin_pod(node))
        decision, memory = found.decide(ROLLOUT, memory, LATER + timedelta(seconds=40 * number))
        verdicts.add(decision.phase)
    last, _memory = found.decide(ROLLOUT, memory, LATER + timedelta(seconds=40 * 10 + 300))
    assert ({Phase.WAIT}, Phase.FAIL) == (verdicts, last.phase)
    assert ["l"] == [one.node for one in last.statuses if one.state is NodeState.FAILED]


def test_a_fresh_plugin_in_a_rollout_is_judged_as_ever() -> None:
    """Only a stale one is said to be restarting."""
    found = stale("a", "b").put("plugin-pod", plugin_pod("b"))
    found.change("daemonset", "status: {updatedNumberScheduled: 1}", PLUGIN)
    assert ["PluginRestarting", "Verified"] == reasons(found.decide(ROLLOUT)[0].statuses)


DELETING = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
MINE = "spec: {taints: [{key: mine, effect: NoSchedule}]}"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale("a", "b"), ["TaintNotTolerated", "TaintNotTolerated"], id="stale"),
        pytest.param(stale("a", "b").put("plugin-pod", plugin_pod("b")), ["TaintNotTolerated", "Verified"], id="fresh"),
        pytest.param(stale("a", "b").drop("plugin-pod", "plugin-b").change("daemonset",
                     "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}", PLUGIN),
                     ["PluginStale", "NothingToRefresh"], id="none-there"),
        pytest.param(stale("a", "b").change("plugin-pod", DELETING, "plugin-b"), ["PluginStale", "PluginRestarting"],
                     id="on-its-way-out"),
    ],
)  # fmt: skip
def test_a_template_is_not_stamped_where_a_plugin_would_not_come_back(found: Cluster, expected: list[str]) -> None:
    """The rollout would take down the plugin on a node whose taint it does not tolerate, stale or fresh, for good."""
    found.change("node", MINE, "b")
    first, memory = found.decide(ROLLOUT)
    later, _memory = found.decide(ROLLOUT, memory, LATER + timedelta(minutes=5))
    held = "TaintNotTolerated" in expected
    assert (expected, 0 if held else 1) == (reasons(first.statuses), len(first.actions))
    assert held == (later.reason is Reason.TAINT_NOT_TOLERATED)


def test_a_taint_under_another_consumers_pod_holds_no_rollout() -> None:
    """Each DaemonSet is stamped by itself."""
    old = "nvidia-dra-driver-gpu-kubelet-plugin"
    owner = f"ownerReferences: [{{uid: old-ds, controller: true, name: {old}}}]"
    found = stale("a", "b").change("node", MINE, "b").drop("plugin-pod", "plugin-b")
    found.put("daemonset", obj("plugin-daemonset", f"metadata: {{name: {old}, uid: old-ds}}"))
    found.put("plugin-pod", merged(plugin_pod("b"), parsed(f"metadata: {{{owner}}}")))
    found.change("daemonset", "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}", PLUGIN)
    actions = found.decide(ROLLOUT)[0].actions
    assert [PLUGIN] == [one.name for one in actions if isinstance(one, RolloutRestart)]


def test_a_taint_that_goes_away_lets_the_rollout_begin() -> None:
    """An autoscaler changed its mind."""
    memory = stale("a", "b").change("node", MINE, "b").decide(ROLLOUT)[1]
    decision, _memory = stale("a", "b").decide(ROLLOUT, memory, LATER + timedelta(minutes=4))
    assert 1 == len(decision.actions)


def test_an_on_delete_daemonset_is_refused() -> None:
    """A stamp would restart nothing, and the run would wait for nothing."""
    found = stale("a", "b").change("daemonset", "spec: {updateStrategy: {type: OnDelete}}", PLUGIN)
    decision, _memory = found.put("plugin-pod", plugin_pod("b")).decide(ROLLOUT)
    assert (Phase.FAIL, ["RolloutImpossible", "Verified"]) == (decision.phase, reasons(decision.statuses))


def test_what_was_asked_is_not_stamped_again() -> None:
    """Until the DaemonSet controller has seen the stamp, the pods show as restarting."""
    found = stale()
    (action,), memory = found.decide(ROLLOUT)[0].actions, found.decide(ROLLOUT)[1]
    assert isinstance(action, RolloutRestart)
    for node, pod in action.pods:
        memory = memory.asked(node, pod, LATER)
    soon, _memory = found.decide(ROLLOUT, memory, LATER + timedelta(seconds=5))
    late, _memory = found.decide(ROLLOUT, memory, LATER + timedelta(seconds=30))
    assert [0, 1] == [len(soon.actions), len(late.actions)]


def test_each_consumer_is_stamped_by_itself() -> None:
    """Both chart names may be there after a botched upgrade; only one has a stale pod."""
    old = "nvidia-dra-driver-gpu-kubelet-plugin"
    owner = f"ownerReferences: [{{uid: old-ds, controller: true, name: {old}}}]"
    found = cluster().put("daemonset", obj("plugin-daemonset", f"metadata: {{name: {old}, uid: old-ds}}"))
    found.put("plugin-pod", merged(stale_plugin(), parsed(f"metadata: {{name: other, uid: other, {owner}}}")))
    actions = found.decide(ROLLOUT)[0].actions
    assert [old] == [one.name for one in actions if isinstance(one, RolloutRestart)]


def test_a_second_rollout_that_did_not_help_needs_a_person() -> None:
    """As with single pods: stale again under the same driver run."""
    found = stale()
    (action,), memory = found.decide(ROLLOUT)[0].actions, found.decide(ROLLOUT)[1]
    assert isinstance(action, RolloutRestart)
    memory = memory.asked("gpu-0", action.pods[0][1], LATER)
    found.change("plugin-pod", "metadata: {uid: next}")
    decision, _memory = found.decide(ROLLOUT, memory, LATER + timedelta(seconds=40))
    assert (Phase.FAIL, Reason.RESTART_DID_NOT_HELP) == (decision.phase, decision.reason)
