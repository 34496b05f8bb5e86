"""A headless Chromium that resolves no other host, for tests of what the project shows in a browser."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from devcluster.patience import TooSlowError

BROWSER: Final = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_SECONDS: Final = 120.0
SCREENSHOTS: Final = Path(__file__).parents[1] / "build" / "screenshots"
COLORS: Final = """
(async text => {
  const image = await createImageBitmap(new Blob([Uint8Array.from(atob(text), each => each.charCodeAt(0))]))
  const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d')
  canvas.drawImage(image, 0, 0)
  const counts = new Map()
  for (const color of new Uint32Array(canvas.getImageData(0, 0, image.width, image.height).data.buffer))
    counts.set(color, (counts.get(color) ?? 0) + 1)
  const hex = color => '#' + [0, 8, 16].map(bits => (color >> bits & 255).toString(16).padStart(2, '0')).join('')
  return [...counts].sort((one, other) => other[1] - one[1]).map(([color]) => hex(color))
})
"""
"""Returns the colors of a picture, the most frequent first."""


def need(**missing: bool) -> None:
    """Skip the test if something is missing here. With REQUIRE_SITE set, fail instead."""
    missing["chromium"] = BROWSER is None
    if names := ", ".join(name for name, is_missing in missing.items() if is_missing):
        (pytest.fail if os.environ.get("REQUIRE_SITE") else pytest.skip)(f"needs {names} (make site site-tools)")


class Page:
    """A page of a browser, by the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self.requests: set[str] = set()
        self._socket, self._ids = socket, count(1)

    async def open(self, url: str) -> None:
        """Navigate, and wait until the page is loaded."""
        await self.ask("Page.navigate", url=url)
        await self.wait("document.readyState == 'complete'")

    async def wait(self, expression: str) -> None:
        """Evaluate an expression until it is true."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await self.value(expression):  # noqa: ASYNC110 - a page reports no such change
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise TooSlowError(f"{expression}\nerrors: {self.errors}") from None

    async def value(self, expression: str) -> Any:  # noqa: ANN401 - any value of JavaScript
        """Evaluate an expression; one that throws, or whose document goes away meanwhile, has no value."""
        answer = await self._answer("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        found = answer.get("result", {})
        return found["result"].get("value") if found and "exceptionDetails" not in found else None

    async def screenshot(self, name: str) -> list[str]:
        """Take a picture of the whole page into build/screenshots. Return its colors, the most frequent first."""
        size = (await self.ask("Page.getLayoutMetrics"))["cssContentSize"]
        picture = await self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip={**size, "scale": 1})
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        (SCREENSHOTS / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))
        return list(await self.value(f"{COLORS}({json.dumps(picture['data'])})"))

    async def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its result."""
        answer = await self._answer(method, **parameters)
        assert "error" not in answer, answer
        return dict(answer["result"])

    async def _answer(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its answer, which may be an error; note what happens in the meantime."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message: dict[str, Any] = await self._socket.receive_json()
            if message.get("id") == number:
                return message
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.add(event["request"]["url"])
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(json.dumps(event["entry"]))
        elif method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and event["type"] == "error"):
            self.errors.append(json.dumps(event))


@asynccontextmanager
async def browsing(profile: Path) -> AsyncIterator[Page]:
    """Start a browser, and open a page."""
    assert BROWSER is not None
    flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-port=0"
    alone = ("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}")
    browser = await asyncio.create_subprocess_exec(
        BROWSER, *flags.split(), "--window-size=1280,900", *alone, "about:blank", stderr=asyncio.subprocess.PIPE
    )
    try:
        assert browser.stderr is not None
        said = await asyncio.wait_for(browser.stderr.readuntil(b"/devtools/browser/"), PATIENCE_SECONDS)
        debugger = "http://" + said.decode().rpartition("ws://")[2].partition("/")[0]
        async with aiohttp.ClientSession() as session:
            async with session.put(f"{debugger}/json/new?about:blank") as answer:
                target = await answer.json()
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Network", "Runtime", "Log"):
                    await page.ask(f"{domain}.enable")
                yield page
    finally:
        browser.kill()
        await browser.wait()
