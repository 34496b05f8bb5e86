"""The Helms of `tests/chart`."""

from __future__ import annotations

from tests.chart.conftest import helm, helms

__all__ = ["helm", "helms"]
