"""Which DaemonSets a ClusterPolicy, an NVIDIADriver and a GPUCluster ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.controller.objects import OS_TAG, TOLERATION, digest, image_of, labels_of, name_of
from devcluster.operator import names as n
from devcluster.operator.driverpod import driver_pod
from devcluster.operator.nodes import is_gpu_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]

NAME = "nvidia-driver-daemonset"
TOOLKIT = "nvidia-container-toolkit-daemonset"
MIG_MANAGER = "nvidia-mig-manager"
PLUGIN = "nvidia-dra-driver-kubelet-plugin"

OPERANDS = (
    ("toolkit", TOOLKIT, "container-toolkit", "nvidia-container-toolkit-ctr"),
    ("migManager", MIG_MANAGER, "mig-manager", MIG_MANAGER),
)
"""The field of a ClusterPolicy that asks for an operand, its DaemonSet, its deploy label, and its container."""


def policy_drivers(policy: Object, nodes: Iterable[Object], salt: str) -> Iterator[Object]:
    """Render a ClusterPolicy's driver: one DaemonSet, or one a kernel where drivers are precompiled."""
    driver = policy["spec"]["driver"]
    if driver["enabled"] and not driver["useNvidiaDriverCRD"]:
        for kernel in _kernels(driver, [node for node in nodes if is_gpu_node(node)]):
            name = f"{NAME}-{kernel}-{OS_TAG}" if kernel else NAME
            labels = _labels(name, driver) | policy["spec"]["daemonsets"]["labels"]
            yield _driver(driver, labels, kernel, {}, salt)


def pool_drivers(driver: Object, nodes: Iterable[Object], salt: str, *, modern: bool) -> Iterator[Object]:
    """Render an NVIDIADriver for the nodes that are its own: none where it has none."""
    spec = driver["spec"]
    selector = {n.DRIVER_OWNER: name_of(driver)} if modern else spec.get("nodeSelector", {})
    for kernel in _kernels(spec, nodes):
        name = f"nvidia-gpu-driver-{OS_TAG}-{digest([driver['metadata']['uid'], kernel])}"
        yield _driver(spec, _labels(name, spec), kernel, selector, salt)


def _kernels(driver: Object, nodes: Iterable[Object]) -> list[str]:
    """Return the kernels that need a DaemonSet of their own; an empty one fits all."""
    precompiled = driver["usePrecompiled"]
    return sorted({labels_of(node)[n.NFD_KERNEL] if precompiled else "" for node in nodes})


def _labels(name: str, driver: Object) -> dict[str, str]:
    precompiled = "true" if driver["usePrecompiled"] else "false"
    return {"app": name, n.COMPONENT: n.DRIVER, "nvidia.com/precompiled": precompiled}


def _driver(driver: Object, labels: dict[str, str], kernel: str, selector: dict[str, str], salt: str) -> Object:
    """Spell the DaemonSet of a driver.

    DRIVER_CONFIG_DIGEST is what k8s-driver-manager compares to keep a loaded driver. The salt stands for
    what an operator renders otherwise than its predecessor did.
    """
    tag = "-".join(filter(None, [driver["version"], kernel, OS_TAG]))
    image = f"{driver['repository']}/{driver['image']}:{tag}"
    told = [driver[key] for key in ("version", "image", "repository", "usePrecompiled")]
    own = {n.NFD_KERNEL: kernel} if kernel else {}
    return _daemonset(labels, driver_pod(driver, image, digest([told, salt]), own | selector), "OnDelete")


def operands(policy: Object) -> Iterator[Object]:
    """Render the container toolkit and the MIG manager, where a ClusterPolicy wants them."""
    for field, name, operand, container in OPERANDS:
        spec = policy["spec"][field]
        if spec["enabled"]:
            labels = {"app": name} | policy["spec"]["daemonsets"]["labels"]
            yield _operand(labels, operand, image_of(spec), container)


def dra_plugin(cluster: Object) -> Object:
    """Render the kubelet plugin of a GPUCluster, which k8s-driver-manager drains with the driver."""
    labels = {"app": PLUGIN, "app.kubernetes.io/name": "nvidia-dra-driver", n.COMPONENT: PLUGIN}
    return _operand(labels, "dra-driver", image_of(cluster["spec"]["draDriver"]), "gpus", "compute-domains")


def _operand(labels: dict[str, str], operand: str, image: str, *containers: str) -> Object:
    """Spell the DaemonSet of an operand, whose pod waits for the driver by the operator's own validator."""
    validation = {
        "name": "driver-validation",
        "image": "nvcr.io/nvidia/gpu-operator",
        "command": ["nvidia-validator"],
        "env": [{"name": "WITH_WAIT", "value": "true"}, {"name": "COMPONENT", "value": "driver"}],
    }
    pod = {
        "priorityClassName": "system-node-critical",
        "nodeSelector": {n.DEPLOY + operand: "true"},
        "tolerations": [TOLERATION],
        "initContainers": [validation],
        "containers": [{"name": name, "image": image} for name in containers],
    }
    return _daemonset(labels, pod, "RollingUpdate")


def _daemonset(labels: dict[str, str], pod: Object, strategy: str) -> Object:
    """Spell a DaemonSet, which is called as its label ``app`` says."""
    name = labels["app"]
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"type": strategy},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}
