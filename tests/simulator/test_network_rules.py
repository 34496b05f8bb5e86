"""The simulated network operator's rules: what it renders, what its status says, which plugins wait."""

from __future__ import annotations

from dataclasses import replace
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


def test_the_drivers_image() -> None:
    """A precompiled driver is taken where there is one; the version can be read back from the image."""
    for name, precompiled, spec, expected in (
        ("to be built", False, ofed(), f"{IMAGE}:{VERSION}-ubuntu22.04-amd64"),
        ("precompiled", True, ofed(), f"{IMAGE}:{VERSION}-5.15.0-139-generic-ubuntu22.04-amd64"),
        ("digest", False, ofed(version="sha256:abc"), f"{IMAGE}@sha256:abc"),
    ):
        (daemonset,) = render.daemonsets(spec, [node()], replace(SETTINGS, precompiled=precompiled))
        found = daemonset["spec"]["template"]["spec"]["containers"][0]["image"]
        assert found == expected, name
        assert network_version(found, "5.15.0-139-generic") == spec["spec"]["ofedDriver"]["version"], name
    with pytest.raises(render.NotPrecompiledError, match="ForcePrecompiled"):
        render.daemonsets(ofed(forcePrecompiled=True), [node()], SETTINGS)


def test_one_driver_daemonset_per_kernel_of_nodes_with_a_card() -> None:
    """Its pods have a label without a value, and only a deletion replaces them; safe load needs automatic upgrades."""
    nodes = [node("gpu-0"), node("gpu-1", kernel="6.8.0-1-generic"), node("gpu-2", nic=False, kernel="other")]
    first, second = render.daemonsets(ofed(), nodes, SETTINGS)
    assert first["metadata"]["name"].startswith("mofed-ubuntu22.04-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    template = first["spec"]["template"]
    assert template["metadata"]["labels"]["nvidia.com/ofed-driver"] == ""
    assert [each["name"] for each in template["spec"]["containers"]] == ["mofed-container"]
    assert first["spec"]["updateStrategy"] == {"type": "OnDelete"}
    for auto in (True, False):
        config = render.init_config(ofed(upgradePolicy={"autoUpgrade": auto, "safeLoad": True}))
        assert config["safeDriverLoad"]["enable"] is auto


def test_device_plugins_go_where_the_driver_is_ready() -> None:
    """Only the RDMA plugin checks for a driver, and only together with one of the operator's."""
    plugin = {"repository": "r", "image": "i", "version": "v"}
    rendered = render.daemonsets(policy(rdmaSharedDevicePlugin=plugin, sriovDevicePlugin=plugin), [node()], SETTINGS)
    names = [each["metadata"]["name"] for each in rendered]
    assert names == ["rdma-shared-dp-ds", "network-operator-sriov-device-plugin"]
    pods = [each["spec"]["template"]["spec"] for each in rendered]
    assert all(each["nodeSelector"][WAIT] == "false" for each in pods)
    assert not any("initContainers" in each for each in pods)
    together = ofed() | {"spec": ofed()["spec"] | {"rdmaSharedDevicePlugin": plugin}}
    pod = render.daemonsets(together, [node()], SETTINGS)[-1]["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["initContainers"]] == ["ofed-driver-validation"]


def test_the_policys_status() -> None:
    """Each part by its DaemonSets; parts that are not asked for are ignored."""
    keys = ("desiredNumberScheduled", "numberAvailable", "updatedNumberScheduled")
    for name, spec, counts, trouble, expected in (
        ("no pods wanted yet", ofed(), (0,), "", "notReady"),
        ("an old pod is left", ofed(), (2, 2, 1), "", "notReady"),
        ("one is not available", ofed(), (2, 1, 2), "", "notReady"),
        ("all are new and available", ofed(), (2, 2, 2), "", "ready"),
        ("not renderable", ofed(), (2, 2, 2), "not found", "error"),
        ("nothing asked for", policy(), (), "", "ready"),
    ):
        meta = {"labels": {"nvidia.network-operator.state": "state-OFED"}}
        daemonset = {"metadata": meta, "status": dict(zip(keys, counts, strict=False))}
        states = applied_states(spec, [daemonset] if counts else [], trouble)
        by_name = {each["name"]: each["state"] for each in states}
        assert overall(states) == expected, name
        assert by_name["state-RDMA-device-plugin"] == "ignore", name
        assert by_name["state-OFED"] == (expected if counts else "ignore"), name


def test_which_plugins_wait() -> None:
    """A node's label is "false" when its driver is ready, or when it needs none."""
    for name, seen, wanted, ready, expected in (
        ("driver not ready", node(), True, False, {"gpu-0": "true"}),
        ("driver ready", node(wait="true"), True, True, {"gpu-0": "false"}),
        ("nothing to write", node(wait="false"), True, True, {}),
        ("no driver pod", node(wait="false"), True, None, {}),
        ("no driver wanted", node(), False, None, {"gpu-0": "false"}),
        ("its pod is there still", node(), False, True, {"gpu-0": "true"}),
        ("no card", node(nic=False, wait="false"), False, None, {"gpu-0": None}),
    ):
        pods = {} if ready is None else {"gpu-0": ready}
        assert wait_labels([seen], wanted, pods) == expected, name
