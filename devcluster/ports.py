"""Free loopback ports, chosen so that clusters that start side by side rarely want the same."""

from __future__ import annotations

import contextlib
import random
import socket

LOWEST, HIGHEST = 20000, 32000
"""Below the range that kernels give to outgoing connections (32768 and up on Linux), any of which
could take a port between our choice and its use."""


def free_ports(count: int) -> list[int]:
    """Choose different ports on which nobody listens."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            # Outside the `with`, so that all stay taken until all are chosen.
            candidate = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            with contextlib.suppress(OSError):
                candidate.bind(("127.0.0.1", random.randrange(LOWEST, HIGHEST)))
                ports.append(candidate.getsockname()[1])
        return ports
