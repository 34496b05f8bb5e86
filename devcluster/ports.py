"""Free loopback ports, chosen so that clusters that start side by side rarely want the same."""

from __future__ import annotations

import contextlib
import os
import random
import socket

LOWEST, HIGHEST = 20000, 32000
"""Below the range that kernels give to outgoing connections (32768 and up on Linux), any of which
could take a port between our choice and its use."""
SHARE = 100
"""Each process chooses within a share of its own, by its process id: between choice and use a port is free
for anybody, and clusters boot side by side."""


def free_ports(count: int) -> list[int]:
    """Choose different ports on which nothing listens."""
    first = LOWEST + os.getpid() % ((HIGHEST - LOWEST) // SHARE) * SHARE
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            # Outside the `with`, so that all stay taken until all are chosen.
            candidate = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", random.randrange(first, first + SHARE)))
                ports.append(candidate.getsockname()[1])
        return ports
