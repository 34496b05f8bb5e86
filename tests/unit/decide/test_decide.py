"""Decisions: when a run ends without being done, what the controller does instead, and several stacks in one run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, headline, in_need
from hook.decide.run import deadline, margin, succeeded
from hook.settings import ControllerSettings, Duration, OnDeadline, Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale
from tests.fixtures.following import Controller
from tests.fixtures.limits import FOLLOWING, of
from tests.fixtures.modes import with_exporter
from tests.fixtures.objects import driver_pod, plugin_pod
from tests.unit.decide.runs import EXPORTER, PLUGIN

TWO = ("a", "b")
YEAR = 365 * 24 * 3600
UNLABELLED = labelled(present="false", deploy_driver=None)
WAIT, FAIL, DEADLINE, DONE = Phase.WAIT, Phase.FAIL, Phase.DEADLINE, Phase.DONE


def rotating() -> Cluster:
    """Return a fleet whose driver pods are all being replaced."""
    return cluster(*TWO).drop("driver-pod")


def without(found: Cluster, *nodes: str) -> Cluster:
    """Remove nodes with all their pods from a cluster, as an autoscaler does."""
    for node in nodes:
        found.drop("node", node).drop("driver-pod", f"driver-{node}").drop("plugin-pod", f"plugin-{node}")
    return found


# The end of a run.


def test_the_time_is_up_a_margin_before_the_end_of_the_job() -> None:
    """Counted from the start of the Job, so that its retries share it, with time left to report."""
    for timeout, seconds, phase in ((1500, 1469, WAIT), (1500, 1470, DEADLINE), (100, 94, WAIT), (100, 95, DEADLINE)):
        memory = Memory(started=LATER - timedelta(seconds=seconds))
        decision, _memory = rotating().decide(Settings(timeout=Duration(seconds=timeout)), memory)
        assert phase is decision.phase, (timeout, seconds)


def test_a_deadline_names_what_blocked_the_run() -> None:
    """It comes before a failure, and a run that finds nothing to do is done all the same."""
    late = Memory(started=LATER - timedelta(hours=2))
    unnamed = stale().change("daemonset", "metadata: {name: mine}", PLUGIN)
    for found, memory, expected in (
        (rotating(), Memory(started=LATER), (WAIT, Reason.NODES_PENDING, None)),
        (rotating(), late, (DEADLINE, Reason.TIME_UP, Reason.NODES_PENDING)),
        (unnamed, late, (DEADLINE, Reason.TIME_UP, Reason.UNNAMED_PLUGIN)),
        (cluster(), late, (DONE, Reason.NOTHING_STALE, None)),
    ):
        decision, _memory = found.decide(memory=memory)
        assert expected == (decision.phase, decision.reason, decision.cause)


def test_what_the_deployment_tool_sees() -> None:
    """A deadline is a success only for those who asked for a report. Every phase but Wait is final."""
    for phase, on_deadline, expected in (
        (DONE, OnDeadline.FAIL, True),
        (Phase.SKIP, OnDeadline.FAIL, True),
        (FAIL, OnDeadline.REPORT, False),
        (DEADLINE, OnDeadline.FAIL, False),
        (DEADLINE, OnDeadline.REPORT, True),
        (WAIT, OnDeadline.FAIL, False),
    ):
        decision = Decision(phase, Reason.NODES_PENDING, "")
        assert expected is succeeded(decision, Settings(on_deadline=on_deadline)), phase
        assert (phase is not WAIT) is decision.final, phase


# Memory.


def test_a_decision_depends_on_its_arguments_alone_and_changes_none() -> None:
    """So a run that was killed, and a second one next to it, ask for the very same restarts."""
    memory = Memory(started=LATER)
    after = stale().drop("slice").decide(memory=memory)[1]
    assert (Memory(started=LATER), True) == (memory, after != memory)
    assert stale("a", "b").decide(memory=after) == stale("a", "b").decide(memory=after)
    found = stale(*TWO).put("plugin-pod", *cluster("b").of("plugin-pod"))
    fresh = Memory(started=LATER - timedelta(seconds=40))
    assert found.decide()[0].actions == found.decide(memory=fresh)[0].actions != ()


# The controller.


def test_the_controller_has_no_deadline() -> None:
    """A year without progress is a year of waiting. The next reload is handled as the one before."""
    for controller in (True, False):
        run = Controller(cluster(*TWO).put("driver-pod", driver_pod("a", ready=None)))
        run.settings = of(FOLLOWING, controller=controller)
        phases = [run.look(seconds).phase for seconds in (0, YEAR)]
        assert [WAIT, WAIT if controller else DEADLINE] == phases
    assert LATER + timedelta(days=10**6) < deadline(FOLLOWING, LATER)
    run = Controller(stale())
    run.act(0)
    run.found.only("plugin-pod", plugin_pod())
    assert DONE is run.act(20).phase
    run.found.only("driver-pod", driver_pod(started=YEAR, ready=YEAR + 5, restarts=1))
    assert (WAIT, 1) == ((found := run.act(YEAR)).phase, len(found.actions))


def test_a_failure_does_not_stop_the_restarts_of_the_controller() -> None:
    """It reports a plugin that is not named, and restarts the driver clients that are. A Job does not."""
    found = with_exporter(cluster(), started=-400).change("daemonset", {"metadata": {"name": "my-own-plugin"}}, PLUGIN)
    for controller in (True, False):
        settings = structs.replace(of(FOLLOWING, controller=controller), driver_clients=(EXPORTER,))
        decision = Controller(found, settings).look()
        assert (FAIL, Reason.UNNAMED_PLUGIN) == (decision.phase, decision.reason)
        assert int(controller) == len(decision.actions)


def test_the_memory_of_the_controller_does_not_grow() -> None:
    """Nodes come and go, their plugins are restarted, refused and in trouble. What is gone is forgotten."""
    run = Controller(stale("n0"))
    for number in range(1, 10):
        run.act(number * 100)
        (status,) = run.look(number * 100).statuses
        assert status.stale_pod is not None
        run.memory = run.memory.troubled(status.node, status.stale_pod, LATER, "busy")
        run.found = stale(f"n{number}")
    run.act(YEAR)
    assert {("n9", "plugin-ds")} == set(run.memory.records)
    run.found.change("daemonset", "metadata: {uid: another}", PLUGIN)
    run.look(YEAR + 1)
    assert {} == run.memory.records, "a driver client that was installed again"


def test_what_still_exists_is_not_forgotten() -> None:
    """A node without its object but with a plugin, and one that lost its labels."""
    run = Controller(stale(*TWO))
    run.act(0)
    run.found.drop("node", "a").change("node", {"metadata": {**UNLABELLED["metadata"], "name": "b"}}, "b")
    run.look(1)
    assert {("a", "plugin-ds"), ("b", "plugin-ds")} == set(run.memory.records)


def test_only_a_failing_run_names_the_nodes_in_need() -> None:
    """The failed ones first; verified and excluded ones not at all. One line of it is made for grep."""
    states = {"a": NodeState.WAITING, "b": NodeState.FAILED, "c": NodeState.VERIFIED, "d": NodeState.EXCLUDED}
    statuses = tuple(NodeStatus(node, state, Reason.NODE_NOT_READY_BRIEFLY, "") for node, state in states.items())
    for phase in Phase:
        decision = Decision(phase, Reason.TIME_UP, "text", statuses=statuses)
        expected = ["b", "a"] if phase in (FAIL, DEADLINE) else []
        assert expected == [status.node for status in in_need(decision)], phase
        assert f"{phase} (TimeUp): text" == headline(decision)
    counted = [decision.count(*each) for each in ((NodeState.WAITING,), (NodeState.VERIFIED, NodeState.EXCLUDED), ())]
    assert [1, 2, 0] == counted


@pytest.mark.parametrize(("timeout", "kept"), [(8, 4), (60, 5), (5 * 60, 15), (10 * 60, 30), (120 * 60, 30)])
def test_a_margin_of_the_timeout_is_kept_for_reporting(timeout: int, kept: int) -> None:
    """It is a twentieth, at least 5 s and at most 30 s, but never more than half."""
    assert timedelta(seconds=kept) == margin(Settings(timeout=Duration(seconds=timeout)))


def test_a_run_reports_before_its_time_is_up() -> None:
    """The controller has no deadline."""
    started = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert started + timedelta(minutes=24, seconds=30) == deadline(Settings(), started)
    assert datetime.max.replace(tzinfo=UTC) == deadline(ControllerSettings(), started)
