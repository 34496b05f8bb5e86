"""Refresh the DRA kubelet plugins that a GPU driver upgrade left stale, and verify them."""

from typing import Final

__version__: Final = "0.1.0"
