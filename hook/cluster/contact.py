"""Whether what is known of the cluster is of now, and if not, since when and why not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from hook.errors import PermissionDeniedError, ThrottledError, UnauthorizedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")

LOSSES: Final = (UnreachableError, ThrottledError, UnauthorizedError, PermissionDeniedError)
"""Trouble that may pass, and that keeps us from seeing what happens meanwhile."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Contact that broke off, and is not back."""

    plural: str
    since: float
    """By the monotonic clock."""
    why: str

    @property
    def seconds(self) -> float:
        """For how long."""
        return time.monotonic() - self.since

    def __str__(self) -> str:
        return f"cannot read {self.plural} for {self.seconds:.0f} s: {self.why}"


class Contact:
    """The contact of one reflector. It is one thread that writes, and another one that reads."""

    def __init__(self, plural: str) -> None:
        self._plural = plural
        self.lost: Lost | None = None

    def break_off(self, error: Exception) -> None:
        """Note that it is lost; the first moment and the last reason count."""
        since = self.lost.since if self.lost else time.monotonic()
        self.lost = Lost(self._plural, since, str(error))

    def restore(self) -> None:
        """Note that what is known is of now."""
        self.lost = None

    def watched(self, function: Callable[..., Answer]) -> Callable[..., Answer]:
        """Note each failure of a function that is tried again and again."""

        def call(*arguments: object) -> Answer:
            try:
                return function(*arguments)
            except LOSSES as error:
                self.break_off(error)
                raise

        return call
