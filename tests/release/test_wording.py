"""Plain English: no prose matches an expression of `wording.txt`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.chart.rendering import ROOT
from tests.release.prose import prose

HERE: Final = Path(__file__).parent
FOLDERS: Final = ("hook", "bundler", "devcluster", "tools", "charts", "docs", "examples", ".github")
SUFFIXES: Final = frozenset({".py", ".md", ".yaml", ".yml", ".tpl", ".txt", ".sh"})
SINGLE: Final = ("*.md", "*.yaml", "*.yml", "Makefile", "Dockerfile", "pyproject.toml")
LINES: Final = (HERE / "wording.txt").read_text().splitlines()
WORST: Final = re.compile("|".join(line for line in LINES if line and not line.startswith("#")), re.IGNORECASE)


def matches(path: Path) -> list[str]:
    """Return the matches of a file, each with its line."""
    return [f"{path}:{line}: {match[0]}" for line, text in prose(path) for match in WORST.finditer(text)]


def _files() -> list[Path]:
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return sorted([*inside, *(path for pattern in SINGLE for path in ROOT.glob(pattern))])


def test_prose_is_plain_english() -> None:
    """No file matches."""
    assert [match for path in _files() for match in matches(path)] == []
