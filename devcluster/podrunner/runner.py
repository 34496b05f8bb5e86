"""The node's main loop: every pod that is bound to it gets a life."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from devcluster.boot.layout import SYSTEM_NODE
from devcluster.build import binaries
from devcluster.client import Api, path
from devcluster.podrunner import environment, node
from devcluster.podrunner.context import Host
from devcluster.podrunner.pod import PodLife
from devcluster.podrunner.server import LogServer
from devcluster.watching import follow

if TYPE_CHECKING:
    from devcluster.boot.layout import State
    from devcluster.watching import Event

logger = logging.getLogger(__name__)

HTTPS = 443
"""Where a server's address names no port."""


class Runner:
    """Runs the pods of the system node."""

    def __init__(self, api: Api, host: Host) -> None:
        self._api = api
        self._host = host
        self._lives: dict[str, PodLife] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Follow the node's pods without an end."""
        server = LogServer(self._host.state, self._find)
        port = await server.start()
        await node.register(self._api, port)
        heartbeat = asyncio.create_task(node.keep_alive(self._api, port))
        try:
            selector = f"spec.nodeName={SYSTEM_NODE}"
            async for event in follow(self._api, path("v1", "pods"), fieldSelector=selector):
                self._handle(event)
        finally:
            heartbeat.cancel()
            for life in self._lives.values():
                life.kill()
            await server.stop()

    def _handle(self, event: Event) -> None:
        """Begin, end or forget a life."""
        if event.kind == "SYNCED":
            return
        metadata = event.object["metadata"]
        life = self._lives.get(metadata["uid"])
        if event.kind == "DELETED":
            if life is not None:
                life.kill()
                life.delete(0)
            return
        if life is None:
            life = self._begin(event.object["metadata"]["uid"], PodLife(self._api, event.object, self._host))
        if "deletionTimestamp" in metadata:
            life.delete(metadata.get("deletionGracePeriodSeconds", 0))
        else:
            life.see(event.object)

    def _begin(self, uid: str, life: PodLife) -> PodLife:
        """Start a pod's life next to the others."""

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._lives.pop(uid, None)
            if not task.cancelled() and (error := task.exception()):
                logger.error("the life of %s broke off", life.name, exc_info=error)
                life.kill()

        logger.info("%s begins", life.name)
        self._lives[uid] = life
        task = asyncio.create_task(life.live())
        self._tasks.add(task)
        task.add_done_callback(over)
        return life

    def _find(self, namespace: str, name: str) -> PodLife | None:
        """Find a pod by name; the newest, should a deleted one of the same name still be ending."""
        wanted = f"{namespace}/{name}"
        return next((life for life in reversed(self._lives.values()) if life.name == wanted), None)


async def serve(state: State) -> None:
    """Be the system node until SIGTERM."""
    async with Api.from_kubeconfig(state.component_kubeconfig("podrunner")) as api:
        server = urlsplit(api.access.server)
        port = str(server.port or HTTPS)
        variables = {
            **environment.inherited(),
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
            # A part of the simulated operators' images.
            "DEVCLUSTER_UPGRADE_PROGRAM": str(binaries.ensure(["upgrade"])["upgrade"]),
        }
        runner = Runner(api, Host(state, state.certificate.read_text(), variables))
        task = asyncio.create_task(runner.run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            logger.info("told to end")
