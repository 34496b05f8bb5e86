"""The plan of an upgrade, and the upgrade: what was planned is what happens."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from tests.e2e import acts, identity
from tests.e2e.lab import NEW, NEW_CHART, Boot, Lab

if TYPE_CHECKING:
    from collections.abc import Callable

NODES: Final = 3
NEWEST: Final = "580.159.04"
"""Another version yet; the simulated driver takes any."""
SLACK: Final = 2.5
"""Both windows are seconds long here, and a machine may be busier during one of them."""


def pool(made: dict[str, Any]) -> dict[str, Any]:
    """Give the only pool of a plan."""
    (only,) = made["pools"]
    return dict(only)


def obstacles(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give the obstacles by name."""
    return {one["obstacle"]: one for one in pool(made)["obstacles"]}


def samples(made: dict[str, Any]) -> int:
    """Count the driver pods that tell how long their driver took."""
    return int((pool(made)["reload"]["loading"] or {"samples": 0})["samples"])


def planned_when(lab: Lab, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Plan until a plan is as it must come to be, and give it.

    The truth knows that a driver is ready a moment before its pod says so, and a busy machine's nodes may blink.
    """
    looks: list[dict[str, Any]] = []

    def look() -> bool:
        looks.append(acts.plan(lab))
        return holds(looks[-1])

    lab.until(look, "the plan is as it must be", acts.PATIENCE)
    return looks[-1]


def named(made: dict[str, Any], *names: str) -> list[list[str]]:
    """Give the nodes of obstacles."""
    seen = obstacles(made)
    return [seen[name]["nodes"] if name in seen else [] for name in names]


def upgrade(lab: Lab, version: str) -> float:
    """Upgrade every driver, and give the seconds until the upgrade controller calls the last node done."""
    began = time.time()
    lab.operator(chart=NEW_CHART, driver=version)
    lab.until(lambda: acts.upgraded(lab, NODES, version) and lab.label_states() == {"upgrade-done"}, version, 240)
    return time.time() - began


def test_the_window_that_was_planned_is_the_one_that_it_takes(boot: Boot) -> None:
    """By steps that were measured in the upgrade before; what stands in the way is named, and nothing is touched."""
    lab = boot(NODES)
    lab.fleet(nodes=NODES)
    _before_any_upgrade(lab)
    upgrade(lab, NEW)
    made = acts.plan(lab)
    reload, step = pool(made)["reload"], pool(made)["step"]
    assert (NODES, NODES, NODES - 1) == tuple(
        one["samples"] for one in (reload["loading"], reload["withUnloading"], step["measured"])
    )
    took = upgrade(lab, NEWEST)
    assert 1 / SLACK < took / made["window"]["typicalSeconds"] < SLACK
    _what_would_block(lab)


def _before_any_upgrade(lab: Lab) -> None:
    """Nothing can be known of steps yet; capacity is the device plugin's, and pods are looked at."""
    made = planned_when(lab, lambda made: obstacles(made).keys() == {"StepIsAssumed"} and samples(made) == NODES)
    assert (1, NODES, 8, 8 * NODES) == (
        pool(made)["limits"]["atOnce"],
        pool(made)["turns"],
        pool(made)["capacity"]["gpusAway"],
        pool(made)["capacity"]["gpus"],
    )
    assert {"capacity nvidia.com/gpu": NODES} == pool(made)["capacity"]["sources"]


def _what_would_block(lab: Lab) -> None:
    """Let a node be cordoned, one be skipped, and a pod be nobody's, with data of its own."""
    train = {
        "metadata": {"name": "train", "namespace": "default", "labels": {"app": "train"}},
        "spec": {
            "nodeName": "gpu-2",
            "tolerations": [{"operator": "Exists"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "containers": [{"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
    lab.cluster.create("/api/v1/namespaces/default/pods", train)
    acts.set_labels(lab, "gpu-0", {"nvidia.com/gpu-driver-upgrade.skip": "true"})
    lab.cluster.patch("/api/v1/nodes/gpu-1", {"spec": {"unschedulable": True}})
    blocking = ("LimitUsedUp", "NodesCordoned", "NodesLeftAlone", "PodsNotEvictable")
    expected = [["gpu-1"], ["gpu-1"], ["gpu-0"], ["gpu-2"]]
    seen = obstacles(planned_when(lab, lambda made: named(made, *blocking) == expected))
    assert "emptyDir" in seen["PodsNotEvictable"]["message"]
    assert "PodsNotEvictable" not in obstacles(acts.plan(lab, "--no-workloads"))
    _what_protects_a_pod(lab)


def _what_protects_a_pod(lab: Lab) -> None:
    """Let the policy give local data and stray pods up, and a PodDisruptionBudget protect one; not all may see that."""
    given_up = {"upgradePolicy": {"podDeletion": {"force": True, "deleteEmptyDir": True}}}
    lab.cluster.patch("/apis/nvidia.com/v1/clusterpolicies/cluster-policy", {"spec": {"driver": given_up}})
    assert "PodsNotEvictable" not in obstacles(acts.plan(lab))
    selector = {"matchLabels": {"app": "train"}}
    budget = {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": selector}}
    lab.cluster.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    seen = obstacles(acts.plan(lab))
    assert "PodDisruptionBudget keep" in seen["PodsNotEvictable"]["message"]
    granted = identity.charted(lab.cluster, "ClusterRole", dryRun=True)
    seeing_pods = identity.kubeconfig(lab.cluster, "planner", granted)
    made = json.loads(lab.run("plan", "-o", "json", kubeconfig=seeing_pods).out)
    assert "poddisruptionbudgets" in obstacles(made)["PodsNotRead"]["message"]
    nearly_blind = identity.kubeconfig(lab.cluster, "nobody", {right for right in granted if right.resource != "pods"})
    refused = lab.run("plan", kubeconfig=nearly_blind)
    assert (3, True) == (refused.code, "list pods" in refused.err), refused.said
