"""What people read: links lead somewhere, and nothing waits to be filled in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

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
GITHUB = (
    *(ROOT / ".github").rglob("*.y*ml"),
    ROOT / ".github" / "CODEOWNERS",
    ROOT / "LICENSE",
)
BY_NAME = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in documents()]


def _anchors(path: Path) -> Iterator[str]:
    """Yield the anchors that GitHub makes of a document's headings."""
    for title in re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_there_is_what_a_newcomer_looks_for() -> None:
    """The files that GitHub and people look for by name."""
    names = {str(path.relative_to(ROOT)) for path in documents()}
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/architecture.md"} <= names
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_every_folder_of_tests_is_explained() -> None:
    """A newcomer finds out what each is for before they add one more."""
    explained = set(re.findall(r"`tests/(\w+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders - explained == set()


@pytest.mark.parametrize("path", BY_NAME)
def test_links_lead_somewhere(path: Path) -> None:
    """Each file is there, and each heading in it."""
    broken = []
    for link in LINK.findall(FENCE.sub("", path.read_text())):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", BY_NAME)
def test_named_tests_exist(path: Path) -> None:
    """What a table offers as proof is there, under that name, in that file."""
    named = PROOF.findall(path.read_text())
    assert [name for name, file in named if f"def {name}(" not in (path.parent / file).read_text()] == []


@pytest.mark.parametrize("path", [*BY_NAME, *(pytest.param(path, id=path.name) for path in GITHUB)])
def test_nothing_waits_to_be_filled_in(path: Path) -> None:
    """No placeholder; the licence keeps its own, which belong to its text."""
    text = path.read_text().partition("APPENDIX: How to apply")[0]
    assert PLACEHOLDER.findall(text) == []


@pytest.mark.parametrize("path", [*BY_NAME, pytest.param(NOTES, id=NOTES.name)])
def test_commands_look_at_the_leader(path: Path) -> None:
    """They name the pods by label, or the one that is meant: a Deployment's name leads to any replica."""
    assert ONE_OF_SEVERAL.findall(path.read_text()) == []


def test_when_to_use_what_takes_five_lines() -> None:
    """The choice among Job, controller and both takes five lines of text, none of them wrapped."""
    _, _, section = (ROOT / "README.md").read_text().partition("\n## Job, controller, or both\n\n")
    choices, _, _ = section.partition("\n\n")
    lines = choices.splitlines()
    assert 4 <= len(lines) <= 5
    assert all(line.startswith("- ") and len(line) <= 120 for line in lines)
