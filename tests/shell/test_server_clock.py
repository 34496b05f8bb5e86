"""The API server's clock is followed by all watches at once."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING

import pytest
import urllib3
from kubernetes import client

from hook.cluster.api import Api
from hook.cluster.connection import by_library

if TYPE_CHECKING:
    from collections.abc import Iterator

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
