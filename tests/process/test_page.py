"""The page of `report` in a browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from ctl.page import COLORS
from hook.decide.result import NodeState
from tests.browser import browsing, need
from tests.client.shown import showing
from tests.client.test_workloads import held
from tests.fixtures.cluster import cluster, labelled, stale_plugin
from tests.process.program import CTL, reaching, run

DRAWN: Final = """
(selector => [...document.querySelectorAll(selector)].filter(each => {
  const [box, around] = [each, each.closest('svg, .grid')].map(one => one.getBoundingClientRect())
  return box.width > 0 && box.height > 0 && box.left >= around.left && box.right <= around.right
}).map(each => each.closest('tr')?.id ?? each.textContent))
"""
"""Returns, for the elements of a selector that are visible in their picture or grid, the node, or the text."""


NODES: Final = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
PHONE: Final = 390
"""Pixels."""


def test_a_browser_draws_it(tmp_path: Path) -> None:
    """Squares, timelines, the mark of a verified node, and affected pods; on a phone nothing is too wide."""
    need()
    waits = labelled("gpu-2", state="upgrade-required")
    found = cluster(*NODES).put("plugin-pod", stale_plugin("gpu-1")).change("node", waits, "gpu-2")
    with showing(found, held) as server:
        flag = reaching(tmp_path, server.api.host)
        page = tmp_path / "report.html"
        done = run(tmp_path, "report", flag, f"--output={page}", program=CTL)
    assert done.code == 0, done.said
    asyncio.run(_look(page.as_uri(), tmp_path / "profile"))


async def _look(uri: str, profile: Path) -> None:
    async with browsing(profile) as page:
        await page.open(uri)
        assert await page.value(f"{DRAWN}('.grid a')") == ["S", "W", "V", "V"]
        assert await page.value(f"{DRAWN}('svg circle')") == ["gpu-0", "gpu-3"]
        bars = {"gpu-1": 3, "gpu-2": 3, "gpu-0": 4, "gpu-3": 4}
        assert await page.value(f"{DRAWN}('svg rect')") == [node for node, count in bars.items() for _ in range(count)]
        assert "team/old" in await page.value("document.querySelector('table:last-of-type').innerText")
        assert {COLORS[NodeState.VERIFIED], COLORS[NodeState.STALE]} <= set(await page.screenshot("report"))
        await page.ask("Emulation.setDeviceMetricsOverride", width=PHONE, height=844, deviceScaleFactor=1, mobile=True)
        assert await page.value("document.documentElement.scrollWidth") == PHONE
        assert await page.value(f"{DRAWN}('svg circle')") == ["gpu-0", "gpu-3"]
        assert (page.errors, page.requests) == ([], {uri})
