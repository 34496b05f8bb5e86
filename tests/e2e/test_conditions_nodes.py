"""Nodes in every state that a fleet has on a bad day: who is served, who is left alone, and why."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NEW

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

SKIP = "nvidia.com/gpu-driver-upgrade.skip"
GPU = "feature.node.kubernetes.io/pci-10de.present"
GONE_SOON = ("advanced.notReadyGrace=5s", "advanced.policyGrace=3s")
"""How long a NotReady node is waited for (five minutes by default), and the policy that is not ready because of it."""


def _cordon(lab: Lab, node: str, *, cordoned: bool) -> None:
    lab.cluster.patch(f"{acts.NODES}/{node}", {"spec": {"unschedulable": cordoned or None}})


def _lose(lab: Lab, node: str) -> None:
    """Cut a node off, and wait until the control plane has noticed."""
    lab.annotate(node, "outage", "true")
    lab.until(lambda: not acts.is_ready(lab, node), f"{node} is lost", acts.PATIENCE)


def test_a_mixed_fleet(boot: Callable[..., Lab]) -> None:
    """Skipped, lost, host-driven, without a plugin for a taint: left alone or nothing to do; the others are served.

    One that a person cordoned before is upgraded and served like any other, and stays cordoned. What was left
    alone is served by the next run, once it can be.
    """
    lab = boot(6)
    taint = [{"key": "nvidia.com/gpu", "value": "reserved", "effect": "NoSchedule"}]
    lab.cluster.patch(f"{acts.NODES}/gpu-4", {"spec": {"taints": taint}})
    acts.set_labels(lab, "gpu-5", {"nvidia.com/gpu.deploy.driver": "pre-installed"})
    lab.operator(**ALL_AT_ONCE)
    lab.plugin(kubeletPlugin__tolerations=[{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}])
    lab.until(lambda: lab.serving_on() == {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, "four plugins run", acts.PATIENCE)
    lab.until(lambda: acts.upgrade_state(lab, "gpu-3") == "upgrade-done", "the labels are quiet", acts.PATIENCE)
    acts.set_labels(lab, "gpu-1", {SKIP: "true"})
    _cordon(lab, "gpu-3", cordoned=True)
    lab.began = time.time()
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: acts.migrated(lab, 4), "all but the skipped one are upgraded", acts.PATIENCE)
    _lose(lab, "gpu-2")
    done = acts.run(lab, *GONE_SOON)
    assert done.phase == ("Done", "Refreshed", 0), done.said
    assert done.reasons() == {"gpu-1": "NodeSkipped", "gpu-2": "NodeNotReady", "gpu-5": "HostDriver"}
    assert lab.cluster.get(f"{acts.NODES}/gpu-3")["spec"]["unschedulable"]
    assert lab.restarts() == ["gpu-0", "gpu-3"]
    assert lab.truth.stale_now() == ("gpu-2",)

    lab.annotate("gpu-2", "outage", None)
    acts.set_labels(lab, "gpu-1", {SKIP: None})
    lab.until(lambda: acts.migrated(lab, 5), "the skipped one is upgraded too", acts.PATIENCE)
    again = acts.run(lab)
    assert again.phase == ("Done", "Refreshed", 0), again.said
    assert again.reasons() == {"gpu-5": "HostDriver"}
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2", "gpu-3"])


def test_a_lost_node_freezes_the_upgrade(boot: Callable[..., Lab]) -> None:
    """The upgrade controller moves no node while one with a driver pod is lost: out of time; it goes on without it."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    _lose(lab, "gpu-1")
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: lab.rendered(NEW), "the DaemonSet asks for the new driver", acts.PATIENCE)
    late = acts.run(lab, *GONE_SOON, "stallTimeout=8s")
    assert late.phase == ("Deadline", "Stalled", 124), late.said
    assert late.reasons() == {"gpu-0": "DriverOutdated"}
    assert "NodeNotReady" in late.said
    lab.assert_clean([])
    acts.remove_node(lab, "gpu-1")
    done = acts.run(lab)
    assert done.phase == ("Done", "Refreshed", 0), done.said
    lab.assert_clean(["gpu-0"])


