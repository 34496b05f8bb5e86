"""Parts of the sentences that people read, written alike everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

NAMED_IN_A_SENTENCE: Final = 5
"""Nodes named in one line; the table has all of them."""


def some(nodes: Sequence[str]) -> str:
    """Name a few nodes of many."""
    shown = ", ".join(nodes[:NAMED_IN_A_SENTENCE])
    return shown if len(nodes) <= NAMED_IN_A_SENTENCE else f"{shown} and {len(nodes) - NAMED_IN_A_SENTENCE} more"


def moment(when: datetime) -> str:
    """Write a moment as the API server does."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
