"""What happens to a fleet on any cluster whose pods are real containers."""

from __future__ import annotations

from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, RELEASE
from tests.image.node import HOME, NodeLab

THREE = ["gpu-0", "gpu-1", "gpu-2"]


def nothing_to_protect_then_out_of_time(lab: NodeLab) -> None:
    """Assert that a run without a plugin does nothing, and says why in every place.

    Then a migration that does not finish exits 124, and the next run completes it.
    """
    done = lab.deploy()
    assert "NoPlugin" in done.output
    assert ("Skip", "NoPlugin", 0) == tuple(lab.story()[key] for key in ("phase", "reason", "exitCode"))
    assert lab.events("Job", "NoPlugin")
    lab.assert_untouched()

    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    # What reloads take is not the run's time: it has enough to wait for.
    lab.until(lambda: lab.truth.running(NEW) == {"gpu-0", "gpu-2"}, "two nodes have reloaded their driver", 120)
    late = lab.post(timeout="90s")
    assert late.code != 0
    assert lab.restarts() == ["gpu-0", "gpu-2"]
    assert [124] == [end["exitCode"] for end in lab.ends().values()]
    story = lab.story()
    (node,) = story["nodes"]
    told = (story["phase"], story["reason"], node["node"], node["reason"])
    assert told == ("Deadline", "TimeUp", "gpu-1", "DriverFailing")
    assert "gpu-1" in late.output
    assert "TimeUp" in lab.cluster.kubectl("describe", "job", RELEASE, "-n", HOME).stdout
    assert {"Failed", "FailureTarget"} & {each["type"] for each in lab.job()["status"]["conditions"]}

    lab.annotate("gpu-1", "driver-fault", None)
    lab.deploy()
    lab.assert_clean(THREE)
    lab.assert_on_the_real_node()


def assert_told(lab: NodeLab, output: str, nodes: int) -> None:
    """Assert that every channel carries the story of a migration."""
    log = lab.log()
    assert f"gpu-{nodes - 1}" in log
    assert all(line in output for line in log.splitlines())
    story = lab.story()
    assert ("Done", "Refreshed", 0, nodes) == (story["phase"], story["reason"], story["exitCode"], story["restarted"])
    described = lab.cluster.kubectl("describe", "job", RELEASE, "-n", HOME).stdout
    events = described.split("Events:")[1]
    assert "Refreshed" in events
    assert lab.events("DaemonSet", "StalePluginRestarted")


def assert_nothing_is_left(lab: NodeLab, output: str) -> None:
    """Assert that Helm printed the log of a Job that succeeded, and that the Job is then gone, pods and all."""
    assert "NothingStale" in output
    assert lab.cluster.list(f"/apis/batch/v1/namespaces/{HOME}/jobs") == []
    lab.until(lambda: lab.pods() == [], "its pods are gone")
