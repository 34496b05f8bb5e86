"""What ``status`` shows: one evaluation of the fleet, the controller, and advice."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from hook.decide.reasons import Explanation, Reason, explained
from hook.decide.record import Memory
from hook.decide.result import NodeState, Phase
from hook.decide.run import conclude, evaluate
from hook.format import as_text, printable, some, timestamp
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.leader import find_controller
from hook.kube.taints import find_rules
from hook.run import report, taints, workloads

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.decide.fleet import Fleet
    from hook.decide.result import Decision, NodeStatus
    from hook.decide.workloads import Affected
    from hook.errors import ApiError
    from hook.kube.client import Api
    from hook.kube.leader import Lookup
    from hook.objects.stacks import Stack
    from hook.objects.taints import TaintRule
    from hook.settings import Settings

PATIENCE_SECONDS: Final = 10.0
"""Shorter than the patience of a run, because a user waits at a terminal."""
LOOK_SECONDS: Final = 1.0
"""Longest wait for a change while the first lists are read."""
SHORT_SECONDS: Final = 0.1
"""Between two looks for claims and their pods. Their changes do not end a wait."""
SHORTEST_SECONDS: Final = 1.0
"""Between two views. Hundreds of objects change per second while a large fleet reloads."""
LONGEST_SECONDS: Final = 10.0
"""Between two views of a fleet that does not change, because a controller may have renewed its Lease."""
RUNS: Final = "kubectl get jobs -A -l app.kubernetes.io/name=gpu-operator-post"
LOG: Final = "kubectl -n {namespace} logs -l app.kubernetes.io/component=controller --prefix --tail=50"


@dataclass(frozen=True, slots=True)
class View:
    """One evaluation of the fleet, without memory, so no grace period has passed."""

    now: datetime
    fleet: Fleet
    decision: Decision
    affected: Affected
    found: Lookup
    problem: str = ""
    """What cannot be read now. The view is of the time before."""
    taints: Sequence[TaintRule] | ApiError = ()
    """Device taint rules of all releases, or why they are not known."""

    @property
    def wrong(self) -> bool:
        """Return whether a plugin is stale or a node has failed."""
        return self.decision.unhappy or any(map(report.needs_action, self.decision.statuses))

    def as_lines(self) -> list[str]:
        """Return the lines for a terminal: tables, verdict, advice, and the state of the controller."""
        ending = report.ending(self.decision, advice(self.decision, self.found, self.fleet.stack))
        unknown = f"affected workloads are not known: {self.affected.unknown}" if self.affected.unknown else ""
        lines = (report.table(self.decision), *ending, *workloads.as_lines(self.affected), unknown)
        asked = self.fleet.context.settings.device_taints.enabled
        lines = (*lines, *taints.as_lines(self.taints, self.now, asked=asked), *controller_lines(self.found))
        return list(filter(None, (*lines, self.problem and f"WARNING {self.problem}")))

    def shown(self, output: str) -> str:
        """Return the text for an output: `table` or `json`."""
        return json.dumps(self.as_json(), indent=2) if output == "json" else "\n".join(self.as_lines())

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        parts = {"affectedWorkloads": workloads.as_json(self.affected), "controller": controller_json(self.found)}
        return {**report.as_json(self.decision), **parts, "deviceTaints": taints.as_json(self.taints)}


class Viewer:
    """Reads the fleet, follows its changes, and evaluates it."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self._api, self._settings = api, settings
        self._cache = read_cache(api, settings, workloads=True)

    def look(self) -> View:
        """Evaluate the fleet as it is now."""
        self._cache.watch_plugins()
        found = find_controller(self._api, self._settings.stack)
        snapshot, now, lost = self._cache.snapshot(), datetime.now(UTC), self._cache.out_of_sync
        evaluation, memory = evaluate(snapshot, Memory(started=now), self._settings, now)
        decision, _memory = conclude(evaluation, memory, now)
        affected = workloads.evaluate(self._cache, self._settings, snapshot)
        problem = str(lost) if lost is not None and lost.lasting else ""
        return View(now, evaluation.fleet, decision, affected, found, problem, find_rules(self._api))

    def wait(self) -> None:
        """Wait until something has changed, at most for some seconds."""
        time.sleep(SHORTEST_SECONDS)
        self._cache.wait(LONGEST_SECONDS - SHORTEST_SECONDS)

    def stop(self) -> None:
        """Stop following the fleet."""
        self._cache.stop()


