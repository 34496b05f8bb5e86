"""The errors that the bundler raises on purpose."""

from __future__ import annotations


class InputError(Exception):
    """A flag or a document that cannot work (exit 2)."""
