"""Observe, decide, act, until a verdict. The only place where the core meets the cluster."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hook import report
from hook.cluster import events, requests, retry
from hook.core import messages, names
from hook.core.decide import succeeded
from hook.core.memory import Memory
from hook.core.reasons import EventReason, Reason
from hook.core.together import Seen, chosen, decide_all, look_first
from hook.core.verdicts import Decision, DeletePod, Verdict
from hook.errors import ClusterError, ConflictError, NotFoundError, PermissionDeniedError, RejectedError
from hook.narration import Narrator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from hook.cluster.api import Api
    from hook.cluster.events import Teller
    from hook.cluster.jobs import Job
    from hook.cluster.observer import Observer
    from hook.core.verdicts import Action, RolloutRestart, StalePod
    from hook.settings import Settings

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
"""Graces and quiet times end without an event; a second is precise enough for them."""
LONGEST_PAUSE_SECONDS: Final = 0.5
"""Between two decisions while events pour in; keeps the reaction under a second."""
PAUSE_FACTOR: Final = 4
"""Rest four times as long as a decision took, within the bound above."""
ACT_SECONDS: Final = 2.0
"""Then look again: what was decided on an old snapshot may be wrong by now."""
WRITE_SECONDS: Final = 10.0
CONFIRM_AGAIN_SECONDS: Final = 5.0
"""Between two confirming reads, each of which lists the whole fleet."""
EXIT_FAILED: Final = 3
EXIT_DEADLINE: Final = 124
"""As ``timeout(1)`` and cert-manager's startupapicheck have it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    decision: Decision
    exit_code: int


