"""Explain a reason: its meaning, where to look, and what may fix it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hook.core.reason import Explanation
from hook.core.stacks import GPU_OPERATOR, STACKS, selector
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.core.reasons import Reason
    from hook.core.stack import Stack
    from hook.core.verdicts import Decision, Judgement


def remedy(reason: Reason, node: str = "", subject: str = "", stack: Stack = GPU_OPERATOR) -> str:
    """Return the explanation of a reason as one text."""
    return str(explained(reason, node, subject, stack))


def explained(reason: Reason, node: str = "", subject: str = "", stack: Stack = GPU_OPERATOR) -> Explanation:
    """Return the explanation of a reason with the names of its node and pod. Unknown names are in capitals."""
    namespace, _, name = subject.partition("/")
    about = {"node": node or "NODE", "namespace": namespace or "NAMESPACE", "name": name or "NAME"}
    # The command of the stack is filled in first, because it contains the same names.
    known = {**words(stack, about), **about}
    plain = reason.explanation
    texts = (plain.meaning, plain.look, plain.fix, plain.precondition)
    return Explanation(*(text.format(**known) for text in texts))


def words(stack: Stack, about: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the words for the parts of a driver stack in explanations."""
    prior = STACKS.get(stack.after, stack)
    providers = (provider.label for provider in stack.providers.values())
    return {
        "operator": stack.operator.title,
        "operator_labels": stack.operator.selector,
        "policy": stack.policy.kind,
        "policies": stack.policy.plural,
        "present_label": stack.nodes.present,
        "state_label": stack.upgrade.state,
        "skip_label": stack.upgrade.skip,
        "lease": stack.operator.lease,
        "drivers": selector(stack.driver.label),
        "prior_drivers": selector(prior.driver.label),
        "providers": ",".join(selector(label) for label in providers),
        "noun": stack.consumer.noun,
        **stack.words,
        "failed_upgrade_command": stack.failed_upgrade_command.format(**about) if about else "",
    }


def headline(decision: Decision) -> str:
    """Return the line that sums up a decision."""
    return f"{decision.verdict} ({decision.reason}): {decision.message}"


def in_need(decision: Decision) -> list[Judgement]:
    """Return the statuses that a failing run must report, failed nodes first."""
    if not decision.unhappy:
        return []
    failed = [status for status in decision.judgements if status.state is NodeState.FAILED]
    calm = (NodeState.FAILED, NodeState.VERIFIED, NodeState.EXCLUDED)
    return failed + [status for status in decision.judgements if status.state not in calm]
