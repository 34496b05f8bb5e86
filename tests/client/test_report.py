"""Reports: what log, Events and the termination message have of a run, nothing twice, and the advice at its end."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, StalePod
from hook.kube.events import ObjectReference
from hook.objects.drivers import STACKS
from hook.run import report
from hook.run.report import TERMINATION_LIMIT, ProgressReporter, advice, next_step, termination_message
from tests.client.controller import Recorder, restart
from tests.process.program import documented

JOB: Final = ObjectReference("batch/v1", "Job", "ns", "job", "uid")
PLUGIN: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "ds")


def waiting(stack: str, reason: Reason, plugin: str = "", node: str = "x") -> NodeStatus:
    """Return the status of a node that waits."""
    return NodeStatus(
        node, NodeState.WAITING, reason, "its pod is not ready", plugin=plugin, subject="ns/pod", stack=stack
    )


def pending(*statuses: NodeStatus) -> Decision:
    """Wait for nodes."""
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "0 of 1 nodes verified; so it is", statuses=statuses, stack="gpu")


GPU, NIC = waiting("gpu", Reason.DRIVER_NOT_READY), waiting("network", Reason.DRIVER_OUTDATED)


def logged(caplog: pytest.LogCaptureFixture, *decisions: Decision, recorder: Recorder | None = None) -> list[str]:
    """Report decisions one after the other; return the lines about nodes."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        reporter = ProgressReporter(recorder or Recorder(), JOB if recorder else None)
        for decision in decisions:
            reporter.report(decision, timedelta(seconds=60), lambda: 90)
    return [record.message for record in caplog.records if record.message.startswith("node ")]


def test_what_is_logged_of_a_node(caplog: pytest.LogCaptureFixture) -> None:
    """A change, once for each driver and plugin, and what holds a restart back; not what is restarted at once."""
    for other in (NIC, waiting("gpu", Reason.PLUGIN_QUEUED, "a/b")):
        assert len(logged(caplog, *[pending(GPU, other)] * 4)) == 2, other
    for reason in (Reason.PLUGIN_QUEUED, Reason.RESTART_BACKED_OFF):
        held = replace(waiting("gpu", reason, "a/b"), state=NodeState.STALE, message="waits for its turn (max 1)")
        stale = replace(held, node="y", reason=Reason.PLUGIN_STALE)
        assert logged(caplog, pending(held, stale)) == [f"node x: Stale ({reason}): waits for its turn (max 1)"]


def test_a_line_names_its_driver_where_there_are_two(caplog: pytest.LogCaptureFixture) -> None:
    """In the log, in the table and in the termination message. A node that fails for both is an Event of each."""
    lines = logged(caplog, pending(GPU, waiting("network", Reason.DRIVER_NOT_READY)))
    assert [("[gpu]" in line, "[network]" in line) for line in lines] == [(True, False), (False, True)]

    lines = report.table(pending(GPU, NIC)).splitlines()[1:]
    assert [("[gpu]" in line, "[network]" in line) for line in lines] == [(True, False), (False, True)]
    assert "[gpu]" not in report.table(pending(GPU))
    late = Decision(Phase.DEADLINE, Reason.TIME_UP, "late", statuses=(GPU, NIC), stack="gpu")
    nodes = json.loads(termination_message(late, 124, 0))["nodes"]
    assert ["[gpu] its pod is not ready", "[network] its pod is not ready"] == [node["message"] for node in nodes]
    recorder = Recorder()
    failed = [waiting(stack, Reason.DRIVER_FAILING).failed() for stack in ("gpu", "network")]
    logged(caplog, *[pending(*failed)] * 2, recorder=recorder)
    assert [("Job", "NodeFailed", f"{stack}/x", True) for stack in ("gpu", "network")] == recorder.heard


