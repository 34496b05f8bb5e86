"""Do what was decided: each write as it was judged, none sooner than the server asks, none forgotten."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from hook.cluster import requests, retry
from hook.cluster.threads import at_once
from hook.core import names
from hook.core.asked import ASK_AGAIN
from hook.core.verdicts import DeletePod
from hook.errors import (
    ClusterError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RejectedError,
    TerminatedError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from hook.cluster.api import Api
    from hook.cluster.requests import Resource
    from hook.core.verdicts import Action, RolloutRestart, StalePod

log = logging.getLogger(__name__)

ACT_SECONDS: Final = 2.0
"""Then look again: what was decided on an old snapshot may be wrong by now."""
WRITE_SECONDS: Final = 10.0
DENIED_SECONDS: Final = 30.0
"""Until a permission that is missing is tried again: a person, or a GitOps tool, has to bring it back."""
SIDE_BY_SIDE: Final = 8
"""Deletions at once, after one that was granted: a busy API server takes 0.1 s and more for each, and a wave of
50 nodes must not wait for one another. Far below what API servers grant a client (priority and fairness)."""
RIGHTS_SECONDS: Final = 5.0
"""For the question whether RBAC allows what was refused: an API server answers it from memory."""
SHORTEST_WRITE_SECONDS: Final = 1.0
"""When the time is nearly up a write must not outlast it, but it must have a chance."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What was asked of the API server, and what came of it."""

    action: Action
    note: str = ""
    """What to tell of it; empty where nothing was restarted."""
    daemonset_uid: str = ""
    about: str = ""
    refused: str = ""
    """The server's words, where it refused for good."""
    trouble: str = ""
    """Why it could not be done, where another try may mend it."""


class _Sent(Enum):
    """What is known of a write."""

    DONE = auto()
    NOT_DONE = auto()
    UNKNOWN = auto()
    """The answer was lost on its way."""


_Answer = tuple[_Sent, str] | Exception
"""What is known of a write, and why it failed if another try may mend that; or the refusal."""
_GRANTED: Final = (_Sent.DONE, "")


