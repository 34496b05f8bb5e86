"""The objects of one node with a driver and a plugin, as its kubelet would report them: the times are what was seen.

They are those of the unit tests, with these times, and with the version of the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import yaml

from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.client import Object

FIXTURES: Final = CHECKOUT / "tests/fixtures/api"
NODE: Final = "gpu-0"
OPERATOR, DRA = "gpu-operator", "nvidia-dra-driver-gpu"
NAMESPACES: Final = (OPERATOR, DRA)
POLICY: Final = "cluster-policy"
DRIVER_POD: Final = "driver-gpu-0"
PLUGIN: Final = "gpus"
"""The container that runs here. The other one, for ComputeDomains, does not."""
IMAGE: Final = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.4.1"


@dataclass(frozen=True, slots=True)
class Span:
    """When something began, and when it ended or was ready; in seconds since 1970."""

    began: float
    done: float


def policy(version: str) -> Object:
    """Return the ClusterPolicy that asks for this driver."""
    found = _read("policy")
    del found["metadata"]["uid"]
    found["spec"]["driver"]["version"] = version
    return found


def base(version: str, driver: Span, policy_uid: str) -> Iterator[Object]:
    """Return the node, its driver, and the DaemonSets."""
    drivers = _read("driver-daemonset")
    drivers["metadata"]["ownerReferences"][0]["uid"] = policy_uid
    drivers["spec"]["template"]["spec"]["containers"][0]["image"] = f"nvcr.io/nvidia/driver:{version}-ubuntu24.04"
    yield drivers
    plugins = _read("plugin-daemonset")
    _keep_plugin(plugins["spec"]["template"]["spec"]["containers"])
    yield plugins
    yield _read("revision")
    node = _read("node")
    node["metadata"]["uid"] = NODE  # It owns the ResourceSlices of the plugin.
    yield node
    yield driver_pod(driver)


def driver_pod(driver: Span, restarts: int = 0) -> Object:
    """Return the driver's pod: its container began with the driver, and is Ready since `nvidia-smi` answered."""
    found = _read("driver-pod")
    ended = found["status"]["initContainerStatuses"][0]["state"]["terminated"]
    ended |= {"startedAt": spelled(driver.began), "finishedAt": spelled(driver.began)}
    return _running(found, driver, restarts)


def plugin_pod(name: str, check: Span, plugin: Span) -> Object:
    """Return the plugin's pod: when NVIDIA's start-up script checked the driver, and when the plugin started."""
    found = _read("plugin-pod")
    found["metadata"] |= {"name": name, "uid": name}
    ended = found["status"]["initContainerStatuses"][0]["state"]["terminated"]
    ended |= {"startedAt": spelled(check.began), "finishedAt": spelled(check.done)}
    for containers in (found["spec"]["containers"], found["status"]["containerStatuses"]):
        _keep_plugin(containers)
    return _running(found, plugin)


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


def _read(name: str) -> Object:
    found: Object = yaml.safe_load((FIXTURES / f"{name}.yaml").read_text())
    return found


def _keep_plugin(containers: list[Object]) -> None:
    containers[:] = [each for each in containers if each["name"] == PLUGIN]


def _running(pod: Object, span: Span, restarts: int = 0) -> Object:
    """Let the only container of a pod run, and the pod be Ready."""
    del pod["metadata"]["resourceVersion"]
    pod["metadata"]["creationTimestamp"] = spelled(span.began)
    for condition in pod["status"]["conditions"]:
        condition["lastTransitionTime"] = spelled(span.done)
    (status,) = pod["status"]["containerStatuses"]
    status |= {"restartCount": restarts, "state": {"running": {"startedAt": spelled(span.began)}}}
    return pod
