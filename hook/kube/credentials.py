"""Credentials: what shows to the API server who sends a request, and until when it is used."""

from __future__ import annotations

import math
import re
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FILE_SECONDS: Final = 60.0
"""Time for which a file's content is used before it is read again. The kubelet replaces a token at 80 % of its life."""
_HEADER: Final = re.compile(r"[\x21-\x7e]+")
"""A token that a header may contain."""


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """Credential for some requests. Without any content they are anonymous."""

    authorization: str = ""
    """The header."""
    certificate: bytes = b""
    key: bytes = b""
    until: float = math.inf
    """When it must be renewed, by the monotonic clock."""


class Credentials:
    """Credential of one account: read again once it has expired, or was refused. Safe to use from several threads."""

    def __init__(self, read: Callable[[], Credential]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._current: Credential | None = None

    def current(self) -> Credential:
        """Return the credential for a request. Raises OSError or ValueError."""
        with self._lock:
            if self._current is None or time.monotonic() >= self._current.until:
                self._current = None
                self._current = self._read()
            return self._current

    def refused(self, credential: Credential) -> None:
        """Read it again for the next request, unless another thread's refusal has led to that."""
        with self._lock:
            if self._current is credential:
                self._current = None


def of_token_file(file: Path) -> Credential:
    """Read a token that is replaced from time to time. Raises OSError, or ValueError if it is empty."""
    token = file.read_text(encoding="ascii").strip()
    if not token:
        raise ValueError(f"{file} is empty")
    return Credential(bearer(token), until=time.monotonic() + FILE_SECONDS)


def bearer(token: str) -> str:
    """Return the header for a token. Raises ValueError, without the token."""
    if not _HEADER.fullmatch(token):
        raise ValueError("the token contains a character that no header may contain")
    return f"Bearer {token}"


@contextmanager
def blaming(what: str) -> Iterator[None]:
    """Name what is wrong in an error that is raised inside the context."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ValueError(f"{what}: {told(error)}") from error


def told(error: BaseException) -> str:
    """Return an error in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return " ".join(str(error).split()) or type(error).__name__
