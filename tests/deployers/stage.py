"""How a story is told: each chapter happens once, and the whole is told a second time at most, on a new cluster.

A chapter begins where the one before it ended. So a chapter that failed is never tried again on the cluster that
it left behind, and no later one is begun there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

T = TypeVar("T")
S = TypeVar("S", bound="Chapters")


class BrokenStoryError(AssertionError):
    """A chapter cannot be told, because one before it failed."""


class Chapters:
    """What has happened so far."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}
        self._broken = ""

    def tell(self, name: str, happen: Callable[[], T]) -> T:
        """Let a chapter happen, unless it did."""
        if name not in self._told:
            if self._broken:
                raise BrokenStoryError(f"{name} cannot be told, because an earlier chapter failed: {self._broken}")
            try:
                self._told[name] = happen()
            except Exception as error:
                # That of the chapter which began it, where one leads to another.
                self._broken = self._broken or f"{name}: {error}"
                raise
        told: T = self._told[name]
        return told


class chapter(Generic[T]):  # noqa: N801 - used as a decorator, like property
    """Make a method a chapter, read like a property."""

    def __init__(self, happen: Callable[[Any], T]) -> None:
        self._happen = happen
        self.__doc__ = happen.__doc__

    @overload
    def __get__(self, story: None, owner: type) -> Self: ...

    @overload
    def __get__(self, story: Chapters, owner: type) -> T: ...

    def __get__(self, story: Chapters | None, owner: type) -> Self | T:
        """Tell it."""
        if story is None:
            return self
        return story.tell(self._happen.__name__, lambda: self._happen(story))


class Stage(Generic[S]):
    """Where one module's story is told."""

    def __init__(self, begin: Callable[[], AbstractContextManager[S]]) -> None:
        self._begin = begin
        self._open = ExitStack()
        self._story: S | None = None
        self._again = False

    def __enter__(self) -> Self:
        """Begin when the first test asks."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what runs."""
        self._open.close()

    @property
    def story(self) -> S:
        """The story, which goes on where the last test left it."""
        if self._story is None:
            self._story = self._open.enter_context(self._begin())
        return self._story

    def begin_anew(self) -> None:
        """Tell it once more from the start, for a test that has a second try; a third telling would take too long."""
        if not self._again:
            self._again = True
            self._open.close()
            self._story = None
