"""What `devcluster.pods` has in common with a kubelet."""

from __future__ import annotations

import os
import signal
from typing import Final

from devcluster import patience
from tests.e2e.lab import NAMESPACE, RELEASE, Lab
from tests.pool import Pool

PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"


def test_a_program_that_is_killed_is_started_again(pool: Pool) -> None:
    """The pod counts it, and keeps its log. A deleted one ends by SIGTERM, and another takes its place."""
    lab = Lab(pool.take(0))
    lab.deploy(controller__enabled=True, job__enabled=False)

    def ready(restarts: int) -> list[str]:
        """Name the pods that are Ready after so many restarts."""
        pods = [pod for pod in lab.cluster.list(PODS) if pod["status"].get("containerStatuses")]
        found = ((pod["metadata"]["name"], pod["status"]["containerStatuses"]) for pod in pods)
        return [name for name, (status,) in found if status["ready"] and status["restartCount"] == restarts]

    (name,) = patience.until(lambda: ready(0), "it runs", 60)
    folder = lab.cluster.files.pod(NAMESPACE, name)
    log = folder / f"{RELEASE}.log"
    lab.until(lambda: log.read_text() != "", "it says something")
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    lab.until(lambda: ready(1) == [name], "it runs again")
    before = log.read_text()
    assert lab.cluster.kubectl("logs", name, "-n", NAMESPACE).stdout.startswith(before)

    lab.cluster.delete(f"{PODS}/{name}")
    lab.until(lambda: ready(1) == [] != ready(0), "another one runs")
    assert "143" in (lab.cluster.state / "logs/pods.log").read_text()
