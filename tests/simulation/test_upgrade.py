"""The simulated operator's state machine, beside what the real one was seen to do."""

from __future__ import annotations

from typing import Any

import pytest

from devcluster.controller.upgrade import (
    CORDON,
    DONE,
    FAILED,
    POD_DELETION,
    POD_RESTART,
    REQUIRED,
    UNCORDON,
    UNKNOWN,
    VALIDATION,
    WAIT_FOR_JOBS,
    Change,
    Seat,
    advance,
    slots,
)
from devcluster.operator.names import INITIALLY_CORDONED, SKIP, STATE

SERIAL = {"maxParallelUpgrades": 1, "maxUnavailable": "25%"}


def seat(  # noqa: PLR0913 - a table of cases needs all of them
    number: int,
    state: str,
    *,
    new: bool = False,
    pod_ready: bool = True,
    cordoned: bool = False,
    node_ready: bool = True,
    skip: bool = False,
    restarts: int = 0,
    terminating: bool = False,
    cordoned_before: bool = False,
) -> Seat:
    """Make one node with its driver pod."""
    labels = ({STATE: state} if state else {}) | ({SKIP: "true"} if skip else {})
    node: dict[str, Any] = {
        "metadata": {
            "name": f"gpu-{number}",
            "labels": labels,
            "annotations": {INITIALLY_CORDONED: "true"} if cordoned_before else {},
        },
        "spec": {"unschedulable": cordoned},
        "status": {"conditions": [{"type": "Ready", "status": "True" if node_ready else "Unknown"}]},
    }
    pod = {
        "metadata": {"name": f"driver-{number}", "labels": {"controller-revision-hash": "new" if new else "old"}}
        | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if terminating else {}),
        "status": {
            "phase": "Running",
            "containerStatuses": [{"ready": pod_ready, "restartCount": restarts}],
        },
    }
    return Seat(node, pod, "new")


def only(case: Seat, **limits: object) -> list[Change]:
    """Advance a fleet of one node."""
    return advance([case], SERIAL | limits, failed_restarts=10)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        pytest.param(seat(0, UNKNOWN, new=True, pod_ready=False), [Change("gpu-0", DONE)], id="hash-alone-is-done"),
        pytest.param(seat(0, UNKNOWN), [Change("gpu-0", REQUIRED)], id="old-pod-on-an-unknown-node"),
        pytest.param(seat(0, DONE, new=True, pod_ready=False), [], id="done-does-not-look-at-readiness"),
        pytest.param(seat(0, DONE), [Change("gpu-0", REQUIRED)], id="new-revision"),
        pytest.param(
            seat(0, DONE, cordoned=True), [Change("gpu-0", REQUIRED, remember_cordon=True)], id="cordoned-before-us"
        ),
        pytest.param(seat(0, REQUIRED), [Change("gpu-0", CORDON)], id="begins"),
        pytest.param(seat(0, REQUIRED, skip=True), [], id="skipped-for-good"),
        pytest.param(seat(0, CORDON), [Change("gpu-0", WAIT_FOR_JOBS, cordon=True)], id="cordons"),
        pytest.param(seat(0, WAIT_FOR_JOBS), [Change("gpu-0", POD_DELETION)], id="no-jobs"),
        pytest.param(seat(0, POD_DELETION), [Change("gpu-0", POD_RESTART)], id="no-pods"),
        pytest.param(seat(0, POD_RESTART, terminating=True), [], id="waits-for-the-old-pod-to-go"),
        pytest.param(seat(0, POD_RESTART, new=True, pod_ready=False), [], id="waits-for-the-new-pod"),
        pytest.param(seat(0, POD_RESTART, new=True), [Change("gpu-0", VALIDATION)], id="new-pod-ready"),
        pytest.param(
            seat(0, POD_RESTART, new=True, pod_ready=False, restarts=11), [Change("gpu-0", FAILED)], id="crash-loop"
        ),
        pytest.param(seat(0, VALIDATION, new=True), [Change("gpu-0", UNCORDON)], id="validated"),
        pytest.param(
            seat(0, VALIDATION, new=True, cordoned_before=True),
            [Change("gpu-0", DONE, remember_cordon=False)],
            id="stays-cordoned",
        ),
        pytest.param(seat(0, UNCORDON, new=True), [Change("gpu-0", DONE, cordon=False)], id="uncordons"),
        pytest.param(seat(0, FAILED, new=True, pod_ready=False), [], id="failed-stays-failed"),
        pytest.param(seat(0, FAILED, new=True), [Change("gpu-0", UNCORDON)], id="failed-clears-by-itself"),
    ],
)
def test_one_node_moves_one_state_a_pass(case: Seat, expected: list[Change]) -> None:
    """Each state has one way on, and waits for one thing."""
    assert expected == only(case)


