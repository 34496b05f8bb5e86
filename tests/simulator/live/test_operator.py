"""The simulated operator on a real control plane: what its policy says during an upgrade, as the real one was measured.

Its other modes and faults are what the program is tested with: tests/e2e.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.history import DRIVERS, recorded, versions
from tests.simulator.stage import NODES, Stage, condition

pytestmark = pytest.mark.e2e

SKIP = "nvidia.com/gpu-driver-upgrade.skip"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
FIRST, *OTHERS = NODES


def bumped(stage: Stage, **bump: object) -> list[tuple[str, int]]:
    """Migrate to another chart, the first node before the others; return all that the policy said meanwhile.

    Each answer comes with the number of nodes whose new driver was Ready by then. The first node waits until the policy
    has answered at all, the others until it has been evaluated anew with the first one done.
    """
    stage.until(lambda: stage.policy_state() == "ready")
    stage.annotate(FIRST, driver_fault="pending")
    _skip(stage, "true")
    with recorded(stage.cluster, "clusterpolicies") as policies, recorded(stage.cluster, *DRIVERS) as pods:
        stage.until(lambda: policies() and len(pods()) >= len(NODES))
        asked = stage.migrate(**bump)
        stage.until(lambda: stage.policy_state() == "notReady")
        stage.annotate(FIRST, driver_fault=None)
        stage.until(lambda: stage.saw("driver-ready", FIRST, asked) and stage.states()[FIRST] == "upgrade-done")
        stage.await_evaluation()
        _skip(stage, None)
        stage.calm()
        stage.until(lambda: stage.policy_state() == "ready")
        generation = stage.cluster.get(POLICY)["metadata"]["generation"]
        ready = _ready_since(stage, versions(pods())).values()
        answers = [each for each in versions(policies()) if each[1]["metadata"]["generation"] == generation]
    told = [(policy["status"]["state"], sum(one < at for one in ready)) for at, policy in answers]
    return [answer for answer, before in zip(told, [None, *told], strict=False) if answer != before]


def _skip(stage: Stage, value: str | None) -> None:
    for node in OTHERS:
        stage.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {SKIP: value}}})


def _ready_since(stage: Stage, pods: list[tuple[int, Any]]) -> dict[str, int]:
    """Return when each node's driver pod of the version that was asked for became Ready."""
    found: dict[str, int] = {}
    for at, pod in pods:
        if stage.version in pod["spec"]["containers"][0]["image"] and condition(pod, "Ready")[0] == "True":
            found.setdefault(pod["spec"]["nodeName"], at)
    return found


def test_26_3_says_ready_after_the_first_node_of_a_chart_bump(stage: Stage) -> None:
    """The previous answer first, then notReady, then ready although two nodes have the old driver."""
    seen = bumped(stage, chartVersion="v26.3.4")
    assert [("ready", 0), ("notReady", 0), ("ready", 1)] == seen[:3]
    assert ("ready", 3) == seen[-1]


def test_26_7_says_ready_after_all(stage: Stage) -> None:
    """Only the previous answer is wrong."""
    stage.operator(simulate__behaviour="26.7", chartVersion="v26.7.0")
    stage.calm()
    seen = bumped(stage, simulate__behaviour="26.7", chartVersion="v26.7.1")
    assert [("ready", 0), ("notReady", 0)] == seen[:2]
    assert {("ready", 0), ("ready", 3)} == {answer for answer in seen if answer[0] == "ready"}
    assert ("ready", 3) == seen[-1]
