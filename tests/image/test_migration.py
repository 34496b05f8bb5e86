"""The main job, with the hook as a container on a real node under the chart's defaults."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from devcluster.kubelet.names import REAL_NODE
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, PLUGIN_NAMESPACE, RELEASE
from tests.image.node import HOME

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.image.node import NodeLab

pytestmark = pytest.mark.e2e

SIX = [f"gpu-{number}" for number in range(6)]

LOOK = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
try:
    open("/anything", "w")
    writable = True
except OSError:
    writable = False
facts = {name: status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Uid", "Groups")}
print(json.dumps({**facts, "writable": writable, "root": os.access("/root", os.W_OK)}))
"""


def test_a_serial_migration_and_nothing_after_it(boot: Callable[[int], NodeLab]) -> None:
    """Six nodes one at a time: each plugin once, none early or needlessly; then a run that restarts nothing.

    The container is confined as the chart says, and everything that it says arrives: in `kubectl logs` while it runs,
    in Helm's output, in the termination message, and in the events that `kubectl describe job` shows.
    """
    lab = boot(6)
    lab.fleet(nodes=6, simulate__behaviour="26.3")
    lab.operator(chart=NEW_CHART, driver=NEW, simulate__behaviour="26.3")
    hook = lab.start_post()
    _assert_confined(lab, lab.next_judging())
    lab.until(lambda: lab.policy_state() == "ready", "the policy says ready", 120)
    assert any(version != NEW for version in lab.truth.loaded_now().values())
    assert hook.poll() is None
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    lab.assert_clean(SIX)
    assert ["delete pods"] * 6 == lab.writes()
    assert {NEW} == set(lab.truth.loaded_now().values())
    _assert_told(lab, done.output)

    again = lab.post()
    assert again.code == 0, again.output
    lab.assert_clean(SIX)
    assert len(lab.writes()) == 6
    assert lab.story()["reason"] == "NothingStale"
    lab.assert_on_the_real_node()


def _assert_confined(lab: NodeLab, pod: str) -> None:
    """Ask the kernel about a process in the container: not root, no capability, filtered, nothing writable."""
    facts = json.loads(lab.python(pod, LOOK))
    assert ["65532"] * 4 == facts["Uid"].split()
    assert {"0000000000000000"} == {facts["CapEff"], facts["CapBnd"]}
    assert ("1", "2") == (facts["NoNewPrivs"], facts["Seccomp"])
    assert (facts["writable"], facts["root"]) == (False, False)
    assert str(128 * 2**20) == (lab.cgroup(pod) / "memory.limit_in_bytes").read_text().strip()
    (status,) = [each for each in lab.pods() if each["metadata"]["name"] == pod]
    assert status["spec"]["nodeName"] == REAL_NODE
    assert lab.python(pod, "import os; print(os.environ['KUBERNETES_SERVICE_HOST'])") == "10.96.0.1"


def _assert_told(lab: NodeLab, output: str) -> None:
    """Assert that every channel carries the story."""
    log = lab.log()
    assert "gpu-5" in log
    assert all(line in output for line in log.splitlines())
    story = lab.story()
    assert ("Done", "Refreshed", 0, 6) == (story["verdict"], story["reason"], story["exitCode"], story["restarted"])
    described = lab.cluster.kubectl("describe", "job", RELEASE, "-n", HOME).stdout
    events = described.split("Events:")[1]
    assert "StalePluginRestarted" in events
    assert "Refreshed" in events


def test_nothing_to_protect_then_out_of_time(boot: Callable[[int], NodeLab]) -> None:
    """Each reason to do nothing exits 0 and is told; a migration that does not finish exits 124, the next completes."""
    lab = boot(3)
    _assert_skipped(lab, "NoConsumer")
    lab.plugin()
    _assert_skipped(lab, "NoPolicy")
    lab.operator(driver__enabled=False)
    _assert_skipped(lab, "DriverDisabled")
    assert lab.writes() == []

    lab.fleet(nodes=3, **ALL_AT_ONCE)
    lab.annotate("gpu-1", "driver-fault", "image-pull")
    lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
    late = lab.post(timeout="50s")
    assert late.code != 0
    assert lab.restarts() == ["gpu-0", "gpu-2"]
    assert [124] == [end["exitCode"] for end in lab.ends().values()]
    assert ("Deadline", "TimeUp", "gpu-1") == _told(lab)
    assert "gpu-1" in late.output
    assert "TimeUp" in lab.cluster.kubectl("describe", "job", RELEASE, "-n", HOME).stdout
    assert {"Failed", "FailureTarget"} & {each["type"] for each in lab.job()["status"]["conditions"]}

    lab.annotate("gpu-1", "driver-fault", None)
    done = lab.post()
    assert done.code == 0, done.output
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])
    lab.assert_on_the_real_node()


def _told(lab: NodeLab) -> tuple[str, str, str]:
    """Give verdict, reason and the only node of the termination message."""
    story = lab.story()
    (node,) = story["nodes"]
    return story["verdict"], story["reason"], node["node"]


def _assert_skipped(lab: NodeLab, reason: str) -> None:
    done = lab.post()
    assert done.code == 0, done.output
    assert reason in done.output
    assert ("Skip", reason, 0) == tuple(lab.story()[key] for key in ("verdict", "reason", "exitCode"))
    assert lab.events("Job", reason)
    if reason == "NoConsumer":
        namespaces = {each["metadata"]["name"] for each in lab.cluster.list("/api/v1/namespaces")}
        assert PLUGIN_NAMESPACE not in namespaces
