"""What a run that ended with work left tells people to do."""

from __future__ import annotations

from hook.core.reasons import Reason
from hook.core.verdicts import Decision, Judgement, NodeState, Verdict
from hook.report import advice


def _failed(node: str, stack: str) -> Judgement:
    return Judgement(node, NodeState.FAILED, Reason.UPGRADE_FAILED, "it failed", subject="ns/pod", stack=stack)


def test_two_stacks_that_fail_alike_are_advised_each() -> None:
    """What mends a GPU driver's upgrade does not mend a network driver's."""
    judgements = (_failed("a", "gpu"), _failed("b", "network"), _failed("c", "network"))
    decision = Decision(Verdict.FAIL, Reason.UPGRADE_FAILED, "a and b", judgements=judgements, stack="gpu")
    lines = advice(decision)
    assert [("(a)" in line, "(b)" in line) for line in lines] == [(True, False), (False, True)]
    assert ["gpu-driver-upgrade-state" in line for line in lines] == [True, False]
