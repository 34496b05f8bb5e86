"""The web site: its pages are adapted from documents for GitHub, and it works in a browser without any other host."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.browser import browsing, need
from tests.chart.rendering import ROOT
from tools import site

WITH_DIAGRAMS: Final = ("", "how-it-works/", "dev/architecture/")
DIAGRAMS: Final = (
    "[...document.querySelectorAll('.mermaid')].map(each => each.tagName == 'DIV' && each.offsetHeight > 99)"
)
"""For each diagram, whether it was drawn: the theme replaces its source by a `div`."""
TYPE: Final = """
(words => {
  const input = document.querySelector('.md-search__input')
  input.focus()
  input.value = words
  input.dispatchEvent(new KeyboardEvent('keyup'))
})
"""
HITS: Final = """
[...document.querySelectorAll('.md-search-result__item:first-child a')].map(each => new URL(each.href)).map(
  each => each.pathname.slice(1) + each.hash
)
"""
"""The addresses of the first page that the search shows: of the page, then of its sections."""
ON_SCREENS: Final = {
    "FailedPrepareDynamicResources": "troubleshooting/#failedpreparedynamicresources",
    "is not registered": "troubleshooting/#is-not-registered",
    "empty device edits": "troubleshooting/#empty-device-edits",
    "timed out waiting for the condition": "troubleshooting/#timed-out-waiting-for-the-condition",
    "PodFailurePolicy": "troubleshooting/#podfailurepolicy",
    "exit 3": "troubleshooting/#exit-code-3",
    "TaintNotTolerated": "troubleshooting/#taintnottolerated",
    "can it wait until morning": "troubleshooting/#can-it-wait-until-morning",
    "GPUOperatorPostPluginStale": "monitoring/#gpuoperatorpostpluginstale",
    "do i need this": "#do-i-need-this",
    "am i affected": "#am-i-affected",
    "install with flux": "install/flux/",
    "eviction label": "alternatives/#nvidias-eviction-label",
    "device taints": "device-taints/",
    "permissions": "security/#permissions",
    "which rights": "security/#permissions",
    "first change": "contributing/#your-first-change-in-ten-minutes",
    "contribute": "contributing/#your-first-change-in-ten-minutes",
}
"""What people type, and the page or the section of it that the search shows first."""
WITH_TABLES: Final = ("chart/", "contributing/", "troubleshooting/", "security/", "reference/cli/")
BROKEN: Final = r"""
[...document.querySelectorAll('td code')].flatMap(code =>
  [...code.childNodes].filter(each => each.data)
).flatMap(text => {
  return [...text.data.matchAll(/[\w.]+/g)].filter(word => {
    const range = document.createRange()
    range.setStart(text, word.index)
    range.setEnd(text, word.index + word[0].length)
    return new Set([...range.getClientRects()].map(each => each.top)).size > 1
  }).map(word => word[0])
})
"""
"""The words of code in tables that continue on another line."""
WIDE: Final = (
    "[...document.querySelectorAll('.md-typeset__scrollwrap')].filter(each => each.scrollWidth > each.clientWidth)"
)
"""The tables that have to be scrolled."""
SCREENS: Final = (1280, 390)
"""The widths in pixels of a laptop and of a phone."""


def test_pages_are_adapted() -> None:
    """Links lead to pages of the site, or to GitHub if the repository is known; a warning is one of the theme."""
    text = (
        "[it](docs/plan.md#text), [this](hook/cli.py), [all](docs/README.md), [s](docs/log.schema.json), `[a](b.md)`."
        "\n\n```\n[no link](docs/plan.md)\n```\n\n> [!WARNING]\n> Look.\n> There.\n\noci://ghcr.io/OWNER/charts\n=OWNER/gpu-operator-post"
    )
    adapted = site.adapted(text, "README.md", "Acme/gpu-operator-post", "v1.2.3")
    assert "[it](plan.md#text)" in adapted
    assert "[s](log.schema.json)" in adapted
    assert "[this](https://github.com/Acme/gpu-operator-post/blob/v1.2.3/hook/cli.py)" in adapted
    assert "[all](pages.md)" in adapted
    assert "```\n[no link](docs/plan.md)\n```" in adapted
    assert "!!! warning\n\n    Look.\n    There.\n" in adapted
    assert "oci://ghcr.io/acme/charts\n=Acme/gpu-operator-post" in adapted
    assert "this, [all]" in site.adapted(text, "README.md", "", "main")
    readme = "charts/gpu-operator-post/README.md"
    assert site.adapted("[a](../../SECURITY.md)", readme, "", "") == "[a](vulnerabilities.md)"


def test_values_in_tables_can_break() -> None:
    """They break between the parts of JSON, of a path or of a key, and nothing outside of tables does."""
    shown = '<p><code>a,b</code></p><td>a.b.c</td><td>e.g. <code>{"a":1,"b":"c/d"}</code></td>'
    breaks = '<td>a.<wbr>b.<wbr>c</td><td>e.g. <code>{"a":<wbr>1,<wbr>"b":<wbr>"c/<wbr>d"}</code></td>'
    assert site.on_page_content(shown) == f"<p><code>a,b</code></p>{breaks}"


def test_canonical_links_lead_to_the_newest_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do so from the pages of each version that mike builds."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "Acme/gpu-operator-post")
    monkeypatch.setenv("MIKE_DOCS_VERSION", "1.2.3")
    config: Any = SimpleNamespace(extra={})
    assert site.on_config(config).site_url == "https://acme.github.io/gpu-operator-post/latest/"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site with warnings as errors, and serve it."""
    need(mkdocs=find_spec("mkdocs") is None, mermaid=not site.script().is_file())
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(built)]
    subprocess.run(command, cwd=ROOT, check=True)
    handler = partial(SimpleHTTPRequestHandler, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_it_works_in_a_browser(address: str, tmp_path: Path) -> None:
    """Navigation and diagrams work in both schemes, the console has no error, and no other host is asked."""
    asyncio.run(_visit(address, tmp_path))


async def _visit(address: str, folder: Path) -> None:
    async with browsing(folder / "profile") as page:
        for scheme, name in (("light", "default"), ("dark", "slate")):
            for uri in WITH_DIAGRAMS:
                await page.open(address + uri)
                await page.wait(f"document.body.dataset.mdColorScheme == '{name}'")
                await page.wait(f"(drawn => drawn.length > 0 && drawn.every(Boolean))({DIAGRAMS})")
                colors = await page.screenshot(f"{uri.strip('/').replace('/', '-') or 'index'}-{scheme}")
                assert (colors[0] == "#ffffff", len(colors) > 100) == (scheme == "light", True), (uri, scheme)
            await page.wait("document.querySelector('.md-header [for^=__palette]:not([hidden])').click() || true")
            await page.wait(f"document.body.dataset.mdColorScheme != '{name}'")
        await page.open(address)
        await page.wait("document.querySelector('.md-nav__link[href$=\"security/\"]').click() || true")
        await page.wait("document.querySelector('h1').textContent.startsWith('Security')")
        assert page.errors == []
        assert {url for url in page.requests if not url.startswith((address, "data:", "blob:"))} == set()
        assert any(url.endswith("mermaid.min.js") for url in page.requests)


def test_words_on_the_screen_are_found(address: str, tmp_path: Path) -> None:
    """For what a program printed, the first hit is the section about it."""
    asyncio.run(_search(address, tmp_path))


async def _search(address: str, folder: Path) -> None:
    async with browsing(folder / "profile") as page:
        for words, section in ON_SCREENS.items():
            await page.open("about:blank")
            await page.open(address)
            await page.value(f"{TYPE}({json.dumps(words)})")
            await page.wait(f"{HITS}.length > 0")
            hits = await page.value(HITS)
            assert section in (hits[0].partition("?")[0], hits[1]), (words, hits)


@pytest.mark.parametrize("width", SCREENS)
def test_tables_can_be_read(address: str, tmp_path: Path, width: int) -> None:
    """No word breaks in the middle, and no page is wider than the screen. On a phone, a table scrolls in itself."""
    asyncio.run(_read(address, tmp_path, width))


async def _read(address: str, folder: Path, width: int) -> None:
    async with browsing(folder / "profile") as page:
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width == min(SCREENS)}
        await page.ask("Emulation.setDeviceMetricsOverride", **size)
        for uri in WITH_TABLES:
            await page.open(address + uri)
            await page.wait("document.querySelectorAll('td code').length > 0")
            assert (uri, await page.value(BROKEN)) == (uri, [])
            assert await page.value("document.documentElement.scrollWidth") <= width, uri
            assert width == min(SCREENS) or await page.value(f"{WIDE}.length") == 0, uri
            await page.screenshot(f"{uri.strip('/').replace('/', '-')}-{width}")
