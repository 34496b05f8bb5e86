"""What is rolled out: an operator, and the driver's DaemonSet that it renders."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from tests.model.pods import SECOND


class Stage(IntEnum):
    """How far the rollout of a new operator is."""

    LEADS = 0
    ROLLS = 1
    """Its Deployment was changed; the old one still leads, and may render once more."""
    STARTED = 2
    """The old one is gone, but its lease is not."""


@dataclass
class DriverSet:
    """The driver DaemonSet: what it asks for, and what its controller has seen of it."""

    uid: str
    template: tuple[int, ...]
    """Driver version, settings and operator that it was rendered from."""
    generation: int = 1
    observed: int = 0
    desired: int = 0
    revisions: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)
    """By template: its number, and the second in which it was first made."""

    def observe(self, now: int) -> None:
        """Make the revision of what is asked for; one that was there before is taken up again."""
        if self.observed != self.generation:
            self.observed = self.generation
            newest = max((number for number, _made in self.revisions.values()), default=0)
            _number, made = self.revisions.get(self.template, (0, now // SECOND))
            self.revisions[self.template] = (newest + 1, made)
