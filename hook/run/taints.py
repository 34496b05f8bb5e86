"""Keep new claims away from nodes that are not verified, by device taint rules (Kubernetes 1.37).

Rules change nothing else: a rule that cannot be written is reported, and is tried again while the run continues.
"""

from __future__ import annotations

import itertools
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from hook.decide.taints import wanted
from hook.errors import ApiError, PermissionDeniedError, UntrustedError
from hook.format import aligned, as_text, printable, some, timestamp
from hook.kube import retry
from hook.kube.own import job_again
from hook.kube.retry import Patience
from hook.kube.taints import TaintRules
from hook.objects.stacks import STACKS
from hook.run.restarts import SIDE_BY_SIDE, at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.decide.reasons import Reason
    from hook.decide.result import Decision
    from hook.kube.client import Api
    from hook.kube.own import Job
    from hook.kube.taints import Release
    from hook.objects.taints import Place, TaintRule
    from hook.settings import Settings

log = logging.getLogger(__name__)

Item = TypeVar("Item")

RECONCILE_SECONDS: Final = 1.0
"""Time after which no further rule of a decision is deleted, or created, so that the next decision waits no longer."""
AGAIN_SECONDS: Final = 5.0
"""Pause after a write that failed."""
REMOVE_SECONDS: Final = 4.0
"""Time to list the rules at the end of a run, and to delete them after a signal, when the kubelet waits."""
RESTART: Final = Patience(30.0, 0.0)
"""Patience with an API server that restarts at the end of a run, if there is time: nothing else deletes the rules."""
UNKNOWN: Final = "device taint rules are not known, so none is written"
LEFT: Final = "The next run or the uninstallation deletes them"
NOT_SERVED: Final = (
    "deviceTaints.enabled has no effect: the API server has no DeviceTaintRules, which Kubernetes 1.37 brings"
)
HEADINGS: Final = ("POOL", "DRIVER", "REASON", "AGE", "RULE")


class TaintKeeper:
    """Keeps the device taint rules of this process as decisions want them. It does nothing unless the settings ask."""

    def __init__(self, api: Api, settings: Settings, release: Release) -> None:
        asked = settings.device_taints.enabled and not settings.dry_run
        self._rules: TaintRules | None = None
        if asked and STACKS[settings.stack].plugin.claim_drivers:
            self._rules = TaintRules(api, release)
        self._api = api
        self._not_before = 0.0
        self._reported = ""

    def start(self) -> None:
        """Read the rules that a process before this one left."""
        if self._rules is not None:
            self._rules.start()

    @property
    def oldest(self) -> datetime | None:
        """Return when the oldest rule of the release was created, or None without rules."""
        listed = self._rules.listed() if self._rules is not None else []
        return min((rule.created for rule in listed if rule.created is not None), default=None)

    def reconcile(self, decision: Decision, fleet: Fleet | None) -> None:
        """Create the rules that a decision wants and that do not exist, and delete the others of this process."""
        rules = self._rules
        if rules is None or fleet is None or not self._is_readable(rules) or time.monotonic() < self._not_before:
            return
        existing = {rule.place: rule for rule in rules.own(rules.listed())}
        places = wanted(decision, fleet, existing)
        new = {place: reason for place, reason in places.items() if place not in existing}
        superfluous = [rule for place, rule in existing.items() if place not in places]
        # A rule that cannot be created keeps no other devices out of use, and one that cannot be deleted exposes none.
        errors = [
            self._delete(rules, superfluous, time.monotonic() + RECONCILE_SECONDS).error,
            self._create(rules, new, time.monotonic() + RECONCILE_SECONDS),
        ]
        for problem in filter(None, errors):
            self._not_before = max(self._not_before, time.monotonic() + max(AGAIN_SECONDS, problem.retry_after))
            self._warn(f"cannot write device taint rules, trying again: {problem}")
        if (new or superfluous) and not any(errors):
            self._reported = ""

    def end(self, job: Job | None, left: float, *, stopped: bool) -> None:
        """Delete the rules at the end of a run, unless another pod of its `job` follows: no claim arrives in between.

        The time of the Job is over in `left` seconds. The rules of thousands of nodes take long, but after a signal the
        kubelet waits for the process.
        """
        if self._rules is None:
            return
        end = time.monotonic() + (REMOVE_SECONDS if stopped else max(REMOVE_SECONDS, left / 2))
        again = job_again(self._api, job) if job is not None else None
        if again is not None and again.retries(left):
            log.info("the device taint rules stay for the next pod of the Job")
        else:
            self.remove(end - time.monotonic())

    def remove(self, seconds: float) -> None:
        """Delete all rules of this process, within some seconds."""
        rules = self._rules
        if rules is None:
            return
        end = time.monotonic() + seconds
        try:
            left = retry.patiently(partial(self._delete_all, rules, end), RESTART, end)
        except ApiError as error:
            self._warn(f"cannot delete device taint rules: {error}. {LEFT}")
        else:
            if left:
                self._warn(f"cannot delete {left} device taint rules: the time is up. {LEFT}")
        rules.stop()

    def _delete_all(self, rules: TaintRules, end: float) -> int:
        """Delete the rules of this process until a time. Return how many are left. Raises ApiError."""
        found = rules.own(rules.read_again(min(end, time.monotonic() + REMOVE_SECONDS)))
        left, error = self._delete(rules, found, end)
        if error is not None:
            raise error
        return left

    def _is_readable(self, rules: TaintRules) -> bool:
        """Return whether the rules are known. Report once why they are not."""
        problem = rules.problem
        if isinstance(problem, ApiError) or (problem is not None and problem.lasting):
            self._warn(f"{UNKNOWN}: {problem}")
        elif rules.synced and not rules.served:
            self._warn(NOT_SERVED)
        elif problem is None and self._reported == UNKNOWN:
            self._reported = ""
        return problem is None and rules.synced and rules.served

    def _create(self, rules: TaintRules, new: Mapping[Place, Reason], until: float) -> ApiError | None:
        """Create rules until a time. Return the first error."""
        if not new:
            return None
        try:
            owner = rules.owner()
        except ApiError as error:
            return error
        created, _left, problem = _written(lambda place: rules.create(place, new[place], owner), list(new), until)
        if created:
            log.info("new claims are kept away from %s", some([f"{place}: {new[place]}" for place in created]))
        return problem

    def _delete(self, rules: TaintRules, superfluous: Sequence[TaintRule], until: float) -> _Deleted:
        """Delete rules until a time."""
        deleted, left, error = _written(rules.delete, superfluous, until)
        if deleted:
            log.info("new claims are admitted again to %s", some([str(rule.place) for rule in deleted]))
        return _Deleted(left, error)

    def _warn(self, problem: str) -> None:
        """Log a problem, once in a row."""
        kind = problem.partition(": ")[0]
        if kind != self._reported:
            self._reported = kind
            log.warning("%s", problem)


