"""Nodes, drivers and plugins in every state that a fleet has on a bad day: what is refreshed, what is left, and why."""

from __future__ import annotations

import time
from typing import Final

from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NEW, Boot, Lab

SKIP: Final = "nvidia.com/gpu-driver-upgrade.skip"
GPU: Final = "feature.node.kubernetes.io/pci-10de.present"
BOTH: Final = ["gpu-0", "gpu-1"]
GONE_SOON: Final = ("nodeTimeout=5s", "advanced.policyGrace=3s")
"""How long a NotReady node is waited for (five minutes by default), and the policy that is not ready because of it."""


def _lose(lab: Lab, node: str) -> None:
    """Cut a node off, and wait until the control plane has noticed."""
    lab.outage(node, True)
    lab.until(lambda: not acts.is_ready(lab, node), f"{node} is lost", acts.PATIENCE)


def test_a_mixed_fleet(boot: Boot) -> None:
    """Nodes that are skipped, lost, host-driven or tainted are excluded; the others are refreshed.

    A node that was cordoned before is upgraded and refreshed like any other, and stays cordoned. The next run refreshes
    what the first one excluded.
    """
    lab = boot(6)
    lab.cluster.kubectl("taint", "node", "gpu-4", "nvidia.com/gpu=reserved:NoSchedule", "--overwrite")
    acts.set_labels(lab, "gpu-5", {"nvidia.com/gpu.deploy.driver": "pre-installed"})
    lab.operator(**ALL_AT_ONCE)
    lab.plugin(kubeletPlugin__tolerations=[{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}])
    lab.until(lambda: lab.serving_on() == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, "four plugins run", acts.PATIENCE)
    lab.until(lambda: acts.upgrade_state(lab, "gpu-3") == "upgrade-done", "the labels are quiet", acts.PATIENCE)
    acts.set_labels(lab, "gpu-1", {SKIP: "true"})
    lab.cluster.kubectl("cordon", "gpu-3")
    lab.began = time.time()
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: acts.upgraded(lab, 4), "all but the skipped one are upgraded", acts.PATIENCE)
    _lose(lab, "gpu-2")
    done = acts.run(lab, *GONE_SOON).assert_phase("Done", "Refreshed")
    assert done.reasons() == {"gpu-1": "NodeSkipped", "gpu-2": "NodeNotReady", "gpu-5": "HostDriver"}
    assert lab.cluster.get(f"{acts.NODES}/gpu-3")["spec"]["unschedulable"]
    assert lab.restarts() == ["gpu-0", "gpu-3"]
    assert lab.truth.stale_now() == ("gpu-2",)

    lab.outage("gpu-2", False)
    acts.set_labels(lab, "gpu-1", {SKIP: None})
    lab.until(lambda: acts.upgraded(lab, 5), "the skipped one is upgraded too", acts.PATIENCE)
    again = acts.refresh(lab, ["gpu-0", "gpu-1", "gpu-2", "gpu-3"])
    assert again.reasons() == {"gpu-5": "HostDriver"}


def test_nodes_that_change_during_an_upgrade(boot: Boot) -> None:
    """One is lost and comes back, one loses its labels for a while, one leaves and one joins: the run waits for them.

    Then all nodes leave, and one joins: nothing hangs, and nothing is restarted needlessly.
    """
    lab = boot(4)
    lab.fleet(nodes=4, **ALL_AT_ONCE)
    lab.settings(driver_install_seconds=8)
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    hook = acts.begin(lab)
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        lab.until(lambda node=node: acts.happened(lab, "driver-unloaded", node, lab.began), node, acts.PATIENCE)  # type: ignore[misc]
    acts.set_labels(lab, "gpu-2", {GPU: None})
    acts.remove_node(lab, "gpu-3")
    acts.add_node(lab, "gpu-9")
    _lose(lab, "gpu-1")
    present = {"labelSelector": "nvidia.com/gpu.present=false"}
    lab.until(lambda: bool(lab.cluster.list(acts.NODES, **present)), "the operator took its labels away", acts.PATIENCE)
    lab.until(lambda: "gpu-0" in lab.restarts(), "another one is refreshed meanwhile", acts.PATIENCE)
    assert not hook.over
    lab.outage("gpu-1", False)
    acts.set_labels(lab, "gpu-2", {GPU: "true"})
    done = hook.result()
    assert done.code == 0, done.said
    assert done.story["counts"] == {"Verified": 4}
    assert lab.truth.loaded_now() == dict.fromkeys(("gpu-0", "gpu-1", "gpu-2", "gpu-9"), NEW)
    assert lab.serving_on() == {"gpu-0", "gpu-1", "gpu-2", "gpu-9"}
    assert lab.truth.stale_now() == ()
    # Without its labels a node has no plugin: its DaemonSet deletes it.
    assert [node for node in lab.restarts() if node != "gpu-2"] == BOTH

    for node in lab.truth.nodes:
        acts.remove_node(lab, node)
    lab.until(lambda: lab.truth.nodes == (), "no node is left", acts.PATIENCE)
    lab.began = time.time()
    acts.run(lab).assert_phase("Skip", "NoEligibleNode")
    acts.add_node(lab, "gpu-10")
    lab.until(lambda: lab.serving_on() == {"gpu-10"}, "the new node serves", acts.PATIENCE)
    acts.refresh(lab, [])
