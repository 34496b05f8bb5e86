"""What happens to the nodes and driver pods of a laboratory, and runs with their results.

Most driver modes and node conditions say nothing about the chart: those run the program itself, with every right
(`run`). What needs permissions or values of its own goes through the chart (`post`).
"""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from devcluster.boot.machines import gpu_node
from tests.e2e.lab import NAMESPACE, NEW, QUICK, Lab
from tests.process.program import Logged

NODES: Final = "/api/v1/nodes"
PATIENCE: Final = 120
"""Seconds for what takes a few on an idle machine."""
_FILES = itertools.count()


EXIT_CODES: Final = {"Done": 0, "Skip": 0, "Fail": 3, "Deadline": 124}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run: its exit code, its report, and everything that it wrote."""

    code: int
    story: dict[str, Any]
    said: str

    @property
    def phase(self) -> tuple[str, str, int]:
        """Verdict and reason with the exit code."""
        return self.story["phase"], self.story["reason"], self.code

    def assert_phase(self, phase: str, reason: str, code: int | None = None) -> Self:
        """Assert phase and reason, and the exit code that belongs to the phase, or another one."""
        assert self.phase == (phase, reason, EXIT_CODES[phase] if code is None else code), self.said
        return self

    def reasons(self) -> dict[str, str]:
        """Return the reason of each node that the story names: those that are not verified."""
        return {each["node"]: each["reason"] for each in self.story["nodes"]}


@dataclass(frozen=True, slots=True)
class Run(Logged):
    """A run that was started from a shell."""

    message: Path

    def result(self) -> Result:
        """Wait for its end. One that was killed leaves no story."""
        done = self.ended()
        return Result(done.code, json.loads(self.message.read_text() or "{}"), done.said)


def begin(lab: Lab, *args: str, kubeconfig: Path | None = None) -> Run:
    """Start a run that hurries where simulated operators do."""
    message = lab.cluster.state / f"message-{next(_FILES)}"
    message.touch()
    flags = ("--timeout=110s", *QUICK, f"--termination-log={message}", *args)
    started = lab.start("run", *flags, kubeconfig=kubeconfig)
    return Run(started.process, started.log, message)


def run(lab: Lab, *args: str) -> Result:
    """Run to the end."""
    return begin(lab, *args).result()


def refresh(lab: Lab, restarted: list[str], *args: str) -> Result:
    """Run to the end: it succeeds, no plugin is stale, and these were restarted since the scenario began."""
    done = run(lab, *args).assert_phase("Done", "Refreshed" if restarted else "NothingStale")
    lab.assert_clean(restarted)
    return done


def post(lab: Lab, **values: Any) -> Result:  # noqa: ANN401 - chart values
    """Install or upgrade our chart, with just the rights that it asks for, and take its hook's word."""
    deployed = lab.post(**values)
    assert (deployed.code == 0) is (lab.story()["exitCode"] == 0), deployed.output
    return Result(lab.story()["exitCode"], lab.story(), deployed.output)


def set_labels(lab: Lab, node: str, labels: dict[str, str | None]) -> None:
    """Set labels of a node, or take them away."""
    lab.cluster.patch(f"{NODES}/{node}", {"metadata": {"labels": labels}})


def delete_driver(lab: Lab, node: str) -> None:
    """Delete a node's driver pod by hand, and wait for the driver that its DaemonSet wants to be Ready there."""
    began = time.time()
    lab.cluster.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{_driver_pod(lab, node)}")
    lab.until(lambda: happened(lab, "driver-ready", node, began), f"{node} has a driver again", PATIENCE)


def happened(lab: Lab, event: str, node: str, since: float) -> bool:
    """Return whether something happened on a node since a moment, in truth."""
    return any((each.event, each.node) == (event, node) for each in lab.truth.since(since))


def upgraded(lab: Lab, nodes: int, version: str = NEW) -> bool:
    """Return whether so many nodes run a driver of this version, Ready."""
    return len(lab.truth.running(version)) == nodes


def add_node(lab: Lab, name: str) -> None:
    """Add a node."""
    lab.cluster.create(NODES, gpu_node(name))


def remove_node(lab: Lab, name: str) -> None:
    """Remove a node, and its pods, which the control plane would collect within a minute."""
    lab.cluster.delete(f"{NODES}/{name}")
    lab.cluster.kubectl("delete", "pods", "-A", f"--field-selector=spec.nodeName={name}", "--force", "--grace-period=0")


def is_ready(lab: Lab, node: str) -> bool:
    """Return whether a node is Ready, as the node controller says."""
    conditions = lab.cluster.get(f"{NODES}/{node}")["status"]["conditions"]
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def upgrade_state(lab: Lab, node: str) -> str:
    """Return what the upgrade controller says of a node."""
    labels = lab.cluster.get(f"{NODES}/{node}")["metadata"]["labels"]
    return str(labels.get("nvidia.com/gpu-driver-upgrade-state", ""))


def _driver_pod(lab: Lab, node: str) -> str:
    pods = lab.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/pods", fieldSelector=f"spec.nodeName={node}")
    drivers = [
        pod["metadata"]["name"]
        for pod in pods
        if any(each["name"] == "nvidia-driver-ctr" for each in pod["spec"]["containers"])
    ]
    (name,) = drivers
    return str(name)
