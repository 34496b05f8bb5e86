"""The driver manager may take the plugin away by itself: by the client label, or by one that it was told."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from tests.fixtures.cluster import Cluster, cluster
from tests.fixtures.modes import Pool, pooled

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
CLIENT, TOLD = "nvidia.com/gpu.deploy.client", "nvidia.com/dra-kubelet-plugin"
MANAGER = f"{{manager: {{env: [{{name: X, value: y}}, {{name: NODE_LABEL_FOR_GPU_POD_EVICTION, value: {TOLD}}}]}}}}"
PAUSED = "paused-for-driver-upgrade"


def wired(label: str, value: str = "true", found: Cluster | None = None) -> Cluster:
    """Let the plugin select a node label, which every node has with a value."""
    found = found or cluster("gpu-0", "gpu-1")
    selector = {"spec": {"template": {"spec": {"nodeSelector": {label: "true"}}}}}
    return found.change("daemonset", selector, PLUGIN).change("node", {"metadata": {"labels": {label: value}}})


def told(found: Cluster) -> Cluster:
    """Tell the driver manager the label, in the policy."""
    return found.change("policy", f"spec: {{driver: {MANAGER}}}")


@pytest.mark.parametrize(
    ("found", "label"),
    [
        pytest.param(wired(CLIENT), CLIENT, id="the-client-label"),
        pytest.param(told(wired(TOLD)), TOLD, id="a-label-in-the-policy"),
        pytest.param(
            wired(TOLD, found=pooled(Pool()).change("pool", f"spec: {MANAGER}")), TOLD, id="a-label-in-a-pool"
        ),
    ],
)
def test_a_plugin_that_was_restarted_already_is_left_alone_and_it_says_so(found: Cluster, label: str) -> None:
    """It is found fresh: nothing is done, and the deployer reads why."""
    decision, _memory = found.decide()
    assert (Phase.DONE, Reason.NOTHING_STALE, ()) == (decision.phase, decision.reason, decision.actions)
    assert f"the driver manager evicts them before it reloads a driver: {label}" in decision.message


def test_a_selector_that_nobody_was_told_of_explains_nothing() -> None:
    """The plugin is fresh for another reason."""
    assert "driver manager" not in wired(TOLD).decide()[0].message


@pytest.mark.parametrize("label", [CLIENT, TOLD])
def test_a_node_whose_label_is_paused_is_waited_for(label: str) -> None:
    """The driver manager is unloading the old driver; the plugin is gone, and comes back."""
    found = told(wired(label)).change("node", {"metadata": {"labels": {label: PAUSED}}}, "gpu-1")
    judged = found.drop("plugin-pod", "plugin-gpu-1").decide()[0].statuses[1]
    assert (NodeState.WAITING, Reason.OPERANDS_PAUSED) == (judged.state, judged.reason)
    assert label in judged.message


def test_a_node_without_the_label_silently_gets_no_plugin_and_is_named() -> None:
    """Nothing is stale there, but somebody will miss the plugin."""
    found = told(wired(TOLD)).change("node", {"metadata": {"labels": {TOLD: None}}}, "gpu-1")
    found.drop("plugin-pod", "plugin-gpu-1")
    found.change("daemonset", "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}", PLUGIN)
    decision, _memory = found.decide()
    (warning,) = decision.warnings
    assert decision.phase is Phase.DONE
    assert f"{PLUGIN} runs no pod on gpu-1: its nodeSelector asks for {TOLD}=true" in warning


def test_a_plugin_that_is_wanted_nowhere_is_told() -> None:
    """DESIRED=0 is the usual sign of labels that nobody set."""
    found = wired(TOLD, value="false").drop("plugin-pod")
    found.change("daemonset", "status: {desiredNumberScheduled: 0, updatedNumberScheduled: 0}", PLUGIN)
    decision, _memory = found.decide()
    assert decision.phase is Phase.DONE
    assert "DESIRED=0" in decision.warnings[0]
