"""The objects of one node with a driver and a plugin, as its kubelet would report them: the times are what was seen."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.client import Object

NODE: Final = "gpu-0"
OPERATOR, DRA = "gpu-operator", "nvidia-dra-driver-gpu"
NAMESPACES: Final = (OPERATOR, DRA)
DRIVERS, PLUGINS = "nvidia-driver-daemonset", "dra-driver-nvidia-gpu-kubelet-plugin"
PLUGIN_LABELS: Final = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
DRIVER_LABELS: Final = {"app": DRIVERS, "app.kubernetes.io/component": "nvidia-driver"}
POLICY: Final = "cluster-policy"
REVISION: Final = {"controller-revision-hash": "only"}
IMAGE: Final = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1"


@dataclass(frozen=True, slots=True)
class Span:
    """When something began, and when it ended or was ready; in seconds since 1970."""

    began: float
    done: float


def policy(version: str) -> Object:
    """Return the ClusterPolicy that asks for this driver."""
    driver = {
        "enabled": True,
        "repository": "nvcr.io/nvidia",
        "image": "driver",
        "version": version,
        "usePrecompiled": False,
        "upgradePolicy": {"autoUpgrade": True},
    }
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": POLICY},
        "spec": {"daemonsets": {}, "driver": driver},
    }


def base(version: str, driver: Span, policy_uid: str) -> Iterator[Object]:
    """Return the node, its driver, and the DaemonSets."""
    image = f"nvcr.io/nvidia/driver:{version}-ubuntu24.04"
    owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": POLICY, "uid": policy_uid}
    drivers = _daemonset(OPERATOR, DRIVERS, DRIVER_LABELS, {"nvidia-driver-ctr": image})
    drivers["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    yield drivers
    yield _daemonset(DRA, PLUGINS, PLUGIN_LABELS, {"gpus": IMAGE})
    for namespace, name, labels in ((OPERATOR, DRIVERS, DRIVER_LABELS), (DRA, PLUGINS, PLUGIN_LABELS)):
        yield {
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {
                **_meta(f"{name}-only", namespace),
                "labels": labels | REVISION,
                "ownerReferences": [_owner(name)],
            },
            "revision": 1,
        }
    yield _node(driver)
    yield driver_pod(version, driver)


def driver_pod(version: str, driver: Span, restarts: int = 0) -> Object:
    """Return the driver's pod: its container began with the driver, and is Ready since `nvidia-smi` answered."""
    status = {
        "phase": "Running",
        "conditions": _conditions(driver.done),
        "containerStatuses": [_running("nvidia-driver-ctr", driver.began, restarts)],
    }
    container = {"name": "nvidia-driver-ctr", "image": f"nvcr.io/nvidia/driver:{version}-ubuntu24.04"}
    return _pod(f"{DRIVERS}-0", OPERATOR, DRIVER_LABELS, DRIVERS, {"containers": [container]}, status)


def plugin_pod(name: str, check: Span, plugin: Span) -> Object:
    """Return the plugin's pod: when NVIDIA's start-up script checked the driver, and when the plugin started."""
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": spelled(check.began), "finishedAt": spelled(check.done)}
    status = {
        "phase": "Running",
        "conditions": _conditions(plugin.done),
        "initContainerStatuses": [
            {"name": "init-container", "ready": True, "restartCount": 0, "state": {"terminated": ended}}
        ],
        "containerStatuses": [_running("gpus", plugin.began)],
    }
    spec = {
        "initContainers": [{"name": "init-container", "image": IMAGE}],
        "containers": [{"name": "gpus", "image": IMAGE}],
    }
    return _pod(name, DRA, PLUGIN_LABELS, PLUGINS, spec, status)


def claim(name: str) -> Object:
    """Return a claim for one GPU."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def allocation(device: str) -> Object:
    """Return the status that a scheduler gives to a claim."""
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": NODE, "device": device}
    return {"status": {"allocation": {"devices": {"results": [result]}}}}


def spelled(moment: float) -> str:
    """Spell a moment as the API does; it keeps no fractions of a second."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _node(driver: Span) -> Object:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastTransitionTime": spelled(driver.began),
        "lastHeartbeatTime": spelled(driver.done),
    }
    labels = {
        "kubernetes.io/hostname": NODE,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.driver": "true",
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**_meta(NODE), "labels": labels},
        "spec": {},
        "status": {"conditions": [ready]},
    }


def _daemonset(namespace: str, name: str, labels: Object, images: Object) -> Object:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    containers = [{"name": container, "image": image} for container, image in images.items()]
    spec = {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "containers": containers}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            **_meta(name, namespace),
            "generation": 1,
            "labels": {**labels, "app.kubernetes.io/name": "dra-driver-nvidia-gpu"},
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": {"observedGeneration": 1, **dict.fromkeys(counts, 1)},
    }


def _pod(name: str, namespace: str, labels: Object, owner: str, spec: Object, status: Object) -> Object:  # noqa: PLR0913, PLR0917 - each is a part of a pod
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**_meta(name, namespace), "labels": labels | REVISION, "ownerReferences": [_owner(owner)]},
        "spec": {**spec, "nodeName": NODE, "terminationGracePeriodSeconds": 30},
        "status": status,
    }


def _meta(name: str, namespace: str = "") -> Object:
    born = {"creationTimestamp": spelled(datetime.now(UTC).timestamp()), "uid": _uid(name)}
    return {"name": name, **born, **({"namespace": namespace} if namespace else {})}


def _uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _owner(name: str) -> Object:
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": _uid(name), "controller": True}


def _conditions(since: float) -> list[Object]:
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return [{"type": kind, "status": "True", "lastTransitionTime": spelled(since)} for kind in kinds]


def _running(name: str, began: float, restarts: int = 0) -> Object:
    state = {"running": {"startedAt": spelled(began)}}
    return {"name": name, "ready": True, "started": True, "restartCount": restarts, "state": state}
