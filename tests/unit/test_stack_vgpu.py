"""vGPU and sandbox workloads: some nodes have no driver for containers."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from tests.fixtures.cluster import Cluster, labelled, stale
from tests.fixtures.objects import Object, merged, plugin_pod

SANDBOX = "spec: {sandboxWorkloads: {enabled: true}}"
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"


def workload(value: str, node: str = "gpu-1") -> Object:
    """Give a patch of a node whose GPUs are for something, and that lost its driver label for it."""
    config = {"nvidia.com/gpu.workload.config": value, "nvidia.com/gpu-driver-upgrade-state": None}
    changed: Object = merged(labelled(node, deploy_driver=None), {"metadata": {"labels": config}})
    return changed


def sandbox(patch: Object) -> Cluster:
    """Give a cluster with sandbox workloads: one container node, and one of another kind without pods of ours."""
    found = stale("gpu-0", "gpu-1").change("policy", SANDBOX).change("node", patch, "gpu-1")
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade-state": None}}})
    found.change("daemonset", "status: {desiredNumberScheduled: 1, updatedNumberScheduled: 1}")
    return found.drop("driver-pod", "driver-gpu-1").drop("plugin-pod", "plugin-gpu-1")


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(workload("vm-passthrough"), Reason.VIRTUAL_MACHINE_NODE, id="passed-through"),
        pytest.param(workload("vm-vgpu"), Reason.VIRTUAL_MACHINE_NODE, id="vgpu"),
        pytest.param(workload("container"), Reason.DRIVER_NOT_DEPLOYED, id="container-without-a-driver"),
        pytest.param(labelled("gpu-1", deploy_driver=None), Reason.DRIVER_NOT_DEPLOYED, id="by-the-policys-default"),
        pytest.param(labelled("gpu-1", deploy_driver="pre-installed"), Reason.HOST_DRIVER, id="host-driver"),
    ],
)
def test_a_node_without_a_driver_for_containers_is_left_out(patch: Object, expected: Reason) -> None:
    """With the reason; the container node beside it is served."""
    decision, _memory = sandbox(patch).decide()
    assert {"gpu-0": (NodeState.STALE, Reason.PLUGIN_STALE), "gpu-1": (NodeState.EXCLUDED, expected)} == {
        one.node: (one.state, one.reason) for one in decision.statuses
    }


def test_the_reason_names_what_the_gpus_are_for() -> None:
    """A person sees the label that decided."""
    message = sandbox(workload("vm-vgpu")).decide()[0].statuses[1].message
    assert "nvidia.com/gpu.workload.config=vm-vgpu" in message


def test_labels_are_gone_everywhere_and_nobody_rotates() -> None:
    """Sandbox workloads turn the upgrade controller off: an outdated container node waits for a person."""
    found = sandbox(workload("vm-vgpu")).change("driver-pod", OLD_HASH).put("plugin-pod", plugin_pod("gpu-0"))
    judged = found.decide()[0].statuses[0]
    assert (NodeState.EXCLUDED, Reason.MANUAL_UPGRADE) == (judged.state, judged.reason)
    assert "sandbox workloads" in judged.message


def test_a_driver_that_still_runs_on_such_a_node_is_not_touched() -> None:
    """It is on its way out, and so is the plugin."""
    found = stale("gpu-0", "gpu-1").change("policy", SANDBOX).change("node", workload("vm-passthrough"), "gpu-1")
    decision, _memory = found.decide()
    assert Reason.VIRTUAL_MACHINE_NODE is decision.statuses[1].reason
    assert ["gpu-0"] == [one.node for one in decision.actions if hasattr(one, "node")]


def test_only_virtual_machine_nodes_leave_nothing_to_do() -> None:
    """There is no driver on any of them."""
    found = sandbox(workload("vm-vgpu")).drop("node", "gpu-0").drop("driver-pod").drop("plugin-pod")
    decision, _memory = found.change("daemonset", "status: {desiredNumberScheduled: 0}").decide()
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (decision.phase, decision.reason)
    assert "virtual machines" in decision.message
