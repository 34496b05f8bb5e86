"""When the simulated GPU operator reports ready, as measured on the real one."""

from __future__ import annotations

from typing import Any, Final

import pytest

from devcluster.operator.status import is_pool_ready, is_ready


def pod(revision: str, chart: str) -> dict[str, Any]:
    """Make a driver pod that is ready."""
    return {
        "metadata": {"labels": {"app": "d", "helm.sh/chart": chart, "controller-revision-hash": revision}},
        "status": {"phase": "Running", "containerStatuses": [{"ready": True}]},
    }


def daemonset(*, updated: int, available: int = 3) -> dict[str, Any]:
    """Make a driver DaemonSet of three nodes after a chart bump."""
    labels = {"app": "d", "helm.sh/chart": "new"}
    counts = {"desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available}
    return {
        "metadata": {"generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": labels}}},
        "status": {"observedGeneration": 2, "numberUnavailable": 3 - available, **counts},
    }


OLD, NEW, SAME = pod("1", "old"), pod("2", "new"), pod("1", "new")
ROLLING: Final = {
    "metadata": {"generation": 2},
    "spec": {"updateStrategy": {"type": "RollingUpdate"}},
    "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2},
}
COUNTS: Final = {"desiredNumberScheduled": 2, "numberAvailable": 2}


@pytest.mark.parametrize(
    ("behaviour", "seen", "pods", "expected"),
    [
        pytest.param("26.3", daemonset(updated=0), [OLD, OLD, OLD], False, id="nothing rotated"),
        pytest.param("26.3", daemonset(updated=1), [NEW, OLD, OLD], True, id="after the first node"),
        pytest.param("26.3", daemonset(updated=1, available=2), [NEW, OLD], False, id="the second node reloads"),
        pytest.param("26.3", daemonset(updated=3), [NEW, NEW, NEW], True, id="all, 26.3"),
        pytest.param("26.7", daemonset(updated=1), [NEW, OLD, OLD], False, id="waits for all"),
        pytest.param("26.7", daemonset(updated=3), [NEW, NEW, NEW], True, id="all, 26.7"),
        pytest.param("26.7", daemonset(updated=3), [NEW, NEW, SAME], False, id="wrong hash"),
        pytest.param("26.3", daemonset(updated=1), [NEW, SAME, SAME], False, id="the same chart"),
        pytest.param("26.3", daemonset(updated=0) | {"status": {}}, [], True, id="no pods wanted"),
        pytest.param("26.3", ROLLING, [], True, id="rolling operand, 26.3"),
        pytest.param("26.7", ROLLING, [], False, id="rolling operand, 26.7"),
    ],
)
def test_when_a_daemonset_is_ready(
    behaviour: str, seen: dict[str, Any], pods: list[dict[str, Any]], expected: bool
) -> None:
    """After a chart bump, 26.3 misses the old pods, and a rolling operand."""
    assert is_ready(behaviour, seen, pods, "2" if pods else "") is expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, False, id="just created"),
        pytest.param({"observedGeneration": 1}, True, id="observed without nodes"),
        pytest.param({**COUNTS, "updatedNumberScheduled": 1}, False, id="rotating"),
        pytest.param({**COUNTS, "updatedNumberScheduled": 2}, True, id="all"),
    ],
)
def test_when_a_pool_is_ready(status: dict[str, Any], expected: bool) -> None:
    """By counts alone."""
    assert is_pool_ready({"metadata": {"generation": 9}, "status": status}) is expected
