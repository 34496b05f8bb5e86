"""What done asks for beyond serving every node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import Advanced, Duration, Expect, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, stale

NOT_READY = "status: {state: notReady}"


@pytest.mark.parametrize(
    "state",
    [pytest.param("notReady", id="not-ready"), pytest.param(None, id="none"), pytest.param("ignored", id="ignored")],
)
def test_a_policy_that_is_not_ready_vetoes_done_for_two_minutes(state: str | None) -> None:
    """Bounded: a skipped node or an unrelated operand keeps it so for good."""
    found = cluster().change("policy", {"status": {"state": state}})
    first, memory = found.decide()
    early, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=119))
    late, _memory = found.decide(memory=memory, now=LATER + timedelta(seconds=120))
    assert [Reason.POLICY_NOT_READY, Reason.POLICY_NOT_READY, Reason.NOTHING_STALE] == [
        first.reason, early.reason, late.reason,
    ]  # fmt: skip
    assert [0, 0, 1] == [len(one.warnings) for one in (first, early, late)]


def test_the_veto_counts_from_when_all_else_holds() -> None:
    """While nodes are still to be served the policy is rightly notReady."""
    found = stale().change("policy", NOT_READY)
    memory = found.decide()[1]
    served = cluster().change("policy", NOT_READY)
    decision, _memory = served.decide(memory=memory, now=LATER + timedelta(minutes=10))
    assert (Phase.WAIT, Reason.POLICY_NOT_READY) == (decision.phase, decision.reason)


def test_a_policy_that_becomes_ready_ends_the_veto() -> None:
    """And one that falls back starts it anew."""
    memory = cluster().change("policy", NOT_READY).decide()[1]
    ready, memory = cluster().decide(memory=memory, now=LATER + timedelta(seconds=60))
    again, _memory = cluster().change("policy", NOT_READY).decide(memory=memory, now=LATER + timedelta(seconds=130))
    assert [Phase.DONE, Phase.WAIT] == [ready.phase, again.phase]


def test_the_grace_of_the_veto_is_a_setting() -> None:
    """Zero: the policy's state is not asked about."""
    found = cluster().change("policy", NOT_READY)
    assert found.decide(Settings(advanced=Advanced(policy_grace=Duration())))[0].phase is Phase.DONE


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(cluster("a", "b"), Reason.NOTHING_STALE, id="nothing-left"),
        pytest.param(cluster("a", "b").drop("slice", "0-gpu.nvidia.com-b"), Reason.NODES_PENDING, id="node-to-verify"),
        pytest.param(cluster("a", "b").drop("driver-pod", "driver-b"), Reason.NODES_PENDING, id="a-node-to-settle"),
        pytest.param(cluster("a", "b").change("node", labelled("b", state="validation-required"), "b"),
                     Reason.UPGRADE_LABELS_PENDING, id="a-label-to-become-quiet"),
        pytest.param(cluster("a", "b").change("node", labelled("b", skip="true"), "b"), Reason.NOTHING_STALE,
                     id="an-excluded-node"),
    ],
)  # fmt: skip
def test_done_needs_every_eligible_node_verified_and_quiet(found: Cluster, expected: Reason) -> None:
    """Excluded nodes are reported and hold nothing back."""
    assert expected == found.decide()[0].reason


NODES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("asked", "refused", "reason", "message"),
    [
        pytest.param("", "", Reason.NOTHING_STALE, "no plugin needed a restart, 3 run on the loaded driver", id="none"),
        pytest.param("ab", "", Reason.REFRESHED, "2 plugins were restarted, 3 run on the loaded driver", id="two"),
        pytest.param("ab", "a", Reason.REFRESHED, "1 plugins were restarted, 3 run on the loaded driver",
                     id="one-was-refused-and-went-by-itself"),
        pytest.param("a", "a", Reason.NOTHING_STALE, "no plugin needed a restart, 3 run on the loaded driver",
                     id="the-only-one-was-refused"),
    ],
)  # fmt: skip
def test_done_says_how_many_were_restarted(asked: str, refused: str, reason: Reason, message: str) -> None:
    """By what this run asked for and was granted."""
    found, memory = stale(*NODES), Memory(started=LATER)
    for one in found.decide()[0].statuses:
        assert one.stale_pod is not None
        if one.node in asked:
            memory = memory.asked(one.node, one.stale_pod, LATER, refused="no" if one.node in refused else "")
    decision, _memory = cluster(*NODES).decide(memory=memory)
    assert (Phase.DONE, reason, message) == (decision.phase, decision.reason, decision.message)


