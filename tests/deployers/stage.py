"""The stories of tests: each chapter happens once, and the whole a second time at most, on a new cluster.

A chapter begins where the one before it ended. So a chapter that failed is never tried again on the cluster that
it left behind, and no later one is begun there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")
S = TypeVar("S", bound="Chapters")


class BrokenStoryError(AssertionError):
    """A chapter cannot happen, because one before it failed."""


class Chapters:
    """What has happened so far, and which chapter failed first."""

    def __init__(self) -> None:
        self.happened: dict[str, Any] = {}
        self.broken = ""


class chapter(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """Make a method a chapter, which is read like a property."""

    def __init__(self, happen: Callable[[Any], T]) -> None:
        self._happen, self._name, self.__doc__ = happen, happen.__name__, happen.__doc__

    def __get__(self, story: Chapters, owner: type) -> T:
        """Let it happen, unless it did."""
        if self._name not in story.happened:
            if story.broken:
                raise BrokenStoryError(f"{self._name} cannot happen after a chapter that failed: {story.broken}")
            try:
                story.happened[self._name] = self._happen(story)
            except Exception as error:
                # Where one chapter leads to another, that of the innermost.
                story.broken = story.broken or f"{self._name}: {error}"
                raise
        happened: T = story.happened[self._name]
        return happened


class Stage(Generic[S]):
    """The place of one module's story, which begins when a test asks for it."""

    def __init__(self, begin: Callable[[], AbstractContextManager[S]]) -> None:
        self._begin = begin
        self._open = ExitStack()
        self._story: S | None = None
        self._again = False

    def __enter__(self) -> Self:
        """Begin when the first test asks."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End what runs."""
        self._open.close()

    @property
    def story(self) -> S:
        """The story, which continues where the last test left it."""
        if self._story is None:
            self._story = self._open.enter_context(self._begin())
        return self._story

    def begin_anew(self) -> None:
        """Begin it once more, for a test that has a second try; a third time would take too long."""
        if not self._again:
            self._again = True
            self._open.close()
            self._story = None
