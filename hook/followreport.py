"""Show the controller: whether it is alive, when it last acted, and which stale plugins it restarts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from hook import report
from hook.cluster import followers
from hook.core.reason import Explanation, explained, remedy
from hook.core.reasons import Reason
from hook.core.sentences import as_text, moment, shown, some
from hook.core.verdicts import NodeState, Verdict
from hook.errors import ClusterError
from hook.looking import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from hook.cluster.api import Api
    from hook.cluster.followers import Led
    from hook.core.verdicts import Decision, Judgement
    from hook.settings import Settings

RUNS: Final = "kubectl get jobs -A -l app.kubernetes.io/name=gpu-operator-post"
LOG: Final = "kubectl -n {namespace} logs -l app.kubernetes.io/component=follower --prefix --tail=50"


@dataclass(frozen=True, slots=True)
class Seen:
    """The controllers that were found, and when."""

    now: datetime
    led: Led | None = None
    problem: str = ""
    """Why it is not known whether a controller is alive."""


def look(api: Api, settings: Settings) -> Seen:
    """Find the controller of these stacks: of several, the one that renewed its Lease last.

    A missing permission is not an error.
    """
    try:
        found = followers.find(api, settings.namespaces, PATIENCE_SECONDS)
    except ClusterError as error:
        return Seen(api.now(), problem=f"cannot read whether a controller is alive: {error}")
    if settings.namespaces and not found:
        looked = ", ".join(settings.namespaces)
        return Seen(api.now(), problem=f"no controller was found in {looked}; its Lease may be in another namespace")
    ours = [led for led in found if led.record is None or set(led.record.epochs) & set(settings.stacks)] or found
    return Seen(api.now(), max(ours, key=lambda led: led.renewal, default=None))


def advice(decision: Decision, seen: Seen) -> list[str]:
    """Return the advice on a decision, and on what restarts the stale plugins."""
    stuck = [judged for judged in decision.judgements if report.needs_action(judged)]
    stale = [judged for judged in stuck if _is_restartable(judged)]
    settled = decision.count(NodeState.VERIFIED, NodeState.EXCLUDED)
    advised = report.advice(decision) if decision.verdict is not Verdict.DONE else []
    if decision.reason is Reason.NODES_PENDING and len(stuck) + settled == len(decision.judgements):
        # No node reloads, so the advice to wait does not help.
        advised = []
    if not decision.unhappy:
        advised += report.advice_on(judged for judged in stuck if not _is_restartable(judged)).values()
    # No action is chosen before the expected driver is rendered. A restart in progress has its run or controller.
    due = decision.actions and not decision.count(NodeState.RESTARTING)
    return [*advised, *_on_stale(stale, seen)] if due else advised


def _is_restartable(judged: Judgement) -> bool:
    """Return whether a judgement is about a stale pod that a run may restart. A pod of an unnamed plugin is not."""
    return judged.state is NodeState.STALE and judged.reason is not Reason.UNNAMED_CONSUMER


def _on_stale(stale: Sequence[Judgement], seen: Seen) -> Iterator[str]:
    """Return one advice for the plugins that a controller restarts, one for those that it holds, one for the rest."""
    led = seen.led if seen.led is not None and seen.led.alive(seen.now) else None
    record = led.record if led is not None else None
    followed = set(record.epochs) if record is not None else set()
    held = followed & set(led.breakers) if led is not None else set()
    if any(judged.stack in held for judged in stale):
        yield f"{Reason.BREAKER_OPEN}: {remedy(Reason.BREAKER_OPEN)}"
    if led is not None and (sure := [judged for judged in stale if judged.stack in followed - held]):
        meaning = f"The controller ({led}) restarts the plugin. Its log names what holds a restart back."
        yield _about(sure, Explanation(meaning, look=LOG.format(namespace=led.namespace)))
    if rest := [judged for judged in stale if judged.stack not in followed]:
        unsure = seen.problem or (led.problem if led is not None else "")
        yield _about(rest, _by_hand(rest[0], unsure))


def _by_hand(judged: Judgement, unsure: str) -> Explanation:
    """Return what restarts a plugin that no controller is known to restart."""
    who = f"No controller is known to be active here ({unsure})" if unsure else "No controller is active here"
    return Explanation(
        f"{who}, so nothing restarts the plugin by itself unless a run is in progress. Run the release again (helm "
        "upgrade, or your deployment tool), enable the controller (follow.enabled), or restart the plugin yourself.",
        look=RUNS,
        fix=explained(Reason.PLUGIN_STALE, judged.node, judged.subject).fix,
        precondition=f"if no run is in progress and the driver pod of node {judged.node} is Ready",
    )


def _about(stale: Sequence[Judgement], explanation: Explanation) -> str:
    nodes = some(list(dict.fromkeys(judged.node for judged in stale)))
    return f"{Reason.PLUGIN_STALE} ({nodes}): {explanation}"


def lines(seen: Seen) -> list[str]:
    """Return sentences for a terminal; none where there is no controller."""
    return [shown(line) for line in _lines(seen)]


def _lines(seen: Seen) -> Iterator[str]:
    if seen.problem or seen.led is None:
        yield seen.problem
        return
    led, record = seen.led, seen.led.record
    state = f"alive ({led.holder})" if led.alive(seen.now) else "NOT ALIVE"
    yield f"controller {led}: {state}, last renewed {_ago(led.renewed, seen.now)}"
    if record is None:
        yield f"controller {led}: {led.problem}"
        return
    left = f", about {as_text(timedelta(seconds=record.about))}" if record.about is not None and record.to_go else ""
    if led.inherited:
        # The numbers belong to the previous leader.
        before = record.by or "another replica"
        yield f"controller {led}: it has not evaluated the fleet yet, its status was written by {before}"
    else:
        acted = f"last acted {_ago(record.last_acted, seen.now)}, {record.restarted} plugins restarted since it leads"
        yield f"controller {led}: {acted}, {record.to_go} nodes remaining{left}"
    for stack, opened in led.breakers.items():
        since = moment(opened.at)
        yield f"WARNING controller {led}: the circuit breaker of stack {stack} is open since {since}: {opened.why}"


def as_json(seen: Seen) -> dict[str, Any] | None:
    """Return the same for programs; null without a controller, `alive` null if that is not known."""
    if seen.problem:
        return {"alive": None, "problem": seen.problem}
    if seen.led is None:
        return None
    led, record = seen.led, seen.led.record
    story: dict[str, Any] = {
        "alive": led.alive(seen.now),
        "lease": str(led),
        "holder": led.holder,
        "lastRenewed": _time(led.renewed),
        "problem": led.problem,
    }
    if record is None:
        return story
    breakers = {stack: {"openedAt": _time(opened.at), "why": opened.why} for stack, opened in led.breakers.items()}
    return story | {
        "recordedBy": record.by,
        "lastActed": _time(record.last_acted),
        "lastLook": _time(record.last_look),
        "restarted": record.restarted,
        "toGo": record.to_go,
        "aboutSeconds": record.about,
        "openBreakers": breakers,
    }


def _time(when: datetime | None) -> str | None:
    return moment(when) if when is not None else None


def _ago(when: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was; never negative, because clocks differ."""
    return f"{as_text(max(now - when, timedelta()))} ago" if when is not None else "never"
