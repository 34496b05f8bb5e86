"""Build the documentation as a web site, and adapt its pages while MkDocs builds it (mkdocs.yml lists this file).

    python -m tools.site            build it into build/site; a broken link is an error

On GitHub, documents link files of the repository. On the site, a link to a document leads to its page. Other links lead
to GitHub if the repository is known (GITHUB_REPOSITORY). Without a repository they become plain text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import posixpath
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
BUILD: Final = ROOT / "build"
CHART: Final = ROOT / "charts" / "gpu-operator-post" / "Chart.yaml"
PAGES: Final = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "charts/gpu-operator-post/README.md": "chart.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "vulnerabilities.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "ROADMAP.md": "roadmap.md",
    "docs/dev/decisions": "dev/decisions/index.md",
}
"""Where the site has the documents that are not below docs, or have another name there."""
DECISIONS: Final = "docs/dev/decisions"
MERMAID: Final = "11.17.2"
MERMAID_INTEGRITY: Final = (
    "sha512-V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
)
"""Of the package that npm fetches: a new version needs a new one (`npm view mermaid@VERSION dist.integrity`)."""
CSS: Final = """\
.md-grid { max-width: 76rem }
/* A word never breaks in the middle: a wide table scrolls in itself, as the theme has it. */
.md-typeset table:not([class]) { font-size: .66rem }
.md-typeset table:not([class]) :is(td, th) { min-width: 2rem; padding: .7em }
.md-typeset :is(td, th) :is(code, mark) { word-break: normal }
@media (min-width: 60em) { .md-typeset td:first-child code { white-space: nowrap } }
/* The letters of a picture stay readable on a phone: it scrolls, too. */
.md-typeset p:has(> img) { overflow-x: auto }
.md-typeset p > img { max-width: none; width: 100%; min-width: 40rem }
"""
FOUND_FIRST: Final = {
    "index.md": 5,
    "troubleshooting.md": 5,
    "install/": 5,
    "alternatives.md": 5,
    "device-taints.md": 5,
    "security.md": 5,
    "contributing.md": 3,
    "monitoring.md": 2,
}
"""How much more the search weighs some pages, by the beginning of their names."""
NOT_FOUND: Final = ("dev/", "changes.md")
"""Pages that the search leaves out: those for developers, and what changed."""
LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
BADGES: Final = re.compile(r"^\[!\[.*\n\n", re.MULTILINE)
ALERT: Final = re.compile(r"^> \[!(\w+)\]\n((?:>.*\n)+)", re.MULTILINE)
"""A warning as GitHub shows it."""
SECTION: Final = re.compile(r"^\| (?P<title>[^|]+) \| \|\n\|---\|---\|\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
FIRST_COLUMN: Final = re.compile(r"^\|([^|]*)\|", re.MULTILINE)
CELL: Final = re.compile(r"<td>.*?</td>")
"""A cell of a table in HTML."""
KEY: Final = re.compile(r"(?<=\w)(\.)(?=[\w.]+</td>)")
CODE: Final = re.compile(r"(?<=<code>)[^<]*(?=</code>)")
FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the navigation, and what depends on the repository and the version that are built."""
    config.nav = navigation()
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    config.copyright = f"Version {yaml.safe_load(CHART.read_text())['version']}"
    if repository := os.environ.get("GITHUB_REPOSITORY"):
        config.copyright += f' · <a href="https://github.com/{repository}">{repository}</a>'
        owner, _, name = repository.partition("/")
        # mike reads the address before it is known here; canonical links lead to the newest version.
        version = "latest/" if "version" in config.extra else ""
        config.site_url = f"https://{owner.lower()}.github.io/{name}/{version}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents that are not below docs, the style and Mermaid."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only `make site` installs it

    for source, uri in PAGES.items():
        text = _decisions() if source == DECISIONS else (ROOT / source).read_text()
        files.append(File.generated(config, uri, content=text))
    files.remove(files.src_uris["README.md"])
    files.append(File.generated(config, "site.css", content=CSS))
    files.append(File.generated(config, "mermaid.min.js", abs_src_path=str(mermaid())))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Adapt a document that is written for GitHub, and tell the search how much it weighs."""
    uri = page.file.src_uri
    boosts = [boost for prefix, boost in FOUND_FIRST.items() if uri.startswith(prefix)]
    page.meta["search"] = {"exclude": True} if uri.startswith(NOT_FOUND) else {"boost": boosts[0] if boosts else 1}
    source = _source(uri)
    repository, ref = os.environ.get("GITHUB_REPOSITORY", ""), os.environ.get("GITHUB_REF_NAME", "main")
    if repository and (ROOT / source).is_file():
        page.edit_url = f"https://github.com/{repository}/edit/{ref}/{source}"
    return adapted(markdown, source, repository, ref)


def on_page_content(html: str, **_: object) -> str:
    """Let code in tables break between its parts, as JSON has no space, and keys at their dots."""
    return CELL.sub(lambda cell: CODE.sub(_breakable, KEY.sub(r"\1<wbr>", cell[0])), html)


def _breakable(code: re.Match[str]) -> str:
    return re.sub(r"([,:=/])(?!$)", r"\1<wbr>", code[0])


def _source(uri: str) -> str:
    """Return the file of the repository that a page of the site shows."""
    return next((source for source, to in PAGES.items() if to == uri), f"docs/{uri}")


def adapted(markdown: str, source: str, repository: str, ref: str) -> str:
    """Return a document with links that work on the site, and with GitHub's own Markdown replaced."""
    folder = source if source == DECISIONS else posixpath.dirname(source)

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[3]))
        if (uri := _uri(target)) is not None:
            relative = posixpath.relpath(uri, posixpath.dirname(_uri(source) or ""))
            return f"{found[1]}[{found[2]}]({relative}{found[4] or ''})"
        if repository:
            return f"[{found[2]}](https://github.com/{repository}/blob/{ref}/{target}{found[4] or ''})"
        return found[2]

    text = BADGES.sub("", markdown)
    blocks = [_shell(block) for block in FENCE.findall(text)]
    prose = [LINK.sub(link, part) for part in FENCE.split(text)]
    text = prose[0] + "".join(block + part for block, part in zip(blocks, prose[1:], strict=True))
    text = ALERT.sub(_admonition, text)
    if not repository:
        return text
    text = text.replace("=OWNER/gpu-operator-post", f"={repository}")
    return text.replace("/OWNER/", f"/{repository.partition('/')[0].lower()}/")


