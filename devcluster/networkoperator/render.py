"""Which DaemonSets a NicClusterPolicy asks for: the driver's, and the device plugins'."""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import OS_TAG, TOLERATION, image_of

Object = dict[str, Any]

DRIVER = "nvidia.com/ofed-driver"
"""The label of the driver's DaemonSets and pods; its value is empty."""

NFD_NIC = "feature.node.kubernetes.io/pci-15b3.present"

WAIT = "network.nvidia.com/operator.mofed.wait"
"""Node label: device plugins run only where it is "false", which it is once the node's driver is ready."""

SAFE_LOAD = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
"""Node annotation: by it a driver asks to have the node emptied before it is loaded."""

INIT_IMAGE = "ghcr.io/mellanox/network-operator-init-container:v0.0.3"


def daemonsets(policy: Object) -> dict[str, Object]:
    """Render everything that the policy asks for, by the state that reports it."""
    spec = policy["spec"]
    return {
        "state-OFED": _driver(spec["ofedDriver"]),
        "state-RDMA-device-plugin": _rdma_plugin(spec["rdmaSharedDevicePlugin"]),
        "state-SRIOV-device-plugin": _sriov_plugin(spec["sriovDevicePlugin"]),
    }


def _driver(driver: Object) -> Object:
    name = f"mofed-{OS_TAG}"
    init: Object = {"name": "network-operator-init-container", "image": INIT_IMAGE}
    if driver["upgradePolicy"]["autoUpgrade"] and driver["upgradePolicy"]["safeLoad"]:
        init["env"] = [{"name": "SAFE_LOAD_ANNOTATION", "value": SAFE_LOAD}]
    pod = {
        "tolerations": [TOLERATION],
        "nodeSelector": {NFD_NIC: "true"},
        "initContainers": [init],
        "containers": [{"name": "mofed-container", "image": f"{image_of(driver)}-{OS_TAG}-amd64"}],
    }
    return _daemonset(f"{name}-ds", {"app": name, DRIVER: ""}, pod, "OnDelete")


def _rdma_plugin(plugin: Object) -> Object:
    # The newer SR-IOV plugin has no such container; this one keeps it.
    check = {"name": "ofed-driver-validation", "image": image_of(plugin)}
    return _plugin("rdma-shared-dp-ds", {"app": "rdma-shared-dp"}, plugin, "rdma-shared-dp", check)


def _sriov_plugin(plugin: Object) -> Object:
    name = "network-operator-sriov-device-plugin"
    return _plugin(name, {"app": "sriovdp", "name": name}, plugin, "kube-sriovdp")


def _plugin(name: str, labels: dict[str, str], plugin: Object, container: str, *inits: Object) -> Object:
    pod = {
        "tolerations": [TOLERATION],
        "nodeSelector": {NFD_NIC: "true", WAIT: "false"},
        "initContainers": list(inits),
        "containers": [{"name": container, "image": image_of(plugin)}],
    }
    return _daemonset(name, labels, pod, "RollingUpdate")


def _daemonset(name: str, labels: dict[str, str], pod: Object, strategy: str) -> Object:
    spec = {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": strategy},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}
