"""What a reason consists of: the columns of the table in ``reasons.py``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a reason, where to look, and what may fix it.

    Each text may hold the words of a driver stack, as ``messages.words`` returns them. The commands and the
    precondition may also hold ``{node}``, and ``{namespace}`` and ``{name}`` of the pod that the reason is about.
    """

    meaning: str
    look: str = ""
    """A command that changes nothing."""
    fix: str = ""
    """A command that changes something."""
    precondition: str = ""
    """What must be true, or done, before the fix."""

    def __post_init__(self) -> None:
        """Refuse a fix that could be pasted without a thought."""
        if self.fix and not self.precondition:
            raise ValueError(f"{self.fix}: a fix needs a precondition")

    @property
    def steps(self) -> str:
        """Return the commands with their precondition, as one text."""
        look = f"Look: {self.look}" if self.look else ""
        fix = f"To fix, {self.precondition}: {self.fix}" if self.fix else ""
        return " ".join(filter(None, (look, fix)))

    def __str__(self) -> str:
        return " ".join(filter(None, (self.meaning, self.steps)))


class Row(StrEnum):
    """A code, as Kubernetes conditions have it, with its explanation."""

    explanation: Explanation

    def __new__(cls, code: str, explanation: Explanation) -> Self:
        """Make the member that is equal to its code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.explanation = explanation
        return member


def row(code: str, meaning: str, *, look: str = "", fix: str = "", precondition: str = "") -> tuple[str, Explanation]:
    """Return what a ``Row`` is made of."""
    return code, Explanation(meaning, look, fix, precondition)
