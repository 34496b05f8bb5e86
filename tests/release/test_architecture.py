"""The map in ``docs/dev/architecture.md`` names every module of the program and of the bundler, in one line each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tests.chart.rendering import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PAGE: Final = ROOT / "docs" / "dev" / "architecture.md"
PACKAGES: Final = ("hook", "bundler")
LINE: Final = re.compile(r"^\| `((?:hook|bundler)/\S+\.py)` \| \S.* \|$", re.MULTILINE)


def differences(page: str, tree: Iterable[str]) -> list[str]:
    """Return what is wrong with a map: modules without a line, lines without a module, and modules with several."""
    lines, modules = LINE.findall(page), set(tree)
    return [
        *(f"add a line: {module}" for module in sorted(modules - set(lines))),
        *(f"remove the line: {line}" for line in sorted(set(lines) - modules)),
        *(f"more than one line: {line}" for line in sorted(set(lines)) if lines.count(line) > 1),
    ]


def _modules() -> Iterator[str]:
    """Yield each module, apart from those that only mark a package."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path.name != "__init__.py" or "\ndef " in path.read_text():
            yield str(path.relative_to(ROOT))


def test_the_map_names_every_module() -> None:
    """A newcomer finds each subject in one look."""
    assert differences(PAGE.read_text(), _modules()) == []


def test_a_difference_is_found() -> None:
    """In both directions."""
    first, missing = "| `hook/a.py` | first |", "add a line: hook/a.py"
    for page, expected in (
        (first, []),
        ("", [missing]),
        ("| `hook/a.py` |  |", [missing]),
        (f"{first}\n| `bundler/b.py` | second |", ["remove the line: bundler/b.py"]),
        (f"{first}\n| `hook/a.py` | again |", ["more than one line: hook/a.py"]),
    ):
        assert differences(page, ["hook/a.py"]) == expected, page
