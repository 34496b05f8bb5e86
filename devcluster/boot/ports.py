"""Free loopback ports for programs that are about to start."""

from __future__ import annotations

import itertools
import random
import socket
from typing import Final

LOWEST, HIGHEST = 20000, 32000
"""Below the range that kernels give to outgoing connections (32768 and up on Linux), any of which
could take a port between our choice and its use."""

_FIRST: Final = random.SystemRandom().randrange(LOWEST, HIGHEST)
_CANDIDATES: Final = itertools.cycle([*range(_FIRST, HIGHEST), *range(LOWEST, _FIRST)])


def free_ports(count: int) -> list[int]:
    """Choose different ports on which nothing listens.

    Until its program listens, a port looks free to everybody. So a process chooses none a second time before all
    others, and each process begins somewhere else.
    """
    return list(itertools.islice(filter(_is_free, _CANDIDATES), count))


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
