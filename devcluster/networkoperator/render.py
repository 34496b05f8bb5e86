"""Which DaemonSets a NicClusterPolicy asks for: the driver's, one a kind of node, and the device plugins'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from devcluster.controller.objects import (
    NFD_KERNEL,
    NFD_OS,
    NFD_OS_VERSION,
    NODE_NAME,
    TOLERATION,
    digest,
    image_of,
    labels_of,
    owned_daemonset,
)
from devcluster.networkoperator import names as n

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.networkoperator.settings import Settings

Object = dict[str, Any]

INIT_IMAGE = "ghcr.io/mellanox/network-operator-init-container:v0.0.3"

DRIVER_CONTAINER = "mofed-container"


class NotPrecompiledError(Exception):
    """The policy insists on a precompiled driver, and the registry has none."""


class Pool(NamedTuple):
    """Nodes that one driver DaemonSet fits."""

    os: str
    os_version: str
    kernel: str
    architecture: str

    @classmethod
    def of(cls, node: Object) -> Pool:
        """Read a node's labels."""
        labels = labels_of(node)
        return cls(labels[NFD_OS], labels[NFD_OS_VERSION], labels[NFD_KERNEL], labels["kubernetes.io/arch"])

    @property
    def name(self) -> str:
        """What the DaemonSet and its pods are called; the real one hashes the kernel as well."""
        return f"mofed-{self.os}{self.os_version}-{digest(self.kernel)}"


def daemonsets(policy: Object, nodes: Iterable[Object], settings: Settings) -> list[Object]:
    """Render everything that the policy asks for."""
    rendered = []
    spec = policy["spec"]
    if spec.get("ofedDriver") is not None:
        pools = sorted({Pool.of(node) for node in nodes if labels_of(node).get(n.NFD_NIC) == "true"})
        rendered += [_driver(policy, pool, settings) for pool in pools]
    if spec.get("rdmaSharedDevicePlugin") is not None:
        rendered.append(_rdma_plugin(policy, settings))
    if spec.get("sriovDevicePlugin") is not None:
        rendered.append(_sriov_plugin(policy, settings))
    return rendered


def init_config(policy: Object) -> Object:
    """Return the arguments of the driver's init container; it waits only where drivers are upgraded automatically."""
    upgrade = policy["spec"]["ofedDriver"].get("upgradePolicy") or {}
    wait = bool(upgrade.get("autoUpgrade") and upgrade.get("safeLoad"))
    key = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
    return {"safeDriverLoad": {"enable": wait, "annotation": key}}


def driver_image(driver: Object, pool: Pool, settings: Settings) -> str:
    """Name the driver's image: by its digest, precompiled where the registry has that, or to be built."""
    repository, version = f"{driver['repository']}/{driver['image']}", str(driver["version"])
    if version.startswith("sha256"):
        return f"{repository}@{version}"
    if driver.get("forcePrecompiled") and not settings.precompiled:
        raise NotPrecompiledError(f"ForcePrecompiled is enabled and precompiled tag was not found: {version}")
    kernel = f"-{pool.kernel}" if settings.precompiled else ""
    return f"{repository}:{version}{kernel}-{pool.os}{pool.os_version}-{pool.architecture}"


def _container(driver: Object, image: str) -> Object:
    """Return the container that loads the driver."""
    mount = {"name": "run-mlnx-ofed", "mountPath": "/run/mellanox/drivers", "mountPropagation": "Bidirectional"}
    loaded = {"exec": {"command": ["sh", "-c", "lsmod | grep mlx5_core"]}, "periodSeconds": 30}
    return {
        "name": DRIVER_CONTAINER,
        "image": image,
        "env": driver.get("env", []),
        "securityContext": {"privileged": True},
        "startupProbe": {
            "exec": {"command": ["sh", "-c", "ls /run/mellanox/drivers/.driver-ready"]},
            "initialDelaySeconds": 10,
            "failureThreshold": 60,
            "periodSeconds": 20,
        },
        "livenessProbe": loaded,
        "readinessProbe": loaded,
        "volumeMounts": [mount],
    }


