"""The upgrade controller's labels: a veto, never a proof."""

from __future__ import annotations

import pytest

from hook.decide.nodes import Label
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import names
from tests.fixtures.cluster import cluster, labelled, stale

BEFORE = sorted(names.STATES_BEFORE_RESTART)
AFTER = sorted(names.STATES_AFTER_RESTART)


@pytest.mark.parametrize("state", BEFORE)
def test_states_before_the_restart_veto(state: str) -> None:
    """The driver is about to go: its plugin must not be restarted on it."""
    assert stale().change("node", labelled(state=state)).judge().reason is Reason.UPGRADE_IN_PROGRESS


@pytest.mark.parametrize("state", [*AFTER, "upgrade-failed", "upgrade-done", None])
def test_states_after_the_restart_do_not_hold_back_serving(state: str | None) -> None:
    """Labels trail the truth by up to two minutes: a node with its new driver Ready is served now."""
    decision, _memory = stale().change("node", labelled(state=state)).decide()
    assert (Reason.PLUGIN_STALE, 1) == (decision.statuses[0].reason, len(decision.actions))


@pytest.mark.parametrize("state", AFTER)
def test_states_after_the_restart_hold_back_done(state: str) -> None:
    """A node is served, but the run is not done before its label is quiet."""
    decision, _memory = cluster("gpu-0", "gpu-1").change("node", labelled("gpu-1", state=state), "gpu-1").decide()
    assert (Phase.WAIT, Reason.UPGRADE_LABELS_PENDING) == (decision.phase, decision.reason)
    assert [False, True] == [one.label_pending for one in decision.statuses]


@pytest.mark.parametrize("state", ["drain-requested", "Upgrade-Done", "true"])
def test_an_unknown_state_vetoes(state: str) -> None:
    """A newer upgrade controller may use it: it counts as an upgrade in progress."""
    assert stale().change("node", labelled(state=state)).judge().reason is Reason.UPGRADE_STATE_UNKNOWN


@pytest.mark.parametrize(
    ("operand", "value", "expected"),
    [
        pytest.param("device-plugin", "paused-for-driver-upgrade", Reason.OPERANDS_PAUSED, id="paused"),
        pytest.param("dcgm", "custom_paused-for-driver-upgrade", Reason.OPERANDS_PAUSED, id="paused-keeps-its-value"),
        pytest.param("device-plugin", "", Reason.PLUGIN_STALE, id="set-to-nothing-after-a-pause"),
        pytest.param("device-plugin", "false", Reason.PLUGIN_STALE, id="not-deployed"),
    ],
)
def test_paused_operands_veto(operand: str, value: str, expected: Reason) -> None:
    """While k8s-driver-manager has paused any operand, the old driver is being unloaded."""
    patch = {"metadata": {"labels": {f"nvidia.com/gpu.deploy.{operand}": value}}}
    assert expected == stale().change("node", patch).judge().reason


def test_upgrade_failed_holds_a_served_node() -> None:
    """It clears by itself sometimes; until then the node is not done, though its plugin is fresh."""
    judged = cluster().change("node", labelled(state="upgrade-failed")).judge()
    assert (NodeState.WAITING, Reason.UPGRADE_FAILED) == (judged.state, judged.reason)


def test_upgrade_failed_speaks_for_a_node_whose_driver_is_not_settled() -> None:
    """Whatever the node waits for, the failed upgrade is what an operator must know."""
    judged = cluster().drop("driver-pod").change("node", labelled(state="upgrade-failed")).judge()
    assert (NodeState.WAITING, Reason.UPGRADE_FAILED) == (judged.state, judged.reason)


def test_upgrade_failed_does_not_bring_back_an_excluded_node() -> None:
    """Somebody took it out; its label is not our business."""
    patch = labelled(state="upgrade-failed", skip="true")
    judged = cluster().change("node", patch).judge()
    assert (NodeState.EXCLUDED, Reason.NODE_SKIPPED) == (judged.state, judged.reason)


def test_every_documented_state_has_a_meaning() -> None:
    """No state of the upgrade library is both before and after the restart, or quiet."""
    groups = (names.STATES_BEFORE_RESTART, names.STATES_AFTER_RESTART, names.STATES_QUIET, {names.STATE_FAILED})
    assert sum(len(group) for group in groups) == len(set().union(*groups))
    assert {"quiet", "before", "after", "failed", "unknown"} == {label.value for label in Label}
