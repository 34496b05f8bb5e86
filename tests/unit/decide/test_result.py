"""Results of a decision: what reports and summaries read from them."""

from __future__ import annotations

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, headline, in_need
from tests.fixtures.cluster import labelled, stale


def test_a_headline_has_phase_and_reason() -> None:
    """One line that people grep for."""
    decision = Decision(Phase.FAIL, Reason.UPGRADE_FAILED, "node a needs manual action")
    assert "Fail (UpgradeFailed): node a needs manual action" == headline(decision)


def test_only_a_failing_run_names_the_nodes_in_need() -> None:
    """The failed ones first; verified and excluded ones not at all."""
    states = {"a": NodeState.WAITING, "b": NodeState.FAILED, "c": NodeState.VERIFIED, "d": NodeState.EXCLUDED}
    statuses = tuple(NodeStatus(node, state, Reason.NODE_NOT_READY_BRIEFLY, "") for node, state in states.items())
    for phase in Phase:
        expected = ["b", "a"] if phase in (Phase.FAIL, Phase.DEADLINE) else []
        decision = Decision(phase, Reason.STALLED, "", statuses=statuses)
        assert expected == [status.node for status in in_need(decision)], phase


def test_a_decision_counts_its_statuses() -> None:
    """For summaries."""
    decision, _memory = stale("a", "b", "c").change("node", labelled("c", skip="true"), "c").decide()
    states: tuple[tuple[NodeState, ...], ...] = ((NodeState.STALE,), (NodeState.EXCLUDED,), ())
    assert [2, 1, 0, 3] == [*(decision.count(*each) for each in states), decision.count(*states[0], *states[1])]
