"""The part of a kubelet's own API that ``kubectl logs`` and Helm's output of hooks need, for `devcluster.pods`."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from devcluster.boot.layout import SYSTEM_NODE
from devcluster.boot.machines import NODES
from devcluster.client import retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from devcluster.boot.layout import State
    from devcluster.client import Api

PORT: Final = f"{NODES}/{SYSTEM_NODE}/status"


@asynccontextmanager
async def served(api: Api, state: State) -> AsyncIterator[None]:
    """Serve the logs of the system node's pods on a free loopback port, which the node names."""
    if not state.certificate_key.exists():  # a cluster that is not ours could not reach it
        yield
        return

    async def log(request: web.Request) -> web.Response:
        asked = request.match_info
        file = state.pod(asked["namespace"], asked["pod"]) / f"{asked['container']}.log"
        if not file.exists():
            return web.Response(status=404, text=f"{file.parent.name} has no log")
        return web.Response(body=file.read_bytes(), content_type="text/plain")

    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", log)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    # The API server does not verify kubelets unless asked to, so its own certificate is enough.
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(state.certificate, state.certificate_key)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls, shutdown_timeout=0.1).start()
    endpoint = {"kubeletEndpoint": {"Port": runner.addresses[0][1]}}
    await retry(lambda: api.patch(PORT, {"status": {"daemonEndpoints": endpoint}}))
    try:
        yield
    finally:
        await runner.cleanup()
