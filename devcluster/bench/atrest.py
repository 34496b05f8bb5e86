"""A fleet at rest, as large as real ones are on the wire: nodes, driver pods, plugins and slices, all fresh.

Each node was upgraded at a moment of its own, as in a fleet that is upgraded one node after the other.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from devcluster.client import Object

NODE_BYTES: Final = 28_000
POD_BYTES: Final = 24_000
"""What these objects weigh on real clusters, managed fields and all."""
DRIVER: Final = "580.126.20"
CHART: Final = "gpu-operator-v26.3.4"
OPERATOR, DRA = "gpu-operator", "nvidia-dra-driver-gpu"
DRIVERS, PLUGINS = "nvidia-driver-daemonset", "dra-driver-nvidia-gpu-kubelet-plugin"
DRIVER_LABELS: Final = {"app": DRIVERS, "app.kubernetes.io/component": "nvidia-driver"}
PLUGIN_LABELS: Final = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
DRIVER_IMAGES: Final = {"nvidia-driver-ctr": f"nvcr.io/nvidia/driver:{DRIVER}-ubuntu22.04"}
PLUGIN_IMAGES: Final = dict.fromkeys(("compute-domains", "gpus"), "registry.example/dra:1")
BEGAN: Final = datetime(2026, 1, 1, 10, tzinfo=UTC)
TURN_SECONDS: Final = 7
STALE_SECONDS: Final = 420
"""A stale plugin is so much older than a fresh one."""
GPUS: Final = 8
POLICY: Final[Object] = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {
        "daemonsets": {"labels": {"helm.sh/chart": CHART}},
        "driver": {
            "enabled": True,
            "repository": "nvcr.io/nvidia",
            "image": "driver",
            "version": DRIVER,
            "usePrecompiled": False,
            "upgradePolicy": {"autoUpgrade": True},
        },
    },
}
POLICY_STATUS: Final[Object] = {"namespace": OPERATOR, "state": "ready"}


def name_of(number: int) -> str:
    """Name a node."""
    return f"gpu-{number}"


def driver_pod_of(number: int) -> str:
    """Name a node's driver pod."""
    return f"{DRIVERS}-{number}"


def fleet(nodes: int, policy_uid: str) -> Iterator[Object]:
    """Return every object of a fleet."""
    owned = {"ownerReferences": [_owner("ClusterPolicy", "cluster-policy", policy_uid)]}
    drivers = {**_meta(DRIVERS, OPERATOR, "driver-ds"), **owned}
    yield _daemonset(drivers, nodes, {**DRIVER_LABELS, "helm.sh/chart": CHART}, DRIVER_IMAGES)
    yield _daemonset(_meta(PLUGINS, DRA, "plugin-ds"), nodes, PLUGIN_LABELS, PLUGIN_IMAGES)
    yield {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            **_meta(f"{DRIVERS}-new", OPERATOR),
            "labels": {**DRIVER_LABELS, "controller-revision-hash": "new"},
            "ownerReferences": [_owner("DaemonSet", DRIVERS, "driver-ds")],
        },
        "revision": 2,
    }
    for number in range(nodes):
        yield node(number)
        yield driver_pod(number)
        yield plugin_pod(number)
        yield device_slice(number)


def node(number: int) -> Object:
    """Return a node with what feature discovery says of it, and with the images that it holds."""
    name = name_of(number)
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{count}": "true" for count in range(80)}
    labels = {
        **features,
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.driver": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
    }
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": _at(number, -3600)}
    images = [
        {"names": [f"registry.k8s.io/image-{count}@sha256:{count:064x}"], "sizeBytes": count} for count in range(50)
    ]
    found = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**_meta(name), "labels": labels},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"conditions": [ready], "capacity": {"nvidia.com/gpu": str(GPUS)}, "images": images},
    }
    return _sized(found, NODE_BYTES)


def driver_pod(number: int, *, ready: bool = True) -> Object:
    """Return a node's driver pod; one that is not ready yet loads its driver."""
    since = _at(number, 70 if ready else 0)
    status = {
        "phase": "Running",
        "conditions": _conditions(since, ready=ready),
        "initContainerStatuses": [_finished("k8s-driver-manager", number, -2)],
        "containerStatuses": [_running("nvidia-driver-ctr", number, 0)],
    }
    spec = {"initContainers": [{"name": "k8s-driver-manager"}], "containers": [{"name": "nvidia-driver-ctr"}]}
    labels = {**DRIVER_LABELS, "controller-revision-hash": "new"}
    owner = _owner("DaemonSet", DRIVERS, "driver-ds")
    return _pod(driver_pod_of(number), OPERATOR, number, labels, owner, spec, status)


