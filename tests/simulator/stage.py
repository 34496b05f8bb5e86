"""A small fleet and what the tests of the simulation do to it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

from devcluster.cluster import Cluster
from devcluster.happening import Happening
from devcluster.patience import TooSlowError
from devcluster.truth import Truth

T = TypeVar("T")

OPERATOR = ("gpu-operator", "devcluster/charts/gpu-operator", "gpu-operator")
PLUGIN = ("dra-driver", "devcluster/charts/dra-driver", "nvidia-dra-driver")
NODES = ("gpu-0", "gpu-1", "gpu-2")
STATE = "nvidia.com/gpu-driver-upgrade-state"

BRISK = {"driver_unload_seconds": 0.2, "driver_install_seconds": 1.0, "driver_ready_gap_seconds": 0.6, "jitter": 0.0}
ALL_AT_ONCE = {"driver.upgradePolicy.maxParallelUpgrades": 0, "driver.upgradePolicy.maxUnavailable": "100%"}


class Stage:
    """The fleet under test, with short names for what the tests ask and do."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._versions = (f"580.{number}.01" for number in itertools.count(100))
        self.version = next(self._versions)
        self.knobs(**BRISK)
        self.operator()
        self.helm(PLUGIN, {})
        self.calm()

    @property
    def truth(self) -> Truth:
        """The journal so far."""
        return Truth.read(self.cluster.state)

    def knobs(self, **knobs: float) -> None:
        """Turn the fleet's knobs; the fleet makes their ConfigMap when it starts."""
        config_map = "/api/v1/namespaces/devcluster/configmaps/fleet"
        self.until(lambda: self.cluster.list(config_map.rpartition("/")[0], fieldSelector="metadata.name=fleet"))
        self.cluster.patch(config_map, {"data": {"knobs": json.dumps(BRISK | knobs)}})

    def operator(self, **values: object) -> None:
        """Install or upgrade the operator, with all nodes at once unless told otherwise."""
        dotted = {key.replace("__", "."): value for key, value in values.items()}
        self.chart = f"gpu-operator-{dotted.get('chartVersion', 'v26.3.3')}"
        self.helm(OPERATOR, {"driver.version": self.version} | ALL_AT_ONCE | dotted)

    def migrate(self, **values: object) -> float:
        """Ask for another driver version; return when that was."""
        self.version = next(self._versions)
        asked = time.time()
        self.operator(**values)
        return asked

    def helm(self, chart: tuple[str, str, str], values: dict[str, object]) -> None:
        """Install or upgrade a chart with exactly these values."""
        release, folder, namespace = chart
        sets = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
        self.cluster.helm(
            "upgrade", "--install", release, folder, "-n", namespace, "--create-namespace", "--reset-values", *sets
        )

    def annotate(self, node: str, **annotations: str | None) -> float:
        """Set annotations ``devcluster/<name>`` on a node; return when that was."""
        keys = {f"devcluster/{name.replace('_', '-')}": value for name, value in annotations.items()}
        asked = time.time()
        self.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": keys}})
        return asked

    def calm(self) -> None:
        """Wait until every node runs the asked driver, Ready, and restart what is stale."""
        self.until(self._rolled_out)
        self.until(lambda: all(self.truth.driver_ready_now(node) for node in NODES))
        self.until(lambda: set(self.truth.loaded_now().values()) == {self.version})
        for node in self.truth.stale_now():
            self.delete_plugin(node)
        self.until(lambda: not self.truth.stale_now() and len(self.plugins()) == len(NODES))
        self.until(lambda: set(self.states().values()) == {"upgrade-done"})

    def _rolled_out(self) -> bool:
        """Return whether the driver's DaemonSet is what was asked for, on all nodes."""
        daemonsets = self.cluster.list("/apis/apps/v1/namespaces/gpu-operator/daemonsets")
        return len(daemonsets) == 1 and all(
            each["metadata"]["labels"]["helm.sh/chart"] == self.chart
            and self.version in each["spec"]["template"]["spec"]["containers"][0]["image"]
            and each["status"].get("observedGeneration") == each["metadata"]["generation"]
            and each["status"].get("updatedNumberScheduled") == each["status"].get("numberReady") == len(NODES)
            for each in daemonsets
        )

    def delete_plugin(self, node: str) -> None:
        """Delete a node's plugin."""
        pod = self.plugins()[node]
        self.cluster.delete(f"/api/v1/namespaces/{PLUGIN[2]}/pods/{pod['metadata']['name']}")

    def plugins(self) -> dict[str, Any]:
        """Return the Ready plugin pods by node."""
        return _ready_by_node(self.cluster.list(f"/api/v1/namespaces/{PLUGIN[2]}/pods"))

    def drivers(self) -> dict[str, Any]:
        """Return the Ready driver pods by node."""
        selector = "app.kubernetes.io/component=nvidia-driver"
        return _ready_by_node(self.cluster.list("/api/v1/namespaces/gpu-operator/pods", labelSelector=selector))

    def states(self) -> dict[str, str]:
        """Return each GPU node's upgrade label."""
        nodes = self.cluster.list("/api/v1/nodes", labelSelector="nvidia.com/gpu.present=true")
        return {node["metadata"]["name"]: node["metadata"]["labels"].get(STATE, "") for node in nodes}

    def saw(self, event: str, node: str, since: float) -> list[Happening]:
        """Return the events of one kind on a node since a moment."""
        return [each for each in self.truth.since(since) if (each.event, each.node) == (event, node)]

    def until(self, look: Callable[[], T | None], seconds: float = 45) -> T:
        """Look again and again until there is something to see."""
        deadline = time.monotonic() + seconds
        while not (seen := look()):
            if time.monotonic() > deadline:
                raise TooSlowError("waited in vain")
            time.sleep(0.1)
        return seen


def end_lingering(cluster: Cluster) -> None:
    """End each operator that lingers after its pod was deleted (``simulate.oldOperatorLingers``)."""
    pods = "/api/v1/namespaces/gpu-operator/pods"
    for pod in cluster.list(pods, labelSelector="app.kubernetes.io/component=gpu-operator"):
        if "deletionTimestamp" in pod["metadata"]:
            cluster.delete(f"{pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 1})


def _ready_by_node(pods: list[Any]) -> dict[str, Any]:
    return {
        pod["spec"]["nodeName"]: pod
        for pod in pods
        if condition(pod, "Ready")[0] == "True" and "deletionTimestamp" not in pod["metadata"]
    }


def condition(pod: Any, kind: str) -> tuple[str, str]:  # noqa: ANN401 - a pod as the API sends it
    """Return a condition's status and last transition."""
    for each in pod.get("status", {}).get("conditions", []):
        if each["type"] == kind:
            return each["status"], each["lastTransitionTime"]
    return "", ""


def container(pod: Any, name: str) -> Any:  # noqa: ANN401 - a pod as the API sends it
    """Return the status of a container, init or main."""
    statuses = [*pod["status"].get("initContainerStatuses", []), *pod["status"].get("containerStatuses", [])]
    return next(each for each in statuses if each["name"] == name)
