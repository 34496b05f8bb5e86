"""A chapter that failed is neither tried again nor followed by another on the same cluster."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.deployers.stage import BrokenStoryError, Chapters, Stage, chapter

if TYPE_CHECKING:
    from collections.abc import Iterator


class Tale(Chapters):
    """Three chapters, the second of which fails with each of the given failures."""

    def __init__(self, failures: list[str]) -> None:
        super().__init__()
        self.failures, self.acts = failures, list[str]()

    @chapter
    def first(self) -> str:
        """Happen."""
        self.acts.append("first")
        return "first"

    @chapter
    def second(self) -> str:
        """Happen after the first."""
        assert self.first
        self.acts.append("second")
        if self.failures:
            raise ValueError(self.failures.pop())
        return "second"

    @chapter
    def third(self) -> str:
        """Happen after the second."""
        assert self.second
        self.acts.append("third")
        return "third"


def test_each_chapter_happens_once_and_none_after_a_failure() -> None:
    """Whatever asks, and however often; after a failure, the rest names the chapter that failed, and why."""
    tale = Tale([])
    assert (tale.third, tale.first, tale.third) == ("third", "first", "third")
    assert tale.acts == ["first", "second", "third"]
    broken = Tale(["the machine was slow"])
    with pytest.raises(ValueError, match="slow"):
        assert broken.third
    for _ in range(2):
        with pytest.raises(BrokenStoryError, match=r"second: the machine was slow"):
            assert broken.third
    assert broken.first == "first"
    assert broken.acts == ["first", "second"]


def test_a_story_is_told_twice_at_most() -> None:
    """The second telling begins with a new cluster, when the first one's is gone; there is no third."""
    failures, log = ["slow", "slow again"], list[str]()

    @contextmanager
    def begin() -> Iterator[Tale]:
        log.append("up")
        yield Tale(failures)
        log.append("down")

    with Stage(begin) as stage:
        with pytest.raises(ValueError, match="slow again"):
            assert stage.story.second
        stage.begin_anew()
        with pytest.raises(ValueError, match="slow"):
            assert stage.story.second
        stage.begin_anew()
        with pytest.raises(BrokenStoryError):
            assert stage.story.second
    assert ["up", "down", "up", "down"] == log