def plugin_pod(number: int, *, stale: bool = False) -> Object:
    """Return a node's plugin, which waited for the driver that is there now, or started on the one before."""
    since = -STALE_SECONDS if stale else 0
    status = {
        "phase": "Running",
        "conditions": _conditions(_at(number, since + 80), ready=True),
        "initContainerStatuses": [_finished("init-container", number, since + 75)],
        "containerStatuses": [_running("compute-domains", number, since + 76), _running("gpus", number, since + 77)],
    }
    spec = {
        "initContainers": [{"name": "init-container"}],
        "containers": [{"name": "compute-domains"}, {"name": "gpus"}],
    }
    labels = {**PLUGIN_LABELS, "controller-revision-hash": "plugin"}
    owner = _owner("DaemonSet", PLUGINS, "plugin-ds")
    return _pod(f"{PLUGINS}-{number}", DRA, number, labels, owner, spec, status)


def device_slice(number: int) -> Object:
    """Return what a node's plugin publishes."""
    name = name_of(number)
    devices = [
        {
            "name": f"gpu-{count}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{number:08x}-{count:04x}"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "driverVersion": {"version": DRIVER},
                "cudaComputeCapability": {"version": "9.0.0"},
            },
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for count in range(GPUS)
    ]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": _meta(f"{name}-gpu.nvidia.com"),
        "spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices},
    }


def _daemonset(metadata: Object, nodes: int, labels: Object, images: Mapping[str, str]) -> Object:
    """Return a DaemonSet that is rolled out on all nodes; its pods have the labels, and those of a chart."""
    selected = {key: value for key, value in labels.items() if key != "helm.sh/chart"}
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    containers = [{"name": name, "image": image} for name, image in images.items()]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {**metadata, "generation": 2, "labels": labels},
        "spec": {
            "selector": {"matchLabels": selected},
            "updateStrategy": {"type": "OnDelete"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "containers": containers},
            },
        },
        "status": {"observedGeneration": 2, **dict.fromkeys(counts, nodes)},
    }


def _pod(  # noqa: PLR0913, PLR0917 - each is a part of a pod
    name: str, namespace: str, number: int, labels: Object, owner: Object, spec: Object, status: Object
) -> Object:
    found = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**_meta(name, namespace), "labels": labels, "ownerReferences": [owner]},
        "spec": {**spec, "nodeName": name_of(number)},
        "status": status,
    }
    return _sized(found, POD_BYTES)


def _meta(name: str, namespace: str = "", uid: str = "") -> Object:
    born = {
        "creationTimestamp": BEGAN.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "uid": uid or str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
    }
    return {"name": name, **born, **({"namespace": namespace} if namespace else {})}


def _owner(kind: str, name: str, uid: str) -> Object:
    version = "apps/v1" if kind == "DaemonSet" else "nvidia.com/v1"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _at(number: int, seconds: int) -> str:
    moment = BEGAN + timedelta(seconds=number * TURN_SECONDS + seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(since: str, *, ready: bool) -> list[Object]:
    status = "True" if ready else "False"
    return [{"type": kind, "status": status, "lastTransitionTime": since} for kind in ("Ready", "ContainersReady")]


def _finished(name: str, number: int, moment: int) -> Object:
    ended = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": _at(number, moment - 3),
        "finishedAt": _at(number, moment),
    }
    return {"name": name, "ready": True, "restartCount": 0, "state": {"terminated": ended}}


def _running(name: str, number: int, moment: int) -> Object:
    return {"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": _at(number, moment)}}}


def _sized(each: Object, size: int) -> Object:
    """Let an object weigh what it does in reality, by what makes it heavy there: who wrote which field."""
    missing, fields, count = size - len(json.dumps(each, separators=(",", ":"))) - 200, dict[str, Any](), 0
    while missing > 0:
        key = f"f:feature.node.kubernetes.io/field-{count}"
        fields[key] = {}
        missing -= len(key) + len('"":{},')
        count += 1
    wrote = {"manager": "nfd-master", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    managed = [{**wrote, "time": "2026-01-01T09:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": fields}}}]
    return {**each, "metadata": {**each["metadata"], "managedFields": managed}}
