"""Every reason has a meaning, a command that only looks, and a fix only with its precondition."""

from __future__ import annotations

import re
import shlex
from typing import Final

import pytest

from hook.decide.explain import Explanation, explained, remedy, words
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, headline, in_need
from hook.objects.drivers import STACKS
from tests.fixtures.cluster import stale

LEFTOVER = re.compile(r"\{(node|namespace|name)\}|\{\{|\}\}")
"""``{NAME}`` is a list in Helm's own syntax, and stays."""
LOOKS: Final = frozenset({"get", "describe", "logs", "top", "events"})
"""Verbs of kubectl that change nothing, whatever their arguments are."""
ASKS: Final = frozenset({("auth", "can-i"), ("auth", "whoami")})
SHELL: Final = re.compile(r"[;&|<>`$()\n\\]")
"""What makes a shell run or write something else."""
NOTHING_LEFT: Final = frozenset(
    {
        Reason.VERIFIED,
        Reason.NOTHING_TO_REFRESH,
        Reason.HOST_DRIVER,
        Reason.DRIVER_NOT_DEPLOYED,
        Reason.VIRTUAL_MACHINE_NODE,
        Reason.DRIVER_DISABLED,
        Reason.REFRESHED,
        Reason.NOTHING_STALE,
        Reason.DRIVER_SETTLED,
    }
)
"""Reasons after which neither a node nor a run has work left."""
REPLACES_A_DRIVER: Final = frozenset({Reason.MANUAL_UPGRADE, Reason.DRIVER_ORPHANED, Reason.UPGRADE_FAILED})
EVERYWHERE: Final = [(reason, stack) for reason in Reason for stack in STACKS.values()]


def only_looks(command: str) -> bool:
    """Whether a command changes nothing, wherever it is pasted."""
    if command == "gpu-operator-post status":
        return True
    if SHELL.search(command):
        return False
    program, *rest = shlex.split(command)
    if rest[:1] == ["-n"]:
        rest = rest[2:]
    return program == "kubectl" and (rest[0] in LOOKS or tuple(rest[:2]) in ASKS)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained(reason: Reason) -> None:
    """The meaning of a run can be learned without its source."""
    for stack in STACKS.values():
        assert reason.explanation.meaning.format(**words(stack)).endswith(".")


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("subject", ["gpu-operator/driver-gpu-0", ""])
def test_every_remedy_is_complete(reason: Reason, subject: str) -> None:
    """No placeholder is left, whether the subject is known or not."""
    assert LEFTOVER.search(remedy(reason, "gpu-0", subject)) is None


def test_a_subject_is_never_taken_for_a_placeholder() -> None:
    """Names come from the cluster."""
    assert remedy(Reason.DRIVER_FAILING, "gpu-0", "{node}/{odd").endswith("kubectl -n {node} describe pod {odd")


@pytest.mark.parametrize(
    ("node", "subject", "expected"),
    [
        pytest.param("gpu-0", "ns/pod", "kubectl -n ns describe pod pod", id="named"),
        pytest.param("", "", "kubectl -n NAMESPACE describe pod NAME", id="unnamed"),
    ],
)
def test_a_remedy_names_what_it_is_about(node: str, subject: str, expected: str) -> None:
    """It can be pasted; what is not known is in capitals."""
    assert remedy(Reason.DRIVER_FAILING, node, subject).endswith(expected)


def test_a_reason_without_work_left_is_only_explained() -> None:
    """There is nothing to run."""
    expected = Reason.REFRESHED.explanation.meaning
    assert expected == remedy(Reason.REFRESHED, "gpu-0", "ns/pod")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("kubectl get pods -A", True, id="get"),
        pytest.param("kubectl -n ns logs pod", True, id="in-a-namespace"),
        pytest.param("kubectl auth can-i --list", True, id="ask"),
        pytest.param("gpu-operator-post status", True, id="our-own-look"),
        pytest.param("gpu-operator-post run", False, id="our-own-run"),
        pytest.param("kubectl -n ns delete pod pod", False, id="delete"),
        pytest.param("kubectl auth reconcile -f x", False, id="another-auth"),
        pytest.param("kubectl get pods; kubectl delete pods --all", False, id="two-commands"),
        pytest.param("kubectl get pods $(kubectl drain a)", False, id="a-command-inside"),
        pytest.param("helm get values x", False, id="another-program"),
    ],
)
def test_the_judge_of_looking_can_refuse(command: str, expected: bool) -> None:
    """The next test stands on it."""
    assert only_looks(command) is expected


def test_a_look_changes_nothing() -> None:
    """It can be pasted at night, for every reason and every stack."""
    for reason, stack in EVERYWHERE:
        look = explained(reason, "gpu-0", "ns/pod", stack).look
        assert not look or only_looks(look), look


def test_each_reason_with_work_left_says_where_to_look() -> None:
    """A new reason is in neither list, and needs a command."""
    for stack in STACKS.values():
        without = {reason for reason in Reason if not explained(reason, stack=stack).look}
        assert without == NOTHING_LEFT


def test_a_fix_needs_a_precondition() -> None:
    """A command that changes something is never shown alone."""
    with pytest.raises(ValueError, match="precondition"):
        Explanation("It is broken.", fix="kubectl delete pod x")
    for reason, stack in EVERYWHERE:
        found = explained(reason, "gpu-0", "ns/pod", stack)
        told = str(found)
        assert not found.fix or told.endswith(f"To fix, {found.precondition}: {found.fix}"), told
        assert not found.fix or not only_looks(found.fix), found.fix
        assert not found.fix or told.index(found.look) < told.index(found.fix)


def test_a_driver_is_replaced_after_a_drain() -> None:
    """In the form that suits a node with DaemonSets, with its consequence."""
    for reason in REPLACES_A_DRIVER:
        for stack in STACKS.values():
            found = explained(reason, "gpu-0", "ns/pod", stack)
            assert "kubectl drain gpu-0 --ignore-daemonsets --delete-emptydir-data" in found.precondition
            assert "evicts its pods" in found.precondition
            assert found.fix


def test_a_meaning_holds_no_command_that_changes_something() -> None:
    """What changes something is behind its precondition, not in a sentence before it."""
    for reason, stack in EVERYWHERE:
        assert "kubectl" not in explained(reason, stack=stack).meaning


def test_a_headline_says_verdict_and_reason() -> None:
    """One line that people grep for."""
    decision = Decision(Phase.FAIL, Reason.UPGRADE_FAILED, "node a needs manual action")
    assert "Fail (UpgradeFailed): node a needs manual action" == headline(decision)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param(Phase.FAIL, ["b", "a"], id="fail"),
        pytest.param(Phase.DEADLINE, ["b", "a"], id="deadline"),
        pytest.param(Phase.WAIT, [], id="wait"),
        pytest.param(Phase.DONE, [], id="done"),
    ],
)
def test_a_failing_run_names_the_nodes_in_need(phase: Phase, expected: list[str]) -> None:
    """The failed ones first; those that are done with, not at all."""
    states = {"a": NodeState.WAITING, "b": NodeState.FAILED, "c": NodeState.VERIFIED, "d": NodeState.EXCLUDED}
    judged = tuple(NodeStatus(node, state, Reason.NODE_NOT_READY_BRIEFLY, "") for node, state in states.items())
    decision = Decision(phase, Reason.STALLED, "", statuses=judged)
    assert expected == [one.node for one in in_need(decision)]


def test_every_judgement_carries_a_sentence() -> None:
    """A line of the table is never empty."""
    decision, _memory = stale("a", "b").drop("driver-pod", "driver-b").decide()
    assert all(one.message for one in decision.statuses)
