"""The driver's pod: the parts of the real one that are read, and what is needed to run it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from devcluster.controller.objects import NODE_NAME, TOLERATION
from devcluster.operator import names as n

Object = dict[str, Any]

MANAGER_IMAGE = "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"

DTK_IMAGE = "quay.io/openshift-release-dev/ocp-v4.0-art-dev:driver-toolkit"
"""The toolkit image of an OpenShift release; by digest in reality."""

VERSION_ANNOTATION = "devcluster/driver-version"
"""Shows the simulated kubelet which driver an image given by its digest holds."""

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


@dataclass(frozen=True, slots=True)
class DriverPod:
    """What differs from one driver pod template to another."""

    image: str
    digest: str
    """DRIVER_CONFIG_DIGEST."""
    selector: dict[str, str]
    manager_env: list[Object] = field(default_factory=list)
    """Further environment of k8s-driver-manager."""
    toolkit: bool = False
    """Whether OpenShift's driver toolkit builds the driver, in a container of its own."""
    account: str = "nvidia-driver"
    rdma: tuple[Object, ...] = ()
    """The environment that turns GPUDirect RDMA on: the driver then waits for the network card's."""
    probe: Object = field(default_factory=dict)
    """What of the startup probe is to differ."""

    def spec(self) -> Object:
        """Spell the pod."""
        return {
            "serviceAccountName": self.account,
            "priorityClassName": "system-node-critical",
            "hostPID": True,
            "nodeSelector": {n.DEPLOY + "driver": "true", **self.selector},
            "affinity": ALONE,
            "tolerations": [TOLERATION],
            "initContainers": [self._manager()],
            "containers": [
                self._driver(),
                *([self._peermem()] if self.rdma else []),
                *([self._toolkit()] if self.toolkit else []),
            ],
            "volumes": [{"name": "run-nvidia", "hostPath": {"path": "/run/nvidia", "type": "DirectoryOrCreate"}}],
        }

    def _manager(self) -> Object:
        return {
            "name": "k8s-driver-manager",
            "image": MANAGER_IMAGE,
            "command": ["driver-manager"],
            "args": ["uninstall_driver"],
            "env": [
                NODE_NAME,
                {"name": "ENABLE_GPU_POD_EVICTION", "value": "true"},
                *self.rdma,
                *self.manager_env,
                self._digest,
            ],
            "securityContext": {"privileged": True},
            "volumeMounts": [_mount()],
        }

    def _driver(self) -> Object:
        command, args = ("ocp_dtk_entrypoint", "nv-ctr-run-with-dtk") if self.toolkit else ("nvidia-driver", "init")
        return {
            "name": n.DRIVER_CONTAINER,
            "image": self.image,
            "command": [command],
            "args": [args],
            "env": [NODE_NAME, *self.rdma, self._digest],
            "securityContext": {"privileged": True},
            "startupProbe": STARTUP_PROBE | self.probe,
            "volumeMounts": [_mount()],
        }

    def _peermem(self) -> Object:
        return {
            "name": "nvidia-peermem-ctr",
            "image": self.image,
            "command": ["nvidia-driver"],
            "args": ["reload_nvidia_peermem"],
            "env": list(self.rdma),
            "securityContext": {"privileged": True},
            "startupProbe": {"exec": {"command": ["sh", "-c", "nvidia-driver probe_nvidia_peermem"]}},
            "volumeMounts": [_mount()],
        }

    def _toolkit(self) -> Object:
        return {
            "name": "openshift-driver-toolkit-ctr",
            "image": DTK_IMAGE,
            "command": ["bash", "-xc"],
            "args": ["exec /mnt/shared-nvidia-driver-toolkit/ocp_dtk_entrypoint dtk-build-driver"],
            "env": [self._digest],
            "securityContext": {"privileged": True},
        }

    @property
    def _digest(self) -> Object:
        return {"name": "DRIVER_CONFIG_DIGEST", "value": self.digest}


def rdma_environment(driver: Object) -> tuple[Object, ...]:
    """Return the environment for GPUDirect RDMA; none where it is off."""
    rdma = driver.get("rdma", {})
    if not rdma.get("enabled"):
        return ()
    host = [{"name": "USE_HOST_MOFED", "value": "true"}] if rdma.get("useHostMofed") else []
    return ({"name": "GPU_DIRECT_RDMA_ENABLED", "value": "true"}, *host)


def _mount() -> Object:
    return {"name": "run-nvidia", "mountPath": "/run/nvidia", "mountPropagation": "Bidirectional"}


def version_note(image: str, loaded_version: str) -> Object:
    """Annotate the template where the image does not say what it holds."""
    return {VERSION_ANNOTATION: loaded_version} if "@" in image and loaded_version else {}