def _shell(block: str) -> str:
    """Return commands without a prompt as a script: in a console, the theme would show them as output."""
    return block if re.search(r"^ *\$ ", block, re.MULTILINE) else block.replace("```console", "```sh", 1)


def _uri(target: str) -> str | None:
    """Return the page, picture or schema of the site for a file of the repository, or None."""
    if target in PAGES:
        return PAGES[target]
    shown = target.startswith("docs/") and target.endswith((".md", ".svg", ".png", ".schema.json"))
    return target.removeprefix("docs/") if shown and (ROOT / target).is_file() else None


def _admonition(found: re.Match[str]) -> str:
    lines = [re.sub(r"^> ?", "    ", line) for line in found[2].splitlines()]
    return "\n".join([f"!!! {found[1].lower()}", "", *lines, ""])


def navigation() -> list[Any]:
    """Return the sections and pages of docs/README.md, in that order."""
    index = (ROOT / "docs" / "README.md").read_text()
    sections: list[Any] = [{"Home": "index.md"}]
    listed = set[str]()
    for section in SECTION.finditer(index):
        pages: dict[str, str] = {}
        for cell in FIRST_COLUMN.findall(section["rows"]):
            for link in LINK.finditer(cell):
                uri = _uri(posixpath.normpath(f"docs/{link[3]}"))
                if uri is not None and uri not in listed:
                    listed.add(uri)
                    pages[link[2][:1].upper() + link[2][1:]] = uri
        shown: list[Any] = [{title: uri} for title, uri in pages.items()]
        if PAGES[DECISIONS] in pages.values():
            shown = [page for page in shown if PAGES[DECISIONS] not in page.values()]
            shown.append({"Decisions": [PAGES[DECISIONS], *(f"dev/decisions/{path.name}" for path in _pages())]})
        sections.append({section["title"].strip(): shown})
    sections[-1]["Develop"].append({"All pages": PAGES["docs/README.md"]})
    return sections


def _pages() -> list[Path]:
    return sorted((ROOT / DECISIONS).glob("*.md"))


def _decisions() -> str:
    """Return a page that lists the decisions by their titles."""
    titles = {path.name: path.read_text().partition("\n")[0].removeprefix("# ") for path in _pages()}
    lines = [f"- [{title}]({name})" for name, title in titles.items()]
    return "\n".join(["# Decisions", "", "Why the program is built so.", "", *lines, ""])


def script() -> Path:
    """Return where Mermaid is, once it was fetched."""
    return BUILD / f"mermaid-{MERMAID}" / "package" / "dist" / "mermaid.min.js"


def mermaid() -> Path:
    """Return Mermaid as one file of JavaScript; fetch its package with npm unless it is there."""
    if script().is_file():
        return script()
    sys.stderr.write(f"fetching Mermaid {MERMAID} with npm\n")
    folder = script().parents[2]
    folder.mkdir(parents=True, exist_ok=True)
    command = ["npm", "pack", "--silent", "--json", f"mermaid@{MERMAID}"]
    packed = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    archive = folder / json.loads(packed)[0]["filename"]
    digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != MERMAID_INTEGRITY:
        sys.exit(f"{archive.name} has the digest {digest}, not {MERMAID_INTEGRITY}")
    with tarfile.open(archive) as package:
        package.extract(script().relative_to(folder).as_posix(), folder, filter="data")
    archive.unlink()
    return script()


def build() -> None:
    """Build the site; a warning of MkDocs is an error."""
    mermaid()
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--clean"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)


if __name__ == "__main__":
    build()
