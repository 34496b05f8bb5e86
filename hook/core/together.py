"""Decide about all chosen driver stacks, and make one decision of theirs.

Each stack is decided by itself; none waits for another one's nodes, but where the policy asks for it.
A run goes on while any stack may still progress: what the others need a person for is told then.
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
"""What is seen of each stack that is looked at, by its name."""
Memories = dict[str, Memory]

TELLING: Final = (Verdict.WAIT, Verdict.FAIL, Verdict.DEADLINE, Verdict.DONE, Verdict.SKIP)
"""The verdict that speaks for all, the most telling first."""


def chosen(settings: Settings) -> list[Stack]:
    """Give the stacks to serve, in the order in which they were named."""
    return [STACKS[name] for name in dict.fromkeys(settings.stacks)]


def indexed(seen: Mapping[str, Snapshot], settings: Settings) -> dict[str, Fleet]:
    """Index what is seen of every stack, without what was asked for before."""
    return {one.name: index(seen[one.name], settings, one, seen.get(one.after)) for one in chosen(settings)}


def decide_all(
    seen: Mapping[str, Snapshot], memories: Mapping[str, Memory], settings: Settings, now: datetime
) -> tuple[Decision, Memories]:
    """Decide about every stack. A stack without a memory has the one of a run that starts now."""
    decisions: dict[str, Decision] = {}
    after: Memories = {}
    for stack in chosen(settings):
        memory = memories.get(stack.name) or Memory(started=now)
        decided = decide(seen[stack.name], memory, settings, now, stack=stack, prior=seen.get(stack.after))
        decisions[stack.name], after[stack.name] = decided
    return combined(decisions), after


def look_first(seen: Mapping[str, Snapshot], settings: Settings) -> Decision | None:
    """Decide from policies and DaemonSets alone whether the rest of the cluster need not be read."""
    decisions: dict[str, Decision] = {}
    for stack in chosen(settings):
        skip = first_look(seen[stack.name], settings, stack)
        if skip is None or (skip.reason is Reason.NO_POLICY and named(seen[stack.name].daemonsets, stack, settings)):
            # Where a plugin runs, the policy may be away for a moment: only without driver pods there is no operator.
            return None
        decisions[stack.name] = skip
    return combined(decisions)


def combined(decisions: Mapping[str, Decision]) -> Decision:
    """Make one decision of several; a single one stays as it is."""
    if len(decisions) == 1:
        return next(iter(decisions.values()))
    name, speaker = min(decisions.items(), key=lambda one: _telling(one[1]))
    others = [f"{other}: {one.message}" for other, one in decisions.items() if other != name]
    return Decision(
        speaker.verdict,
        speaker.reason,
        "; ".join([f"{name}: {speaker.message}", *others]),
        judgements=tuple(judged for one in decisions.values() for judged in one.judgements),
        actions=_once(action for one in decisions.values() for action in one.actions),
        warnings=tuple(f"{other}: {text}" for other, one in decisions.items() for text in one.warnings),
        cause=speaker.cause,
        stack=name,
    )


def _telling(decision: Decision) -> tuple[int, bool]:
    """Rank a decision: of equal verdicts, the one that did something speaks."""
    return TELLING.index(decision.verdict), decision.reason is not Reason.REFRESHED


def _once(actions: Iterable[Action]) -> tuple[Action, ...]:
    """Let a pod that two stacks call stale be restarted once, for both: each remembers its own driver's run."""
    by_target: dict[str, list[Action]] = {}
    for action in actions:
        by_target.setdefault(action.pod.uid if isinstance(action, DeletePod) else action.uid, []).append(action)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in by_target.values())
