"""The map in ``docs/dev/architecture.md`` names every module of the program and of the bundler, in one line each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tests.chart.rendering import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = ROOT / "docs" / "dev" / "architecture.md"
PACKAGES: Final = ("hook", "bundler")
LINE: Final = re.compile(r"^\| `((?:hook|bundler)/\S+\.py)` \| \S.* \|$", re.MULTILINE)


def _modules() -> Iterator[str]:
    """Yield each module, apart from those that only mark a package."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path.name != "__init__.py" or "\ndef " in path.read_text():
            yield str(path.relative_to(ROOT))


def test_the_map_names_every_module() -> None:
    """A newcomer finds each subject in one look."""
    assert sorted(LINE.findall(PAGE.read_text())) == sorted(_modules())
