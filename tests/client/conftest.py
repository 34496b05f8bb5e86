"""Short pauses for all of these tests, because how long a pause is, is tested by its value; and an authority."""

from __future__ import annotations

from pathlib import Path

import pytest

from hook.kube import informer, retry
from hook.run import loop
from tests.client.access import Authority
from tests.client.server import PATIENCE


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a moment only between two tries, lists, watches or decisions."""
    for name in ("FIRST_WAIT_SECONDS", "JITTER_SECONDS"):
        monkeypatch.setattr(retry, name, 0.01)
    monkeypatch.setattr(retry, "LONGEST_WAIT_SECONDS", 0.25)
    for name in ("NEXT_WATCH_SECONDS", "ABSENT_SECONDS"):
        monkeypatch.setattr(informer, name, 0.01)
    monkeypatch.setattr(loop, "TICK_SECONDS", 0.05)
    # A machine that stalls makes no gap, and no watch useful.
    for name in ("LONGEST_GAP_SECONDS", "SHORT_WATCH_SECONDS"):
        monkeypatch.setattr(informer, name, PATIENCE)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a certificate authority."""
    return Authority(tmp_path)
