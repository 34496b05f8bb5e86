"""Plain English: no prose matches an expression of `wording.txt`.

Files that still do stand in `wording-allowed.txt`. That list only shrinks: a file on it that matches nothing fails.
"""

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


def _lines(name: str) -> list[str]:
    """Return the lines of a list, without its comments."""
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


WORST: Final = re.compile("|".join(_lines("wording.txt")), re.IGNORECASE)


def matches(path: Path) -> list[str]:
    """Return the matches of a file, each with its line."""
    return [f"{path}:{line}: {match[0]}" for line, text in prose(path) for match in WORST.finditer(text)]


def _files() -> list[Path]:
    inside = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return sorted([*inside, *(path for pattern in SINGLE for path in ROOT.glob(pattern))])


def test_prose_is_plain_english() -> None:
    """No file matches, apart from those on the list; and each of those matches, so that the list is up to date."""
    allowed = set(_lines("wording-allowed.txt"))
    assert [name for name in allowed if name.startswith(("hook/", "bundler/", "docs/dev/"))] == []
    found = {str(path.relative_to(ROOT)): matches(path) for path in _files()}
    assert [match for name, those in found.items() if name not in allowed for match in those] == []
    assert [name for name in sorted(allowed) if not found.get(name)] == []
