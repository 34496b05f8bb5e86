"""Plain English: no prose matches an expression of `wording.txt`.

Files that still do stand in `wording-allowed.txt`. That list only shrinks: a file on it that matches nothing fails.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.chart.rendering import ROOT
from tests.release.prose import prose

HERE: Final = Path(__file__).parent
FOLDERS: Final = ("hook", "bundler", "devcluster", "tools", "charts", "docs", "examples")
SUFFIXES: Final = frozenset({".py", ".md", ".yaml", ".tpl", ".txt", ".sh"})
SINGLE: Final = ("*.md", "Makefile", "Dockerfile", "pyproject.toml")


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.py", '"""Give it."""\n', id="docstring"),
        pytest.param("a.py", "x = 1  # until a\n# person comes\n", id="comment"),
        pytest.param("a.py", "# who\n# goes\n\nx = f'{x} needs a person'\n", id="formatted-string"),
        pytest.param("a.py", "x = ('it needs a '\n     'person')\n", id="string-of-two-lines"),
        pytest.param("a.md", "# Title\n\nIt needs a\nperson.\n", id="markdown"),
        pytest.param("a.yaml", "a: 1\n# It needs a\n# person.\nb: 1\n", id="yaml-comment"),
        pytest.param("templates/a.tpl", '{{- fail "it needs a person" }}\n', id="message-of-a-template"),
        pytest.param("templates/a.yaml", "# It needs a\n# person.\n", id="comment-of-a-template"),
    ],
)
def test_a_match_is_found(tmp_path: Path, name: str, text: str) -> None:
    """In prose of each kind, also across lines."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert len(matches(path)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.py", "deed = follower['follower'].beside\n", id="identifiers"),
        pytest.param("a.py", '"""Return what ``follower`` has."""\n', id="code-in-a-docstring"),
        pytest.param("a.py", "x = 'kubectl get pods -l component=controller'\n", id="label-in-a-string"),
        pytest.param("a.md", "See `deed`.\n\n```\na person\n```\n\n[This](a-follower.md).\n", id="code-and-links"),
        pytest.param("a.yaml", "follower: a person\n", id="yaml-value"),
    ],
)
def test_code_is_not_prose(tmp_path: Path, name: str, text: str) -> None:
    """Identifiers are renamed elsewhere."""
    path = tmp_path / name
    path.write_text(text)
    assert matches(path) == []
