"""Nobody rotates driver pods (autoUpgrade off): what to do about outdated ones, in each stack."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import OnManualUpgrade, Settings
from hook.decide.explain import remedy
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, stale_plugin
from tests.fixtures.modes import Pool, network, pooled, rdma_pod
from tests.fixtures.objects import Object, parsed

OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"
OFF: Object = {"upgradePolicy": {"autoUpgrade": False}}
UNLABELLED = parsed(
    "metadata: {labels: {nvidia.com/gpu-driver-upgrade-state: null, nvidia.com/ofed-driver-upgrade-state: null}}"
)


def gpu() -> Cluster:
    """Give two GPU nodes: the first was rotated by hand and has a stale plugin, the second is outdated."""
    found = cluster("a", "b").change("policy", {"spec": {"driver": OFF}}).put("plugin-pod", stale_plugin("a"))
    return found.change("driver-pod", OLD_HASH, "driver-b").change("node", UNLABELLED)


def pools() -> Cluster:
    """Give the same in NVIDIADriver mode."""
    found = pooled(Pool(nodes=("a", "b"))).change("policy", {"spec": {"driver": OFF}})
    found.put("plugin-pod", stale_plugin("a"))
    return found.change("driver-pod", OLD_HASH, "driver-b").change("node", UNLABELLED)


def nic() -> Cluster:
    """Give the same of the network operator, whose default it is."""
    found = network("a", "b").change("policy", "spec: {ofedDriver: {upgradePolicy: null}}")
    found.put("plugin-pod", rdma_pod("a", started=-99))
    return found.change("driver-pod", OLD_HASH, "mofed-b").change("node", UNLABELLED)


MODES = {"gpu": gpu, "pools": pools, "network": nic}


def asking(found: Cluster, when: OnManualUpgrade) -> Settings:
    """Give settings for a cluster's stack."""
    return Settings(drivers=(found.stack.name,), on_manual_upgrade=when)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("when", OnManualUpgrade)
def test_a_rotated_node_is_served_whatever_becomes_of_the_others(mode: str, when: OnManualUpgrade) -> None:
    """Its driver is new and its plugin is stale; that another waits for a person does not matter."""
    found = MODES[mode]()
    decision, _memory = found.decide(asking(found, when))
    assert (Reason.PLUGIN_STALE, Reason.MANUAL_UPGRADE, Phase.WAIT, 1) == (
        *(one.reason for one in decision.statuses),
        decision.phase,
        len(decision.actions),
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("when", "state", "phase"),
    [
        pytest.param(OnManualUpgrade.REPORT, NodeState.EXCLUDED, Phase.DONE, id="report"),
        pytest.param(OnManualUpgrade.WAIT, NodeState.WAITING, Phase.WAIT, id="wait"),
        pytest.param(OnManualUpgrade.FAIL, NodeState.FAILED, Phase.FAIL, id="fail"),
    ],
)
def test_an_outdated_node_is_handled_as_asked(mode: str, when: OnManualUpgrade, state: NodeState, phase: Phase) -> None:
    """Once the rotated one is served: report and be done, wait for a person, or fail at once."""
    found = MODES[mode]()
    found.put("plugin-pod", *(cluster("a") if mode != "network" else network("a")).of("plugin-pod"))
    decision, _memory = found.decide(asking(found, when))
    assert (state, phase) == (decision.statuses[1].state, decision.phase)


@pytest.mark.parametrize("mode", MODES)
def test_the_remedy_names_the_pod_to_delete(mode: str) -> None:
    """With the operator's own reason why nobody does it."""
    found = MODES[mode]()
    judged = found.decide()[0].statuses[1]
    pod = found.of("driver-pod")[1]["metadata"]
    fix = remedy(judged.reason, judged.node, judged.subject, found.stack)
    assert "autoUpgrade is off" in judged.message
    assert fix.endswith(f"kubectl -n {pod['namespace']} delete pod {pod['name']}")


def test_waiting_for_a_person_ends_with_the_time() -> None:
    """The run cannot know whether somebody will come."""
    found = gpu().put("plugin-pod", *cluster("a").of("plugin-pod"))
    late = LATER + timedelta(minutes=25)
    decision, _memory = found.decide(asking(found, OnManualUpgrade.WAIT), Memory(started=LATER), late)
    assert (Phase.DEADLINE, Reason.NODES_PENDING) == (decision.phase, decision.cause)


AUTO: Object = {"upgradePolicy": {"autoUpgrade": True}}
NAMED: Object = {"metadata": {"labels": {"nvidia.com/gpu-operator.driver.owner": "default"}}}
SANDBOX: Object = {"sandboxWorkloads": {"enabled": True}}


@pytest.mark.parametrize(
    ("policy", "pool", "nodes", "rotates"),
    [
        pytest.param({"driver": AUTO}, {}, {}, True, id="the-policys-where-pools-have-none"),
        pytest.param({"driver": OFF}, {}, {}, False, id="off-where-pools-have-none"),
        pytest.param({"driver": OFF}, {}, NAMED, True, id="a-pool-that-decides-and-says-nothing"),
        pytest.param({"driver": AUTO}, {"upgradePolicy": {"autoUpgrade": False}}, NAMED, False, id="off-for-the-pool"),
        pytest.param({"driver": OFF}, AUTO, NAMED, True, id="on-for-the-pool"),
        pytest.param({"driver": OFF}, {"upgradePolicy": {"maxUnavailable": 1}}, {}, True, id="its-default-is-on"),
        pytest.param({"driver": OFF, **SANDBOX}, AUTO, NAMED, False, id="halted-whatever-the-pool-says"),
        pytest.param({"driver": AUTO, **SANDBOX}, {}, NAMED, False, id="halted-where-the-pool-says-nothing"),
    ],
)
def test_who_rotates_a_pool(policy: Object, pool: Object, nodes: Object, rotates: bool) -> None:
    """A pool's own policy counts from 26.7 on, where on is the default; sandbox workloads turn all of it off."""
    found = pools().change("policy", {"spec": policy}).change("pool", {"spec": pool}).change("node", nodes)
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.workload.config": "container"}}})
    reason = found.decide()[0].statuses[1].reason
    assert (reason is Reason.DRIVER_OUTDATED) is rotates
    assert (reason is Reason.MANUAL_UPGRADE) is not rotates
