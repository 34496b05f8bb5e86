"""The driver's pod: the parts of the real one that are read, and what is needed to run it on a kubelet."""

from __future__ import annotations

from typing import Any

from devcluster.controller.objects import TOLERATION
from devcluster.operator import names as n

Object = dict[str, Any]

MANAGER_IMAGE = "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"

NODE_NAME = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}

STARTUP_PROBE = {
    "exec": {"command": ["sh", "/usr/local/bin/startup-probe.sh"]},
    "initialDelaySeconds": 60,
    "periodSeconds": 10,
    "failureThreshold": 120,
    "timeoutSeconds": 60,
}
"""Of the driver's container; policies and NVIDIADrivers may say otherwise."""

ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchExpressions": [{"key": n.COMPONENT, "operator": "In", "values": [n.DRIVER]}]},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}
"""Two driver pods never share a node: the second one stays Pending until the first is gone."""


def driver_pod(spec: Object, image: str, config_digest: str, selector: dict[str, str]) -> Object:
    """Spell the pod of a driver, as a ClusterPolicy or an NVIDIADriver specifies it."""
    digest = {"name": "DRIVER_CONFIG_DIGEST", "value": config_digest}
    common = {
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "run-nvidia", "mountPath": "/run/nvidia", "mountPropagation": "Bidirectional"}],
    }
    manager = {
        "name": "k8s-driver-manager",
        "image": MANAGER_IMAGE,
        "command": ["driver-manager"],
        "args": ["uninstall_driver"],
        "env": [NODE_NAME, {"name": "ENABLE_GPU_POD_EVICTION", "value": "true"}, *spec["manager"]["env"], digest],
    }
    driver = {
        "name": "nvidia-driver-ctr",
        "image": image,
        "command": ["nvidia-driver"],
        "args": ["init"],
        "env": [NODE_NAME, digest],
        "startupProbe": STARTUP_PROBE | spec.get("startupProbe", {}),
    }
    return {
        "priorityClassName": "system-node-critical",
        "hostPID": True,
        "nodeSelector": {n.DEPLOY + "driver": "true", **selector},
        "affinity": ALONE,
        "tolerations": [TOLERATION],
        "initContainers": [manager | common],
        "containers": [driver | common],
        "volumes": [{"name": "run-nvidia", "hostPath": {"path": "/run/nvidia", "type": "DirectoryOrCreate"}}],
    }
