"""Every reason has a meaning and, where something can be done, a command that can be run."""

from __future__ import annotations

import re

import pytest

from hook.core import messages
from hook.core.reasons import Reason
from hook.core.stacks import STACKS
from hook.core.verdicts import Decision, Judgement, NodeState, Verdict
from tests.fixtures.cluster import stale

LEFTOVER = re.compile(r"\{(node|namespace|name)\}|\{\{|\}\}")
"""``{NAME}`` is a list in Helm's own syntax, and stays."""


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    """Nobody has to read the source to learn what a run meant."""
    for stack in STACKS.values():
        assert messages.EXPLANATIONS[reason].meaning.format(**messages.words(stack)).endswith(".")


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("subject", ["gpu-operator/driver-gpu-0", ""])
def test_every_remedy_is_complete(reason: Reason, subject: str) -> None:
    """No placeholder is left, whether the subject is known or not."""
    assert LEFTOVER.search(messages.remedy(reason, "gpu-0", subject)) is None


def test_a_subject_is_never_taken_for_a_placeholder() -> None:
    """Names come from the cluster."""
    assert messages.remedy(Reason.DRIVER_FAILING, "gpu-0", "{node}/{odd").endswith(
        "kubectl -n {node} describe pod {odd"
    )


@pytest.mark.parametrize(
    ("node", "subject", "expected"),
    [
        pytest.param("gpu-0", "ns/pod", "kubectl -n ns describe pod pod", id="named"),
        pytest.param("", "", "kubectl -n NAMESPACE describe pod NAME", id="unnamed"),
    ],
)
def test_a_remedy_names_what_it_is_about(node: str, subject: str, expected: str) -> None:
    """It can be pasted; what is not known is in capitals."""
    assert messages.remedy(Reason.DRIVER_FAILING, node, subject).endswith(expected)


def test_a_reason_without_a_command_is_only_explained() -> None:
    """There is nothing to run."""
    expected = messages.EXPLANATIONS[Reason.REFRESHED].meaning
    assert expected == messages.remedy(Reason.REFRESHED, "gpu-0", "ns/pod")


def test_a_headline_says_verdict_and_reason() -> None:
    """One line that people grep for."""
    decision = Decision(Verdict.FAIL, Reason.UPGRADE_FAILED, "node a needs a person")
    assert "Fail (UpgradeFailed): node a needs a person" == messages.headline(decision)


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        pytest.param(Verdict.FAIL, ["b", "a"], id="fail"),
        pytest.param(Verdict.DEADLINE, ["b", "a"], id="deadline"),
        pytest.param(Verdict.WAIT, [], id="wait"),
        pytest.param(Verdict.DONE, [], id="done"),
    ],
)
def test_a_failing_run_names_the_nodes_in_need(verdict: Verdict, expected: list[str]) -> None:
    """Those that need a person first; those that are done with, not at all."""
    states = {"a": NodeState.WAITING, "b": NodeState.FAILED, "c": NodeState.VERIFIED, "d": NodeState.EXCLUDED}
    judged = tuple(Judgement(node, state, Reason.NODE_BLIP, "") for node, state in states.items())
    decision = Decision(verdict, Reason.STALLED, "", judgements=judged)
    assert expected == [one.node for one in messages.in_need(decision)]


def test_every_judgement_carries_a_sentence() -> None:
    """A line of the table is never empty."""
    decision, _memory = stale("a", "b").drop("driver-pod", "driver-b").decide()
    assert all(one.message for one in decision.judgements)
