"""When a run ends without being done: the deadline, the stall, and what the deployer hears."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from hook.config import Duration, Expect, OnDeadline, Settings
from hook.decide.decide import succeeded
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale, stale_plugin
from tests.fixtures.objects import driver_pod, merged, obj, parsed, plugin_pod

TWO = ("a", "b")


def rotating() -> Cluster:
    """Give a fleet whose driver pods are all being replaced."""
    return cluster(*TWO).drop("driver-pod")


def decided(
    found: Cluster, memory: Memory, minutes: float, settings: Settings | None = None
) -> tuple[Decision, Memory]:
    """Decide so many minutes after LATER."""
    return found.decide(settings, memory, LATER + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("timeout", "seconds", "expected"),
    [
        pytest.param(25 * 60, 25 * 60 - 31, Phase.WAIT, id="before-the-margin"),
        pytest.param(25 * 60, 25 * 60 - 30, Phase.DEADLINE, id="margin-of-half-a-minute"),
        pytest.param(100, 94, Phase.WAIT, id="before-a-short-margin"),
        pytest.param(100, 95, Phase.DEADLINE, id="margin-of-a-twentieth"),
    ],
)
def test_the_time_is_up_a_margin_before_the_jobs_end(timeout: int, seconds: int, expected: Phase) -> None:
    """Counted from the Job's start, so that retries share it, with time left to report."""
    memory = Memory(started=LATER - timedelta(seconds=seconds))
    decision, _memory = rotating().decide(Settings(timeout=Duration(seconds=timeout)), memory)
    assert expected is decision.phase


@pytest.mark.parametrize(
    ("found", "minutes", "expected"),
    [
        pytest.param(rotating(), 0, None, id="wait"),
        pytest.param(rotating(), 60, Reason.NODES_PENDING, id="deadline"),
        pytest.param(cluster(), 60, None, id="done"),
    ],
)
def test_a_deadline_says_what_held_the_run_up(found: Cluster, minutes: int, expected: Reason | None) -> None:
    """That the time is over explains nothing."""
    assert expected == decided(found, Memory(started=LATER), minutes)[0].cause


def test_done_is_said_even_after_the_time_is_up() -> None:
    """A retry that starts late and finds nothing to do succeeds."""
    decision, _memory = cluster().decide(memory=Memory(started=LATER - timedelta(hours=2)))
    assert decision.phase is Phase.DONE


def test_the_deadline_comes_before_a_failure() -> None:
    """Both say that a person is needed; the time is what the deployer asked for."""
    found = stale().change("daemonset", "metadata: {name: mine}", "dra-driver-nvidia-gpu-kubelet-plugin")
    decision, _memory = found.decide(memory=Memory(started=LATER - timedelta(hours=2)))
    assert Reason.TIME_UP is decision.reason


@pytest.mark.parametrize(
    ("stall", "minutes", "expected"),
    [
        pytest.param(30, 29.9, Phase.WAIT, id="not-yet"),
        pytest.param(30, 30, Phase.DEADLINE, id="stalled"),
        pytest.param(0, 500, Phase.WAIT, id="never"),
    ],
)
def test_a_fleet_that_does_not_advance_has_stalled(stall: int, minutes: float, expected: Phase) -> None:
    """No node came further for so long; zero means never."""
    settings = Settings(timeout=Duration(days=1), stall_timeout=Duration(minutes=stall))
    memory = decided(rotating(), Memory(started=LATER), 0, settings)[1]
    decision, _memory = decided(rotating(), memory, minutes, settings)
    assert expected is decision.phase
    assert (expected is Phase.DEADLINE) == (decision.reason is Reason.STALLED)


LONG = Settings(timeout=Duration(days=1))
PATIENT = structs.replace(LONG, plugin_timeout=Duration(days=1))


@pytest.mark.parametrize(
    "further",
    [
        pytest.param(rotating().put("driver-pod", driver_pod("a", ready=None)), id="a-driver-comes"),
        pytest.param(stale(*TWO).drop("driver-pod", "driver-b"), id="a-driver-is-ready"),
    ],
)
def test_a_node_that_comes_further_starts_the_stall_anew(further: Cluster) -> None:
    """Each step of each node counts."""
    memory = decided(rotating(), Memory(started=LATER), 0, LONG)[1]
    memory = decided(further, memory, 20, LONG)[1]
    verdicts = [decided(further, memory, minutes, LONG)[0].phase for minutes in (49, 50)]
    assert [Phase.WAIT, Phase.DEADLINE] == verdicts


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(rotating().change("policy", "metadata: {generation: 3}"), id="new-intent"),
        pytest.param(rotating().put("revision", obj("revision", """
            {metadata: {name: c, labels: {controller-revision-hash: c}}, revision: 3}""")), id="rendered-again"),
    ],
)  # fmt: skip
def test_a_new_intent_starts_the_stall_anew(found: Cluster) -> None:
    """The fleet starts from the beginning under it."""
    memory = decided(rotating(), Memory(started=LATER), 0, LONG)[1]
    memory = decided(found, memory, 20, LONG)[1]
    assert decided(found, memory, 45, LONG)[0].phase is Phase.WAIT


def leave(found: Cluster, *nodes: str) -> Cluster:
    """Take nodes with all their pods out of a cluster, as an autoscaler does."""
    for node in nodes:
        found.drop("node", node).drop("driver-pod", f"driver-{node}").drop("plugin-pod", f"plugin-{node}")
    return found