def test_a_cordoned_node_that_eats_the_limit(boot: Callable[..., Lab]) -> None:
    """It migrates first, and the others wait for ever: out of time, with its name as a hint; uncordoned, all go on."""
    lab = boot(3)
    one: dict[str, Any] = {
        "driver__upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": 1}
    }
    lab.fleet(nodes=3, **one)
    _cordon(lab, "gpu-1", cordoned=True)
    lab.operator(driver=NEW, **one)
    late = acts.run(lab, "stallTimeout=8s")
    assert late.phase == ("Deadline", "Stalled", 124), late.said
    assert set(late.reasons().values()) <= {"DriverOutdated", "UpgradeInProgress"}
    assert late.reasons().keys() == {"gpu-0", "gpu-2"}
    assert any("gpu-1" in warning and "maxUnavailable" in warning for warning in late.story["warnings"])
    lab.assert_clean(["gpu-1"])
    _cordon(lab, "gpu-1", cordoned=False)
    done = acts.run(lab)
    assert done.phase == ("Done", "Refreshed", 0), done.said
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_a_node_that_is_lost_in_the_middle(boot: Callable[..., Lab]) -> None:
    """While its driver reloads a node falls silent: the run waits, and serves it once when it is back."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.knobs(driver_install_seconds=6)
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    hook = acts.begin(lab)
    lab.until(lambda: acts.happened(lab, "driver-unloaded", "gpu-1", lab.began), "gpu-1 reloads", acts.PATIENCE)
    _lose(lab, "gpu-1")
    lab.until(lambda: "gpu-0" in lab.restarts(), "the other one is served meanwhile", acts.PATIENCE)
    assert not hook.over
    lab.annotate("gpu-1", "outage", None)
    done = hook.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    lab.assert_clean(["gpu-0", "gpu-1"])


def test_labels_that_vanish(boot: Callable[..., Lab]) -> None:
    """Node feature discovery is down for a moment: drivers and plugins go, and come back; the run waits for them."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.knobs(driver_install_seconds=8)
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    hook = acts.begin(lab)
    lab.until(lambda: acts.happened(lab, "driver-unloaded", "gpu-1", lab.began), "gpu-1 reloads", acts.PATIENCE)
    acts.set_labels(lab, "gpu-1", {GPU: None})
    present = {"labelSelector": "nvidia.com/gpu.present=false"}
    lab.until(lambda: bool(lab.cluster.list(acts.NODES, **present)), "the operator took its labels away", acts.PATIENCE)
    lab.until(lambda: "gpu-0" in lab.restarts(), "the other one is served meanwhile", acts.PATIENCE)
    acts.set_labels(lab, "gpu-1", {GPU: "true"})
    lab.until(lambda: acts.migrated(lab, 2), "both run the new driver", acts.PATIENCE)
    told = hook.told()
    assert told.code == 0, told.said
    assert told.story["counts"] == {"Verified": 2}
    assert lab.truth.stale_now() == ()
    assert lab.serving_on() == {"gpu-0", "gpu-1"}


def test_nodes_that_come_and_go(boot: Callable[..., Lab]) -> None:
    """One leaves and one joins in the middle, then all leave, then one joins: nothing hangs, nothing is needless."""
    lab = boot(3)
    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.knobs(driver_install_seconds=6)
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    hook = acts.begin(lab)
    lab.until(lambda: acts.happened(lab, "driver-unloaded", "gpu-2", lab.began), "gpu-2 reloads", acts.PATIENCE)
    acts.remove_node(lab, "gpu-2")
    acts.add_node(lab, "gpu-9")
    done = hook.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    assert lab.truth.loaded_now() == {"gpu-0": NEW, "gpu-1": NEW, "gpu-9": NEW}
    lab.assert_clean(["gpu-0", "gpu-1"])

    for node in ("gpu-0", "gpu-1", "gpu-9"):
        acts.remove_node(lab, node)
    lab.until(lambda: lab.truth.nodes == (), "no node is left", acts.PATIENCE)
    empty = acts.run(lab)
    assert empty.phase == ("Skip", "NoEligibleNode", 0), empty.said

    acts.add_node(lab, "gpu-10")
    lab.until(lambda: lab.serving_on() == {"gpu-10"}, "the new node serves", acts.PATIENCE)
    full = acts.run(lab)
    assert full.phase == ("Done", "NothingStale", 0), full.said
    lab.assert_clean(["gpu-0", "gpu-1"])
