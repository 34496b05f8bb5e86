"""The simulated network operator's rules: what it renders, what its status says, which plugins wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devcluster.fleet.mofed import network_version
from devcluster.networkoperator import render
from devcluster.networkoperator.settings import Settings
from devcluster.networkoperator.states import applied_states, overall
from devcluster.networkoperator.waiting import wait_labels

SETTINGS = Settings("pod", "nvidia-network-operator", "26.1.1", "https://127.0.0.1:1", Path())
VERSION = "doca3.2.0-25.10-1.2.8.0-2"
IMAGE = "nvcr.io/nvidia/mellanox/doca-driver"
NIC = "feature.node.kubernetes.io/pci-15b3.present"
WAIT = "network.nvidia.com/operator.mofed.wait"


def node(
    name: str = "gpu-0", *, nic: bool = True, kernel: str = "5.15.0-139-generic", wait: str = ""
) -> dict[str, Any]:
    """Make a node, with a card or without, that says whether plugins wait, or does not say."""
    found = {
        "kubernetes.io/arch": "amd64",
        "feature.node.kubernetes.io/kernel-version.full": kernel,
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
    }
    return {
        "metadata": {"name": name, "labels": found | ({NIC: "true"} if nic else {}) | ({WAIT: wait} if wait else {})}
    }


def policy(**parts: object) -> dict[str, Any]:
    """Make a NicClusterPolicy."""
    return {"metadata": {"name": "nic-cluster-policy", "uid": "p"}, "spec": parts}


def ofed(**fields: object) -> dict[str, Any]:
    """Make a policy with nothing but a driver."""
    return policy(
        ofedDriver={"repository": "nvcr.io/nvidia/mellanox", "image": "doca-driver", "version": VERSION} | fields
    )


@pytest.mark.parametrize(
    ("spec", "precompiled", "expected"),
    [
        pytest.param(ofed(), False, f"{IMAGE}:{VERSION}-ubuntu22.04-amd64", id="to-be-built"),
        pytest.param(ofed(), True, f"{IMAGE}:{VERSION}-5.15.0-139-generic-ubuntu22.04-amd64", id="precompiled"),
        pytest.param(ofed(version="sha256:abc"), False, f"{IMAGE}@sha256:abc", id="digest"),
    ],
)
def test_the_drivers_image(spec: dict[str, Any], expected: str, *, precompiled: bool) -> None:
    """Nobody asks for a precompiled driver; it is taken where there is one. The version can be read back."""
    settings = Settings("p", "n", "26.1.1", "s", Path(), precompiled=precompiled)
    (daemonset,) = render.daemonsets(spec, [node()], settings)
    found = daemonset["spec"]["template"]["spec"]["containers"][0]["image"]
    assert expected == found
    assert network_version(found, "5.15.0-139-generic") == spec["spec"]["ofedDriver"]["version"]


def test_a_driver_that_must_be_precompiled_and_is_not() -> None:
    """That is an error of the whole rendering."""
    with pytest.raises(render.NotPrecompiledError, match="ForcePrecompiled"):
        render.daemonsets(ofed(forcePrecompiled=True), [node()], SETTINGS)


def test_one_driver_daemonset_a_kernel_of_nodes_with_a_card() -> None:
    """Its pods are known by a label without a value, and are never replaced by the DaemonSet controller."""
    nodes = [node("gpu-0"), node("gpu-1", kernel="6.8.0-1-generic"), node("gpu-2", nic=False, kernel="other")]
    first, second = render.daemonsets(ofed(), nodes, SETTINGS)
    assert first["metadata"]["name"].startswith("mofed-ubuntu22.04-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    template = first["spec"]["template"]
    assert template["metadata"]["labels"]["nvidia.com/ofed-driver"] == ""
    assert [each["name"] for each in template["spec"]["containers"]] == ["mofed-container"]
    assert first["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_device_plugins_go_where_the_driver_is_ready() -> None:
    """Only the RDMA plugin checks for a driver, and only beside one of the operator's."""
    plugin = {"repository": "r", "image": "i", "version": "v"}
    rendered = render.daemonsets(policy(rdmaSharedDevicePlugin=plugin, sriovDevicePlugin=plugin), [node()], SETTINGS)
    names = [each["metadata"]["name"] for each in rendered]
    assert names == ["rdma-shared-dp-ds", "network-operator-sriov-device-plugin"]
    pods = [each["spec"]["template"]["spec"] for each in rendered]
    assert all(each["nodeSelector"][WAIT] == "false" for each in pods)
    assert not any("initContainers" in each for each in pods)
    beside = ofed() | {"spec": ofed()["spec"] | {"rdmaSharedDevicePlugin": plugin}}
    pod = render.daemonsets(beside, [node()], SETTINGS)[-1]["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["initContainers"]] == ["ofed-driver-validation"]


def test_safe_load_needs_automatic_upgrades() -> None:
    """Nobody else would ever let a waiting driver in."""
    waits = [
        render.init_config(ofed(upgradePolicy={"autoUpgrade": auto, "safeLoad": True}))["safeDriverLoad"]["enable"]
        for auto in (True, False)
    ]
    assert waits == [True, False]


@pytest.mark.parametrize(
    ("spec", "status", "trouble", "expected"),
    [
        pytest.param(ofed(), {"desiredNumberScheduled": 0}, "", "notReady", id="no-pods-wanted-yet"),
        pytest.param(ofed(), (2, 2, 1), "", "notReady", id="an-old-pod-is-left"),
        pytest.param(ofed(), (2, 1, 2), "", "notReady", id="one-not-available"),
        pytest.param(ofed(), (2, 2, 2), "", "ready", id="all-new-and-available"),
        pytest.param(ofed(), (2, 2, 2), "not found", "error", id="not-renderable"),
        pytest.param(policy(), None, "", "ready", id="nothing-asked-for"),
    ],
)
def test_what_the_status_says(spec: dict[str, Any], status: Any, trouble: str, expected: str) -> None:  # noqa: ANN401 - a table
    """Each part by its DaemonSets; parts that are not asked for are ignored."""
    daemonsets = []
    if isinstance(status, tuple):
        keys = ("desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled")
        status = dict(zip(keys, status, strict=True))
    if status is not None:
        daemonsets = [{"metadata": {"labels": {"nvidia.network-operator.state": "state-OFED"}}, "status": status}]
    states = applied_states(spec, daemonsets, trouble)
    assert expected == overall(states)
    by_name = {each["name"]: each["state"] for each in states}
    assert by_name["state-RDMA-device-plugin"] == "ignore"
    assert by_name["state-OFED"] == ("ignore" if status is None else expected)


@pytest.mark.parametrize(
    ("nodes", "wanted", "pods", "expected"),
    [
        pytest.param([node()], True, {"gpu-0": False}, {"gpu-0": "true"}, id="driver-not-ready"),
        pytest.param([node(wait="true")], True, {"gpu-0": True}, {"gpu-0": "false"}, id="driver-ready"),
        pytest.param([node(wait="false")], True, {"gpu-0": True}, {}, id="nothing-to-write"),
        pytest.param([node(wait="false")], True, {}, {}, id="no-driver-pod-no-word"),
        pytest.param([node()], False, {}, {"gpu-0": "false"}, id="no-driver-wanted"),
        pytest.param([node()], False, {"gpu-0": True}, {"gpu-0": "true"}, id="its-pod-is-still-there"),
        pytest.param([node(nic=False, wait="false")], False, {}, {"gpu-0": None}, id="no-card"),
    ],
)
def test_which_plugins_wait(
    nodes: list[dict[str, Any]], pods: dict[str, bool], expected: dict[str, str | None], *, wanted: bool
) -> None:
    """A node says "false" when its driver is ready, or when it needs none."""
    assert expected == wait_labels(nodes, wanted, pods)
