"""The world changes while a run is under way: drivers, other runs; and what it works on goes away.

What is gone may be replaced a moment later, so that nothing follows from it at once: the grace for that is minutes, and
short here.
"""

from __future__ import annotations

import time
from typing import Any, Final

from devcluster.patience import TooSlowError
from tests.e2e import acts
from tests.e2e.acts import PATIENCE, Run, upgraded
from tests.e2e.faults.cluster.ground import HOLD, LET_GO, PLUGIN, PLUGINS, Ground
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, OLD, PLUGIN_NAME, PLUGIN_NAMESPACE, QUICK
from tests.promises import promised

NODES = 2
THIRD: Final = "590.48.01"
DAEMONSETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
RELEASES: Final = (("gpu-operator-post", NAMESPACE), ("another", NAMESPACE), ("gpu-operator-post", "elsewhere"))
SOON: Final = "nodeTimeout=6s"
LATE: Final = "nodeTimeout=100s"
OTHER: Final = "gpu-agent"


def test_another_driver_in_the_middle(ground: Ground) -> None:
    """After the first node was refreshed, and before the second could be, the driver is replaced again on both."""
    # Each plugin is restarted once for each driver that became ready under it, and the last driver is on every node.
    ground.annotate("gpu-1", "driver-fault", "unready")
    ground.operator(driver=OLD, **ALL_AT_ONCE)
    run = ground.begin()
    ground.until(lambda: bool(ground.restarts()), "the first plugin is restarted", PATIENCE)
    ground.operator(driver=THIRD, **ALL_AT_ONCE)
    ground.until(lambda: ground.rendered(THIRD), "the DaemonSet asks for the last driver", PATIENCE)
    ground.annotate("gpu-1", "driver-fault", None)
    run.told().assert_phase("Done", "Refreshed")
    assert upgraded(ground, NODES, THIRD)
    ground.assert_clean(["gpu-0", "gpu-0", "gpu-1"])


def test_driver_daemonset_replaced(ground: Ground) -> None:
    """Every driver is loaded again, and its plugin refreshed."""
    ground.spoil()
    run = ground.begin(f"expect.driverVersion={NEW}", "advanced.operatorQuiet=10s")
    ground.until(lambda: ground.restarts() == ground.nodes, "both were restarted", PATIENCE)
    (driver,) = ground.cluster.list(DAEMONSETS, labelSelector="app.kubernetes.io/component=nvidia-driver")
    ground.cluster.delete(f"{DAEMONSETS}/{driver['metadata']['name']}", {"propagationPolicy": "Background"})
    if run.over:
        raise TooSlowError("the run had succeeded before its driver's DaemonSet was deleted")
    run.told().assert_phase("Done", "Refreshed")
    assert upgraded(ground, NODES, NEW)
    ground.assert_clean(sorted(ground.nodes * 2))


def test_three_releases_at_once(ground: Ground) -> None:
    """Two in one namespace, one in another: each has its own permissions, and no plugin is restarted twice."""
    ground.spoil()
    hurry = f"--set={','.join(QUICK)}"
    try:
        for hook in [ground.start_release(name, namespace, hurry) for name, namespace in RELEASES]:
            ground.succeeded(hook)
    finally:
        for name, namespace in RELEASES:
            ground.cluster.helm("uninstall", name, "-n", namespace, "--ignore-not-found")
    ground.assert_clean(ground.nodes)


def _manifest(ground: Ground, name: str = PLUGIN_NAME) -> dict[str, Any]:
    found = ground.cluster.get(PLUGIN)
    metadata = {"name": name, "namespace": PLUGIN_NAMESPACE, "labels": found["metadata"]["labels"]}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": found["spec"]}


def _without_daemonset(ground: Ground, run: Run, *how: str) -> None:
    ground.cluster.kubectl("delete", "daemonset", PLUGIN_NAME, "-n", PLUGIN_NAMESPACE, *how)
    ground.until(lambda: "that may change in a moment" in run.said, "the run has noticed", PATIENCE)
    assert not run.over


def test_daemonset_deleted(ground: Ground) -> None:
    """After the grace nothing is left to protect, and that is reported."""
    run = ground.waiting(SOON)
    _without_daemonset(ground, run)
    ground.upgrade()
    assert PLUGIN_NAME in run.told().assert_phase("Skip", "NoPlugin").story["message"]


def test_daemonset_created_again(ground: Ground) -> None:
    """The pods that another DaemonSet of the same name adopts are refreshed."""
    run = ground.waiting(LATE)
    manifest = _manifest(ground)
    _without_daemonset(ground, run, "--cascade=orphan")
    ground.apply(manifest)
    ground.until(lambda: ground.serving() == NODES, "the plugins are owned again", PATIENCE)
    ground.began = time.time()
    ground.upgrade()
    run.told().assert_phase("Done", "Refreshed")
    ground.assert_clean(ground.nodes)


def test_daemonset_replaced(ground: Ground) -> None:
    """A plugin that is not named is never restarted: exit 3."""
    run = ground.waiting(SOON)
    manifest = _manifest(ground, OTHER)
    _without_daemonset(ground, run)
    ground.apply(manifest)
    ground.upgrade()
    assert OTHER in run.told().assert_phase("Fail", "UnnamedPlugin").story["message"]
    assert ground.truth.restarts(OTHER, since=ground.began) == ()


def test_node_deleted_while_its_plugin_ends(ground: Ground) -> None:
    """No plugin comes back on a deleted node: the others are verified, and the run does not wait for it."""
    ground.spoil()
    (pod,) = ground.plugins("gpu-1")
    url = f"{PLUGINS}/{pod['metadata']['name']}"
    ground.cluster.patch(url, HOLD)
    run = ground.begin(LATE, "pluginTimeout=100s")
    ground.until(lambda: ground.restarts() == ground.nodes, "both were restarted", PATIENCE)
    ground.cluster.delete("/api/v1/nodes/gpu-1")
    ground.until(lambda: "LabelsMissing" in run.said or run.over, "the run has noticed", PATIENCE)
    ground.cluster.patch(url, LET_GO)
    ground.cluster.kubectl("delete", "pods", "-A", "--field-selector=spec.nodeName=gpu-1", "--force")
    try:
        run.told().assert_phase("Done", "Refreshed")
        with promised():
            assert ground.truth.stale_now() == ()
            assert ground.truth.needless_restarts(since=ground.began) == ()
    finally:
        acts.add_node(ground, "gpu-1")
