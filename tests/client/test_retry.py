"""Retries: for how long which error is tried again, and with which pauses. No time really passes here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

import pytest

from hook.errors import ApiError, PermissionDeniedError, UntrustedError
from hook.kube import retry
from hook.kube.retry import CONTROLLER, FOREVER, WRITE, Patience, patiently
from tests.client.server import JOB

NO_ANSWER: Final = ApiError(0, "no")
DENIED: Final = PermissionDeniedError("list", "pods", "")
HOURS: Final = 3 * 3600.0


class Clock:
    """Time that passes only while a function waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: self.now))
        for name, seconds in (("FIRST_WAIT_SECONDS", 0.2), ("JITTER_SECONDS", 0.5), ("LONGEST_WAIT_SECONDS", 10.0)):
            monkeypatch.setattr(retry, name, seconds)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.waits.append(seconds)
        self.now += seconds

    def fail(self, *errors: ApiError, patience: Patience, end: float = FOREVER) -> ApiError | None:
        """Fail with each error once, then with the last one for hours. Return the error that ended it."""
        left, began = list(errors), self.now

        def work() -> None:
            if self.now - began < HOURS:
                raise left.pop(0) if len(left) > 1 else left[0]

        try:
            patiently(work, patience, end, self.sleep)
        except ApiError as error:
            return error
        return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return a clock that stands still."""
    return Clock(monkeypatch)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NO_ANSWER, "outage"),
        (ApiError(503, "no"), "outage"),
        (ApiError(429, "no"), "outage"),
        (ApiError(401, "no"), "denied"),
        (DENIED, "denied"),
        pytest.param(ApiError(403, "no"), "final", id="refused by admission"),
        (UntrustedError("no"), "final"),
        (ApiError(409, "no"), "final"),
        (ApiError(400, "no"), "final"),
        pytest.param(ApiError(200, "no"), "final", id="unreadable"),
    ],
)
@pytest.mark.parametrize(
    ("patience", "outage", "denied"),
    [(Patience(60.0), 60, 15), (JOB, HOURS, 15), (CONTROLLER, HOURS, HOURS), (WRITE, 5, 15)],
)
def test_each_error_has_its_time(  # noqa: PLR0913, PLR0917 - with the clock
    error: ApiError, kind: str, patience: Patience, outage: float, denied: float, clock: Clock
) -> None:
    """An outage: as long as the process can wait. A 401 or 403: 15 seconds. What no retry helps: not at all."""
    limit, began = {"outage": outage, "denied": denied, "final": 0.0}[kind], clock.now
    raised = clock.fail(error, patience=patience)
    assert raised is (None if limit == HOURS else error)
    assert raised is None or limit / 4 <= clock.now - began <= limit


def test_the_time_begins_again_with_another_kind_of_error(clock: Clock) -> None:
    """An API server that starts refuses for a moment, because it has not read its RBAC rules."""
    assert clock.fail(*[NO_ANSWER] * 20, DENIED, patience=JOB) is DENIED
    assert sum(clock.waits[20:]) > 5


def test_pauses_grow_to_ten_seconds(clock: Clock) -> None:
    """A failure of seconds is noticed at once, and one of hours does not flood the server."""
    clock.fail(NO_ANSWER, patience=JOB)
    shortest = [min(0.2 * 2**number, 10.0) for number in range(10)]
    assert all(least <= wait <= least + 0.5 for least, wait in zip(shortest, clock.waits, strict=False))


def test_retry_after_is_honoured(clock: Clock) -> None:
    """No attempt is sooner than the server asks, and none begins that would come too late."""
    busy = ApiError(429, "no", retry_after=7.0)
    assert clock.fail(busy, patience=Patience(20.0)) is busy
    assert (len(clock.waits), min(clock.waits) >= 7.0) == (2, True)


def test_no_attempt_begins_after_the_end(clock: Clock) -> None:
    """The next holder of a Lease may act then, however endless the patience."""
    began = clock.now
    assert clock.fail(NO_ANSWER, patience=CONTROLLER, end=began + 30) is NO_ANSWER
    assert 15 < clock.now - began <= 30


def test_each_failure_is_reported() -> None:
    """A caller knows of an outage while it lasts, and other exceptions are no failure of a request."""
    errors, heard = [NO_ANSWER, DENIED], list[ApiError]()

    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    assert patiently(work, JOB, sleep=lambda _seconds: None, failed=heard.append) == "done"
    assert heard == [NO_ANSWER, DENIED]
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 // 0, JOB)
