"""Documents: their links work, and they have no placeholders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tests.chart.rendering import ROOT
from tests.release.commands import documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINK: Final = re.compile(r"\]\((?!https?://|mailto:)([^)\s]+)\)")
PROOF: Final = re.compile(r"\[`(test_\w+)`\]\(([^)\s#]+\.py)\)")
FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER: Final = re.compile(
    r"\bTODO\b|\bFIXME\b|\bTBD\b|lorem ipsum|@your|your[-_](org|name|team|email)|<(owner|org|repo|email)>",
    re.IGNORECASE,
)
ONE_OF_SEVERAL: Final = re.compile(r"(?:logs|port-forward) (?:deployment|deploy)/\S+")
"""Commands that pick any pod of a Deployment. With several replicas it may be a standby, which knows nothing."""
NOTES: Final = ROOT / "charts" / "gpu-operator-post" / "templates" / "NOTES.txt"
GITHUB: Final = (*(ROOT / ".github").rglob("*.y*ml"), ROOT / ".github" / "CODEOWNERS", ROOT / "LICENSE")


def _anchors(path: Path) -> Iterator[str]:
    """Yield the anchors that GitHub makes of a document's headings."""
    for title in re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_folder_of_tests_is_explained() -> None:
    """CONTRIBUTING.md says what each is for."""
    explained = set(re.findall(r"`tests/(\w+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders - explained == set()


def test_links_lead_to_a_file_and_a_heading() -> None:
    """Links of all documents, apart from those to other sites."""
    broken = []
    for path in documents():
        for link in LINK.findall(FENCE.sub("", path.read_text())):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                broken.append(f"{path}: {link}")
    assert broken == []


def test_named_tests_exist() -> None:
    """Each test that a document offers as proof is in that file, under that name."""
    named = [(path, name, file) for path in documents() for name, file in PROOF.findall(path.read_text())]
    assert [each for each in named if f"def {each[1]}(" not in (each[0].parent / each[2]).read_text()] == []


def test_there_are_no_placeholders() -> None:
    """The licence keeps its own, which belong to its text."""
    texts = {path: path.read_text().partition("APPENDIX: How to apply")[0] for path in (*documents(), *GITHUB)}
    assert {path: found for path, text in texts.items() if (found := PLACEHOLDER.findall(text))} == {}


def test_commands_read_the_leader() -> None:
    """They select the pods by label, or name the one that is meant: a Deployment's name leads to any replica."""
    texts = {path: path.read_text() for path in (*documents(), NOTES)}
    assert {path: found for path, text in texts.items() if (found := ONE_OF_SEVERAL.findall(text))} == {}
