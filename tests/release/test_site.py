"""The web site: its pages are adapted from documents for GitHub, and it works in a browser without any other host."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from devcluster.patience import TooSlowError
from tests.chart.rendering import ROOT
from tools import site

BROWSER: Final = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE_SECONDS: Final = 120.0
WITH_DIAGRAMS: Final = ("", "how-it-works/", "dev/architecture/")
DIAGRAMS: Final = (
    "[...document.querySelectorAll('.mermaid')].map(each => each.tagName == 'DIV' && each.offsetHeight > 99)"
)
"""For each diagram, whether it was drawn: the theme replaces its source by a `div`."""
SEARCH: Final = """
(() => {
  const input = document.querySelector('.md-search__input')
  input.focus()
  input.value = 'evict'
  input.dispatchEvent(new KeyboardEvent('keyup'))
  return document.querySelectorAll('.md-search-result__item').length
})()
"""


def test_pages_are_adapted() -> None:
    """Links lead to pages of the site, or to GitHub if the repository is known; a warning is one of the theme."""
    text = (
        "[it](docs/plan.md#text), [this](hook/cli.py), [all](docs/README.md), [s](docs/plan.schema.json), `[a](b.md)`."
        "\n\n```\n[no link](docs/plan.md)\n```\n\n> [!WARNING]\n> Look.\n> There.\n\noci://ghcr.io/OWNER/charts\n"
    )
    adapted = site.adapted(text, "README.md", "Acme/gpu-operator-post", "v1.2.3")
    assert "[it](plan.md#text)" in adapted
    assert "[s](plan.schema.json)" in adapted
    assert "[this](https://github.com/Acme/gpu-operator-post/blob/v1.2.3/hook/cli.py)" in adapted
    assert "[all](pages.md)" in adapted
    assert "```\n[no link](docs/plan.md)\n```" in adapted
    assert "!!! warning\n\n    Look.\n    There.\n" in adapted
    assert "oci://ghcr.io/acme/charts" in adapted
    assert "this, [all]" in site.adapted(text, "README.md", "", "main")
    assert (
        site.adapted("[a](../../SECURITY.md)", "charts/gpu-operator-post/README.md", "", "")
        == "[a](vulnerabilities.md)"
    )


def test_the_navigation_has_each_page() -> None:
    """It has each page below docs once, in sections."""
    listed = re.findall(r"'([\w/.-]+\.md)'", str(site.navigation()))
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert {page for page in pages if page != "README.md"} <= set(listed)
    assert len(listed) == len(set(listed))


def why_not() -> str:
    """Return what the site or the test in a browser lacks here, or ""."""
    missing = {
        "mkdocs (make site)": find_spec("mkdocs") is None,
        "npm": not (shutil.which("npm") or site.script().is_file()),
        "chromium (make site-tools)": BROWSER is None,
    }
    return ", ".join(name for name, absent in missing.items() if absent)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Build the site with warnings as errors, and serve it."""
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    subprocess.run(command, cwd=ROOT, check=True)
    handler = partial(_Quiet, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    """A server of files without a log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the library
        """Log nothing."""


@pytest.mark.skipif(bool(why_not()), reason=f"needs {why_not()}")
def test_it_works_in_a_browser(address: str, tmp_path: Path) -> None:
    """Navigation, search and diagrams work, the console has no error, and no other host is asked."""
    asyncio.run(_visit(address, tmp_path))


async def _visit(address: str, folder: Path) -> None:
    async with _page(folder / "profile") as page:
        for uri in WITH_DIAGRAMS:
            await page.open(address + uri)
            await page.wait(f"(drawn => drawn.length > 0 && drawn.every(Boolean))({DIAGRAMS})")
        await page.wait(SEARCH)
        await page.open(address)
        await page.wait("document.querySelector('.md-nav__link[href$=\"security/\"]').click() || true")
        await page.wait("document.querySelector('h1').textContent.startsWith('Security')")
        assert page.errors == []
        assert {url for url in page.requests if not url.startswith((address, "data:", "blob:"))} == set()
        assert any(url.endswith("mermaid.min.js") for url in page.requests)


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
        """Evaluate an expression; one that throws has no value."""
        answer = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value") if "exceptionDetails" not in answer else None

    async def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command and return its answer; note what happens in the meantime."""
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json()
            if message.get("id") == number:
                assert "error" not in message, message
                return dict(message["result"])
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.add(event["request"]["url"])
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(json.dumps(event["entry"]))
        elif method == "Runtime.exceptionThrown" or (method == "Runtime.consoleAPICalled" and event["type"] == "error"):
            self.errors.append(json.dumps(event))


@asynccontextmanager
async def _page(profile: Path) -> AsyncIterator[Page]:
    """Start a browser that resolves no other host, and open a page."""
    assert BROWSER is not None
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0")
    alone = ("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}", "about:blank")
    browser = await asyncio.create_subprocess_exec(
        BROWSER, *flags, *alone, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        debugger = await asyncio.wait_for(_debugger(browser), PATIENCE_SECONDS)
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


async def _debugger(browser: asyncio.subprocess.Process) -> str:
    assert browser.stderr is not None
    async for line in browser.stderr:
        if found := re.search(rb"DevTools listening on ws://([^/]+)/", line):
            return f"http://{found[1].decode()}"
    raise AssertionError("the browser ended")
