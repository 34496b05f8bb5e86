"""Every reason has a meaning, a command that only looks, and a fix only with its precondition, for every stack."""

from __future__ import annotations

import re
import shlex
from typing import Final

import pytest

from hook.decide.explain import Explanation, explained, remedy
from hook.decide.reasons import Reason
from hook.objects.drivers import STACKS

LEFTOVER: Final = re.compile(r"\{(?!NAME|[a-z]+,)[a-z_]*\}|\{\{|\}\}")
"""A placeholder. ``{NAME}`` is a list in Helm's own syntax, and stays."""
LOOKS: Final = frozenset({"get", "describe", "logs", "top", "events"})
"""Verbs of kubectl that change nothing, whatever their arguments are."""
ASKS: Final = frozenset({("auth", "can-i"), ("auth", "whoami")})
SHELL: Final = re.compile(r"[;&|<>`$()\n\\]")
"""What makes a shell run or write something else."""
NOTHING_LEFT: Final = {
    Reason.VERIFIED, Reason.NOTHING_TO_REFRESH, Reason.HOST_DRIVER, Reason.DRIVER_NOT_DEPLOYED,
    Reason.VIRTUAL_MACHINE_NODE, Reason.DRIVER_DISABLED, Reason.REFRESHED, Reason.NOTHING_STALE, Reason.DRIVER_SETTLED,
}  # fmt: skip
"""Reasons after which neither a node nor a run has work left."""
EVERYWHERE: Final = [(reason, stack) for reason in Reason for stack in STACKS.values()]


def only_looks(command: str) -> bool:
    """Return whether a command changes nothing, wherever it is pasted."""
    if command == "gpu-operator-post status":
        return True
    if SHELL.search(command):
        return False
    program, *rest = shlex.split(command)
    rest = rest[2:] if rest[:1] == ["-n"] else rest
    return program == "kubectl" and (rest[0] in LOOKS or tuple(rest[:2]) in ASKS)


def test_every_explanation_is_complete() -> None:
    """For each reason and stack, with the pod that it is about and without: no placeholder is left."""
    for reason, stack in EVERYWHERE:
        for subject in ("ns/pod", ""):
            text = remedy(reason, "node-0", subject, stack)
            assert LEFTOVER.search(text) is None, text
            assert re.search(r"[.a-z0-9AET/-]$", text), text
        meaning = explained(reason, stack=stack).meaning
        assert meaning.endswith("."), meaning
        assert "kubectl" not in meaning, f"a command without its precondition: {meaning}"


def test_a_remedy_names_its_pod() -> None:
    """It can be pasted. Unknown names are in capitals, and a name is never taken for a placeholder."""
    for subject, expected in (
        ("ns/pod", "kubectl -n ns describe pod pod"),
        ("", "kubectl -n NAMESPACE describe pod NAME"),
        ("{node}/{odd", "kubectl -n {node} describe pod {odd"),
    ):
        assert remedy(Reason.DRIVER_FAILING, "gpu-0", subject).endswith(expected), subject
    assert Reason.REFRESHED.explanation.meaning == remedy(Reason.REFRESHED, "gpu-0", "ns/pod"), "no work is left"


def test_a_look_changes_nothing() -> None:
    """It can be pasted at night, for every reason and every stack."""
    for command, expected in {
        "kubectl get pods -A": True,
        "kubectl -n ns logs pod": True,
        "kubectl auth can-i --list": True,
        "gpu-operator-post status": True,
        "gpu-operator-post run": False,
        "kubectl -n ns delete pod pod": False,
        "kubectl auth reconcile -f x": False,
        "kubectl get pods; kubectl delete pods --all": False,
        "kubectl get pods $(kubectl drain a)": False,
        "helm get values x": False,
    }.items():
        assert only_looks(command) is expected, command
    for reason, stack in EVERYWHERE:
        look = explained(reason, "gpu-0", "ns/pod", stack).look
        assert not look or only_looks(look), look


def test_each_reason_with_work_left_has_a_look() -> None:
    """A new reason needs a command, or a line in the list above."""
    for stack in STACKS.values():
        assert {reason for reason in Reason if not explained(reason, stack=stack).look} == NOTHING_LEFT, stack.name


def test_a_fix_has_a_precondition() -> None:
    """A command that changes something comes last, after the precondition. A driver is replaced after a drain."""
    with pytest.raises(ValueError, match="precondition"):
        Explanation("It is broken.", fix="kubectl delete pod x")
    for reason, stack in EVERYWHERE:
        found = explained(reason, "gpu-0", "ns/pod", stack)
        text = str(found)
        assert not found.fix or text.endswith(f"To fix, {found.precondition}: {found.fix}"), text
        assert not found.fix or not only_looks(found.fix), found.fix
        assert not found.fix or text.index(found.look) < text.index(found.fix), text
        if reason in (Reason.MANUAL_UPGRADE, Reason.DRIVER_ORPHANED, Reason.UPGRADE_FAILED):
            assert "kubectl drain gpu-0 --ignore-daemonsets --delete-emptydir-data" in found.precondition, text
            assert "evicts its pods" in found.precondition, text
            assert found.fix, text