def _driver(policy: Object, pool: Pool, settings: Settings) -> Object:
    driver = policy["spec"]["ofedDriver"]
    labels = {"app": pool.name, n.DRIVER: ""}
    pod = {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": "ofed-driver",
        "hostNetwork": True,
        "tolerations": [TOLERATION],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_apart()]}},
        "nodeSelector": {
            n.NFD_NIC: "true",
            NFD_OS: pool.os,
            NFD_OS_VERSION: pool.os_version,
            NFD_KERNEL: pool.kernel,
        },
        "initContainers": [_init_container(settings)],
        "containers": [_container(driver, driver_image(driver, pool, settings))],
        "terminationGracePeriodSeconds": driver.get("terminationGracePeriodSeconds", 300),
        "volumes": [{"name": "run-mlnx-ofed", "hostPath": {"path": "/run/mellanox/drivers"}}],
    }
    template = {"metadata": {"labels": labels | {"kernel": pool.kernel}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"app": pool.name}}, "updateStrategy": {"type": "OnDelete"}}
    further = labels | {"mofed-ds-format-version": "1"}
    return _daemonset(policy, settings, f"{pool.name}-ds", {n.STATE: n.OFED} | further, spec | {"template": template})


def _rdma_plugin(policy: Object, settings: Settings) -> Object:
    plugin = policy["spec"]["rdmaSharedDevicePlugin"]
    pod = _plugin_pod("rdma-shared-dp", plugin)
    if policy["spec"].get("ofedDriver") is not None:
        # The newer SR-IOV plugin has no such container; this one keeps it.
        until = "until lsmod | grep mlx5_core; do echo waiting for OFED drivers to be loaded; sleep 30; done"
        check = {"name": "ofed-driver-validation", "image": image_of(plugin), "command": ["sh", "-c"], "args": [until]}
        pod["initContainers"] = [check]
    labels = {"app": "rdma-shared-dp"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return _daemonset(policy, settings, "rdma-shared-dp-ds", {n.STATE: n.RDMA}, spec)


def _sriov_plugin(policy: Object, settings: Settings) -> Object:
    name = "network-operator-sriov-device-plugin"
    pod = _plugin_pod("kube-sriovdp", policy["spec"]["sriovDevicePlugin"]) | {"serviceAccountName": name}
    labels = {"tier": "node", "app": "sriovdp"}
    template = {"metadata": {"labels": labels | {"name": name}}, "spec": pod}
    spec = {"selector": {"matchLabels": {"name": name}}, "template": template}
    return _daemonset(policy, settings, name, {n.STATE: n.SRIOV} | labels, spec)


def _plugin_pod(container: str, plugin: Object) -> Object:
    sockets = {"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"}
    return {
        "priorityClassName": "system-node-critical",
        "hostNetwork": True,
        "tolerations": [TOLERATION],
        "nodeSelector": {n.NFD_NIC: "true", n.WAIT: "false"},
        "containers": [
            {
                "name": container,
                "image": image_of(plugin),
                "securityContext": {"privileged": True},
                "volumeMounts": [sockets],
            }
        ],
        "volumes": [{"name": "device-plugin", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
    }


def _daemonset(policy: Object, settings: Settings, name: str, labels: Object, spec: Object) -> Object:
    metadata = {"name": name, "namespace": settings.namespace, "labels": labels}
    return owned_daemonset(policy, metadata, spec, n.REVISION)


def _init_container(settings: Settings) -> Object:
    arguments = ["--node-name", "$(NODE_NAME)", "--configmap-name", n.INIT_CONFIG]
    return {
        "name": "network-operator-init-container",
        "image": INIT_IMAGE,
        "args": [*arguments, "--configmap-namespace", settings.namespace, "--configmap-key", n.INIT_CONFIG_KEY],
        "env": [NODE_NAME],
    }


def _apart() -> Object:
    """Never two drivers on a node."""
    selector = {"matchExpressions": [{"key": n.DRIVER, "operator": "Exists"}]}
    return {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