def test_a_summary_has_an_estimate(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the progress, and the time to the timeout, which is another one."""
    monkeypatch.setattr(report, "SUMMARY_SECONDS", 0.0)
    with caplog.at_level(logging.INFO):
        ProgressReporter(Recorder(), None).report(pending(GPU), timedelta(minutes=9), lambda: 90)
    summary = "waiting: 0 of 1 nodes verified, about 1m30s left, timeout in 9m; so it is (1 waiting)"
    assert caplog.messages[-1] == summary


def test_a_summary_is_an_event_with_what_the_run_waits_for() -> None:
    """It waits for a driver only while one is not settled, not for a label that lags, a plugin, or the operator."""
    plugin = waiting("gpu", Reason.PLUGIN_MISSING, "a/b")
    verified = replace(plugin, state=NodeState.VERIFIED, reason=Reason.VERIFIED, label_pending=True)
    gave_up = replace(plugin, reason=Reason.UPGRADE_FAILED)
    for statuses, reason, expected in (
        ((GPU, verified), Reason.NODES_PENDING, "WaitingForDriver"),
        ((verified, NIC), Reason.NODES_PENDING, "WaitingForDriver"),
        ((gave_up,), Reason.NODES_PENDING, "WaitingForDriver"),
        ((verified,), Reason.UPGRADE_LABELS_PENDING, "UpgradeLabelsPending"),
        ((verified,), Reason.OPERATOR_SETTLING, "OperatorSettling"),
        ((verified, plugin), Reason.NODES_PENDING, "NodesPending"),
        ((replace(plugin, state=NodeState.STALE), verified), Reason.NODES_PENDING, "NodesPending"),
        ((replace(GPU, state=NodeState.EXCLUDED), verified), Reason.POLICY_NOT_READY, "PolicyNotReady"),
    ):
        recorder = Recorder()
        ProgressReporter(recorder, JOB).summarise(replace(pending(*statuses), reason=reason))
        assert [("Job", expected, "", False)] == recorder.heard, statuses


def test_a_restart_is_one_event() -> None:
    """On the plugin's DaemonSet, or on the Job if that is not known. The API server stores each Event."""
    for plugin, kind in ((PLUGIN, "DaemonSet"), (None, "Job")):
        recorder = Recorder()
        reporter = ProgressReporter(recorder, JOB)
        pod = StalePod("dra", "plugin-a", "uid-a", "7", "ds", because="it is stale", driver_run="run")
        reporter.report_restart(restart(pod), plugin)
        reporter.report_restart(restart(pod, trouble="no answer"), plugin)
        assert [(kind, "StalePluginRestarted", "", False)] == recorder.heard


def failed(node: str, stack: str = "gpu") -> NodeStatus:
    """Return the status of a node whose upgrade has failed."""
    return NodeStatus(node, NodeState.FAILED, Reason.UPGRADE_FAILED, "it failed", subject="ns/pod", stack=stack)


def test_the_advice_at_the_end() -> None:
    """Of each driver, and a warning although all is done. Where there is room for one advice it is about the cause."""
    words = "excluded, with an outdated driver: b. To fix, after x: kubectl -n gpu-operator delete pod driver-b"
    done = Decision(Phase.DONE, Reason.NOTHING_STALE, "done", warnings=(words,), stack="gpu")
    assert f"WARNING {words}" in report.ending(done)
    assert [words] == json.loads(termination_message(done, 0, 0))["warnings"]
    statuses = (failed("a"), failed("b", "network"), failed("c", "network"))
    lines = advice(Decision(Phase.FAIL, Reason.UPGRADE_FAILED, "a and b", statuses=statuses, stack="gpu"))
    assert [("(a)" in line, "(b)" in line) for line in lines] == [(True, False), (False, True)]
    assert ["gpu-driver-upgrade-state" in line for line in lines] == [True, False]
    both = (waiting("gpu", Reason.DRIVER_OUTDATED, node="z"), failed("a"))
    for phase, reason, expected in (
        (Phase.FAIL, Reason.UPGRADE_FAILED, "UpgradeFailed (a)"),
        (Phase.FAIL, Reason.PERMISSION_MISSING, "PermissionMissing:"),
        (Phase.DEADLINE, Reason.TIME_UP, "UpgradeFailed (a)"),
    ):
        assert next_step(Decision(phase, reason, "", statuses=both, stack="gpu")).startswith(expected), reason
    late = Decision(Phase.DEADLINE, Reason.TIME_UP, "", cause=Reason.OPERATOR_NOT_LEADING, stack="gpu")
    assert next_step(late).startswith("OperatorNotLeading:")


def test_the_advice_to_a_stopped_process_fits_it() -> None:
    """A Job runs again. A controller has no next run: another leader continues."""
    for reason, phase, expected in (
        (Reason.TERMINATED, Phase.FAIL, True),
        (Reason.CONTROLLER_STOPPED, Phase.WAIT, False),
    ):
        (line,) = advice(Decision(phase, reason, "stopped by signal 15"))
        assert ("next run" in line) is expected, line
    # Both end with these.
    for reason in (Reason.API_UNREACHABLE, Reason.UNAUTHORIZED):
        (line,) = advice(Decision(Phase.FAIL, reason, "no answer"))
        assert "Job" not in line, line


def test_the_termination_message_holds_the_whole_advice() -> None:
    """A look, and a fix with its precondition: a command that is cut off is no help."""
    node = "worker-17.pool-a.eu-central-1.cluster.example"
    pod = "nvidia-network-operator/mofed-ubuntu22.04-7d9f-ds-x8k2p"
    for reason in Reason:
        for stack in STACKS:
            status = NodeStatus(node, NodeState.FAILED, reason, "m" * 400, subject=pod, stack=stack)
            over = Decision(Phase.FAIL, reason, "n" * 400, statuses=(status,), warnings=("w" * 400,) * 3, stack=stack)
            message = termination_message(over, 3, 0)
            assert len(message.encode()) <= TERMINATION_LIMIT, (reason, stack)
            shown = documented("termination-message", message)
            assert (next_step(over), [node]) == (shown["next"], [each["node"] for each in shown["nodes"]]), reason
