"""Decide for each driver stack, then merge the decisions.

A stack waits for the nodes of another one only if the policy requires that order. A run continues while any stack may
still make progress. Failures of the other stacks are reported at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hook.core.consumers import named
from hook.core.decide import decide, first_look, index
from hook.core.memory import Memory
from hook.core.reasons import Reason
from hook.core.stacks import STACKS
from hook.core.verdicts import Decision, DeletePod, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from hook.core.fleet import Fleet
    from hook.core.stack import Stack
    from hook.core.verdicts import Action
    from hook.objects.views import Snapshot
    from hook.settings import Settings

Seen = dict[str, "Snapshot"]
"""Snapshot of each stack that is read, by its name."""
Memories = dict[str, Memory]

TELLING: Final = (Verdict.WAIT, Verdict.FAIL, Verdict.DEADLINE, Verdict.DONE, Verdict.SKIP)
"""Verdicts by precedence: the first one that a stack has becomes the verdict on the run."""


def chosen(settings: Settings) -> list[Stack]:
    """Return the chosen stacks, in the order of the settings."""
    return [STACKS[name] for name in dict.fromkeys(settings.stacks)]


def indexed(seen: Mapping[str, Snapshot], settings: Settings) -> dict[str, Fleet]:
    """Return the indexed snapshot of each stack, without its restart history."""
    return {stack.name: index(seen[stack.name], settings, stack, seen.get(stack.after)) for stack in chosen(settings)}


def decide_all(
    seen: Mapping[str, Snapshot], memories: Mapping[str, Memory], settings: Settings, now: datetime
) -> tuple[Decision, Memories]:
    """Decide for every stack. A stack without a memory gets that of a run that starts now."""
    decisions: dict[str, Decision] = {}
    after: Memories = {}
    for stack in chosen(settings):
        memory = memories.get(stack.name) or Memory(started=now)
        decided = decide(seen[stack.name], memory, settings, now, stack=stack, prior=seen.get(stack.after))
        decisions[stack.name], after[stack.name] = decided
    return combined(decisions), after


def look_first(seen: Mapping[str, Snapshot], settings: Settings) -> Decision | None:
    """Return a skip if policies and DaemonSets alone prove that the run is pointless, else None."""
    decisions: dict[str, Decision] = {}
    for stack in chosen(settings):
        skip = first_look(seen[stack.name], settings, stack)
        if skip is None or (skip.reason is Reason.NO_POLICY and named(seen[stack.name].daemonsets, stack, settings)):
            # With a plugin, the policy may be missing for a moment. Only a fleet without driver pods has no operator.
            return None
        decisions[stack.name] = skip
    return combined(decisions)


def combined(decisions: Mapping[str, Decision]) -> Decision:
    """Merge decisions. Return a single one as it is."""
    if len(decisions) == 1:
        return next(iter(decisions.values()))
    name, first = min(decisions.items(), key=lambda item: _telling(item[1]))
    others = [f"{other}: {decision.message}" for other, decision in decisions.items() if other != name]
    return Decision(
        first.verdict,
        first.reason,
        "; ".join([f"{name}: {first.message}", *others]),
        judgements=tuple(judged for decision in decisions.values() for judged in decision.judgements),
        actions=_once(action for decision in decisions.values() for action in decision.actions),
        warnings=tuple(f"{other}: {text}" for other, decision in decisions.items() for text in decision.warnings),
        cause=first.cause,
        stack=name,
    )


def _telling(decision: Decision) -> tuple[int, bool]:
    """Return the precedence of a decision. Of equal verdicts, one with restarts comes first."""
    return TELLING.index(decision.verdict), decision.reason is not Reason.REFRESHED


def _once(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Merge actions of several stacks on the same pod. Each stack records the restart under its own driver run."""
    by_target: dict[str, list[Action]] = {}
    for action in actions:
        by_target.setdefault(action.pod.uid if isinstance(action, DeletePod) else action.uid, []).append(action)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in by_target.values())
