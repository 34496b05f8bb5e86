"""The cluster's first objects: GPU nodes as Node Feature Discovery labels them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from devcluster.boot.layout import SYSTEM_NODE
from devcluster.build.programs import KUBERNETES
from devcluster.client import ApiError, path
from devcluster.fleet.settings import CONFIG_MAP, KEY, NAMESPACE

if TYPE_CHECKING:
    from devcluster.client import Api, Object

NODES = path("v1", "nodes")

KERNEL = "5.15.0-139-generic"

GPU_NODE_LABELS = {
    "beta.kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
    "feature.node.kubernetes.io/cpu-model.vendor_id": "Intel",
    "feature.node.kubernetes.io/kernel-version.full": KERNEL,
    "feature.node.kubernetes.io/kernel-version.major": "5",
    "feature.node.kubernetes.io/kernel-version.minor": "15",
    "feature.node.kubernetes.io/kernel-version.revision": "0",
    "feature.node.kubernetes.io/pci-10de.present": "true",
    "feature.node.kubernetes.io/pci-10de.sriov.capable": "false",
    "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID.major": "22",
    "feature.node.kubernetes.io/system-os_release.VERSION_ID.minor": "04",
}
"""As on a node that the GPU operator has not seen yet; its own ``nvidia.com`` labels are the operator's."""

NIC_LABELS = {"feature.node.kubernetes.io/pci-15b3.present": "true"}
"""What Node Feature Discovery says besides of a node with a network card of NVIDIA."""

CAPACITY = {
    "cpu": "64",
    "ephemeral-storage": "1Ti",
    "memory": "512Gi",
    "nvidia.com/gpu": "8",
    "pods": "250",
}

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
"""Keeps all but the GPU operator's and the driver clients' pods off: they land on the system node."""

_POLICIES = path("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies")
_BINDINGS = path("admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings")


def gpu_node(name: str, *, nic: bool = False) -> Object:
    """Describe a GPU node that has just joined, with a network card of NVIDIA or without."""
    return {
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {**GPU_NODE_LABELS, **(NIC_LABELS if nic else {}), "kubernetes.io/hostname": name},
        },
        "spec": {"taints": [GPU_TAINT]},
        "status": {
            "allocatable": CAPACITY,
            "capacity": CAPACITY,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": f"boot-{name}",
                "containerRuntimeVersion": "containerd://1.7.27",
                "kernelVersion": KERNEL,
                "kubeProxyVersion": KUBERNETES,
                "kubeletVersion": KUBERNETES,
                "machineID": f"machine-{name}",
                "operatingSystem": "linux",
                "osImage": "Ubuntu 22.04.5 LTS",
                "systemUUID": f"system-{name}",
            },
        },
    }


def system_node() -> Object:
    """Describe the node for everything but drivers and plugins (`devcluster.pods`); KWOK keeps it Ready, too."""
    room = {name: amount for name, amount in CAPACITY.items() if "/" not in name}
    labels = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": SYSTEM_NODE}
    node = gpu_node(SYSTEM_NODE)
    node["metadata"]["labels"] = {**labels, "devcluster/system": "true"}
    node["spec"] = {}
    node["status"] |= {"allocatable": room, "capacity": room}
    return node


def gpu_node_names(count: int) -> list[str]:
    """Name the GPU nodes of a cluster."""
    return [f"gpu-{number}" for number in range(count)]


async def prepare(api: Api) -> None:
    """Create what the cluster needs before its nodes: the simulator's namespace and settings."""
    await create_missing(api, path("v1", "namespaces"), {"metadata": {"name": NAMESPACE}})
    config_map = {"metadata": {"name": CONFIG_MAP}, "data": {KEY: "{}"}}
    await create_missing(api, path("v1", "configmaps", namespace=NAMESPACE), config_map)


async def create_policy(api: Api, policy: Object) -> None:
    """Create a mutating admission policy that holds everywhere."""
    name = policy["metadata"]["name"]
    binding = {"metadata": {"name": name}, "spec": {"policyName": name}}
    await create_missing(api, _POLICIES, policy)
    await create_missing(api, _BINDINGS, binding)


async def create_system_node(api: Api) -> None:
    """Create the node whose pods run as processes."""
    await create_missing(api, NODES, system_node())


async def create_gpu_nodes(api: Api, count: int, nics: int = 0) -> None:
    """Create the GPU nodes at once, the first `nics` of them with a network card of NVIDIA."""
    nodes = [gpu_node(name, nic=number < nics) for number, name in enumerate(gpu_node_names(count))]
    await asyncio.gather(*(create_missing(api, NODES, node) for node in nodes))


async def label_as_gpu_node(api: Api, name: str) -> None:
    """Label a node that has joined by itself as Node Feature Discovery does; the rest is its kubelet's."""
    labels = {key: value for key, value in GPU_NODE_LABELS.items() if key.startswith("feature.node.kubernetes.io/")}
    await api.patch(f"{NODES}/{name}", {"metadata": {"labels": labels}})


async def create_missing(api: Api, collection: str, body: Object) -> None:
    """Create an object unless it is there."""
    try:
        await api.create(collection, body)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


async def usable_nodes(api: Api) -> set[str]:
    """Name the nodes that are Ready, and whose taint of a node that is not has been taken away."""
    return {node["metadata"]["name"] for node in await api.list(NODES) if is_ready(node) and not _held(node)}


def _held(node: Object) -> bool:
    """Whether the node lifecycle controller keeps pods off the node."""
    return any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))


def is_ready(node: Object) -> bool:
    """Whether a node says, or is said to be, Ready."""
    conditions = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def accepts_pods(api: Api) -> bool:
    """Whether the controller manager has made the ServiceAccount that every pod without one gets."""
    accounts = await api.list(path("v1", "serviceaccounts", namespace="default"))
    return any(account["metadata"]["name"] == "default" for account in accounts)
