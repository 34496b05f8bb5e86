"""Every way in which the GPU operator can own a driver: what is refreshed, what is excluded, and what is reported."""

from __future__ import annotations

import time
from typing import Any

import yaml

from devcluster.boot.layout import CHECKOUT
from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, OLD, PLUGIN_NAME, PLUGIN_NAMESPACE, Boot
from tests.promises import promised

BOTH = ["gpu-0", "gpu-1"]
NFD = "feature.node.kubernetes.io/"
EVICTION = "nvidia.com/dra-kubelet-plugin"
OBJECTS: dict[str, Any] = {"driver__nvidiaDriverCRD__enabled": True, **ALL_AT_ONCE}
MANUAL: dict[str, Any] = {"driver__upgradePolicy": {"autoUpgrade": False}}


def test_handed_over_to_driver_objects(boot: Boot) -> None:
    """ClusterPolicy to NVIDIADriver: no DaemonSet, then orphans next to Pending pods; each plugin is restarted once."""
    lab = boot(2)
    modern = {"simulate__behaviour": "26.7"}
    lab.fleet(nodes=2, **ALL_AT_ONCE, **modern)
    lab.operator(driver=NEW, **OBJECTS, **modern)
    acts.post(lab).assert_phase("Done", "Refreshed")
    assert set(lab.truth.loaded_now().values()) == {NEW}
    lab.assert_clean(BOTH)


def test_pools_of_driver_objects(boot: Boot) -> None:
    """Two versions side by side, and an object without nodes: only the pool that moves is refreshed."""
    # Before 26.7 the policy says ready as soon as it has handed the driver over, whatever the pools do.
    lab = boot(3)
    acts.set_labels(lab, "gpu-2", {"pool": "b"})
    for node in BOTH:
        acts.set_labels(lab, node, {"pool": "a"})

    def pools(version: str) -> dict[str, Any]:
        drivers = {
            "a": {"nodeSelector": {"pool": "a"}},
            "b": {"nodeSelector": {"pool": "b"}, "version": version},
            "idle": {"nodeSelector": {"pool": "nowhere"}, "version": "1.2.3"},
        }
        return {"driver__nvidiaDriverCRD__drivers": drivers, "driver__nvidiaDriverCRD__deployDefaultCR": False}

    lab.fleet(nodes=3, **OBJECTS, **pools("570.172.08"))
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "the labels are quiet", acts.PATIENCE)
    lab.operator(**OBJECTS, **pools(NEW))
    assert lab.policy_state() == "ready"
    acts.run(lab, f"expect.driverVersion={NEW}").assert_phase("Done", "Refreshed")
    assert lab.truth.loaded_now() == {"gpu-0": OLD, "gpu-1": OLD, "gpu-2": NEW}
    lab.assert_clean(["gpu-2"])


def test_precompiled_with_another_kernel(boot: Boot) -> None:
    """A node that boots another kernel gets another DaemonSet; its label stays upgrade-done all the time."""
    lab = boot(2)
    lab.operator(driver="580", driver__usePrecompiled=True, **ALL_AT_ONCE)
    lab.plugin()
    lab.until(lambda: lab.serving() == 2, "both plugins run", acts.PATIENCE)
    lab.began = time.time()
    acts.set_labels(lab, "gpu-1", {NFD + "kernel-version.full": "6.8.0-90-generic"})
    lab.until(lambda: acts.happened(lab, "driver-ready", "gpu-1", lab.began), "it has another driver", acts.PATIENCE)
    assert lab.label_states() == {"upgrade-done"}
    acts.refresh(lab, ["gpu-1"])


def test_gpu_cluster(boot: Boot) -> None:
    """The operator's own plugin is drained with the driver by the driver manager: skipped, never touched."""
    lab = boot(2)
    own = {"gpuCluster__deployCR": True, "simulate__behaviour": "26.7", **OBJECTS}
    lab.operator(chart="v26.7.0", **own)
    lab.until(lambda: lab.serving_on() == set(BOTH), "both plugins run", acts.PATIENCE)
    lab.began = time.time()
    lab.operator(chart="v26.7.0", driver=NEW, **own)
    acts.run(lab).assert_phase("Skip", "OperatorManagedPlugin")
    lab.until(lambda: acts.upgraded(lab, 2) and lab.serving_on() == set(BOTH), "both are upgraded", acts.PATIENCE)
    assert sorted(each.node for each in lab.truth.drains(since=lab.began)) == BOTH
    lab.assert_clean([])


