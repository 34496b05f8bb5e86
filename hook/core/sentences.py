"""Format parts of messages: lists of nodes, and timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

NAMED_IN_A_SENTENCE: Final = 5
"""Most nodes that one message names. The table has all of them."""


def some(nodes: Sequence[str]) -> str:
    """Return the first few names, and the number of the others."""
    shown = ", ".join(nodes[:NAMED_IN_A_SENTENCE])
    return shown if len(nodes) <= NAMED_IN_A_SENTENCE else f"{shown} and {len(nodes) - NAMED_IN_A_SENTENCE} more"


def moment(when: datetime) -> str:
    """Return a timestamp in the format of the API server."""
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
