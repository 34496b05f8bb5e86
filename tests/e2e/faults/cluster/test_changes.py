"""The world changes while a run is under way: drivers, other runs; and what it works on goes away.

What is gone may be replaced a moment later, so that nothing follows from it at once: the grace for that is minutes, and
short here.
"""

from __future__ import annotations

import time
from typing import Any, Final

from devcluster.patience import TooSlowError
from tests.e2e import acts
from tests.e2e.acts import PATIENCE, upgraded
from tests.e2e.faults.cluster.resting import HOLD, LET_GO, PLUGIN, PLUGINS, RestingLab
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, OLD, PLUGIN_NAME, PLUGIN_NAMESPACE, QUICK
from tests.promises import promised

NODES = 2
THIRD: Final = "590.48.01"
DAEMONSETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
RELEASES: Final = (("gpu-operator-post", NAMESPACE), ("another", NAMESPACE), ("gpu-operator-post", "elsewhere"))
LATE: Final = "nodeTimeout=100s"


def test_another_driver_in_the_middle(lab: RestingLab) -> None:
    """After the first node was refreshed, and before the second could be, the driver is replaced again on both."""
    # Each plugin is restarted once for each driver that became ready under it, and the last driver is on every node.
    lab.annotate("gpu-1", "driver-fault", "unready")
    lab.operator(driver=OLD, **ALL_AT_ONCE)
    run = lab.begin()
    lab.until(lambda: bool(lab.restarts()), "the first plugin is restarted", PATIENCE)
    lab.operator(driver=THIRD, **ALL_AT_ONCE)
    lab.until(lambda: lab.rendered(THIRD), "the DaemonSet asks for the last driver", PATIENCE)
    lab.annotate("gpu-1", "driver-fault", None)
    run.told().assert_phase("Done", "Refreshed")
    assert upgraded(lab, NODES, THIRD)
    lab.assert_clean(["gpu-0", "gpu-0", "gpu-1"])


def test_driver_daemonset_replaced(lab: RestingLab) -> None:
    """Every driver is loaded again, and its plugin refreshed."""
    lab.make_stale()
    run = lab.begin(f"expect.driverVersion={NEW}", "advanced.operatorQuiet=10s")
    lab.until(lambda: lab.restarts() == lab.nodes, "both were restarted", PATIENCE)
    (driver,) = lab.cluster.list(DAEMONSETS, labelSelector="app.kubernetes.io/component=nvidia-driver")
    lab.cluster.delete(f"{DAEMONSETS}/{driver['metadata']['name']}", {"propagationPolicy": "Background"})
    if run.over:
        raise TooSlowError("the run had succeeded before its driver's DaemonSet was deleted")
    run.told().assert_phase("Done", "Refreshed")
    assert upgraded(lab, NODES, NEW)
    lab.assert_clean(sorted(lab.nodes * 2))


def test_three_releases_at_once(lab: RestingLab) -> None:
    """Two in one namespace, one in another: each has its own permissions, and no plugin is restarted twice."""
    lab.make_stale()
    quick = f"--set={','.join(QUICK)}"
    try:
        for hook in [lab.start_release(name, namespace, quick) for name, namespace in RELEASES]:
            lab.succeeded(hook)
    finally:
        for name, namespace in RELEASES:
            lab.cluster.helm("uninstall", name, "-n", namespace, "--ignore-not-found")
    lab.assert_clean(lab.nodes)


def _manifest(lab: RestingLab) -> dict[str, Any]:
    found = lab.cluster.get(PLUGIN)
    metadata = {"name": PLUGIN_NAME, "namespace": PLUGIN_NAMESPACE, "labels": found["metadata"]["labels"]}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": found["spec"]}


def test_daemonset_created_again(lab: RestingLab) -> None:
    """The pods that another DaemonSet of the same name adopts are refreshed."""
    run = lab.waiting(LATE)
    manifest = _manifest(lab)
    lab.cluster.kubectl("delete", "daemonset", PLUGIN_NAME, "-n", PLUGIN_NAMESPACE, "--cascade=orphan")
    lab.until(lambda: "that may change in a moment" in run.said, "the run has noticed", PATIENCE)
    assert not run.over
    lab.apply(manifest)
    lab.until(lambda: lab.serving() == NODES, "the plugins are owned again", PATIENCE)
    lab.began = time.time()
    lab.upgrade()
    run.told().assert_phase("Done", "Refreshed")
    lab.assert_clean(lab.nodes)


def test_node_deleted_while_its_plugin_ends(lab: RestingLab) -> None:
    """No plugin comes back on a deleted node: the others are verified, and the run does not wait for it."""
    lab.make_stale()
    (pod,) = lab.plugins("gpu-1")
    url = f"{PLUGINS}/{pod['metadata']['name']}"
    lab.cluster.patch(url, HOLD)
    run = lab.begin(LATE, "pluginTimeout=100s")
    lab.until(lambda: lab.restarts() == lab.nodes, "both were restarted", PATIENCE)
    lab.cluster.delete("/api/v1/nodes/gpu-1")
    lab.until(lambda: "LabelsMissing" in run.said or run.over, "the run has noticed", PATIENCE)
    lab.cluster.patch(url, LET_GO)
    lab.cluster.kubectl("delete", "pods", "-A", "--field-selector=spec.nodeName=gpu-1", "--force")
    try:
        run.told().assert_phase("Done", "Refreshed")
        with promised():
            assert lab.truth.stale_now() == ()
            assert lab.truth.needless_restarts(since=lab.began) == ()
    finally:
        acts.add_node(lab, "gpu-1")
