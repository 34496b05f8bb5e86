"""The main job, with the hook as a container on a real node under the chart's defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from devcluster.kubelet import cgroups
from devcluster.kubelet.names import REAL_NODE
from tests.e2e.lab import NEW, NEW_CHART
from tests.image.node import DEFAULT, NodeLab

THREE: Final = ["gpu-0", "gpu-1", "gpu-2"]
LOOK: Final = """
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


def test_a_serial_upgrade_and_nothing_after_it(boot: Callable[[int], NodeLab]) -> None:
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
    lab.assert_clean(THREE)
    assert ["delete pods"] * 3 == lab.writes()
    assert {NEW} == set(lab.truth.loaded_now().values())
    lab.assert_told(done.output, 3)

    lab.deploy()
    lab.assert_clean(THREE)
    assert len(lab.writes()) == 3
    assert lab.story()["reason"] == "NothingStale"
    lab.assert_on_the_real_node()

    usual = lab.deploy(hook__deletePolicy=DEFAULT)
    lab.assert_nothing_is_left(usual.output)


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
