"""Retries: for how long which error is tried again, and with which pauses. No time really passes here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

import pytest

from hook.errors import ApiError, PermissionDeniedError, UntrustedError
from hook.kube import retry
from hook.kube.retry import CONTROLLER, FOREVER, JOB, WRITE, Patience, patiently

DENIED: Final = PermissionDeniedError("list", "pods", "")
HOURS: Final = 3 * 3600.0
ERRORS: Final = {
    "unreachable": ApiError(0, "no"),
    "server-error": ApiError(503, "no"),
    "throttled": ApiError(429, "no"),
    "unauthorized": ApiError(401, "no"),
    "denied": DENIED,
    "refused-by-admission": ApiError(403, "no"),
    "untrusted": UntrustedError("no"),
    "conflict": ApiError(409, "no"),
    "unknown-selector": ApiError(400, "no"),
    "unreadable": ApiError(200, "no"),
}


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


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize(
    ("patience", "unreachable", "denied"),
    [(Patience(60.0), 60, 15), (JOB, HOURS, 15), (CONTROLLER, HOURS, HOURS), (WRITE, 5, 15)],
)
def test_each_error_has_its_time(
    name: str, patience: Patience, unreachable: float, denied: float, clock: Clock
) -> None:
    """An outage: as long as the process can wait. A 401 or 403: 15 seconds. What no retry helps: not at all."""
    times = {"unreachable": unreachable, "server-error": unreachable, "throttled": unreachable}
    limit = times.get(name, denied if name in {"unauthorized", "denied"} else 0)
    error, began = ERRORS[name], clock.now
    raised = clock.fail(error, patience=patience)
    waited = clock.now - began
    if limit == HOURS:
        assert raised is None
    else:
        assert raised is error
        assert limit / 4 <= waited <= limit


def test_the_time_begins_again_with_another_kind_of_error(clock: Clock) -> None:
    """An API server that starts refuses for a moment, because it has not read its RBAC rules."""
    outage = [ApiError(0, "no")] * 20
    assert clock.fail(*outage, DENIED, patience=JOB) is DENIED
    assert sum(clock.waits[-20:]) > 10
    assert len(clock.waits) > 20


def test_pauses_grow_to_ten_seconds(clock: Clock) -> None:
    """A failure of seconds is noticed at once, and one of hours does not flood the server."""
    clock.fail(ERRORS["unreachable"], patience=JOB)
    for number, wait in enumerate(clock.waits[:10]):
        shortest = min(0.2 * 2**number, 10.0)
        assert shortest <= wait <= shortest + 0.5


def test_retry_after_is_honoured(clock: Clock) -> None:
    """No attempt is sooner than the server asks, and none begins that would come too late."""
    busy = ApiError(429, "no", retry_after=7.0)
    assert clock.fail(busy, patience=Patience(20.0)) is busy
    assert len(clock.waits) == 2
    assert all(wait >= 7.0 for wait in clock.waits)


def test_no_attempt_begins_after_the_end(clock: Clock) -> None:
    """The next holder of a Lease may act then, however endless the patience."""
    began = clock.now
    assert clock.fail(ERRORS["unreachable"], patience=CONTROLLER, end=began + 30) is ERRORS["unreachable"]
    assert 15 < clock.now - began <= 30


def test_each_failure_is_reported() -> None:
    """A caller knows of an outage while it lasts, and other exceptions are no failure of a request."""
    errors, heard = [ERRORS["unreachable"], ERRORS["throttled"]], list[ApiError]()

    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    assert patiently(work, JOB, sleep=lambda _seconds: None, failed=heard.append) == "done"
    assert heard == [ERRORS["unreachable"], ERRORS["throttled"]]
    with pytest.raises(ZeroDivisionError):
        patiently(lambda: 1 // 0, JOB)