def test_a_node_that_comes_further_counts_though_others_leave() -> None:
    """Each node is compared with itself: what the fleet has lost need not be made up for."""
    names = tuple("abcdefgh")
    waiting_driver = [driver_pod(node, ready=None) for node in names[6:]]
    found = cluster(*names).put("driver-pod", *waiting_driver)
    memory = decided(found, Memory(started=LATER), 0, LONG)[1]
    memory = decided(leave(found, *names[:6]), memory, 10, LONG)[1]
    memory = decided(found.put("driver-pod", driver_pod("g")), memory, 20, LONG)[1]
    verdicts = [decided(found, memory, minutes, LONG)[0].phase for minutes in (49, 50)]
    assert [Phase.WAIT, Phase.DEADLINE] == verdicts


def test_a_node_that_comes_further_counts_though_another_falls_back() -> None:
    """The other one rotates; the fleet moves."""
    memory = decided(cluster(*TWO).drop("driver-pod", "driver-b"), Memory(started=LATER), 0, LONG)[1]
    found = cluster(*TWO).drop("driver-pod", "driver-a").drop("slice", "0-gpu.nvidia.com-b")
    memory = decided(found, memory, 20, LONG)[1]
    assert decided(found, memory, 49, LONG)[0].phase is Phase.WAIT


def test_a_node_with_two_plugins_is_as_far_as_the_one_that_is_behind() -> None:
    """Both chart names may be there after a botched upgrade."""
    old = "nvidia-dra-driver-gpu-kubelet-plugin"
    owner = f"ownerReferences: [{{uid: old-ds, controller: true, name: {old}}}]"
    both = cluster().put("daemonset", obj("plugin-daemonset", f"metadata: {{name: {old}, uid: old-ds}}"))
    both.put("plugin-pod", merged(plugin_pod(), parsed(f"metadata: {{name: other, uid: other, {owner}}}")))
    memory = decided(both.drop("plugin-pod", "plugin-gpu-0"), Memory(started=LATER), 0, PATIENT)[1]
    memory = decided(both.put("plugin-pod", plugin_pod(ready=None)), memory, 20, PATIENT)[1]
    verdicts = [decided(both, memory, minutes, PATIENT)[0].phase for minutes in (49, 50)]
    assert [Phase.WAIT, Phase.DEADLINE] == verdicts


def test_nodes_that_leave_are_no_advance() -> None:
    """Nothing was served."""
    memory = decided(rotating(), Memory(started=LATER), 0, LONG)[1]
    found = leave(rotating(), "a")
    memory = decided(found, memory, 20, LONG)[1]
    assert decided(found, memory, 30, LONG)[0].reason is Reason.STALLED


def test_a_node_that_joins_is_an_advance() -> None:
    """Its driver is still to come, and may take its time."""
    memory = decided(leave(rotating(), "b"), Memory(started=LATER), 0, LONG)[1]
    memory = decided(rotating(), memory, 20, LONG)[1]
    assert decided(rotating(), memory, 49, LONG)[0].phase is Phase.WAIT


def test_going_back_and_forth_is_no_advance() -> None:
    """Only a new high counts, so a plugin that crash-loops does not keep a run alive."""
    memory = decided(cluster(*TWO).drop("slice", "0-gpu.nvidia.com-b"), Memory(started=LATER), 0, LONG)[1]
    for minutes in (10, 20):
        memory = decided(rotating(), memory, minutes, LONG)[1]
    others = (merged(stale_plugin(node), {"metadata": {"uid": f"another-{node}"}}) for node in TWO)
    assert decided(stale(*TWO).put("plugin-pod", *others), memory, 30, LONG)[0].reason is Reason.STALLED


def test_without_a_policy_there_is_still_a_stall() -> None:
    """While one is expected."""
    settings = Settings(timeout=Duration(days=1), expect=Expect(driver_version="1.2.3"))
    found = cluster(*TWO).drop("policy")
    memory = decided(found, Memory(started=LATER), 0, settings)[1]
    assert decided(found, memory, 30, settings)[0].reason is Reason.STALLED


@pytest.mark.parametrize(
    ("phase", "on_deadline", "expected"),
    [
        pytest.param(Phase.DONE, OnDeadline.FAIL, True, id="done"),
        pytest.param(Phase.SKIP, OnDeadline.FAIL, True, id="skip"),
        pytest.param(Phase.FAIL, OnDeadline.REPORT, False, id="fail"),
        pytest.param(Phase.DEADLINE, OnDeadline.FAIL, False, id="deadline"),
        pytest.param(Phase.DEADLINE, OnDeadline.REPORT, True, id="deadline-report-only"),
        pytest.param(Phase.WAIT, OnDeadline.FAIL, False, id="wait"),
    ],
)
def test_what_the_deployer_hears(phase: Phase, on_deadline: OnDeadline, expected: bool) -> None:
    """A deadline is a success only for those who asked for a report."""
    decision = Decision(phase, Reason.NODES_PENDING, "")
    assert expected == succeeded(decision, Settings(on_deadline=on_deadline))


@pytest.mark.parametrize("phase", Phase)
def test_every_verdict_but_wait_is_final(phase: Phase) -> None:
    """There is nothing left to wait for."""
    assert (phase is not Phase.WAIT) == Decision(phase, Reason.NODES_PENDING, "").final


def test_a_decision_counts_its_judgements() -> None:
    """For summaries."""
    decision, _memory = stale("a", "b", "c").change("node", labelled("c", skip="true"), "c").decide()
    assert (2, 1, 3, 0) == (
        decision.count(NodeState.STALE),
        decision.count(NodeState.EXCLUDED),
        decision.count(NodeState.STALE, NodeState.EXCLUDED),
        decision.count(),
    )
