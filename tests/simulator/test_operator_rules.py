"""When the simulated GPU operator reports ready, as measured on the real one."""

from __future__ import annotations

from typing import Any

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


def test_when_a_daemonset_is_ready() -> None:
    """After a chart bump, 26.3 misses the old pods, and a rolling operand; a pool is ready by counts alone."""
    old, new, same = pod("1", "old"), pod("2", "new"), pod("1", "new")
    rolling = {
        "metadata": {"generation": 2},
        "spec": {"updateStrategy": {"type": "RollingUpdate"}},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberAvailable": 2},
    }
    for name, behaviour, seen, pods, expected in (
        ("nothing rotated", "26.3", daemonset(updated=0), [old, old, old], False),
        ("after the first node", "26.3", daemonset(updated=1), [new, old, old], True),
        ("the second node reloads", "26.3", daemonset(updated=1, available=2), [new, old], False),
        ("all", "26.3", daemonset(updated=3), [new, new, new], True),
        ("waits for all", "26.7", daemonset(updated=1), [new, old, old], False),
        ("all", "26.7", daemonset(updated=3), [new, new, new], True),
        ("wrong hash", "26.7", daemonset(updated=3), [new, new, same], False),
        ("the same chart", "26.3", daemonset(updated=1), [new, same, same], False),
        ("no pods wanted", "26.3", daemonset(updated=0) | {"status": {}}, [], True),
        ("rolling operand", "26.3", rolling, [], True),
        ("rolling operand", "26.7", rolling, [], False),
    ):
        assert is_ready(behaviour, seen, pods, "2" if pods else "") is expected, (behaviour, name)
    counts = {"desiredNumberScheduled": 2, "numberAvailable": 2}
    for name, status, expected in (
        ("just created", {}, False),
        ("observed without nodes", {"observedGeneration": 1}, True),
        ("rotating", counts | {"updatedNumberScheduled": 1}, False),
        ("all", counts | {"updatedNumberScheduled": 2}, True),
    ):
        assert is_pool_ready({"metadata": {"generation": 9}, "status": status}) is expected, name
