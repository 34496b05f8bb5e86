"""The templates stay short enough to be read from top to bottom."""

from __future__ import annotations

import re
from typing import Final

from tests.chart.rendering import CHART

TEMPLATES: Final = CHART / "templates"
LINES: Final = 1000
HELPERS: Final = ("_helpers.tpl", "_validate.tpl")
HELPER_LINES: Final = 300
FAILS: Final = 10
ROUND_TRIP: Final = re.compile(r"include .*\| *from(Json|Yaml)")


def _lines(pattern: str) -> list[str]:
    return [line for path in sorted(TEMPLATES.glob(pattern)) for line in path.read_text().splitlines()]


def test_templates_are_short() -> None:
    """An auditor reads all of them."""
    assert len(_lines("*")) <= LINES
    assert sum(len(_lines(name)) for name in HELPERS) <= HELPER_LINES
    assert sum(len(re.findall(r"\b(?:fail|required)\b", line)) for line in _lines("*") if "{{" in line) <= FAILS


def test_no_template_parses_the_output_of_another() -> None:
    """A list that a template needs, it makes itself."""
    assert [line for line in _lines("*") if ROUND_TRIP.search(line)] == []
