"""Messages: every sentence that users read is the one that was reviewed."""

from __future__ import annotations

from tests.unit.decide import messages


def test_the_messages_are_those_that_were_reviewed() -> None:
    """``python -m tests.unit.decide.messages`` writes them; a review reads the difference."""
    assert messages.FILE.read_text(encoding="utf-8").splitlines() == messages.rendered().splitlines()
