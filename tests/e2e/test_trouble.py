"""Upgrades that do not finish, and runs that are interrupted: what can be refreshed is, and the next run continues."""

from __future__ import annotations

import os
import signal

from tests.e2e import acts
from tests.e2e.lab import ALL_AT_ONCE, NAMESPACE, NEW, NEW_CHART, RELEASE, Boot


def test_out_of_time(boot: Boot) -> None:
    """One driver never becomes ready: exit 124, Helm fails, the report names the node and why."""
    # The other nodes were refreshed meanwhile, and the failed Job outlives the release. With `onDeadline: report` Helm
    # succeeds with the same report. Once the cause is gone, the next `helm upgrade` completes the work.
    lab = boot(3)
    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    # What reloads take is not the run's time.
    lab.until(lambda: acts.upgraded(lab, 2), "the other drivers are reloaded", acts.PATIENCE)
    late = acts.post(lab, timeout="60s").assert_phase("Deadline", "TimeUp")
    assert lab.restarts() == ["gpu-0", "gpu-2"]
    assert late.reasons() == {"gpu-1": "DriverFailing"}
    assert "pulling image" in late.story["nodes"][0]["message"]
    assert "gpu-1" in late.said
    (ended,) = lab.terminated()
    assert ended["exitCode"] == 124
    assert "gpu-1" in ended["message"]
    assert any("gpu-1" in message for message in lab.events("Job", "TimeUp"))
    lab.cluster.helm("uninstall", RELEASE, "-n", NAMESPACE)
    assert lab.cluster.get(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{RELEASE}")["status"]["failed"] == 1

    late = acts.post(lab, onDeadline="report", timeout="30s").assert_phase("Deadline", "TimeUp", 0)
    assert late.reasons().keys() == {"gpu-1"}

    lab.annotate("gpu-1", "driver-fault", None)
    lab.deploy()
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_a_driver_that_cannot_start(boot: Boot) -> None:
    """All other nodes, whose turn comes long after its grace, are refreshed before exit 3; the Job does not retry."""
    lab = boot(4)
    policy = {"autoUpgrade": True, "maxParallelUpgrades": 2, "maxUnavailable": "100%"}
    lab.fleet(nodes=4, driver__upgradePolicy=policy)
    lab.annotate("gpu-1", "driver-fault", "crash-loop")
    lab.operator(chart=NEW_CHART, driver=NEW, driver__upgradePolicy=policy)
    failed = acts.post(lab, nodeTimeout="8s")
    assert (failed.story["phase"], failed.code) == ("Fail", 3), failed.said
    assert failed.reasons() == {"gpu-1": "UpgradeFailed"}
    assert "upgrade-required --overwrite" in failed.said
    assert failed.story["counts"] == {"Failed": 1, "Verified": 3}
    assert [each["exitCode"] for each in lab.terminated()] == [3]
    lab.assert_clean(["gpu-0", "gpu-2", "gpu-3"])


def test_killed_between_restarts(boot: Boot) -> None:
    """After SIGKILL the Job's next pod finishes, and restarts nothing that the first one had restarted."""
    lab = boot(3)
    lab.fleet(nodes=3)
    lab.operator(chart=NEW_CHART, driver=NEW)
    hook = lab.start_post()
    lab.until(lambda: len(lab.restarts()) == 1, "the first plugin is restarted")
    os.kill(int((lab.runs()[-1] / "pid").read_text()), signal.SIGKILL)
    lab.succeeded(hook)
    assert len(lab.runs()) == 2
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])
