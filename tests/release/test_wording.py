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


def test_a_match_is_found(tmp_path: Path) -> None:
    """In prose of each kind, also across lines; identifiers, code and links may keep their words."""
    (tmp_path / "templates").mkdir()
    for name, text, found in (
        ("docstring.py", '"""Give it."""\n', 1),
        ("comment.py", "x = 1  # until a\n# person comes\n", 1),
        ("two_lines.py", "x = ('it needs a '\n     'person')\n", 1),
        ("a.md", "# Title\n\nIt needs a\nperson. See `deed`.\n\n```\na person\n```\n\n[This](a-follower.md).\n", 1),
        ("a.yaml", "a: 1\n# It needs a\n# person.\nb: a person\n", 1),
        ("templates/message.tpl", '{{- fail "it needs a person" }}\n', 1),
        ("identifiers.py", "deed = follower['follower'].beside\n", 0),
    ):
        (tmp_path / name).write_text(text)
        assert len(matches(tmp_path / name)) == found, name
