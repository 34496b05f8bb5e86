"""Helm's notes on a real cluster: a shell runs each command that needs no container, as it is printed."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from devcluster import binaries
from tests.e2e.lab import CHART, IMAGE, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster

RELEASE: Final = "notes-gpu-operator-post"
PLAIN: Final = ("--set=hook.enabled=false", "--wait", "--wait-for-jobs", "--timeout=5m")


@pytest.fixture(scope="module")
def notes(cluster: Cluster) -> Iterator[str]:
    """Install the chart as a plain Job, which stays, and return what Helm prints."""
    given = ("-n", NAMESPACE, "--create-namespace", f"--set=image.repository={IMAGE}", "--set=drivers={network}")
    done = cluster.helm("install", RELEASE, CHART, *given, *PLAIN)
    yield done.stdout.partition("NOTES:")[2]
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE)


def _run(cluster: Cluster, notes: str, *begins: str) -> str:
    """Run the commands that begin so, after the line that exports the settings."""
    lines = [line.strip() for line in notes.splitlines()]
    beginnings = ("export ", *(f"kubectl -n {NAMESPACE} {words} " for words in begins))
    script = "\n".join(line for line in lines if line.startswith(beginnings))
    assert script.count("\n") == len(begins)
    kubectl = binaries.ensure(["kubectl"])["kubectl"]
    homes = {"HOME": str(cluster.state), "KUBECONFIG": str(cluster.kubeconfig)}
    environment = {"PATH": f"{kubectl.parent}:{os.defpath}", **homes}
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_status_runs_in_a_pod(cluster: Cluster, notes: str) -> None:
    """With the ServiceAccount of the release, whose permissions are enough, and with its settings."""
    assert "rdma-shared-dp-ds" in _run(cluster, notes, "run", "wait")


def test_a_failure_can_be_read(cluster: Cluster, notes: str) -> None:
    """In log and Events, and with the exit code of the pod."""
    assert "exit code 0" in _run(cluster, notes, "logs -l")
    assert "job/" in _run(cluster, notes, "get")
    assert "Exit Code:" in _run(cluster, notes, "describe")
