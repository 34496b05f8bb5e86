"""Generate the tables in the chart's README from the comments in values.yaml.

The comments have the form of helm-docs: ``# --`` begins the description of the value below, and ``# @default --`` says
what to show instead of the value itself. A line with ``##`` begins a section.

    python -m tools.chart_docs           write README.md
    python -m tools.chart_docs --check   write nothing; exit 1 if it would change
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHART: Final = Path(__file__).parents[1] / "charts" / "gpu-operator-post"
BEGIN: Final = "<!-- values: generated from values.yaml by tools/chart_docs.py, do not edit -->"
END: Final = "<!-- end of values -->"
SECTION: Final = "## "
DESCRIPTION: Final = "# -- "
DEFAULT: Final = "# @default -- "


class DocsError(Exception):
    """A value has no description, or the README has no place for the values."""


@dataclass(frozen=True, slots=True)
class Value:
    """One documented value of the chart."""

    path: str
    """With dots, as on the command line."""
    description: str
    default: str
    """As JSON, or as the comment says."""
    section: str


def read_values(text: str) -> list[Value]:
    """Return the documented values of a values.yaml, in its order."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise DocsError("values.yaml holds no mapping")
    return list(_documented(root, "", yaml.safe_load(text), text.splitlines()))


def _documented(node: yaml.MappingNode, block: str, values: dict[str, Any], lines: Sequence[str]) -> Iterator[Value]:
    """Yield the values of a block. A mapping whose parts have no descriptions is a value by itself."""
    for key, below in node.value:
        path, value, line = f"{block}{key.value}", values[key.value], key.start_mark.line
        description, default = _comment(lines, line)
        is_block = isinstance(below, yaml.MappingNode) and below.value
        if is_block and (not description or _comment(lines, below.value[0][0].start_mark.line)[0]):
            parts = list(_documented(below, f"{path}.", value, lines))
        elif description:
            parts = []
        else:
            raise DocsError(f"{path} has no description")
        if description:
            shown = default or ("" if parts else f"`{json.dumps(value)}`")
            yield Value(path, description, shown, _section(lines, line))
        yield from parts


def _comment(lines: Sequence[str], key: int) -> tuple[str, str]:
    """Return the description in the comment directly above a line, and what it shows as the default."""
    first = key
    while lines[first - 1].lstrip().startswith("# "):
        first -= 1
    comment = [line.lstrip() for line in lines[first:key]]
    default = next((line.removeprefix(DEFAULT) for line in comment if line.startswith(DEFAULT)), "")
    if not comment or not comment[0].startswith(DESCRIPTION):
        return "", default
    words = [line.removeprefix(DESCRIPTION).removeprefix("# ") for line in comment if not line.startswith(DEFAULT)]
    return " ".join(words), default


def _section(lines: Sequence[str], key: int) -> str:
    titles = [line.removeprefix(SECTION) for line in lines[:key] if line.startswith(SECTION)]
    if not titles:
        raise DocsError("the first value comes before the first section")
    return titles[-1]


def table(values: Sequence[Value]) -> str:
    """Return the README's tables, one a section."""
    parts = []
    for title in dict.fromkeys(value.section for value in values):
        rows = [_row(value) for value in values if value.section == title]
        parts.append("\n".join([f"### {title}", "", "| Value | Description | Default |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _row(value: Value) -> str:
    description = value.description.replace("|", "\\|")
    return f"| `{value.path}` | {description} | {value.default} |"


def readme(chart: Path) -> str:
    """Return the README with the tables of today's values."""
    text = (chart / "README.md").read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise DocsError(f"README.md has no place for the values: it needs the lines {BEGIN!r} and {END!r}")
    block = f"{BEGIN}\n\n{table(read_values((chart / 'values.yaml').read_text()))}\n\n{END}"
    return pattern.sub(lambda _: block, text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the README, or compare it."""
    parser = argparse.ArgumentParser(description="Generate the tables in the chart's README from values.yaml.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the README would change")
    parser.add_argument("--chart", type=Path, default=CHART, help="folder of the chart")
    options = parser.parse_args(arguments)
    file: Path = options.chart / "README.md"
    try:
        text = readme(options.chart)
    except (DocsError, OSError) as error:
        sys.stderr.write(f"chart_docs: {error}\n")
        return 1
    if options.check and file.read_text() != text:
        sys.stderr.write("chart_docs: README.md is out of date: run python -m tools.chart_docs\n")
        return 1
    if not options.check:
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