class Actor:
    """The only one that restarts anything. One that lasts outlives a missing permission, too."""

    def __init__(self, api: Api, *, lasting: bool = False) -> None:
        self._api, self._lasting = api, lasting
        self._patience = retry.WRITING
        self._not_before = 0.0
        self._width = 1
        self._rights: dict[tuple[str, Resource, str], bool | str] = {}
        """By verb, resource and namespace: whether RBAC allows it, as asked since `act` began; or why not known."""
        self._unanswered: dict[str, tuple[DeletePod, float]] = {}
        """By UID of the pod, with when it was asked for."""
        self.restarted = 0

    def act(self, actions: Sequence[Action], left: float) -> Iterator[Deed]:
        """Do what was decided, for a moment: what is left is decided anew from what is there then.

        The first ever alone; once a deletion is granted several go side by side, and after any other answer again one.
        However often one is tried, the last try has ended when the time that is left has: others may act then.
        """
        began = time.monotonic()
        until, end = began + ACT_SECONDS, began + max(left, SHORTEST_WRITE_SECONDS)
        self._rights.clear()
        deletions = deque(action for action in actions if isinstance(action, DeletePod))
        rollouts = deque(action for action in actions if not isinstance(action, DeletePod))
        while rollouts or deletions:
            now = time.monotonic()
            if now > until or now < self._not_before or not self._allowed_so_far:
                log.debug("%d actions are left for the next decision", len(rollouts) + len(deletions))
                return
            if rollouts:
                yield from filter(None, [self._rollout(rollouts.popleft(), end)])
                continue
            several = [deletions.popleft() for _each in range(min(self._width, len(deletions)))]
            self._width = 1
            if (yield from self._delete_together(several, end)):
                self._width = SIDE_BY_SIDE

    def settle(self, live: Collection[str], *, current: bool = True) -> list[Deed]:
        """Count a deletion whose answer was lost as ours once its pod, of this UID, is no longer live.

        One that is still live long after, by what is `current`, was not deleted: when it goes, it was somebody else.
        """
        gone = [uid for uid in self._unanswered if uid not in live]
        deeds = [self._deleted(self._unanswered.pop(uid)[0]) for uid in gone]
        if current:
            since = time.monotonic() - ASK_AGAIN.total_seconds()
            self._unanswered = {uid: deletion for uid, deletion in self._unanswered.items() if deletion[1] > since}
        return deeds

    def _delete_together(self, actions: Sequence[DeletePod], end: float) -> Generator[Deed, None, bool]:
        """Ask for restarts side by side; returns whether all were granted.

        What was granted comes first: what came of the others, or a signal meanwhile, may end the program.
        """
        granted: list[DeletePod] = []
        patient = self._patience is retry.WRITING

        def ask(action: DeletePod) -> tuple[_Sent, str]:
            answer = self._send(_deletion(action.pod), f"restart {action.pod.name} on {action.node}", end)
            if answer == _GRANTED:
                granted.append(action)
            return answer

        try:
            answers: list[_Answer] = list(at_once(ask, actions))
        except TerminatedError:
            yield from map(self._deleted, granted)
            raise
        in_turn = sorted(zip(actions, answers, strict=True), key=lambda pair: pair[1] != _GRANTED)
        yield from filter(None, (self._judged(action, answer, end, patient) for action, answer in in_turn))
        return len(granted) == len(actions)

    def _judged(self, action: DeletePod, answer: _Answer, end: float, patient: bool) -> Deed | None:
        """Return what came of one deletion; `patient` says whether a missing permission had its time to come back."""
        pod = action.pod
        if isinstance(answer, PermissionDeniedError | RejectedError):
            if isinstance(answer, PermissionDeniedError):
                trouble = self._not_refused(_deletion(pod), answer, end, patient)
                if trouble:
                    return Deed(action, trouble=trouble)
            log.warning("node %s: deleting plugin pod %s was refused: %s", action.node, pod.name, answer)
            return Deed(action, refused=str(answer))
        if isinstance(answer, Exception):
            raise answer
        sent, trouble = answer
        if sent is _Sent.DONE:
            self._unanswered.pop(pod.uid, None)
            return self._deleted(action)
        if sent is _Sent.UNKNOWN:
            self._unanswered[pod.uid] = action, time.monotonic()
        return Deed(action, trouble=trouble) if trouble else None

    def _not_refused(self, request: requests.Request, error: PermissionDeniedError, end: float, patient: bool) -> str:
        """Tell admission's refusal from a missing permission, which is raised once it had its time to come back.

        Gives why it cannot be told yet, or nothing: then admission refused it.
        """
        allowed = self._allowed(request, end)
        if isinstance(allowed, str):
            return f"{error}; asking whether RBAC allows it failed: {allowed}"
        if allowed:
            # It had its time to think better of it; the others do not wait as long.
            self._patience = replace(retry.WRITING, denied=0.0)
            return ""
        if self._lasting:
            self._not_before = time.monotonic() + DENIED_SECONDS
            return str(error)
        if patient:
            raise error
        self._patience = retry.WRITING
        return str(error)

    def _allowed(self, request: requests.Request, end: float) -> bool | str:
        """Return whether RBAC allows such requests, or why that is not known; asked once, and answered by `end`."""
        right = request.verb, request.resource, request.namespace
        if right not in self._rights:
            try:
                left = min(RIGHTS_SECONDS, end - time.monotonic())
                self._rights[right] = self._api.allows(replace(request, name=""), left)
            except ClusterError as error:
                self._rights[right] = str(error)
        return self._rights[right]

    @property
    def _allowed_so_far(self) -> bool:
        """Whether RBAC allows all that was refused; anything else is worth another look first."""
        return all(allowed is True for allowed in self._rights.values())

    def _deleted(self, action: DeletePod) -> Deed:
        pod = action.pod
        self.restarted += 1
        note = f"node {action.node}: restarted plugin pod {pod.name}: {pod.because}"
        log.info("%s", note, extra={"facts": {"node": action.node, "pod": pod.name, "action": "delete"}})
        return Deed(action, note, pod.daemonset_uid, pod.uid)

    def _rollout(self, action: RolloutRestart, end: float) -> Deed | None:
        """Restart a whole DaemonSet. Where the answer is lost, the next look shows whether a rollout goes on."""
        stamp = action.at.isoformat(timespec="seconds")
        request = requests.restart_daemonset(
            action.namespace, action.name, action.uid, names.RESTARTED_AT_ANNOTATION, stamp
        )
        what = f"restart the rollout of {action.namespace}/{action.name}"
        try:
            sent, trouble = self._send(request, what, end)
        except (PermissionDeniedError, RejectedError) as error:
            if not self._lasting:
                raise
            log.warning("cannot %s: %s", what, error)
            self._not_before = time.monotonic() + DENIED_SECONDS
            sent, trouble = _Sent.NOT_DONE, str(error)
        if sent is not _Sent.DONE:
            return Deed(action, trouble=trouble) if trouble else None
        self.restarted += len(action.pods)
        note = f"restarted the rollout of {action.name}: {len(action.pods)} stale plugins on settled nodes"
        log.info("%s", note)
        return Deed(action, note, action.uid, stamp)

    def _send(self, request: requests.Request, what: str, end: float) -> tuple[_Sent, str]:
        """Send a write; gives also why it failed, if another try may mend that. A conflict means: look again."""
        not_done = _Sent.NOT_DONE

        def attempt() -> None:
            nonlocal not_done
            try:
                self._api.send(request, min(WRITE_SECONDS, max(end - time.monotonic(), SHORTEST_WRITE_SECONDS)))
            except UnreachableError:
                not_done = _Sent.UNKNOWN
                raise

        try:
            retry.retrying(self._patience, time.sleep, end - SHORTEST_WRITE_SECONDS)(attempt)
        except NotFoundError:
            log.info("cannot %s: it is gone already", what)
        except ConflictError:
            log.info("cannot %s as it was read: it changed meanwhile, looking again", what)
        except (PermissionDeniedError, RejectedError):
            raise
        except ClusterError as error:
            self._not_before = max(self._not_before, time.monotonic() + retry.asked(error))
            log.warning("cannot %s, trying again: %s", what, error)
            return not_done, str(error)
        else:
            return _Sent.DONE, ""
        return not_done, ""


def _deletion(pod: StalePod) -> requests.Request:
    """Ask for the deletion of this very pod, as it was read."""
    return requests.delete_pod(pod.namespace, pod.name, pod.uid, pod.resource_version)
