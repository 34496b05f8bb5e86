"""A run may be killed anywhere: what is true is in the cluster, so the next one goes on from there."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import NEW, NEW_CHART, QUICK
from tests.process.program import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def _signal(lab: Lab, number: int) -> None:
    """Send a signal to the process of the newest pod, as the kernel or a kubelet does."""
    os.kill(int((lab.runs()[-1] / "pid").read_text()), number)


def test_killed_between_restarts(boot: Callable[..., Lab]) -> None:
    """After SIGKILL the Job's next pod finishes, and restarts nothing that the first one had restarted."""
    lab = boot(3)
    lab.fleet(nodes=3)
    lab.operator(chart=NEW_CHART, driver=NEW)
    hook = lab.start_post()
    lab.until(lambda: len(lab.restarts()) == 1, "the first plugin is restarted")
    _signal(lab, signal.SIGKILL)
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    assert len(lab.runs()) == 2
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_told_to_stop(boot: Callable[..., Lab]) -> None:
    """SIGTERM ends a waiting run, with a report that shows how far it was, and exit 143.

    How soon is measured where its container is a real one (tests/image/test_interruption.py).
    """
    lab = boot(1)
    lab.fleet(nodes=1)
    hook = lab.start_post(expect__driverVersion="999.1", backoffLimit=0)
    lab.until(lambda: "gpu-0" in lab.log(), "the run has judged the node")
    _signal(lab, signal.SIGTERM)
    lab.until(lambda: bool(lab.terminated()), "the pod has ended")
    assert [each["exitCode"] for each in lab.terminated()] == [143]
    story = lab.story()
    assert ("Terminated", 143, {"Verified": 1}) == (story["reason"], story["exitCode"], story["counts"])
    assert "Terminated" in lab.log()
    assert lab.deployed(hook).code != 0
    lab.assert_clean([])


def test_two_runs_at_once(boot: Callable[..., Lab]) -> None:
    """Two deployers, or a run that outlives its Job, do not restart anything twice."""
    lab = boot(3)
    lab.stale_fleet(nodes=3)
    processes = [lab.start("run", "--timeout=2m", "advanced.operatorQuiet=3s") for _ in range(3)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0, 0]
    for process in processes:
        process.communicate()
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_an_api_server_that_falls_silent(boot: Callable[..., Lab]) -> None:
    """A run that has begun outlives a control plane that does not answer for a while, and finishes its work."""
    lab = boot(2)
    lab.fleet(nodes=2)
    lab.operator(chart=NEW_CHART, driver=NEW)
    hook = lab.start("run", "--timeout=3m", *QUICK)
    lab.until(lambda: len(lab.restarts()) == 1, "the first plugin is restarted")
    (server,) = [each for each in lab.cluster.status() if each.name == "kube-apiserver"]
    os.kill(server.pid, signal.SIGSTOP)
    time.sleep(8)  # Longer than connections are tried for, shorter than Helm or leases would bear.
    os.kill(server.pid, signal.SIGCONT)
    done = ended(hook)
    assert done.code == 0, done.said
    lab.assert_clean(["gpu-0", "gpu-1"])