def test_done_counts_what_was_left_alone() -> None:
    """A node that was not looked at is not called fresh."""
    found = stale(*NODES).change("node", not_ready_since(0)).change("node", labelled("a", skip="true"), "a")
    decision, _memory = found.decide()
    expected = "no plugin needed a restart, 0 run on the loaded driver; 3 nodes are excluded"
    assert (Phase.DONE, expected) == (decision.phase, decision.message)


@pytest.mark.parametrize(
    ("patch", "warnings"),
    [
        pytest.param("spec: {driver: {version: null}}", 1, id="policy-names-no-version"),
        pytest.param("spec: {driver: {version: 590.1}}", 0, id="policy-names-a-version"),
    ],
)
def test_an_expectation_that_cannot_be_compared_is_a_warning(patch: str, warnings: int) -> None:
    """It would hold the run for ever."""
    decision, _memory = cluster().change("policy", patch).decide(Settings(expect=Expect(driver_version="590.1")))
    assert warnings == len([one for one in decision.warnings if "590.1" in one])


def test_a_plugin_that_wants_no_pod_at_all_is_done_with_a_warning() -> None:
    """Nothing is stale, but nobody meant that."""
    found = cluster().drop("plugin-pod").change("daemonset", "status: {desiredNumberScheduled: 0}", "")
    found.change("daemonset", "status: {desiredNumberScheduled: 1}", "nvidia-driver-daemonset")
    decision, _memory = found.decide()
    assert (Phase.DONE, 1) == (decision.phase, len(decision.warnings))


def test_done_is_not_said_while_the_expected_version_is_not_seen() -> None:
    """Though every node is verified, on the driver of before."""
    decision, _memory = cluster().decide(Settings(expect=Expect(driver_version="590.1")))
    assert (Phase.WAIT, Reason.EXPECTATION_UNMET) == (decision.phase, decision.reason)


def test_many_pending_nodes_are_named_shortly() -> None:
    """A sentence names five nodes; the table has all of them."""
    eight, five = (stale(*(f"gpu-{number}" for number in range(count))).decide()[0].message for count in (8, 5))
    assert [True, False, False] == ["gpu-4 and 3 more" in eight, "gpu-5" in eight, "more" in five]


def test_a_driver_daemonset_that_wants_no_pods_is_not_rendered_for_the_nodes_that_want_one() -> None:
    """Seen for a moment on a fresh install, before the DaemonSet controller counted."""
    found = cluster().drop("driver-pod").change("daemonset", "status: {desiredNumberScheduled: 0}")
    assert found.decide()[0].reason is Reason.NOT_RENDERED


def test_the_same_snapshot_decides_the_same() -> None:
    """Nothing but its arguments goes into a decision."""
    memory = stale("a").decide()[1]
    assert stale("a", "b", "c").decide(memory=memory) == stale("a", "b", "c").decide(memory=memory)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale("a"), "ExpectationUnmet", id="the-old-policy"),
        pytest.param(stale("a").drop("policy"), "PolicyExpected", id="no-policy-yet"),
    ],
)
def test_nothing_is_restarted_before_the_expected_intent_is_there(found: Cluster, expected: str) -> None:
    """Whatever was served then would be reloaded again."""
    decision, _memory = found.decide(Settings(expect=Expect(driver_version="590.1")))
    assert (expected, ()) == (decision.reason, decision.actions)
