"""When an API server on loopback is ready. With the standard library alone, for a machine that has nothing else."""

from __future__ import annotations

import ssl
import urllib.request
from typing import TYPE_CHECKING

from devcluster.boot.certificates import is_written
from devcluster.boot.processes import START_SECONDS

if TYPE_CHECKING:
    from devcluster.boot.layout import State
    from devcluster.boot.processes import Children


def await_ready(state: State, server: str, children: Children, seconds: float = START_SECONDS) -> None:
    """Wait for its certificate, then for its checks, each so long at most. Fail when one of the children ends."""
    children.wait_until("the API server has made its certificate", lambda: is_written(state.certificate), seconds)
    children.wait_until("the API server is ready", lambda: is_ready(state, server), seconds)


def is_ready(state: State, server: str) -> bool:
    """Return whether all of the API server's own checks pass."""
    tls = ssl.create_default_context(cafile=str(state.certificate))
    try:
        with urllib.request.urlopen(f"{server}/readyz", timeout=2, context=tls):  # noqa: S310 - https, ours
            return True
    except OSError:  # refused, or 500 while a check fails
        return False
