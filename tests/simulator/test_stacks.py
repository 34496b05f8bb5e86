"""The simulated operator's other modes on a real control plane, as far as no test of the program needs them seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from devcluster.cluster import Cluster
from tests.e2e.lab import ALL_AT_ONCE, NEW, PLUGIN_NAMESPACE, Lab
from tests.simulator.history import DRIVERS, recorded

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

        with recorded(cluster, *DRIVERS) as events:
            lab.until(lambda: len(events()) >= len(NODES), "the watch has begun", 60)
            lab.operator(driver="580.126.21", driver__nvidiaDriverCRD__enabled=True, **ALL_AT_ONCE)
            lab.until(lambda: set(lab.truth.loaded_now().values()) == {"580.126.21"}, "the orphans are replaced", 90)
            assert _beside_orphans(events())
        assert sorted(lab.truth.stale_now(f"{PLUGIN_NAMESPACE}/dra-driver-nvidia-gpu-kubelet-plugin")) == list(NODES)


def _beside_orphans(events: list[Any]) -> bool:
    """Whether a pod without an owner was there together with one that waited for its node."""
    orphans: set[str] = set()
    for each in events:
        pod = each["object"]
        if not pod["metadata"].get("ownerReferences"):
            orphans.add(pod["metadata"]["uid"])
        if each["type"] == "DELETED":
            orphans.discard(pod["metadata"]["uid"])
        elif orphans and pod["status"]["phase"] == "Pending" and pod["metadata"]["uid"] not in orphans:
            return True
    return False
