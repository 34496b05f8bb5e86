"""What users and operators see of a node with mock GPUs: drivers, plugins, ResourceSlices, claims and their pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from devcluster.boot.machines import GPU_TAINT
from devcluster.gpunode.images import WORKLOAD

if TYPE_CHECKING:
    from devcluster.boot.cluster import Cluster

OPERATOR_NAMESPACE: Final = "gpu-operator"
PLUGIN_NAMESPACE: Final = "nvidia-dra-driver-gpu"
PODS: Final = "/api/v1/namespaces/default/pods"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
TEMPLATES: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
MODULE: Final = "/run/nvidia/module-version"
DRIVER_ROOT: Final = "/run/nvidia/driver"
GPUS: Final = "gpu.nvidia.com"
GPUS_ALONE: Final = {"gpuResourcesEnabledOverride": True, "resources__computeDomains__enabled": False}
"""Values of NVIDIA's chart."""
SOON: Final[dict[str, Any]] = {"driver__startupProbe": {"initialDelaySeconds": 1, "periodSeconds": 1}}
"""Values of the operator's chart: drivers are loaded within seconds here."""


class GpuNode:
    """One real node with mock GPUs. There is no journal of a simulator: what is true is asked for in containers."""

    cluster: Cluster

    def offer_claims(self) -> None:
        """Create the template of the claims."""
        template = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPUS}}]}}}
        self.cluster.create(TEMPLATES, {"metadata": {"name": "gpu"}, "spec": template})

    def driver_ready(self, version: str) -> bool:
        """Whether the only driver pod is one of this version, and Ready."""
        pods = self.cluster.list(
            f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods", labelSelector="app.kubernetes.io/component=nvidia-driver"
        )
        images = [pod["spec"]["containers"][0]["image"] for pod in pods]
        return len(pods) == 1 and f":{version}-" in images[0] and _is_ready(pods[0])

    def devices(self, driver: str) -> list[dict[str, Any]]:
        """Return the devices in the ResourceSlices of a DRA driver."""
        slices = self.cluster.list(SLICES, fieldSelector=f"spec.driver={driver}")
        return [device for each in slices for device in each["spec"].get("devices", [])]

    def published(self) -> set[str]:
        """Return the driver versions that the ResourceSlices of the GPUs name."""
        return {device["attributes"]["driverVersion"]["version"] for device in self.devices(GPUS)}

    def plugin_pod(self) -> str:
        """Return the UID of the plugin's only pod."""
        (pod,) = self.cluster.list(f"/api/v1/namespaces/{PLUGIN_NAMESPACE}/pods")
        return str(pod["metadata"]["uid"])

    def plugin_age(self) -> float:
        """Return for how many seconds the plugin's container has run."""
        (pod,) = self.cluster.list(f"/api/v1/namespaces/{PLUGIN_NAMESPACE}/pods")
        (status,) = pod["status"]["containerStatuses"]
        started = datetime.fromisoformat(status["state"]["running"]["startedAt"])
        return (datetime.now(tz=UTC) - started).total_seconds()

    def claim(self, name: str) -> None:
        """Create a pod that claims a GPU and stays."""
        container = {
            "name": "only",
            "image": WORKLOAD,
            "command": ["bash", "-c", "trap 'exit 0' TERM; sleep infinity & wait"],
            "resources": {"claims": [{"name": "gpu"}]},
            "volumeMounts": [{"name": "module", "mountPath": MODULE}],
        }
        spec = {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            "tolerations": [{"key": GPU_TAINT["key"], "operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
            # The kernel module's version, which all containers of a machine share.
            "volumes": [{"name": "module", "hostPath": {"path": MODULE, "type": "File"}}],
        }
        self.cluster.create(PODS, {"metadata": {"name": name}, "spec": spec})

    def is_running(self, name: str) -> bool:
        """Whether a pod is Ready."""
        return _is_ready(self.cluster.get(f"{PODS}/{name}"))

    def failed(self, name: str, *reasons: str) -> bool:
        """Whether a warning about a pod has one of these words."""
        return any(reason in message for reason in reasons for message in self.warnings(name))

    def warnings(self, name: str) -> list[str]:
        """Return the warnings about a pod, oldest first."""
        events = self.cluster.list("/api/v1/namespaces/default/events")
        events = [each for each in events if each["involvedObject"]["name"] == name and each["type"] == "Warning"]
        return [str(each["message"]) for each in sorted(events, key=lambda each: each["metadata"]["creationTimestamp"])]

    def to_inject(self, name: str, version: str) -> set[str]:
        """Return what a pod is to have: the device that its claim was given, and the library of a driver."""
        (status,) = self.cluster.get(f"{PODS}/{name}")["status"]["resourceClaimStatuses"]
        claim = self.cluster.get(f"{CLAIMS}/{status['resourceClaimName']}")
        (device,) = claim["status"]["allocation"]["devices"]["results"]
        minor = device["device"].removeprefix("gpu-")
        return {f"/dev/nvidia{minor}", "/dev/nvidiactl", f"/usr/lib64/libnvidia-ml.so.{version}"}

    def injected(self, name: str) -> set[str]:
        """Return the devices, and the library of the driver, that a pod has."""
        found = self.inside(
            name, "find", "/dev", "/usr/lib64", "-name", "nvidia*", "-o", "-name", "libnvidia-ml.so.*.*"
        )
        return set(found.split())

    def inside(self, name: str, *command: str) -> str:
        """Run a command in a pod, whatever its exit code, and return what it prints."""
        return self.cluster.kubectl("exec", name, "--", *command, check=False).stdout


def label_states(cluster: Cluster) -> set[str]:
    """Return the upgrade states on the labels of the GPU nodes."""
    nodes = cluster.list("/api/v1/nodes", labelSelector="nvidia.com/gpu.present=true")
    return {node["metadata"]["labels"].get("nvidia.com/gpu-driver-upgrade-state", "") for node in nodes}


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
