"""What a run of several driver stacks shows and tells: of which stack a line is, and nothing twice."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.kube.events import ObjectReference
from hook.run import report
from hook.run.report import ProgressReporter

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE = timedelta(seconds=60)
JOB = ObjectReference("batch/v1", "Job", "ns", "job", "uid")


def _waiting(*statuses: NodeStatus) -> Decision:
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "0 of 1 nodes verified", statuses=statuses, stack="gpu")


def _evaluated(stack: str, reason: Reason, plugin: str = "", node: str = "x") -> NodeStatus:
    return NodeStatus(node, NodeState.WAITING, reason, "its pod is not ready", plugin=plugin, stack=stack)


GPU, NIC = _evaluated("gpu", Reason.DRIVER_NOT_READY), _evaluated("network", Reason.DRIVER_OUTDATED)


class Ear:
    """Keeps what Events would say."""

    def __init__(self) -> None:
        """Begin without any."""
        self.heard: list[tuple[str, str]] = []

    def event(self, _subject: object, reason: str, _note: str, *, about: str = "", warning: bool = False) -> None:
        """Note the reason and what it is about."""
        assert warning == (reason == "NodeFailed")
        self.heard.append((reason, about))


def _told(decisions: Sequence[Decision], ear: Any = None) -> None:  # noqa: ANN401 - a double of the Teller
    reporter = ProgressReporter(ear, JOB if ear else None)
    for decision in decisions:
        reporter.report(decision, MINUTE)


@pytest.mark.parametrize("statuses", [(GPU, NIC), (GPU, _evaluated("gpu", Reason.PLUGIN_QUEUED, "a/b"))],
                         ids=["two-stacks", "two-consumers"])  # fmt: skip
def test_a_node_of_which_nothing_changed_is_told_once(
    statuses: tuple[NodeStatus, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is decided upon: each stack and each consumer stands by itself."""
    with caplog.at_level(logging.INFO):
        _told([_waiting(*statuses)] * 4)
    assert 2 == sum(record.message.startswith("node x: ") for record in caplog.records)


@pytest.mark.parametrize("reason", [Reason.PLUGIN_QUEUED, Reason.STALE_UNEXPLAINED, Reason.RESTART_BACKED_OFF])
def test_what_holds_a_restart_back_is_told(reason: Reason, caplog: pytest.LogCaptureFixture) -> None:
    """Without being asked: nothing else that people look at shows it. What is restarted at once is not."""
    held = replace(_evaluated("gpu", reason, "a/b"), state=NodeState.STALE, message="waits for its turn (max 1)")
    stale = replace(held, node="y", reason=Reason.PLUGIN_STALE)
    with caplog.at_level(logging.INFO):
        _told([_waiting(held, stale)])
    assert [f"node x: Stale ({reason}): waits for its turn (max 1)"] == [
        record.message for record in caplog.records if record.message.startswith("node ")
    ]


def test_the_log_says_of_which_stack_a_line_is(caplog: pytest.LogCaptureFixture) -> None:
    """Both may say that a driver pod is not ready; of a single stack nobody reads."""
    with caplog.at_level(logging.INFO):
        _told([_waiting(GPU, _evaluated("network", Reason.DRIVER_NOT_READY))])
        _told([_waiting(GPU)])
    lines = [record.message for record in caplog.records if record.message.startswith("node x: ")]
    assert [(True, False), (False, True), (False, False)] == [("[gpu]" in one, "[network]" in one) for one in lines]


def test_a_node_that_fails_for_both_stacks_is_an_event_of_each() -> None:
    """Events about the same thing are told once, so they must not be about the same."""
    ear = Ear()
    failed = [_evaluated(stack, Reason.DRIVER_FAILING).failed() for stack in ("gpu", "network")]
    _told([_waiting(*failed)] * 2, ear)
    assert [("NodeFailed", "gpu/x"), ("NodeFailed", "network/x")] == ear.heard


def test_a_table_of_two_stacks_says_of_which_each_line_is() -> None:
    """One node has a line for each; of a single stack nobody reads."""
    lines = report.table(_waiting(GPU, NIC)).splitlines()[1:]
    assert [True, False] == ["[gpu]" in line for line in lines]
    assert [False, True] == ["[network]" in line for line in lines]
    assert "[gpu]" not in report.table(_waiting(GPU))


def test_the_termination_message_says_it_too() -> None:
    """It is all that some deployers show."""
    late = Decision(Phase.DEADLINE, Reason.TIME_UP, "late", statuses=(GPU, NIC), stack="gpu")
    nodes = json.loads(report.termination_message(late, 124, 0))["nodes"]
    assert ["[gpu] its pod is not ready", "[network] its pod is not ready"] == [one["message"] for one in nodes]


def test_the_command_for_a_node_that_people_upgrade_is_printed_although_all_is_done() -> None:
    """The release succeeds; that node still has to be drained."""
    words = "excluded, with an outdated driver: b. To fix, after x: kubectl -n gpu-operator delete pod driver-b"
    done = Decision(Phase.DONE, Reason.NOTHING_STALE, "done", warnings=(words,), stack="gpu")
    assert f"WARNING {words}" in report.ending(done)
    assert [words] == json.loads(report.termination_message(done, 0, 0))["warnings"]
