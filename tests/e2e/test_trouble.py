"""A migration that does not finish: the others are served, the deployer hears the truth, the next run goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, PLUGIN_NAMESPACE, QUICK

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def _only(values: list[dict[str, str]]) -> tuple[str, str, str]:
    """Give node, reason and message of the only node that a story names."""
    (one,) = values
    return one["node"], one["reason"], one["message"]


def test_out_of_time(boot: Callable[..., Lab]) -> None:
    """One driver never becomes ready: exit 124, Helm fails, the report names the node and why.

    The other nodes were served meanwhile. With `onDeadline: report` the deployer hears success and the
    same report. Once the cause is gone, the next `helm upgrade` completes the work.
    """
    lab = boot(3)
    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    late = lab.post(timeout="40s")
    assert late.code != 0
    assert lab.restarts() == ["gpu-0", "gpu-2"]
    story = lab.story()
    assert ("Deadline", "TimeUp", 124) == (story["phase"], story["reason"], story["exitCode"])
    node, reason, message = _only(story["nodes"])
    assert ("gpu-1", "DriverFailing") == (node, reason)
    assert "pulling image" in message
    assert "gpu-1" in late.output
    (ended,) = lab.terminated()
    assert ended["exitCode"] == 124
    assert "gpu-1" in ended["message"]
    assert any("gpu-1" in message for message in lab.events("Job", "TimeUp"))

    report = lab.post(onDeadline="report", stallTimeout="5s")
    assert report.code == 0, report.output
    story = lab.story()
    assert ("Deadline", "Stalled", 0) == (story["phase"], story["reason"], story["exitCode"])
    assert _only(story["nodes"])[0] == "gpu-1"

    lab.annotate("gpu-1", "driver-fault", None)
    done = lab.post()
    assert done.code == 0, done.output
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_a_plugin_that_crashes_after_its_restart(boot: Callable[..., Lab]) -> None:
    """Exit 3 after the plugin's timeout; its node and what the container waits for are named; no retry."""
    lab = boot(3)
    lab.knobs(crash_backoff_seconds=5)
    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "plugin-fault", "crash-loop")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    failed = lab.post(pluginTimeout="12s")
    assert failed.code != 0
    assert lab.story()["exitCode"] == 3
    node, _reason, message = _only(lab.story()["nodes"])
    assert node == "gpu-1"
    assert "CrashLoopBackOff" in message
    assert "gpu-1" in failed.output
    assert [each["exitCode"] for each in lab.terminated()] == [3]
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_a_driver_that_cannot_start(boot: Callable[..., Lab]) -> None:
    """All other nodes, whose turn comes long after its grace, are served before exit 3."""
    lab = boot(4)
    policy: dict[str, Any] = {"autoUpgrade": True, "maxParallelUpgrades": 2, "maxUnavailable": "100%"}
    lab.fleet(nodes=4, driver__upgradePolicy=policy)
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEW, driver__upgradePolicy=policy)
    failed = lab.post(args=(*QUICK, "advanced.failedGrace=8s"))
    assert failed.code != 0
    story = lab.story()
    assert (3, "DriverFailing") == (story["exitCode"], story["reason"])
    node, reason, message = _only(story["nodes"])
    assert ("gpu-1", "DriverFailing") == (node, reason)
    assert "pulling image" in message
    assert story["counts"] == {"Failed": 1, "Verified": 3}
    lab.assert_clean(["gpu-0", "gpu-2", "gpu-3"])


def test_a_plugin_that_is_not_created_again(boot: Callable[..., Lab]) -> None:
    """A quota keeps the DaemonSet from replacing what we deleted: that is not done, but exit 3."""
    lab = boot(2)
    lab.stale_fleet(nodes=2)
    quota = ("quota", "no-more-pods", "-n", PLUGIN_NAMESPACE)
    lab.cluster.kubectl("create", *quota, "--hard=pods=0")
    failed = lab.post(pluginTimeout="10s")
    assert failed.code != 0
    story = lab.story()
    assert (3, "PluginMissing") == (story["exitCode"], story["reason"])
    assert [node["node"] for node in story["nodes"]] == ["gpu-0", "gpu-1"]
    lab.cluster.kubectl("delete", *quota)
    done = lab.post()
    assert done.code == 0, done.output
    lab.assert_clean(["gpu-0", "gpu-1"])


def test_a_large_story_fits_where_it_must(boot: Callable[..., Lab]) -> None:
    """Forty nodes in trouble: the table has all of them, the termination message stays within 4 KiB of JSON."""
    lab = boot(40)
    lab.cluster.kubectl("annotate", "nodes", "--all", "devcluster/driver-fault=image-pull")
    lab.operator(**ALL_AT_ONCE)
    lab.plugin()
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "every node is labelled")
    failed = lab.post(stallTimeout="8s")
    assert failed.code != 0
    assert all(f"gpu-{number} " in lab.log() for number in range(40))
    assert lab.story()["counts"] == {"Waiting": 40}
    (ended,) = lab.terminated()
    assert len(ended["message"].encode()) <= 4096
    assert len(lab.story()["nodes"]) > 3
