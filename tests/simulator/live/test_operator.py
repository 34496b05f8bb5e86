"""The simulated operator on a real control plane: it migrates, and it lies as the real one was seen to lie."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.simulator.history import DRIVERS, recorded, versions
from tests.simulator.stage import NODES, condition, container, end_lingering

if TYPE_CHECKING:
    from tests.simulator.stage import Stage

pytestmark = pytest.mark.e2e

SKIP = "nvidia.com/gpu-driver-upgrade.skip"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
FIRST, *OTHERS = NODES


def bumped(stage: Stage, **bump: object) -> list[tuple[str, int]]:
    """Migrate to another chart, the first node before the others; return all that the policy said meanwhile.

    Each answer comes with the number of nodes whose new driver was Ready by then. The first node waits until the policy
    has answered at all, the others until it has been judged anew with the first one done.
    """
    stage.until(lambda: stage.policy_state() == "ready")
    stage.annotate(FIRST, driver_fault="pending")
    _skip(stage, "true")
    with recorded(stage.cluster, "clusterpolicies") as policies, recorded(stage.cluster, *DRIVERS) as pods:
        stage.until(lambda: policies() and len(pods()) >= len(NODES))
        asked = stage.migrate(**bump)
        stage.until(lambda: stage.policy_state() == "notReady")
        stage.annotate(FIRST, driver_fault=None)
        stage.until(lambda: stage.saw("driver-ready", FIRST, asked) and stage.states()[FIRST] == "upgrade-done")
        stage.await_judgement()
        _skip(stage, None)
        stage.calm()
        stage.until(lambda: stage.policy_state() == "ready")
        generation = stage.cluster.get(POLICY)["metadata"]["generation"]
        ready = _ready_since(stage, versions(pods())).values()
        answers = [each for each in versions(policies()) if each[1]["metadata"]["generation"] == generation]
    told = [(policy["status"]["state"], sum(one < at for one in ready)) for at, policy in answers]
    return [answer for answer, before in zip(told, [None, *told], strict=False) if answer != before]


def _skip(stage: Stage, value: str | None) -> None:
    for node in OTHERS:
        stage.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {SKIP: value}}})


def _ready_since(stage: Stage, pods: list[tuple[int, Any]]) -> dict[str, int]:
    """Return when each node's driver pod of the version that was asked for became Ready."""
    found: dict[str, int] = {}
    for at, pod in pods:
        if stage.version in pod["spec"]["containers"][0]["image"] and condition(pod, "Ready")[0] == "True":
            found.setdefault(pod["spec"]["nodeName"], at)
    return found


def test_26_3_says_ready_after_the_first_node_of_a_chart_bump(stage: Stage) -> None:
    """Old news first, then notReady, then ready although two nodes have the old driver."""
    seen = bumped(stage, chartVersion="v26.3.4")
    assert [("ready", 0), ("notReady", 0), ("ready", 1)] == seen[:3]
    assert ("ready", 3) == seen[-1]


def test_26_7_says_ready_after_all(stage: Stage) -> None:
    """Only the old news lies."""
    stage.operator(simulate__behaviour="26.7", chartVersion="v26.7.0")
    stage.calm()
    seen = bumped(stage, simulate__behaviour="26.7", chartVersion="v26.7.1")
    assert [("ready", 0), ("notReady", 0)] == seen[:2]
    assert {("ready", 0), ("ready", 3)} == {answer for answer in seen if answer[0] == "ready"}
    assert ("ready", 3) == seen[-1]


def test_an_operator_that_lingers_rotates_twice(stage: Stage) -> None:
    """The old one renders the new chart's intent first; the new one renders it again, otherwise."""
    stage.operator(simulate__oldOperatorLingers=True, simulate__handoverSeconds=600)
    stage.calm()
    asked = stage.migrate(chartVersion="v26.3.5")
    stage.until(lambda: all(stage.saw("driver-loaded", node, asked) for node in NODES))
    end_lingering(stage.cluster)
    stage.until(lambda: all(len(stage.saw("driver-loaded", node, asked)) == 2 for node in NODES))
    stage.calm()


