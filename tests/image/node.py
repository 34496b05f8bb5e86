"""A laboratory whose hook is a container: on a real node, of the image, as the chart makes it by default.

The hook lives in a namespace of its own that enforces the restricted Pod Security Standard. (The operator's cannot:
driver pods are privileged.)
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from devcluster.boot.cluster import Cluster
from devcluster.kubelet import cgroups
from devcluster.kubelet.names import REAL_NODE, Files
from devcluster.releases import sets
from tests.e2e.lab import CHART, IMAGE, QUICK, RELEASE, Lab

HOME: Final = "post"
PODS: Final = f"/api/v1/namespaces/{HOME}/pods"
PYTHON: Final = "/opt/gpu-operator-post/bin/python"
HOLD: Final = "devcluster/hold"
STRATEGIC: Final = "application/strategic-merge-patch+json"
"""A patch that adds to a list of finalizers, or takes from it (Kubernetes' strategic merge patch)."""
KEPT: Final = {"image__repository": IMAGE, "hook__deletePolicy": "before-hook-creation"}
"""The Job of a run that succeeded stays, so that its pods can be asked how they ended."""
DEFAULT: Final = object()
"""Leaves a value to the chart."""
NAMESPACE_LABELS: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


class NodeLab(Lab):
    """A cluster with a real node, and what is true of the containers on it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.home = HOME
        cluster.create("/api/v1/namespaces", {"metadata": {"name": HOME, "labels": NAMESPACE_LABELS}})

    def start_post(
        self, *, args: tuple[str, ...] = QUICK, helm: tuple[str, ...] = (), **values: object
    ) -> subprocess.Popen[str]:
        """Install or upgrade our chart with its defaults but for times, and for a Job that is kept; Helm 4."""
        # A run lasts as long as the faults in it, which on a busy machine is minutes.
        chosen: dict[str, object] = {"timeout": "20m", **dict(word.split("=") for word in args), **KEPT, **values}
        chosen = {name: value for name, value in chosen.items() if value is not DEFAULT}
        return self.cluster.start_helm(
            "upgrade", "--install", RELEASE, CHART, "-n", HOME,
            "--reset-values", "--timeout", "22m", *helm, *sets(chosen),
        )  # fmt: skip

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of our Job, oldest first."""
        return self._ours("!=")

    def controller_pods(self) -> list[dict[str, Any]]:
        """Return the pods of our Deployment, oldest first."""
        return self._ours("=")

    def _ours(self, relation: str) -> list[dict[str, Any]]:
        selector = f"app.kubernetes.io/name={RELEASE},app.kubernetes.io/component{relation}controller"
        found = self.cluster.list(PODS, labelSelector=selector)
        return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def running(self) -> str:
        """Name the pod whose container runs now; empty if none does."""
        names = [
            pod["metadata"]["name"]
            for pod in self.pods()
            if "deletionTimestamp" not in pod["metadata"]
            and any("running" in each["state"] for each in pod["status"].get("containerStatuses", []))
        ]
        return str(names[-1]) if names else ""

    def judging(self) -> str:
        """Name the pod whose program has begun to judge nodes; empty if none has."""
        name = self.running()
        return name if name and "gpu-0" in self.log_of(name) else ""

    def next_judging(self, *before: str) -> str:
        """Wait for a pod other than these to judge nodes."""
        self.until(lambda: self.judging() not in ("", *before), "the next pod runs", 120)
        return self.judging()

    def log_of(self, pod: str) -> str:
        """Return a pod's log through the API server and the kubelet, as `kubectl logs` does."""
        return self.cluster.kubectl("logs", pod, "-n", HOME, check=False).stdout

    def log(self) -> str:
        """Return the log of the newest pod."""
        pods = self.pods()
        return self.log_of(pods[-1]["metadata"]["name"]) if pods else ""

    def ends(self, pods: list[dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
        """Return how containers of these pods, or of the Job's, ended, by their pods' names, oldest first."""
        statuses = (
            (pod, each)
            for pod in (self.pods() if pods is None else pods)
            for each in pod["status"].get("containerStatuses", [])
        )
        found = ((pod["metadata"]["name"], each["state"].get("terminated")) for pod, each in statuses)
        return {name: end for name, end in found if end}

    def story(self) -> dict[str, Any]:
        """Return the termination message of the container that ended last, as the kubelet passed it on."""
        told: dict[str, Any] = json.loads(list(self.ends().values())[-1]["message"])
        return told

    @contextmanager
    def kept(self, pod: str) -> Iterator[None]:
        """Keep a pod's object while it is deleted, so that its last status can be read."""
        self.cluster.patch(f"{PODS}/{pod}", {"metadata": {"finalizers": [HOLD]}}, STRATEGIC)
        yield
        release = {"metadata": {"$deleteFromPrimitiveList/finalizers": [HOLD]}}
        self.cluster.patch(f"{PODS}/{pod}", release, STRATEGIC)

    def job(self) -> dict[str, Any]:
        """Return our Job."""
        return self.cluster.get(f"/apis/batch/v1/namespaces/{HOME}/jobs/{RELEASE}")

    def python(self, pod: str, program: str) -> str:
        """Run a Python program inside of the container."""
        return self.cluster.kubectl("exec", pod, "-n", HOME, "--", PYTHON, "-c", program).stdout.strip()

    def cgroup(self, pod: str) -> Path:
        """Find the folder of a container's cgroup that has its memory, as seen from outside of the box."""
        every = (*self.pods(), *self.controller_pods())
        (found,) = [each for each in every if each["metadata"]["name"] == pod]
        (status,) = found["status"]["containerStatuses"]
        identifier = status["containerID"].removeprefix("containerd://")
        folders = Files.of(self.cluster.files).cgroups.read_text().splitlines()
        return cgroups.find([Path(folder) for folder in folders], identifier)

    def process(self, pod: str) -> int:
        """Return the process id, outside, of the program in a container."""
        (only,) = (self.cgroup(pod) / "cgroup.procs").read_text().split()
        return int(only)

    def assert_on_the_real_node(self) -> None:
        """Assert that every pod of ours ran as a container of the image, under what the chart asks for."""
        for pod in (*self.pods(), *self.controller_pods()):
            assert pod["spec"]["nodeName"] == REAL_NODE
            (status,) = pod["status"]["containerStatuses"]
            assert status["containerID"].startswith("containerd://")

    def assert_told(self, output: str, nodes: int) -> None:
        """Assert that every channel carries the story of an upgrade of so many nodes, next to Helm's output."""
        log = self.log()
        assert f"gpu-{nodes - 1}" in log
        assert all(line in output for line in log.splitlines())
        story = self.story()
        assert ("Done", "Refreshed", 0, nodes) == (
            story["phase"], story["reason"], story["exitCode"], story["restarted"]
        )  # fmt: skip
        described = self.cluster.kubectl("describe", "job", RELEASE, "-n", HOME).stdout
        assert "Refreshed" in described.split("Events:")[1]
        assert self.events("DaemonSet", "StalePluginRestarted")

    def assert_nothing_is_left(self, output: str) -> None:
        """Assert that Helm printed the log of a Job that succeeded, and that the Job is then gone, pods and all."""
        assert "NothingStale" in output
        assert self.cluster.list(f"/apis/batch/v1/namespaces/{HOME}/jobs") == []
        self.until(lambda: self.pods() == [], "its pods are gone")
