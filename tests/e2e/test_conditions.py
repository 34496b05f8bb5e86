"""Nodes, drivers and plugins in every state that a fleet has on a bad day: what is refreshed, what is left, and why."""

from __future__ import annotations

import time
from typing import Any, Final

from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NEW, OLD, Boot, Lab

SKIP: Final = "nvidia.com/gpu-driver-upgrade.skip"
GPU: Final = "feature.node.kubernetes.io/pci-10de.present"
BOTH: Final = ["gpu-0", "gpu-1"]
GONE_SOON: Final = ("nodeTimeout=5s", "advanced.policyGrace=3s")
"""How long a NotReady node is waited for (five minutes by default), and the policy that is not ready because of it."""
ONE_BY_ONE: Final[dict[str, Any]] = {
    "driver__upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": 1}
}


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


def test_nodes_that_keep_an_upgrade_from_moving(boot: Boot) -> None:
    """A cordoned node uses up the limit, then a lost one freezes the upgrade: exit 124, and the cause is named.

    The cordoned node is upgraded first. Once each cause is gone, the next run completes.
    """
    lab = boot(3)
    lab.fleet(nodes=3, **ONE_BY_ONE)
    lab.cluster.kubectl("cordon", "gpu-1")
    lab.operator(driver=NEW, **ONE_BY_ONE)
    # What its reload takes is not the run's time.
    lab.until(lambda: acts.upgraded(lab, 1), "one node runs the new driver", acts.PATIENCE)
    lab.until(lambda: acts.upgrade_state(lab, "gpu-1") == "upgrade-done", "its label is quiet", acts.PATIENCE)
    late = acts.run(lab, timeout="30s").assert_phase("Deadline", "TimeUp")
    assert set(late.reasons().values()) <= {"DriverOutdated", "UpgradeRequired"}
    assert late.reasons().keys() == {"gpu-0", "gpu-2"}
    assert any("gpu-1" in warning and "maxUnavailable" in warning for warning in late.story["warnings"])
    lab.assert_clean(["gpu-1"])
    lab.cluster.kubectl("uncordon", "gpu-1")
    acts.refresh(lab, ["gpu-0", "gpu-1", "gpu-2"])
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "the labels are quiet", acts.PATIENCE)

    lab.began = time.time()
    _lose(lab, "gpu-1")
    lab.operator(driver=OLD, **ALL_AT_ONCE)
    lab.until(lambda: lab.rendered(OLD), "the DaemonSet asks for the other driver", acts.PATIENCE)
    late = acts.run(lab, *GONE_SOON, timeout="30s").assert_phase("Deadline", "TimeUp")
    assert late.reasons() == {"gpu-0": "DriverOutdated", "gpu-2": "DriverOutdated"}
    assert "NodeNotReady" in late.said
    lab.assert_clean([])
    acts.remove_node(lab, "gpu-1")
    acts.refresh(lab, ["gpu-0", "gpu-2"])


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
    told = hook.told()
    assert told.code == 0, told.said
    assert told.story["counts"] == {"Verified": 4}
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


def test_a_failed_upgrade(boot: Boot) -> None:
    """A crash loop becomes upgrade-failed: the others are refreshed, then exit 3; once it clears, it is refreshed."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "driver-fault", "crash-loop")
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: acts.upgrade_state(lab, "gpu-1") == "upgrade-failed", "the upgrade has failed", acts.PATIENCE)
    failed = acts.run(lab, "nodeTimeout=6s")
    assert (failed.story["phase"], failed.code) == ("Fail", 3), failed.said
    assert failed.reasons() == {"gpu-1": "UpgradeFailed"}
    assert "upgrade-required --overwrite" in failed.said
    lab.assert_clean(["gpu-0"])
    hook = acts.begin(lab)
    lab.annotate("gpu-1", "driver-fault", None)
    hook.told().assert_phase("Done", "Refreshed")
    lab.assert_clean(BOTH)


def test_drivers_that_do_not_come(boot: Boot) -> None:
    """On a fresh install one driver is Pending, one cannot be pulled: their plugins wait in their init containers."""
    lab = boot(3)
    faults = {"gpu-1": "pending", "gpu-2": "image-pull"}
    for node, fault in faults.items():
        lab.annotate(node, "driver-fault", fault)
    lab.operator(**ALL_AT_ONCE)
    lab.plugin()
    lab.until(lambda: lab.serving_on() == {"gpu-0"}, "one plugin runs", acts.PATIENCE)
    late = acts.run(lab, timeout="60s").assert_phase("Deadline", "TimeUp")
    assert late.reasons() == {"gpu-1": "DriverNotReady", "gpu-2": "DriverFailing"}
    for node in faults:
        lab.annotate(node, "driver-fault", None)
    acts.refresh(lab, [])
