"""The part of a kubelet's own API that ``kubectl logs`` and Helm's hook logs need."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from devcluster.boot.layout import State
    from devcluster.podrunner.pod import PodLife

    Find = Callable[[str, str], PodLife | None]

FOLLOW_SECONDS = 0.1
"""Between two looks at a log that is followed."""

BLOCK = 64 * 1024


class LogServer:
    """Serves the logs of the node's pods over HTTPS on a free loopback port."""

    def __init__(self, state: State, find: Find) -> None:
        self._state = state
        self._find = find
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Begin to serve; returns the port. Without a key there is none: that API server could not reach it."""
        if not self._state.certificate_key.exists():
            return 0
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        # The API server does not verify kubelets unless told to, so its own certificate will do.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._state.certificate, self._state.certificate_key)
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls, shutdown_timeout=0.1)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        """Answer with a container's log, and go on while it runs if asked to follow."""
        life = self._find(request.match_info["namespace"], request.match_info["pod"])
        container = life.container(request.match_info["container"]) if life else None
        if container is None:
            return web.Response(status=404, text="no such container on this node")
        previous = request.query.get("previous") == "true"
        log = container.files.previous_log if previous else container.files.log
        if not log.exists():
            return web.Response(status=400, text=f'container "{container.state.name}" has no such log')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        follow = request.query.get("follow") == "true"
        await _send(response, log, request.query, lambda: follow and container.runs)
        return response


async def _send(response: web.StreamResponse, log: Path, query: Mapping[str, str], more: Callable[[], bool]) -> None:
    """Copy a log from where the request wants it to begin, until nothing more will come."""
    left = int(query.get("limitBytes", 0)) or None
    with log.open("rb") as lines:
        lines.seek(_begin(log, query.get("tailLines")))
        while left is None or left > 0:
            last = not more()  # asked before reading, so that nothing written until then is missed
            block = lines.read(BLOCK if left is None else min(BLOCK, left))
            if block:
                left = None if left is None else left - len(block)
                await response.write(block)
            elif last:
                return
            else:
                await asyncio.sleep(FOLLOW_SECONDS)


def _begin(log: Path, tail_lines: str | None) -> int:
    """Find the offset of the last so many lines; the logs of a short life fit into memory."""
    if tail_lines is None:
        return 0
    lines = log.read_bytes().splitlines(keepends=True)
    return sum(len(line) for line in lines[: max(0, len(lines) - int(tail_lines))])