def test_a_precompiled_driver_replaces_the_daemonset(stage: Stage) -> None:
    """For a while there is no driver DaemonSet; then all nodes go at once, and no label moves."""
    daemonsets = "/apis/apps/v1/namespaces/gpu-operator/daemonsets"
    stage.operator(driver__version="581", driver__usePrecompiled=True)
    stage.until(lambda: not stage.cluster.list(daemonsets))
    assert set(stage.states().values()) == {"upgrade-done"}
    (daemonset,) = stage.until(lambda: stage.cluster.list(daemonsets))
    assert daemonset["metadata"]["name"] == "nvidia-driver-daemonset-5.15.0-139-generic-ubuntu22.04"
    stage.until(lambda: set(stage.truth.loaded_now().values()) == {"581.95.05"})
    assert set(stage.states().values()) == {"upgrade-done"}
    stage.operator()
    stage.calm()


def test_without_auto_upgrade_nothing_rotates(stage: Stage) -> None:
    """The labels go, and a pod changes only when somebody deletes it."""
    asked = stage.migrate(driver__upgradePolicy__autoUpgrade=False)
    stage.until(lambda: set(stage.states().values()) == {""})
    time.sleep(3)
    assert stage.truth.since(asked) == ()
    pod = stage.drivers()["gpu-0"]
    stage.cluster.delete(f"/api/v1/namespaces/gpu-operator/pods/{pod['metadata']['name']}")
    stage.until(lambda: stage.truth.loaded_now()["gpu-0"] == stage.version)
    assert stage.truth.loaded_now()["gpu-1"] != stage.version
    stage.operator()
    stage.calm()


def test_a_crashing_driver_fails_the_node_until_it_recovers(stage: Stage) -> None:
    """upgrade-failed comes after some restarts, and clears by itself."""
    stage.annotate("gpu-0", driver_fault="crash-loop")
    stage.migrate()
    stage.until(lambda: stage.states()["gpu-0"] == "upgrade-failed")
    stage.annotate("gpu-0", driver_fault=None)
    stage.calm()


def test_an_image_that_cannot_be_pulled_leaves_the_node_without_a_driver(stage: Stage) -> None:
    """The old driver is unloaded before; other nodes go on where the limits leave room."""
    stage.annotate("gpu-0", driver_fault="image-pull")
    asked = stage.migrate()
    stage.until(lambda: all(stage.saw("driver-ready", node, asked) for node in ("gpu-1", "gpu-2")))
    (pod,) = (each for each in stage.pods_on("gpu-0") if each["metadata"]["namespace"] == "gpu-operator")
    waiting = container(pod, "nvidia-driver-ctr")["state"]["waiting"]
    assert waiting["reason"] == "ImagePullBackOff"
    assert stage.truth.loaded_now()["gpu-0"] == ""
    stage.annotate("gpu-0", driver_fault=None)
    stage.calm()


def test_a_skipped_node_stays_behind(stage: Stage) -> None:
    """It keeps its old driver and the label that says that it should not."""
    stage.cluster.patch("/api/v1/nodes/gpu-2", {"metadata": {"labels": {SKIP: "true"}}})
    asked = stage.migrate()
    stage.until(lambda: all(stage.saw("driver-ready", node, asked) for node in ("gpu-0", "gpu-1")))
    stage.until(lambda: stage.states()["gpu-0"] == "upgrade-done")
    assert stage.states()["gpu-2"] == "upgrade-required"
    assert not stage.saw("driver-unloaded", "gpu-2", asked)
    stage.cluster.patch("/api/v1/nodes/gpu-2", {"metadata": {"labels": {SKIP: None}}})
    stage.calm()


def test_a_broken_operand_keeps_the_policy_not_ready(stage: Stage) -> None:
    """Something that is none of ours; the drivers are fine."""
    stage.operator(simulate__brokenOperand=True)
    stage.until(lambda: stage.policy_state() == "notReady")
    stage.operator()
    stage.until(lambda: stage.policy_state() == "ready")


def test_the_lease_names_the_leading_pod(stage: Stage) -> None:
    """As ``<pod>_<random>``, and only one pod leads."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/gpu-operator/leases/53822513.nvidia.com"
    selector = "app.kubernetes.io/component=gpu-operator"

    def leader_is_the_only_pod() -> bool:
        pods = stage.cluster.list("/api/v1/namespaces/gpu-operator/pods", labelSelector=selector)
        holder = stage.cluster.get(lease)["spec"].get("holderIdentity", "")
        return [pod["metadata"]["name"] for pod in pods] == [holder.split("_")[0]]

    stage.until(leader_is_the_only_pod)
