"""Which driver DaemonSets a ClusterPolicy asks for."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from devcluster.operator import names as n
from devcluster.operator.labels import is_gpu_node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.operator.settings import Settings

Object = dict[str, Any]

NAME = "nvidia-driver-daemonset"

ARCHITECTURES = (".x86_64", ".aarch64")
"""Suffixes of kernel versions that the real operator leaves out of a name."""

MANAGER_IMAGE = "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def daemonsets(policy: Object, nodes: Iterable[Object], settings: Settings) -> list[Object]:
    """Render the driver: one DaemonSet, or one a kernel where drivers are precompiled."""
    driver = policy["spec"]["driver"]
    gpu_nodes = [node for node in nodes if is_gpu_node(node)]
    if not driver.get("enabled", True) or not gpu_nodes:
        return []
    os_tag = _os_tag(gpu_nodes[0])
    if not driver.get("usePrecompiled", False):
        return [_daemonset(policy, settings, NAME, f"{driver['version']}-{os_tag}", {})]
    kernels = sorted({n.labels_of(node)[n.NFD_KERNEL] for node in gpu_nodes})
    return [
        _daemonset(
            policy,
            settings,
            f"{NAME}-{_without_architecture(kernel)}-{os_tag}",
            f"{driver['version']}-{kernel}-{os_tag}",
            {n.NFD_KERNEL: kernel},
        )
        for kernel in kernels
    ]


def applied_hash(daemonset: Object) -> str:
    """Return the annotation by which the operator knows its own last rendering."""
    return str(n.annotations_of(daemonset).get(n.APPLIED_HASH, ""))


def config_digest(policy: Object, settings: Settings) -> str:
    """Return DRIVER_CONFIG_DIGEST: what k8s-driver-manager compares to keep a loaded driver.

    It depends on the operator's version, because each renders other variables and mounts,
    unless the settings fix its salt.
    """
    driver = policy["spec"]["driver"]
    told = {key: driver.get(key) for key in ("version", "image", "repository", "usePrecompiled")}
    return _digest([told, settings.digest_salt or settings.version])


def _daemonset(policy: Object, settings: Settings, name: str, tag: str, node_selector: dict[str, str]) -> Object:
    driver = policy["spec"]["driver"]
    precompiled = "true" if driver.get("usePrecompiled") else "false"
    labels = policy["spec"].get("daemonsets", {}).get("labels", {}) | {
        "app": name,
        n.COMPONENT: n.DRIVER,
        "nvidia.com/precompiled": precompiled,
    }
    digest = {"name": "DRIVER_CONFIG_DIGEST", "value": config_digest(policy, settings)}
    image = f"{driver['repository']}/{driver['image']}:{tag}"
    spec = {
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": {
            "metadata": {"labels": labels},
            "spec": _pod(image, digest) | {"nodeSelector": {n.DEPLOY + "driver": "true", **node_selector}},
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": settings.namespace,
            "labels": labels,
            "annotations": {n.APPLIED_HASH: _digest(spec)},
            "ownerReferences": [_owner(policy)],
        },
        "spec": spec,
    }


def _pod(image: str, digest: Object) -> Object:
    """Spell the pod: the parts of the real one that somebody reads, and what is needed to run it."""
    node_name = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    mount = {"name": "run-nvidia", "mountPath": "/run/nvidia", "mountPropagation": "Bidirectional"}
    return {
        "serviceAccountName": "nvidia-driver",
        "priorityClassName": "system-node-critical",
        "hostPID": True,
        "tolerations": [TOLERATION],
        "initContainers": [
            {
                "name": "k8s-driver-manager",
                "image": MANAGER_IMAGE,
                "command": ["driver-manager"],
                "args": ["uninstall_driver"],
                "env": [node_name, {"name": "ENABLE_GPU_POD_EVICTION", "value": "true"}, digest],
                "securityContext": {"privileged": True},
                "volumeMounts": [mount],
            }
        ],
        "containers": [
            {
                "name": "nvidia-driver-ctr",
                "image": image,
                "command": ["nvidia-driver"],
                "args": ["init"],
                "env": [node_name, digest],
                "securityContext": {"privileged": True},
                "startupProbe": {
                    "exec": {"command": ["sh", "/usr/local/bin/startup-probe.sh"]},
                    "initialDelaySeconds": 60,
                    "periodSeconds": 10,
                    "failureThreshold": 120,
                    "timeoutSeconds": 60,
                },
                "volumeMounts": [mount],
            }
        ],
        "volumes": [{"name": "run-nvidia", "hostPath": {"path": "/run/nvidia", "type": "DirectoryOrCreate"}}],
    }


def _owner(policy: Object) -> Object:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": n.name_of(policy),
        "uid": policy["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _os_tag(node: Object) -> str:
    labels = n.labels_of(node)
    return labels[n.NFD_OS] + labels[n.NFD_OS_VERSION]


def _without_architecture(kernel: str) -> str:
    for suffix in ARCHITECTURES:
        kernel = kernel.removesuffix(suffix)
    return kernel


def _digest(value: object) -> str:
    return str(zlib.crc32(json.dumps(value, sort_keys=True).encode()))