class Runner:
    """One run. Keeps the last decision, so that whatever ends it can report."""

    def __init__(self, api: Api, observer: Observer, settings: Settings, teller: Teller, job: Job | None) -> None:
        self._api, self._observer, self._settings, self._teller, self._job = api, observer, settings, teller, job
        self._started = job.started if job else api.now()
        self._memories = {stack.name: Memory(started=self._started) for stack in chosen(settings)}
        self._narrator = Narrator(teller, job)
        self._subjects: dict[str, events.Subject] = {}
        self._confirm_after = 0.0
        self._patience = retry.WRITING
        self.restarted = 0
        self.last = Decision(Verdict.WAIT, Reason.NODES_PENDING, "nothing was read yet")

    def run(self) -> Outcome:
        """Run to the end. Raises ClusterError if the cluster cannot be read or written for good."""
        self._observer.look_at_intent()
        decision = self._await_sync()
        if decision is None:
            decision = look_first(self._observer.snapshot(), self._settings)
        if decision is None:
            self._observer.look_at_fleet()
            decision = self._loop()
        self.last = decision
        return Outcome(decision, self._exit_code(decision))

    def _await_sync(self) -> Decision | None:
        """Wait for the first lists; None once they are in."""
        while not self._observer.synced:
            if self._api.now() >= self._deadline:
                return Decision(Verdict.DEADLINE, Reason.TIME_UP, "the time is up before the cluster could be read")
            self._observer.wait(TICK_SECONDS)
        return None

    def _loop(self) -> Decision:
        while True:
            seen = self._observe()
            if isinstance(seen, Decision):
                return seen
            started = time.monotonic()
            decision, self._memories = decide_all(seen, self._memories, self._settings, self._api.now())
            took = time.monotonic() - started
            self.last = decision
            self._narrator.tell(decision, self._deadline - self._api.now())
            if self._settings.dry_run:
                self._tell_what_would_be_done(decision)
                return decision
            if decision.final and (final := self._confirmed(decision)):
                return final
            self._act(decision)
            time.sleep(min(LONGEST_PAUSE_SECONDS, PAUSE_FACTOR * took))
            self._observer.wait(TICK_SECONDS)

    def _tell_what_would_be_done(self, decision: Decision) -> None:
        for action in decision.actions:
            if isinstance(action, DeletePod):
                log.info(
                    "dry run: would delete pod %s/%s: %s", action.pod.namespace, action.pod.name, action.pod.because
                )
            else:
                log.info("dry run: would restart the rollout of %s/%s", action.namespace, action.name)

    def _observe(self) -> Seen | Decision:
        """Give snapshots in which the pods of every consumer are seen; they may have come just now."""
        while True:
            if late := self._await_sync():
                return late
            consumers = self._observer.look_closer()
            self._subjects = {ds.uid: events.daemonset(ds) for found in consumers.values() for ds in found}
            if self._observer.synced:
                return self._observer.snapshot()

    def _confirmed(self, decision: Decision) -> Decision | None:
        """Believe an end only if a second, consistent read agrees: a watch may be behind, or cut off."""
        if decision.verdict is Verdict.DEADLINE:
            return decision
        if self._api.now() >= self._deadline:
            message = f"the time is up, and a second read could not confirm: {messages.headline(decision)}"
            return replace(decision, verdict=Verdict.DEADLINE, reason=Reason.TIME_UP, message=message)
        if time.monotonic() < self._confirm_after:
            return None
        self._confirm_after = time.monotonic() + CONFIRM_AGAIN_SECONDS
        try:
            again = self._observer.read_again()
            second, _memories = decide_all(again, self._memories, self._settings, self._api.now())
        except PermissionDeniedError:
            raise
        except ClusterError as error:
            log.warning("cannot confirm %s yet: %s", decision.verdict, error)
            return None
        if second.verdict is not decision.verdict:
            log.info("a second read does not agree: %s", messages.headline(second))
            return None
        return second

    def _act(self, decision: Decision) -> None:
        """Do what was decided, for a moment: what is left is decided anew from what is there then.

        Events come last, so that they hold up no restart.
        """
        until = time.monotonic() + ACT_SECONDS
        told: list[tuple[str, str, str]] = []
        for action in decision.actions:
            done = self._delete(action) if isinstance(action, DeletePod) else self._rollout(action)
            told += [done] if done else []
            if time.monotonic() > until:
                log.debug("%d actions are left for the next decision", len(decision.actions) - len(told))
                break
        for daemonset_uid, about, note in told:
            for subject in filter(None, (self._subjects.get(daemonset_uid), self._job.subject if self._job else None)):
                self._teller.tell(subject, EventReason.STALE_PLUGIN_RESTARTED, note, about=about)

    def _delete(self, action: DeletePod) -> tuple[str, str, str] | None:
        """Restart one plugin. Gives what to tell: of which DaemonSet, about which pod, and the words."""
        pod = action.pod
        request = requests.delete_pod(pod.namespace, pod.name, pod.uid, pod.resource_version)
        try:
            if not self._sent(action, request, f"restart {pod.name} on {action.node}"):
                return None
        except (PermissionDeniedError, RejectedError) as error:
            if isinstance(error, PermissionDeniedError):
                if not self._api.allows(request):
                    raise
                # Refused by admission, which had its time to think better of it; the others shall not wait as long.
                self._patience = replace(retry.WRITING, denied=0.0)
            log.warning("node %s: deleting plugin pod %s was refused: %s", action.node, pod.name, error)
            self._remember(action, refused=str(error))
            return None
        self._remember(action)
        self.restarted += 1
        note = f"node {action.node}: restarted plugin pod {pod.name}: {pod.because}"
        log.info("%s", note, extra={"facts": {"node": action.node, "pod": pod.name, "action": "delete"}})
        return pod.daemonset_uid, pod.uid, note

    def _rollout(self, action: RolloutRestart) -> tuple[str, str, str] | None:
        """Restart a whole DaemonSet. Gives what to tell, as for one plugin."""
        stamp = action.at.isoformat(timespec="seconds")
        request = requests.restart_daemonset(
            action.namespace, action.name, action.uid, names.RESTARTED_AT_ANNOTATION, stamp
        )
        if not self._sent(action, request, f"restart the rollout of {action.namespace}/{action.name}"):
            return None
        self._remember(action)
        self.restarted += len(action.pods)
        note = f"restarted the rollout of {action.name}: {len(action.pods)} stale plugins on settled nodes"
        log.info("%s", note)
        return action.uid, stamp, note

    def _sent(self, action: Action, request: requests.Request, what: str) -> bool:
        """Send a write. A conflict means: look again. Trouble that may pass is decided upon anew."""
        try:
            retry.retrying(self._patience, time.sleep)(self._api.send, request, WRITE_SECONDS)
        except NotFoundError:
            log.info("cannot %s: it is gone already", what)
            return False
        except ConflictError:
            log.info("cannot %s as it was read: it changed meanwhile, looking again", what)
            return False
        except (PermissionDeniedError, RejectedError):
            raise
        except ClusterError as error:
            log.warning("cannot %s, trying again: %s", what, error)
            for stack, _node, pod in _restarted_by(action):
                self._memories[stack] = self._memories[stack].troubled(pod, str(error))
            return False
        return True

    def _remember(self, action: Action, refused: str = "") -> None:
        """Note what was asked for, with every stack that asked: otherwise it would ask again."""
        for stack, node, pod in _restarted_by(action):
            self._memories[stack] = self._memories[stack].asked(node, pod, self._api.now(), refused)

    @property
    def _deadline(self) -> datetime:
        return self._settings.deadline(self._started)

    def _exit_code(self, decision: Decision) -> int:
        if self._settings.dry_run and decision.verdict is Verdict.WAIT:
            return 0
        if succeeded(decision, self._settings):
            return 0
        return EXIT_DEADLINE if decision.verdict is Verdict.DEADLINE else EXIT_FAILED

    def tell_end(self, decision: Decision) -> None:
        """Put the end of the run where deployers look."""
        note = messages.headline(decision)
        if decision.unhappy:
            note = f"{note} {report.next_step(decision)}"
        if self._job:
            self._teller.tell(self._job.subject, decision.reason, note, warning=decision.unhappy)
        if self.restarted or decision.unhappy:
            for subject in self._subjects.values():
                self._teller.tell(subject, decision.reason, note, warning=decision.unhappy)


def _restarted_by(action: Action) -> Iterator[tuple[str, str, StalePod]]:
    """Give the pods that an action restarts, with their nodes, for each stack that asked for it."""
    for one in (action, *action.also):
        pods = ((one.node, one.pod),) if isinstance(one, DeletePod) else one.pods
        yield from ((one.stack, node, pod) for node, pod in pods)
