"""The main job, with the hook as a container on a real node under the chart's defaults."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from devcluster.access import ApiError
from devcluster.kubelet import cgroups
from devcluster.kubelet.names import REAL_NODE
from tests.e2e.lab import NEW, NEW_CHART
from tests.image import scenes
from tests.image.conftest import default_image
from tests.image.node import DEFAULT, PODS, NodeLab
from tests.pool import Pool

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
    """Three nodes one at a time: each plugin once, none early or needlessly; then a run that restarts nothing."""
    # The container is confined as the chart says, and everything that it says arrives: in `kubectl logs` while it runs,
    # in Helm's output, in the termination message, and in the events that `kubectl describe job` shows.
    lab = boot(3)
    lab.fleet(nodes=3, simulate__behaviour="26.3")
    lab.operator(chart=NEW_CHART, driver=NEW, simulate__behaviour="26.3")
    hook = lab.start_post()
    _assert_confined(lab, lab.next_judging())
    lab.until(lambda: lab.policy_state() == "ready", "the policy says ready", 120)
    assert any(version != NEW for version in lab.truth.loaded_now().values())
    assert hook.poll() is None
    done = lab.succeeded(hook)
    lab.assert_clean(scenes.THREE)
    assert ["delete pods"] * 3 == lab.writes()
    assert {NEW} == set(lab.truth.loaded_now().values())
    scenes.assert_told(lab, done.output, 3)

    lab.deploy()
    lab.assert_clean(scenes.THREE)
    assert len(lab.writes()) == 3
    assert lab.story()["reason"] == "NothingStale"
    lab.assert_on_the_real_node()

    usual = lab.deploy(hook__deletePolicy=DEFAULT)
    scenes.assert_nothing_is_left(lab, usual.output)


def _assert_confined(lab: NodeLab, pod: str) -> None:
    """Ask the kernel about a process in the container: not root, no capability, filtered, nothing writable."""
    facts = json.loads(lab.python(pod, LOOK))
    assert ["65532"] * 4 == facts["Uid"].split()
    assert {"0000000000000000"} == {facts["CapEff"], facts["CapBnd"]}
    assert ("1", "2") == (facts["NoNewPrivs"], facts["Seccomp"])
    assert (facts["writable"], facts["root"]) == (False, False)
    assert cgroups.memory_limit(lab.cgroup(pod)) == 128 * 2**20
    (status,) = [each for each in lab.pods() if each["metadata"]["name"] == pod]
    assert status["spec"]["nodeName"] == REAL_NODE
    assert lab.python(pod, "import os; print(os.environ['KUBERNETES_SERVICE_HOST'])") == "10.96.0.1"


def test_its_namespace_refuses_what_is_not_restricted(pool: Pool) -> None:
    """Neither a pod without a security context nor the chart with a looser one gets in where the chart's tests are."""
    lab = NodeLab(pool.take(0))
    loose = {"metadata": {"name": "loose"}, "spec": {"containers": [{"name": "only", "image": default_image()}]}}
    with pytest.raises(ApiError, match="violates PodSecurity") as refused:
        lab.cluster.create(PODS, loose)
    assert refused.value.reason == "Forbidden"
    hook = lab.start_post(securityContext__allowPrivilegeEscalation=True)
    lab.until(lambda: _refusals(lab) != [], "the Job's pod is refused", 90)
    assert hook.poll() is None
    assert lab.pods() == []


def _refusals(lab: NodeLab) -> list[str]:
    events = (each for each in lab.cluster.list("/api/v1/events") if each["involvedObject"]["kind"] == "Job")
    return [each["message"] for each in events if "violates PodSecurity" in each.get("message", "")]
