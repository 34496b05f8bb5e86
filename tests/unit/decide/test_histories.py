"""Histories in which an earlier version broke a promise. Each is a small scene, with what the program must do in it."""

from __future__ import annotations

from hook.decide.reasons import Reason
from tests.fixtures.cluster import reasons, stale
from tests.unit.decide.runs import PLUGIN, deleted


def test_a_toleration_that_compares_numbers_lets_the_plugin_come_back() -> None:
    """A taint with a higher level than the toleration asks for is tolerated, so the stale plugin is restarted."""
    found = stale().change("node", "spec: {taints: [{key: level, value: '950', effect: NoExecute}]}")
    template = "{tolerations: [{key: level, operator: OPERATOR, value: '900'}]}"
    for operator, expected in (("Gt", Reason.PLUGIN_STALE), ("Lt", Reason.TAINT_NOT_TOLERATED)):
        found.change("daemonset", f"spec: {{template: {{spec: {template.replace('OPERATOR', operator)}}}}}", PLUGIN)
        decision, _memory = found.decide()
        assert [expected.value] == reasons(decision.statuses), operator
        assert (["gpu-0"] if operator == "Gt" else []) == deleted(decision), operator
