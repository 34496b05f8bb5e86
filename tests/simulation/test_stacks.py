"""The simulated operator's other modes on a real control plane, as far as no test of the program needs them seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from devcluster.cluster import Cluster
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, PLUGIN_NAMESPACE, Lab

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

NODES = ("gpu-0", "gpu-1")
EVICTION = "nvidia.com/dra-kubelet-plugin"
WIRED: dict[str, Any] = {
    "driver__manager__env": [{"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": EVICTION}],
    **ALL_AT_ONCE,
}


def test_drained_by_a_label_then_handed_over(tmp_path: Path) -> None:
    """The driver-manager takes a labelled plugin away before it unloads; a switch to driver objects leaves orphans."""
    with Cluster(tmp_path / "state") as cluster:
        cluster.up(nodes=2, fleet=True)
        lab = Lab(cluster)
        cluster.kubectl("label", "node", *NODES, f"{EVICTION}=true")
        lab.operator(**WIRED)
        lab.plugin(kubeletPlugin__nodeSelector={EVICTION: "true"})
        lab.until(lambda: lab.serving() == 2, "both plugins run", 90)
        lab.until(lambda: lab.label_states() == {"upgrade-done"}, "the labels are quiet")
        lab.operator(driver=NEW, **WIRED)
        lab.until(lambda: lab.settled(2) and lab.serving() == 2, "both nodes run the new driver", 90)
        assert sorted(each.node for each in lab.truth.drains()) == list(NODES)
        assert not lab.truth.restarts()
        assert not lab.truth.stale_now()

        lab.knobs(driver_unload_seconds=3)
        old = {each["metadata"]["uid"] for each in _driver_pods(lab)}
        lab.operator(driver="580.126.21", driver__nvidiaDriverCRD__enabled=True, **ALL_AT_ONCE)
        lab.until(lambda: _beside_orphans(lab, old), "new pods are Pending beside pods that nobody owns", 60)
        lab.until(lambda: set(lab.truth.loaded_now().values()) == {"580.126.21"}, "the orphans are replaced", 90)
        assert sorted(lab.truth.stale_now(f"{PLUGIN_NAMESPACE}/dra-driver-nvidia-gpu-kubelet-plugin")) == list(NODES)


def _driver_pods(lab: Lab) -> list[Any]:
    component = "app.kubernetes.io/component=nvidia-driver"
    return lab.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=component)


def _beside_orphans(lab: Lab, old: set[str]) -> bool:
    """Tell whether an old pod without an owner is there together with one that waits for its node."""
    pods = _driver_pods(lab)
    orphans = [pod for pod in pods if pod["metadata"]["uid"] in old and not pod["metadata"].get("ownerReferences")]
    waiting = [pod for pod in pods if pod["metadata"]["uid"] not in old and pod["status"]["phase"] == "Pending"]
    return bool(orphans) and bool(waiting)
