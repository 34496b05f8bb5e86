"""The error that something took too long, apart from everything that is wrong."""

from __future__ import annotations


class TooSlowError(AssertionError):
    """The world did not get there in the time that a busy machine is given. It breaks no promise by itself."""
