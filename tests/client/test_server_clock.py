"""The API server's clock is followed by all watches at once, and whatever is done to this machine's own."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Self

import pytest
import urllib3
from kubernetes import client

from hook.kube import client as apis
from hook.kube.client import Api
from hook.kube.connection import by_library

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

THREADS, TRIES = 8, 150
"""As many as a run has watches; so often that a race that loses once in a hundred times shows."""


@pytest.fixture
def _nervous() -> Iterator[None]:
    """Switch threads as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_nervous")
def test_many_watches_may_set_it_at_once() -> None:
    """Each answer carries a date, and each thread adds what it saw while others look."""
    answer = urllib3.HTTPResponse(headers={"date": format_datetime(datetime.now(UTC), usegmt=True)})
    wrong: list[Exception] = []

    def watch(api: Api, together: threading.Barrier) -> None:
        together.wait()
        try:
            api._set_clock(answer)
        except (IndexError, RuntimeError) as error:
            wrong.append(error)

    for _ in range(TRIES):
        api, together = Api(by_library(client.Configuration())), threading.Barrier(THREADS)
        threads = [threading.Thread(target=watch, args=(api, together)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


class SetClock(datetime):
    """A clock that somebody sets."""

    wrong = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        """Give what it shows."""
        return super().now(tz) + cls.wrong


@pytest.mark.parametrize("first", [timedelta(), timedelta(hours=1)])
@pytest.mark.parametrize("then", [timedelta(hours=1), timedelta(seconds=70), timedelta(seconds=-70), timedelta()])
def test_setting_the_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch, first: timedelta, then: timedelta) -> None:
    """A step of this machine's clock is no time that passed: no breaker closes by it, and no Job's time is up."""
    monkeypatch.setattr(apis, "datetime", SetClock)
    monkeypatch.setattr(SetClock, "wrong", first)
    api = Api(by_library(client.Configuration()))
    for _ in range(apis.OFFSETS_KEPT):
        api._set_clock(urllib3.HTTPResponse(headers={"date": format_datetime(datetime.now(UTC), usegmt=True)}))
    monkeypatch.setattr(SetClock, "wrong", then)
    assert abs(api.now() - datetime.now(UTC)) < timedelta(seconds=30)
