"""The web site: its pages are adapted from documents for GitHub, and it works in a browser without any other host."""

from __future__ import annotations

import asyncio
import re
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
SEARCH: Final = (
    "(input => (input.focus(), input.value = 'evict', input.dispatchEvent(new KeyboardEvent('keyup')),"
    " document.querySelectorAll('.md-search-result__item').length))(document.querySelector('.md-search__input'))"
)


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


def test_canonical_links_lead_to_the_newest_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do so from the pages of each version that mike builds."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "Acme/gpu-operator-post")
    monkeypatch.setenv("MIKE_DOCS_VERSION", "1.2.3")
    config: Any = SimpleNamespace(extra={})
    assert site.on_config(config).site_url == "https://acme.github.io/gpu-operator-post/latest/"


def test_the_navigation_has_each_page() -> None:
    """It has each page below docs once, in sections."""
    listed = re.findall(r"'([\w/.-]+\.md)'", str(site.navigation()))
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert {page for page in pages if page != "README.md"} <= set(listed)
    assert len(listed) == len(set(listed))


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Build the site with warnings as errors, and serve it."""
    need(mkdocs=find_spec("mkdocs") is None, mermaid=not site.script().is_file())
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    subprocess.run(command, cwd=ROOT, check=True)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_it_works_in_a_browser(address: str, tmp_path: Path) -> None:
    """Navigation, search and diagrams work in both schemes, the console has no error, and no other host is asked."""
    asyncio.run(_visit(address, tmp_path))


async def _visit(address: str, folder: Path) -> None:
    async with browsing(folder / "profile") as page:
        for scheme in ("light", "dark"):
            for uri in WITH_DIAGRAMS:
                await page.open(address + uri)
                await page.wait(f"(drawn => drawn.length > 0 && drawn.every(Boolean))({DIAGRAMS})")
                colors = await page.screenshot(f"{uri.strip('/').replace('/', '-') or 'index'}-{scheme}")
                assert (colors[0] == "#ffffff", len(colors) > 100) == (scheme == "light", True), (uri, scheme)
            await page.value("document.querySelector('.md-header [for^=__palette]:not([hidden])').click()")
        await page.wait(SEARCH)
        await page.open(address)
        await page.wait("document.querySelector('.md-nav__link[href$=\"security/\"]').click() || true")
        await page.wait("document.querySelector('h1').textContent.startsWith('Security')")
        assert page.errors == []
        assert {url for url in page.requests if not url.startswith((address, "data:", "blob:"))} == set()
        assert any(url.endswith("mermaid.min.js") for url in page.requests)