def read_cache(api: Api, settings: Settings, *, workloads: bool = False) -> Cache:
    """Return a synced cache, if wanted with the pods that hold claims, or the reason why these are not known."""
    cache = Cache(api, settings, retry.interactive(PATIENCE_SECONDS))
    cache.start()
    end = time.monotonic() + PATIENCE_SECONDS
    while not _complete(cache) or (workloads and cache.workloads.pending and time.monotonic() < end):
        cache.wait(SHORT_SECONDS if cache.synced else LOOK_SECONDS)
    return cache


def _complete(cache: Cache) -> bool:
    """Return whether everything is read, with the pods of the plugins that the first lists show."""
    if cache.synced:
        cache.watch_plugins()
    return cache.synced


# Advice.


def advice(decision: Decision, found: Lookup, stack: Stack) -> list[report.Advice]:
    """Return the advice on a decision, and on what restarts the stale plugins."""
    stuck = [status for status in decision.statuses if report.needs_action(status)]
    stale = [status for status in stuck if _is_restartable(status)]
    settled = decision.count(NodeState.VERIFIED, NodeState.EXCLUDED)
    advised = report.advice(decision, stack) if decision.phase is not Phase.DONE else []
    if decision.reason is Reason.NODES_PENDING and len(stuck) + settled == len(decision.statuses):
        # No node reloads, so the advice to wait does not help.
        advised = []
    if not decision.unhappy:
        advised += report.advice_on((status for status in stuck if not _is_restartable(status)), stack).values()
    # No action is chosen before the expected driver is rendered. A restart in progress has its run or controller.
    due = decision.actions and not decision.count(NodeState.RESTARTING)
    return [*advised, *_on_stale(stale, found, stack)] if due else advised


def _is_restartable(status: NodeStatus) -> bool:
    """Return whether a status is about a stale pod that a run may restart. A pod of an unnamed plugin is not."""
    return status.state is NodeState.STALE and status.reason is not Reason.UNNAMED_PLUGIN


def _on_stale(stale: Sequence[NodeStatus], found: Lookup, stack: Stack) -> Iterator[report.Advice]:
    """Return the advice on stale plugins: whether a controller restarts them, or what else does."""
    if not stale:
        return
    lease = found.alive
    if lease is None:
        yield _advice(stale, _restart_by_hand(stale[0], found.problem, stack))
    else:
        meaning = f"The controller ({lease}) restarts the plugin. Its log shows what delays a restart."
        yield _advice(stale, Explanation(meaning, look=LOG.format(namespace=lease.namespace)))


def _restart_by_hand(status: NodeStatus, unsure: str, stack: Stack) -> Explanation:
    """Return what restarts a plugin that no controller is known to restart."""
    who = f"No controller is known to be active here ({unsure})" if unsure else "No controller is active here"
    return Explanation(
        f"{who}, so nothing restarts the plugin by itself unless a run is in progress. Run the release again (helm "
        "upgrade, or your deployment tool), enable the controller (controller.enabled), or restart the "
        "plugin yourself.",
        look=RUNS,
        fix=explained(Reason.PLUGIN_STALE, stack, status.node, status.subject).fix,
        precondition=f"if no run is in progress and the driver pod of node {status.node} is Ready",
    )


def _advice(stale: Sequence[NodeStatus], explanation: Explanation) -> report.Advice:
    nodes = some(list(dict.fromkeys(status.node for status in stale)))
    return report.Advice(f"{Reason.PLUGIN_STALE} ({nodes})", explanation)


# The controller.


def controller_lines(found: Lookup) -> list[str]:
    """Return sentences for a terminal; none where there is no controller."""
    lease = found.lease
    if lease is None:
        return [printable(found.problem)] if found.problem else []
    state = f"alive ({lease.holder})" if found.alive else "NOT ALIVE"
    return [printable(f"controller {lease}: {state}, last renewed {_ago(lease.renewed, found.now)}")]


def controller_json(found: Lookup) -> dict[str, Any] | None:
    """Return the same for programs; null without a controller, `alive` null if that is not known."""
    lease = found.lease
    if lease is None:
        return {"alive": None, "problem": found.problem} if found.problem else None
    return {
        "alive": found.alive is not None,
        "lease": str(lease),
        "holder": lease.holder,
        "lastRenewed": timestamp(lease.renewed) if lease.renewed is not None else None,
        "problem": "",
    }


def _ago(when: datetime | None, now: datetime) -> str:
    return f"{as_text(now - when)} ago" if when is not None else "never"
