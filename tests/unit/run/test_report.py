"""Reports: what log, Events and the termination message have of a run, nothing twice, and the advice at its end."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.kube.events import ObjectReference
from hook.kube.informer import OutOfSync
from hook.objects.stacks import GPU_OPERATOR, STACKS
from hook.run import report
from hook.run.report import TERMINATION_LIMIT, ProgressReporter, advice, next_step, termination_message
from hook.settings import Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.modes import with_exporter
from tests.fixtures.objects import driver_pod
from tests.fixtures.schemas import conforms
from tests.fixtures.statuses import Recorder, restart, stale_plugin
from tests.unit.decide import patches
from tests.unit.decide.runs import EXPORTER

JOB: Final = ObjectReference("batch/v1", "Job", "ns", "job", "uid")
PLUGIN: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "ds")


def waiting(reason: Reason, plugin: str = "", node: str = "x") -> NodeStatus:
    """Return the status of a node that waits."""
    return NodeStatus(node, NodeState.WAITING, reason, "its pod is not ready", plugin=plugin, subject="ns/pod")


def pending(*statuses: NodeStatus) -> Decision:
    """Wait for nodes."""
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "0 of 1 nodes verified; so it is", statuses=statuses)


LOADING, OUTDATED = waiting(Reason.DRIVER_NOT_READY), waiting(Reason.DRIVER_OUTDATED, node="y")


def logged(caplog: pytest.LogCaptureFixture, *decisions: Decision, recorder: Recorder | None = None) -> list[str]:
    """Report decisions one after the other; return the lines about nodes."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        reporter = ProgressReporter(recorder or Recorder(), JOB if recorder else None)
        for decision in decisions:
            reporter.report(decision, timedelta(seconds=60))
    return [record.message for record in caplog.records if record.message.startswith("node ")]


def test_what_is_logged_of_a_node(caplog: pytest.LogCaptureFixture) -> None:
    """A change, once for each node and plugin, and what holds a restart back; not what is restarted at once."""
    for other in (OUTDATED, waiting(Reason.PLUGIN_QUEUED, "a/b")):
        assert len(logged(caplog, *[pending(LOADING, other)] * 4)) == 2, other
    for reason in (Reason.PLUGIN_QUEUED, Reason.RESTART_BACKED_OFF):
        held = replace(waiting(reason, "a/b"), state=NodeState.STALE, message="waits for its turn (max 1)")
        stale = replace(held, node="y", reason=Reason.PLUGIN_STALE)
        assert logged(caplog, pending(held, stale)) == [f"node x: Stale ({reason}): waits for its turn (max 1)"]


def test_programs_find_a_node_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """As JSON it has the node, its state and the reason."""
    logged(caplog, pending(waiting(Reason.PLUGIN_QUEUED)))
    facts = {"node": "x", "state": waiting(Reason.PLUGIN_QUEUED).state, "reason": "PluginQueued"}
    assert facts in [vars(record).get("facts") for record in caplog.records]