def test_the_old_pod_is_deleted() -> None:
    """That is all the rotation does; the DaemonSet controller makes the new pod."""
    case = seat(0, POD_RESTART)
    assert only(case) == [Change("gpu-0", delete_pod=case.pod)]


@pytest.mark.parametrize(
    ("seats", "limits", "expected"),
    [
        pytest.param([seat(n, REQUIRED) for n in range(8)], SERIAL, 1, id="serial"),
        pytest.param(
            [seat(0, POD_RESTART, cordoned=True), *(seat(n, REQUIRED) for n in range(1, 8))], SERIAL, 0, id="busy"
        ),
        pytest.param(
            [seat(n, REQUIRED) for n in range(8)],
            {"maxParallelUpgrades": 0, "maxUnavailable": "100%"},
            8,
            id="zero-is-no-limit",
        ),
        pytest.param(
            [seat(n, REQUIRED) for n in range(6)],
            {"maxParallelUpgrades": 4, "maxUnavailable": "25%"},
            2,
            id="percent-rounds-up",
        ),
        pytest.param(
            [seat(n, REQUIRED) for n in range(6)],
            {"maxParallelUpgrades": 4, "maxUnavailable": 3},
            3,
            id="a-number",
        ),
        pytest.param(
            [seat(0, DONE, new=True, cordoned=True), *(seat(n, REQUIRED) for n in range(1, 4))],
            SERIAL,
            0,
            id="a-cordoned-node-eats-the-limit",
        ),
        pytest.param(
            [seat(0, DONE, new=True, node_ready=False), *(seat(n, REQUIRED) for n in range(1, 4))],
            SERIAL,
            0,
            id="a-lost-node-eats-the-limit",
        ),
        pytest.param(
            [seat(0, FAILED, cordoned=True), *(seat(n, REQUIRED) for n in range(1, 8))],
            {"maxParallelUpgrades": 1, "maxUnavailable": "100%"},
            0,
            id="a-failed-node-keeps-its-place",
        ),
    ],
)
def test_limits(seats: list[Seat], limits: dict[str, Any], expected: int) -> None:
    """How many nodes may begin, as the real library counts."""
    assert expected == slots(seats, limits)


def test_a_cordoned_node_begins_without_a_slot_and_the_others_starve() -> None:
    """Measured on the real one: the cordoned node migrates first, the others stay upgrade-required."""
    fleet = [seat(0, REQUIRED), seat(1, REQUIRED, cordoned=True), seat(2, REQUIRED), seat(3, REQUIRED)]
    assert advance(fleet, SERIAL, 10) == [Change("gpu-1", CORDON)]


def test_a_pass_works_on_one_picture() -> None:
    """A node that begins in this pass is not cordoned in it, and a done one frees its slot in the next."""
    fleet = [seat(0, UNCORDON, new=True, cordoned=True), seat(1, REQUIRED)]
    assert advance(fleet, SERIAL, 10) == [Change("gpu-0", DONE, cordon=False)]
