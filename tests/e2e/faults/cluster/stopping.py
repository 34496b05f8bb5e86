"""A proxy at which the program can be stopped, or ended, at any one request.

A test says for which request the program must not continue, before the API server hears of it or once its answer is
here: the two moments that tell a write that never happened from one whose author never heard of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from itertools import count
from pathlib import Path
from typing import Final

from aiohttp import web

from devcluster.boot.cluster import Cluster
from tests.e2e.faults.proxy import VERBS, Asked, Proxy, abort

OK: Final = 200
FORBIDDEN: Final = 403
_COUNT = count()


class Moment(Enum):
    """When a request is looked at."""

    BEFORE = auto()
    """Nothing of it has reached the API server."""
    AFTER = auto()
    """The API server has answered, and its client has not heard the answer."""


Stop = tuple[str, Moment]
"""A request, as ``verb resource``, and when."""


class StoppingProxy(Proxy):
    """`stops` is called for every request, and returns whether it ends there."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.files, f"stopping-{next(_COUNT)}")
        self.stops: Callable[[Stop], bool] = lambda _stop: False
        self._administrator = cluster.kubeconfig
        self.rule(self._look, VERBS)

    def through(self, account: Path | None = None) -> Path:
        """Return the kubeconfig of an account, else the administrator's, that leads through this stopping."""
        return self.kubeconfig_of(account or self._administrator)

    def refused(self, verb: str) -> int:
        """Count the requests of a verb that were forbidden."""
        return sum(seen.status == FORBIDDEN for seen in self.asked(verb))

    def watches_all(self, times: int = 1) -> bool:
        """Whether everything that was listed through it was then watched, so many times."""
        listed, watched = (
            Counter(seen.asked.resource for seen in self.asked(verb) if seen.status == OK) for verb in ("list", "watch")
        )
        return bool(listed) and all(watched[resource] >= times for resource in listed)

    async def _look(self, proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse | None:
        asked = Asked.of(request)
        what = f"{asked.verb} {asked.resource}"
        if self.stops((what, Moment.BEFORE)):
            return abort(request)
        if asked.verb == "watch":
            return None
        response = await proxy.relay(request, await proxy.forward(request, body))
        return abort(request) if self.stops((what, Moment.AFTER)) else response