def test_a_summary_has_the_progress(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the time to the timeout."""
    monkeypatch.setattr(report, "SUMMARY_SECONDS", 0.0)
    with caplog.at_level(logging.INFO):
        ProgressReporter(Recorder(), None).report(pending(LOADING), timedelta(minutes=9))
    summary = "waiting: 0 of 1 nodes verified, timeout in 9m; so it is (1 waiting)"
    assert caplog.messages[-1] == summary


def test_an_outage_is_logged_once_and_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is the next one."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reporter = ProgressReporter(Recorder(), None)
    expected: list[str] = []
    with caplog.at_level(logging.INFO):
        for began in (1000.0, 2000.0):
            lost = OutOfSync("pods", began, "refused")
            for after, found in ((30, lost), (60, lost), (90, None), (120, None)):
                now[0] = began + after
                reporter.report_sync(found)
            expected += ["cannot read pods for 30 s: refused; nothing is restarted until it can be read again"]
            expected += ["the cluster can be read again, after 90 s"]
    assert [record.message for record in caplog.records] == expected


def test_a_failed_node_that_holds_up_others_is_reported_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    """In the log of a run that waits, and in status: the upgrade continues only when an administrator has acted."""
    found = cluster("a", "b").change("driver-pod", patches.OUTDATED)
    found.change("node", labelled("a", state="upgrade-failed"), "a")
    decision, _memory = found.change("node", labelled("b", state="upgrade-required"), "b").decide()
    reporter = ProgressReporter(Recorder(), None)
    reporter.last_summary = float("-inf")
    with caplog.at_level(logging.INFO):
        reporter.report(decision, timedelta(minutes=1))
    held_up = "UpgradeFailed: a; DriverOutdated: b"
    first, summary = (line for line in caplog.messages if held_up in line)
    assert first.startswith("waiting (NodesPending): 0 of 2 nodes verified; ")
    assert summary.startswith("waiting: 0 of 2 nodes verified, timeout in ")
    assert [line for line in report.ending(decision, []) if held_up in line]


ABSENT = waiting(Reason.PLUGIN_MISSING, "a/b")
VERIFIED = replace(ABSENT, state=NodeState.VERIFIED, reason=Reason.VERIFIED, label_pending=True)


@pytest.mark.parametrize(
    ("statuses", "reason", "expected"),
    [
        ((LOADING, VERIFIED), Reason.NODES_PENDING, "WaitingForDriver"),
        ((VERIFIED, OUTDATED), Reason.NODES_PENDING, "WaitingForDriver"),
        ((replace(ABSENT, reason=Reason.UPGRADE_FAILED),), Reason.NODES_PENDING, "WaitingForDriver"),
        ((VERIFIED,), Reason.UPGRADE_LABELS_PENDING, "UpgradeLabelsPending"),
        ((VERIFIED, ABSENT), Reason.NODES_PENDING, "NodesPending"),
        ((replace(ABSENT, state=NodeState.STALE), VERIFIED), Reason.NODES_PENDING, "NodesPending"),
        ((replace(LOADING, state=NodeState.EXCLUDED), VERIFIED), Reason.POLICY_NOT_READY, "PolicyNotReady"),
    ],
)
def test_a_summary_is_an_event_with_what_the_run_waits_for(
    statuses: tuple[NodeStatus, ...], reason: Reason, expected: str
) -> None:
    """It waits for a driver only while one is not settled, not for a label that lags, a plugin, or the operator."""
    recorder = Recorder()
    ProgressReporter(recorder, JOB).summarise(replace(pending(*statuses), reason=reason))
    assert [("Job", expected, "", False)] == recorder.heard


@pytest.mark.parametrize(("plugin", "kind"), [(PLUGIN, "DaemonSet"), (None, "Job")])
def test_a_restart_is_one_event(plugin: ObjectReference | None, kind: str) -> None:
    """On the plugin's DaemonSet, or on the Job if that is not known. One that failed is none."""
    recorder = Recorder()
    reporter = ProgressReporter(recorder, JOB)
    reporter.report_restart(restart(stale_plugin("a")), plugin)
    reporter.report_restart(restart(stale_plugin("a"), trouble="no answer"), plugin)
    assert [(kind, "StalePluginRestarted", "plugin-a", False)] == recorder.heard


def failed(node: str) -> NodeStatus:
    """Return the status of a node whose upgrade has failed."""
    return NodeStatus(node, NodeState.FAILED, Reason.UPGRADE_FAILED, "it failed", subject="ns/pod")


def test_the_advice_at_the_end() -> None:
    """Of each reason, and a warning although all is done. Where there is room for one advice it is about the cause."""
    words = "excluded, with an outdated driver: b. To fix, after x: kubectl -n gpu-operator delete pod driver-b"
    excluded = replace(OUTDATED, state=NodeState.EXCLUDED, node="b")
    done = Decision(Phase.DONE, Reason.NOTHING_STALE, "done", warnings=(words,), statuses=(VERIFIED, excluded))
    assert f"WARNING {words}" in report.ending(done, [])
    message = json.loads(termination_message(done, 0, 0, GPU_OPERATOR))
    assert ([words], "", ["b"]) == (message["warnings"], message["next"], [each["node"] for each in message["nodes"]])
    over = Decision(Phase.FAIL, Reason.UPGRADE_FAILED, "a and b", statuses=(failed("a"), failed("b")))
    for stack in STACKS.values():
        (advised,) = advice(over, stack)
        assert advised.about == "UpgradeFailed (a)"
        assert stack.operator.title in advised.text.meaning, "in the words of the stack"
        assert report.ending(over, [advised])[-1] == f"    {advised.text.fix}", "on a line of its own"
    both = (waiting(Reason.DRIVER_OUTDATED, node="z"), failed("a"))
    for phase, reason, expected in (
        (Phase.FAIL, Reason.UPGRADE_FAILED, "UpgradeFailed (a)"),
        (Phase.FAIL, Reason.PERMISSION_MISSING, "PermissionMissing:"),
        (Phase.DEADLINE, Reason.TIME_UP, "UpgradeFailed (a)"),
    ):
        assert next_step(Decision(phase, reason, "", statuses=both), GPU_OPERATOR).startswith(expected), reason
    late = Decision(Phase.DEADLINE, Reason.TIME_UP, "", cause=Reason.OPERATOR_NOT_LEADING)
    assert next_step(late, GPU_OPERATOR).startswith("OperatorNotLeading:")


def test_the_advice_to_a_stopped_process_fits_it() -> None:
    """A Job runs again. A controller has no next run: another leader continues."""
    for reason, phase, expected in (
        (Reason.TERMINATED, Phase.FAIL, True),
        (Reason.CONTROLLER_STOPPED, Phase.WAIT, False),
    ):
        (advised,) = advice(Decision(phase, reason, "stopped by signal 15"), GPU_OPERATOR)
        assert ("next run" in str(advised)) is expected, advised
    # Both end with these.
    for reason in (Reason.API_UNREACHABLE, Reason.UNAUTHORIZED):
        (advised,) = advice(Decision(Phase.FAIL, reason, "no answer"), GPU_OPERATOR)
        assert "Job" not in str(advised), advised


def test_the_termination_message_holds_the_whole_advice() -> None:
    """A look, and a fix with its precondition: a command that is cut off is no help."""
    node = "worker-17.pool-a.eu-central-1.cluster.example"
    pod = "nvidia-network-operator/mofed-ubuntu22.04-7d9f-ds-x8k2p"
    for reason in Reason:
        for stack in STACKS.values():
            status = NodeStatus(node, NodeState.FAILED, reason, "m" * 400, subject=pod)
            over = Decision(Phase.FAIL, reason, "n" * 400, statuses=(status,), warnings=("w" * 400,) * 3)
            message = termination_message(over, 3, 0, stack)
            assert len(message.encode()) <= TERMINATION_LIMIT, (reason, stack.name)
            shown = conforms("termination-message", json.loads(message))
            nodes = [each["node"] for each in shown["nodes"]]
            assert (next_step(over, stack), [node]) == (shown["next"], nodes), reason


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cluster("a", "b"), "2 of 2"),
        (with_exporter(stale("a", "b"), -9).change("node", labelled("a", skip="true"), "a"), "0 of 1"),
        (cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), "1 of 2"),
    ],
)
def test_verified_nodes_are_counted(found: Cluster, expected: str) -> None:
    """Each once, however many plugins it has; excluded ones not at all."""
    decision, _memory = found.decide(Settings(driver_clients=(EXPORTER,)))
    assert report.progress(decision) == f"{expected} nodes verified"
