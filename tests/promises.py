"""The promises that the program makes to those who run it, told apart from everything else that a test asserts.

A test on a cluster may fail for what a busy machine does to etcd, a kubelet or a simulated operator, so it is
tried once more, and shown (tests/conftest.py). Where ground truth says that a promise was broken, it is not: once
in twenty runs is a defect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BrokenPromiseError(AssertionError):
    """A plugin was stale at the end, or restarted early or needlessly, or more were down at once than may be."""


@contextmanager
def promised() -> Iterator[None]:
    """Assert promises inside: a failure here is final."""
    try:
        yield
    except AssertionError as error:
        raise BrokenPromiseError(str(error)) from error
