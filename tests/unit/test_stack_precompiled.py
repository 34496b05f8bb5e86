"""Precompiled drivers: one DaemonSet a kernel, replaced when kernels change, while every label stays quiet."""

from __future__ import annotations

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from tests.fixtures.cluster import Cluster, cluster, stale
from tests.fixtures.modes import owner, wants
from tests.fixtures.objects import Object, driver_pod, merged, obj, stamp

OLD_KERNEL, NEW_KERNEL = "5.15.0-105-generic", "5.15.0-119-generic"
PRECOMPILED = "spec: {driver: {version: '580', usePrecompiled: true}}"


def kernel_daemonset(kernel: str, pods: int = 1) -> Object:
    """Give the driver DaemonSet of a kernel."""
    image = f"nvcr.io/nvidia/driver:580-{kernel}-ubuntu22.04"
    patch: Object = {
        "metadata": {"name": f"nvidia-driver-daemonset-{kernel}-ubuntu22.04", "uid": f"{kernel}-ds"},
        "spec": {"template": {"spec": {"containers": [{"name": "nvidia-driver-ctr", "image": image}]}}},
        **wants(pods),
    }
    return obj("driver-daemonset", patch)


def revision(kernel: str) -> Object:
    """Give the only revision of a kernel's DaemonSet."""
    return obj("revision", {"metadata": {"name": kernel, "ownerReferences": owner(f"{kernel}-ds")}})


def on(kernel: str, node: str = "gpu-0", name: str = "") -> Object:
    """Give a driver pod of a kernel's DaemonSet."""
    named = {"name": name, "uid": name} if name else {}
    changed: Object = merged(driver_pod(node), {"metadata": {**named, "ownerReferences": owner(f"{kernel}-ds")}})
    return changed


def precompiled(*kernels: str) -> Cluster:
    """Give one node a kernel, with stale plugins: every driver is settled, and every label quiet."""
    nodes = [f"gpu-{number}" for number in range(len(kernels))]
    found = stale(*nodes).change("policy", PRECOMPILED)
    found.drop("daemonset", "nvidia-driver-daemonset").drop("revision")
    for kernel in dict.fromkeys(kernels):
        found.put("daemonset", kernel_daemonset(kernel, kernels.count(kernel))).put("revision", revision(kernel))
    return found.only("driver-pod", *(on(kernel, node) for kernel, node in zip(kernels, nodes, strict=True)))


def new_kernel() -> Cluster:
    """Give a node that booted another kernel: its DaemonSet is there, the old one has no node any more."""
    return (
        precompiled(NEW_KERNEL).put("daemonset", kernel_daemonset(OLD_KERNEL, 0)).put("revision", revision(OLD_KERNEL))
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(precompiled(OLD_KERNEL), Reason.PLUGIN_STALE, id="settled"),
        pytest.param(new_kernel(), Reason.PLUGIN_STALE, id="settled-on-the-new-kernel"),
        pytest.param(new_kernel().only("driver-pod", on(OLD_KERNEL)), Reason.PLUGIN_STALE,
                     id="served-by-whichever-daemonset-owns-it"),
        pytest.param(new_kernel().drop("driver-pod"), Reason.DRIVER_MISSING, id="between-two-pods"),
        pytest.param(new_kernel().put("driver-pod", on(OLD_KERNEL, name="old")), Reason.SEVERAL_DRIVER_PODS,
                     id="a-pod-of-each-kernel"),
        pytest.param(
            new_kernel().put("driver-pod", merged(on(OLD_KERNEL, name="old"), {"metadata": {
                "deletionTimestamp": stamp(900)}})), Reason.PLUGIN_STALE, id="the-old-kernels-pod-is-terminating"),
        pytest.param(new_kernel().drop("daemonset", kernel_daemonset(NEW_KERNEL)["metadata"]["name"]),
                     Reason.DRIVER_ORPHANED, id="its-daemonset-was-deleted"),
        pytest.param(precompiled(OLD_KERNEL).change("driver-pod", "metadata: {ownerReferences: []}"),
                     Reason.DRIVER_ORPHANED, id="orphaned"),
        pytest.param(new_kernel().change("policy", "spec: {driver: {version: '590'}}"), Reason.NOT_RENDERED,
                     id="another-branch-is-asked-for"),
        pytest.param(new_kernel().change("policy", "spec: {driver: {usePrecompiled: false, version: 580.126.20}}"),
                     Reason.NOT_RENDERED, id="compiled-is-asked-for"),
    ],
)  # fmt: skip
def test_a_quiet_label_never_settles_a_node(found: Cluster, expected: Reason) -> None:
    """The label says upgrade-done in each case; the node's one live driver pod, and its owner, decide."""
    assert expected is found.judge().reason


def test_nodes_of_several_kernels_are_judged_by_their_own_daemonset() -> None:
    """The revisions of one say nothing about the pods of another."""
    outdated = "metadata: {labels: {controller-revision-hash: x}}"
    found = precompiled(OLD_KERNEL, NEW_KERNEL).change("driver-pod", outdated, "driver-gpu-1")
    assert [Reason.PLUGIN_STALE, Reason.DRIVER_OUTDATED] == [one.reason for one in found.decide()[0].statuses]


def test_done_waits_for_a_daemonset_while_there_is_none() -> None:
    """For seconds nothing exists that could be unready."""
    found = cluster().change("policy", PRECOMPILED).drop("daemonset", "nvidia-driver-daemonset").drop("driver-pod")
    decision, _memory = found.decide()
    assert (Phase.WAIT, Reason.NOT_RENDERED) == (decision.phase, decision.reason)


def test_a_branch_is_verified_by_the_first_part_of_the_version() -> None:
    """A precompiled tag names no more."""
    fresh = precompiled(OLD_KERNEL).put("plugin-pod", *cluster().of("plugin-pod"))
    assert fresh.judge().reason is Reason.VERIFIED
    other = "spec: {devices: [{attributes: {driverVersion: {version: 570.124.6}}}]}"
    assert fresh.change("slice", other).judge().reason is Reason.SLICE_OUTDATED
