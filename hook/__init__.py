"""Refresh the DRA kubelet plugins that a GPU driver migration left stale, and prove it."""

from typing import Final

__version__: Final = "0.1.0"
