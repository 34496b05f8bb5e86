"""Times of a pod that cannot be true together: it is unreadable, so it is neither fresh nor restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hook.core import parse
from hook.core.fields import MalformedObjectError
from hook.core.reasons import Reason
from hook.core.verdicts import NodeState, Verdict
from tests.fixtures.cluster import cluster, stale, stale_plugin
from tests.fixtures.objects import (
    Object,
    R,
    conditions,
    driver_pod,
    finished,
    merged,
    obj,
    plugin_pod,
    running,
    stamp,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

FUTURE = 10**8


def since(ready: float, containers_ready: float, status: str = "True") -> Sequence[Object]:
    """Give conditions of two moments."""
    first, second = conditions(ready)[0], conditions(containers_ready)[1]
    return [{**first, "status": status}, second]


def reported(pod: Object, **status: object) -> Object:
    """Change what a pod's status says."""
    changed: Object = merged(pod, {"status": status})
    return changed


SIDECAR = merged(
    reported(plugin_pod(), initContainerStatuses=[finished("init-container", 5), finished("mesh", R + 900, 1)]),
    {"spec": {"initContainers": [{"name": "init-container"}, {"name": "mesh", "restartPolicy": "Always"}]}},
)
IMPOSSIBLE = {
    "plugin-started-in-the-future": reported(stale_plugin(), containerStatuses=[
        running("compute-domains", -499), running("gpus", FUTURE)]),
    "driver-started-after-it-was-ready": driver_pod(started=R + 1, ready=R),
    "driver-ready-in-the-future-but-not-the-pod": reported(driver_pod(), conditions=since(R, FUTURE)),
    "plugin-waited-until-after-its-start": reported(stale_plugin(),
                                                    initContainerStatuses=[finished("init-container", R)]),
    "driver-started-before-the-old-one-was-unloaded": driver_pod(started=0, unloaded=5),
    "driver-started-before-its-last-run-ended": driver_pod(started=0, ended_before=5, restarts=1),
    "ended-before-it-started": reported(plugin_pod(), initContainerStatuses=[merged(
        finished("init-container", 5), {"state": {"terminated": {"startedAt": stamp(6)}}})]),
    "container-reported-twice": reported(stale_plugin(), containerStatuses=[
        running("gpus", -499), running("compute-domains", -499), running("gpus", R + 5)]),
    "container-wanted-twice": merged(plugin_pod(), {"spec": {"containers": [{"name": "gpus"}] * 2}}),
}  # fmt: skip
POSSIBLE = {
    "all-in-one-second": plugin_pod(waited=R, started=R),
    "driver-unloaded-and-started-in-one-second": driver_pod(started=0, unloaded=0, ended_before=0, restarts=1, ready=0),
    "lost-and-back": reported(driver_pod(), conditions=since(R + 900, R)),
    "lost-and-not-ready": reported(driver_pod(), conditions=since(R - 900, R, "False")),
    "ready-since-never": reported(driver_pod(), conditions=[{"type": "Ready", "status": "True"}, conditions(R)[1]]),
    "not-ready-yet": driver_pod(started=5, ready=None),
    "ended-in-the-second-of-its-start": reported(plugin_pod(), initContainerStatuses=[merged(
        finished("init-container", 5), {"state": {"terminated": {"startedAt": stamp(5)}}})]),
    "without-init-containers": plugin_pod(waited=None),
    "restarted-by-its-liveness-probe": reported(plugin_pod(), containerStatuses=[
        running("gpus", R + 900, restarts=1, ended_before=R + 899), running("compute-domains", R + 5)]),
    "a-sidecar-that-crashed": SIDECAR,
}  # fmt: skip


@pytest.mark.parametrize("pod", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_pod_that_contradicts_itself_is_refused(pod: Object) -> None:
    """No proof can rest on it."""
    with pytest.raises(MalformedObjectError):
        parse.pod(pod)


@pytest.mark.parametrize("pod", POSSIBLE.values(), ids=POSSIBLE)
def test_what_can_be_true_is_read(pod: Object) -> None:
    """Whole seconds make equal times of what came one after the other."""
    assert parse.pod(pod).name == pod["metadata"]["name"]


def test_a_stale_plugin_that_claims_a_later_start_is_neither_done_nor_restarted() -> None:
    """Its node waits, and says which pod cannot be read; the other node is served."""
    forged = reported(
        stale_plugin("b"), containerStatuses=[running("gpus", FUTURE), running("compute-domains", FUTURE)]
    )
    decision, _memory = stale("a", "b").put("plugin-pod", forged).decide()
    assert Verdict.WAIT is decision.verdict
    assert [("a", NodeState.STALE, Reason.PLUGIN_STALE), ("b", NodeState.WAITING, Reason.UNREADABLE)] == [
        (one.node, one.state, one.reason) for one in decision.judgements
    ]
    assert ["a"] == [one.node for one in decision.actions if hasattr(one, "node")]
    assert "plugin-b" in decision.judgements[1].message


def test_a_plugin_whose_liveness_probe_restarted_it_is_judged_as_any_other() -> None:
    """Its containers never seemed unready; when they started is what counts."""
    again = {"restarts": 1, "ended_before": R + 899}
    statuses = [running("gpus", R + 900, **again), running("compute-domains", R + 900, **again)]
    found = stale("a").put("plugin-pod", merged(stale_plugin("a"), {"status": {"containerStatuses": statuses}}))
    assert [Reason.VERIFIED] == [one.reason for one in found.decide()[0].judgements]


def test_a_driver_that_seems_ready_since_an_earlier_run_is_not_settled() -> None:
    """When it is ready is part of the proof, and nobody knows."""
    early = driver_pod("a", started=R + 900, ended_before=R + 899, restarts=1, ready=R)
    decision, _memory = stale("a").put("driver-pod", early).decide()
    assert [(NodeState.WAITING, Reason.DRIVER_NOT_READY)] == [(one.state, one.reason) for one in decision.judgements]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"metadata": {"labels": {"nvidia.com/gpu-driver-upgrade.skip": "true"}}}, Reason.NODE_SKIPPED),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": stamp(-900)}]}},
         Reason.NODE_NOT_READY),
    ],
    ids=["skipped", "lost"],
)  # fmt: skip
def test_a_node_that_is_left_alone_holds_nobody_back(node: Object, reason: Reason) -> None:
    """Whatever its pods say; a person who skips it has dealt with it."""
    odd = reported(stale_plugin("b"), initContainerStatuses=[finished("init-container", R)])
    found = cluster("a", "b").put("plugin-pod", odd)
    assert Verdict.WAIT is found.decide()[0].verdict
    decision, _memory = found.change("node", node, "b").decide()
    assert (Verdict.DONE, reason) == (decision.verdict, decision.judgements[1].reason)


def test_the_base_objects_are_possible() -> None:
    """Else the tables above would show nothing."""
    for name in ("driver-pod", "plugin-pod", "exporter/pod", "toolkit/pod", "network/driver-pod", "network/plugin-pod"):
        parse.pod(obj(name))