def test_evicted_by_the_driver_manager(boot: Boot) -> None:
    """The driver manager takes the plugin away before the reload: it is found fresh, and nothing is restarted."""
    # A node without the label has no plugin, and the run warns.
    lab = boot(3)
    wired = {"driver__manager__env": [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": EVICTION}]}
    modern = {"simulate__behaviour": "26.7", **wired, **ALL_AT_ONCE}
    for node in BOTH:
        acts.set_labels(lab, node, {EVICTION: "true"})
    lab.operator(**modern)
    lab.plugin(kubeletPlugin__nodeSelector={EVICTION: "true"})
    lab.until(lambda: acts.upgraded(lab, 3, OLD) and lab.serving_on() == set(BOTH), "up", acts.PATIENCE)
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "the labels are quiet", acts.PATIENCE)
    lab.began = time.time()
    lab.operator(driver=NEW, **modern)
    done = acts.run(lab).assert_phase("Done", "NothingStale")
    assert any("gpu-2" in warning and EVICTION in warning for warning in done.story["warnings"])
    assert sorted(each.node for each in lab.truth.drains(since=lab.began)) == BOTH
    lab.assert_clean([])


def test_upgraded_by_hand(boot: Boot) -> None:
    """With autoUpgrade off outdated nodes are reported, waited for or failed; those rotated by hand are refreshed."""
    lab = boot(2)
    lab.fleet(nodes=2, **MANUAL)
    lab.operator(driver=NEW, **MANUAL)
    lab.until(lambda: lab.rendered(NEW), "the DaemonSet asks for the new driver", acts.PATIENCE)
    acts.delete_driver(lab, "gpu-0")
    assert acts.run(lab).assert_phase("Done", "Refreshed").reasons() == {"gpu-1": "ManualUpgrade"}
    lab.assert_clean(["gpu-0"])

    acts.run(lab, "onManualUpgrade=fail").assert_phase("Fail", "ManualUpgrade")

    waiting = acts.begin(lab, "onManualUpgrade=wait")
    acts.delete_driver(lab, "gpu-1")
    waiting.result().assert_phase("Done", "Refreshed")
    lab.assert_clean(BOTH)


def test_other_driver_clients(boot: Boot) -> None:
    """A DaemonSet that is named, and each that has labels which we document, is kept fresh; no other is."""
    block = (CHECKOUT / "docs" / "driver-clients.md").read_text().partition("```yaml\n")[2].partition("```")[0]
    documented = yaml.safe_load(block)["driverClients"]
    names = ["named", *(each["labels"]["app.kubernetes.io/name"] for each in documented)]
    lab = boot(2)
    lab.operator(**ALL_AT_ONCE)
    lab.until(lambda: acts.upgraded(lab, 2, OLD), "the drivers are there", acts.PATIENCE)
    lab.plugin()
    for name in (*names, "unnamed"):
        lab.exporter(release=name, name=name, podLabels={"app.kubernetes.io/instance": "another"})
    pods = 2 * (len(names) + 1)
    lab.until(lambda: (lab.serving(), lab.ready_pods("monitoring")) == (2, pods), "all of them run", acts.PATIENCE)
    lab.began = time.time()
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    lab.until(lambda: acts.upgraded(lab, 2), "both run the new driver", acts.PATIENCE)
    by_name = {"namespace": "monitoring", "name": "named"}
    acts.post(lab, driverClients=[by_name, *documented]).assert_phase("Done", "Refreshed")
    truth = lab.truth
    for name in (f"{PLUGIN_NAMESPACE}/{PLUGIN_NAME}", *(f"monitoring/{name}" for name in names)):
        assert sorted(each.node for each in truth.restarts(name, since=lab.began)) == BOTH
        with promised():
            assert truth.stale_now(name) == ()
    assert list(truth.stale_now("monitoring/unnamed")) == BOTH
    with promised():
        assert truth.early_restarts(since=lab.began) == truth.needless_restarts(since=lab.began) == ()


def test_a_replaced_container_toolkit(boot: Boot) -> None:
    """It counts only where it is asked for: then a plugin that started before it is restarted, once."""
    lab = boot(1)
    lab.operator(toolkit__enabled=True)
    lab.until(lambda: acts.happened(lab, "toolkit-ready", "gpu-0", 0), "the toolkit is installed", acts.PATIENCE)
    lab.plugin()
    lab.until(lambda: lab.serving() == 1, "the plugin runs", acts.PATIENCE)
    lab.began = time.time()
    lab.cluster.kubectl("delete", "pod", f"-n{NAMESPACE}", "-lapp=nvidia-container-toolkit-daemonset", "--wait=false")
    lab.until(lambda: acts.happened(lab, "toolkit-ready", "gpu-0", lab.began), "it is replaced", acts.PATIENCE)
    assert lab.truth.behind_now() == ("gpu-0",)
    acts.refresh(lab, [])
    acts.post(lab, refreshAfter=["toolkit"]).assert_phase("Done", "Refreshed")
    assert lab.truth.behind_now() == ()
    lab.assert_clean(["gpu-0"])
