"""The ground truth journal: what happened on the nodes, one JSON object a line."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Self

from devcluster.journal import encode

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


class Journal:
    """An append-only file. Each line is one write, so that a reader never sees a torn one."""

    def __init__(self, file: Path) -> None:
        self._fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def write(self, event: str, node: str, **details: object) -> None:
        """Append one event that happens now."""
        os.write(self._fd, encode(event, node, time.time(), **details).encode())
