"""The advice of a run that ended with work left."""

from __future__ import annotations

import json

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.objects.drivers import STACKS
from hook.run.report import TERMINATION_LIMIT, advice, next_step, termination_message


def _failed(node: str, stack: str) -> NodeStatus:
    return NodeStatus(node, NodeState.FAILED, Reason.UPGRADE_FAILED, "it failed", subject="ns/pod", stack=stack)


def test_two_stacks_that_fail_alike_are_advised_each() -> None:
    """What mends a GPU driver's upgrade does not mend a network driver's."""
    statuses = (_failed("a", "gpu"), _failed("b", "network"), _failed("c", "network"))
    decision = Decision(Phase.FAIL, Reason.UPGRADE_FAILED, "a and b", statuses=statuses, stack="gpu")
    lines = advice(decision)
    assert [("(a)" in line, "(b)" in line) for line in lines] == [(True, False), (False, True)]
    assert ["gpu-driver-upgrade-state" in line for line in lines] == [True, False]


def _waiting(node: str, reason: Reason) -> NodeStatus:
    return NodeStatus(node, NodeState.WAITING, reason, "it waits", subject="ns/pod", stack="gpu")


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        pytest.param(Phase.FAIL, Reason.UPGRADE_FAILED, "UpgradeFailed (a)", id="what-a-node-failed-for"),
        pytest.param(Phase.FAIL, Reason.PERMISSION_MISSING, "PermissionMissing:", id="what-the-run-failed-for"),
        pytest.param(Phase.DEADLINE, Reason.TIME_UP, "UpgradeFailed (a)", id="the-worst-node"),
    ],
)
def test_the_one_next_step_is_about_the_cause(phase: Phase, reason: Reason, expected: str) -> None:
    """Events and the termination message have room for one advice, and other nodes wait for something else."""
    statuses = (_waiting("z", Reason.DRIVER_OUTDATED), _failed("a", "gpu"))
    assert next_step(Decision(phase, reason, "", statuses=statuses, stack="gpu")).startswith(expected)


def test_a_run_that_was_late_without_a_node_in_need_advises_on_what_held_it_back() -> None:
    """That the time is up says nothing."""
    late = Decision(Phase.DEADLINE, Reason.TIME_UP, "", cause=Reason.OPERATOR_NOT_LEADING, stack="gpu")
    assert next_step(late).startswith("OperatorNotLeading:")


def test_the_termination_message_holds_the_whole_advice() -> None:
    """A look, and a fix with its precondition: a command that is cut off is no help."""
    node, pod = (
        "worker-17.pool-a.eu-central-1.cluster.example",
        "nvidia-network-operator/mofed-ubuntu22.04-7d9f-ds-x8k2p",
    )
    for reason in Reason:
        for stack in STACKS:
            judged = NodeStatus(node, NodeState.FAILED, reason, "m" * 400, subject=pod, stack=stack)
            failed = Decision(Phase.FAIL, reason, "n" * 400, statuses=(judged,), warnings=("w" * 400,) * 3, stack=stack)
            message = termination_message(failed, 3, 0)
            assert len(message.encode()) <= TERMINATION_LIMIT
            story = json.loads(message)
            assert (next_step(failed), [node]) == (story["next"], [one["node"] for one in story["nodes"]])