class _Deleted(NamedTuple):
    """What became of rules that are deleted."""

    left: int
    error: ApiError | None


def _written(
    write: Callable[[Item], bool], items: Sequence[Item], until: float
) -> tuple[list[Item], int, ApiError | None]:
    """Write several items at a time, until a time. Return what changed, how many are left, and the first error.

    A policy may refuse one item and no other. Any other trouble would be the same for the next item, so it ends the
    writes. An error that is not of the API server is raised.
    """
    changed: list[Item] = []
    left = len(items)
    problem: ApiError | None = None
    for first in range(0, len(items), SIDE_BY_SIDE):
        if time.monotonic() > until or (problem is not None and not _is_of_one(problem)):
            break
        batch = items[first : first + SIDE_BY_SIDE]
        answers = at_once(write, batch)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, ApiError):
                raise answer
        changed += [item for item, answer in zip(batch, answers, strict=True) if answer is True]
        errors = [answer for answer in answers if isinstance(answer, ApiError)]
        left -= len(batch) - len(errors)
        problem = next(itertools.filterfalse(_is_of_one, errors), problem or next(iter(errors), None))
    return changed, left, problem


def _is_of_one(error: ApiError) -> bool:
    """Return whether the API server refused one object, and may accept another one."""
    return not error.transient and not isinstance(error, UntrustedError)


# What ``status`` shows.


def as_lines(rules: Sequence[TaintRule] | ApiError, now: datetime, *, asked: bool = True) -> list[str]:
    """Return the table of rules, or why they are not known; nothing without them.

    A release that does not ask for rules has no permission to list them, which is no news.
    """
    if isinstance(rules, PermissionDeniedError) and not asked:
        return []
    if isinstance(rules, ApiError):
        return [printable(f"device taint rules are not known: {rules}")]
    rows = [(rule.place.pool, rule.place.driver, rule.reason, _age(rule, now), rule.name) for rule in rules]
    title = "device taint rules keep new claims away:"
    return [printable(line) for line in (title, *aligned([HEADINGS, *rows]))] if rows else []


def as_json(rules: Sequence[TaintRule] | ApiError) -> list[dict[str, Any]] | None:
    """Return the same for programs; null if the rules are not known."""
    if isinstance(rules, ApiError):
        return None
    return [
        {
            "rule": rule.name,
            "pool": rule.place.pool,
            "driver": rule.place.driver,
            "reason": rule.reason,
            "createdAt": timestamp(rule.created) if rule.created is not None else None,
        }
        for rule in rules
    ]


def _age(rule: TaintRule, now: datetime) -> str:
    return as_text(now - rule.created) if rule.created is not None else "?"
