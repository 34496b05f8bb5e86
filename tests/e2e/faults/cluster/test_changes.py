"""The world goes on while a run is under way: other leaders, other drivers, other hooks."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.e2e.acts import PATIENCE, migrated
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, OLD, QUICK

if TYPE_CHECKING:
    from tests.e2e.faults.cluster.ground import Ground

pytestmark = pytest.mark.e2e

NODES = 2
THIRD: Final = "590.48.01"
QUIET_SECONDS: Final = 3
"""As `QUICK` has it."""
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/53822513.nvidia.com"
OPERATOR: Final = "app.kubernetes.io/component=gpu-operator"
ONE_BY_ONE: Final[dict[str, Any]] = {
    "driver__upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "100%"}
}
RELEASES: Final = (("gpu-operator-post", NAMESPACE), ("another", NAMESPACE), ("gpu-operator-post", "elsewhere"))


def _one_served(ground: Ground) -> None:
    """Wait until the first of the plugins is restarted."""
    ground.until(lambda: bool(ground.restarts()), "the first plugin is restarted", PATIENCE)


def test_another_leader(ground: Ground) -> None:
    """The operator's pod is replaced: done is said only when the next leader was quiet for a while."""
    ground.operator(driver=OLD, **ONE_BY_ONE)
    run = ground.begin()
    _one_served(ground)
    before = ground.cluster.get(LEASE)["spec"]["holderIdentity"]
    ground.cluster.kubectl("delete", "pod", "-n", NAMESPACE, "-l", OPERATOR, "--wait=false")
    done = run.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    lease = ground.cluster.get(LEASE)["spec"]
    assert lease["holderIdentity"] not in ("", before)
    acquired = datetime.fromisoformat(lease["acquireTime"]).timestamp()
    assert run.message.stat().st_mtime - acquired >= QUIET_SECONDS
    assert migrated(ground, NODES, OLD)
    ground.assert_clean(ground.nodes)


@pytest.mark.parametrize("then", [THIRD, NEW], ids=["upgraded-again", "rolled-back"])
def test_another_driver_in_the_middle(ground: Ground, then: str) -> None:
    """After the first node was served, and before the second could be, the driver is replaced again on both.

    Done is the last driver's, on every node; each plugin is restarted once for each driver that became ready under it.
    """
    ground.annotate("gpu-1", "driver-fault", "unready")
    try:
        ground.operator(driver=OLD, **ALL_AT_ONCE)
        run = ground.begin()
        _one_served(ground)
        ground.operator(driver=then, **ALL_AT_ONCE)
        ground.until(lambda: ground.rendered(then), "the DaemonSet asks for the last driver", PATIENCE)
    finally:
        ground.annotate("gpu-1", "driver-fault", None)
    done = run.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    assert migrated(ground, NODES, then)
    ground.assert_clean(["gpu-0", "gpu-0", "gpu-1"])


@pytest.mark.parametrize("pods_stay", [False, True], ids=["with-its-pods", "without-them"])
def test_driver_daemonset_replaced(ground: Ground, *, pods_stay: bool) -> None:
    """Its pods go, and every driver is loaded anew: all are served again. Adopted, they are the same drivers."""
    ground.spoil()
    run = ground.begin(f"expect.driverVersion={NEW}", "advanced.operatorQuiet=10s")
    ground.until(lambda: ground.restarts() == ground.nodes, "both were restarted", PATIENCE)
    how = ["--cascade=orphan"] if pods_stay else []
    component = "app.kubernetes.io/component=nvidia-driver"
    ground.cluster.kubectl("delete", "daemonset", "-n", NAMESPACE, "-l", component, *how)
    done = run.told()
    assert done.phase == ("Done", "Refreshed", 0), done.said
    assert migrated(ground, NODES, NEW)
    ground.assert_clean(ground.nodes if pods_stay else sorted(ground.nodes * 2))


def test_three_releases_at_once(ground: Ground) -> None:
    """Two in one namespace, one in another: each has its own rights, all succeed, and no plugin is restarted twice."""
    ground.spoil()
    hurry = f"--set={','.join(QUICK)}"
    hooks = [ground.deploy(name, namespace, hurry) for name, namespace in RELEASES]
    try:
        for hook in hooks:
            deployed = ground.deployed(hook)
            assert deployed.code == 0, deployed.output
    finally:
        for name, namespace in RELEASES:
            ground.cluster.helm("uninstall", name, "-n", namespace, "--ignore-not-found")
    ground.assert_clean(ground.nodes)
