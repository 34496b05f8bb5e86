"""The journal knows what happened before the API server does: a reader of the API may act on it at once."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from devcluster.access import Access
from devcluster.client import Api
from devcluster.fleet.holder import HolderLife
from devcluster.fleet.journal import Journal
from devcluster.fleet.knobs import Dials, Knobs
from devcluster.fleet.life import Place
from devcluster.fleet.node import Node
from devcluster.fleet.slices import Slices

if TYPE_CHECKING:
    from pathlib import Path

AT_ONCE: Final = Dials(Knobs(pod_start_seconds=0.0, plugin_ready_seconds=0.0))
POD: Final[dict[str, Any]] = {
    "metadata": {
        "name": "exporter-a",
        "namespace": "monitoring",
        "uid": "u",
        "ownerReferences": [{"name": "exporter"}],
    },
    "spec": {"containers": [{"name": "exporter", "image": "exporter"}]},
}


def knows(file: Path) -> bool:
    """Whether the journal has a plugin that is ready."""
    return "plugin-ready" in file.read_text(encoding="utf-8")


async def known_before_each_report(file: Path) -> list[tuple[bool, bool]]:
    """Let a pod start; return of each report whether it says Ready, and whether the journal knew it already."""
    reports: list[tuple[bool, bool]] = []

    async def take(request: web.Request) -> web.Response:
        conditions = (await request.json())["status"]["conditions"]
        ready = {"Ready"} & {each["type"] for each in conditions if each["status"] == "True"}
        reports.append((bool(ready), knows(file)))
        return web.json_response({})

    server = web.Application()
    server.router.add_patch("/api/v1/namespaces/monitoring/pods/exporter-a/status", take)
    runner = web.AppRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        async with Api(Access(f"http://{host}:{port}", ssl.create_default_context())) as api:
            with Journal(file) as journal:
                node = Node("gpu-0", "uid", journal)
                node.gpu.load("580.1.1")
                place = Place(api, AT_ONCE, node, Slices(api, node), lambda _driver: True)
                await HolderLife(place, POD).live()
    finally:
        await runner.cleanup()
    return reports


def test_a_plugin_that_is_ready_is_known_to_be_before_the_api_server_says_so(tmp_path: Path) -> None:
    """Else the next restart may stand before it in the journal, and more plugins seem to be down than ever were."""
    reports = asyncio.run(known_before_each_report(tmp_path / "truth.jsonl"))
    assert [(False, False), (False, False), (True, True)] == reports
