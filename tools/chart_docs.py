"""Generate the chart's schema and the tables in its README from values.yaml and the settings of the program.

A setting of the program has its description, schema and default in ``hook/config.py``. This module writes the
description into values.yaml and refuses a setting without a value, and a value with another default. All other values
are documented by their comments alone. The head of values.yaml lists the directives.

    python -m tools.chart_docs           write values.yaml, README.md and values.schema.json
    python -m tools.chart_docs --check   write nothing; exit 1 if a file would change
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from hook.config import LABEL_KEY, LABEL_VALUE, LONGEST, NAME_OR_NONE
from hook.errors import SettingsError
from tools.parent_values import NESTS, ROOT_KEYS
from tools.settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tools.settings import Setting

CHART: Final = Path(__file__).parents[1] / "charts" / "gpu-operator-post"
BEGIN: Final = "<!-- values: generated from values.yaml by tools/chart_docs.py, do not edit -->"
END: Final = "<!-- end of values -->"

HOST: Final = "[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:]+[]]"
PART: Final = "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
"""A part of the name of an image (github.com/distribution/reference)."""
DEFINITIONS: Final = {
    "hookDeletePolicy": {
        "type": "string",
        "pattern": "^({0})(, ?({0}))*$".format("before-hook-creation|hook-succeeded|hook-failed"),
    },
    "labels": {
        "type": "object",
        "patternProperties": {LABEL_KEY: {"type": "string", "pattern": LABEL_VALUE}},
        "additionalProperties": False,
    },
    "objectName": {"type": "string", "pattern": NAME_OR_NONE, "maxLength": LONGEST},
    "registry": {"type": "string", "pattern": f"^(({HOST})(:[0-9]+)?(/{PART})*/?)?$"},
    "repository": {"type": "string", "pattern": f"^((({HOST})(:[0-9]+)?/)?{PART}(/{PART})*)?$"},
    "secretReference": {
        "anyOf": [
            {"type": "string", "minLength": 1},
            {
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 1}},
                "required": ["name"],
                "additionalProperties": False,
            },
        ],
    },
}
WIDTH: Final = 120
TYPES: Final = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}

Schema = dict[str, Any]


class DocsError(Exception):
    """values.yaml cannot be documented, or contradicts the program."""


@dataclass(frozen=True, slots=True)
class Comment:
    """The comment above one value."""

    text: str
    keywords: Schema
    default: str | None


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart, with those below it where it is a closed mapping."""

    path: tuple[str, ...]
    default: object
    comment: Comment
    section: str
    line: int
    """Of the key in values.yaml, from 0."""
    children: tuple[Value, ...] = field(default=())

    @property
    def name(self) -> str:
        """As people write it on the command line."""
        return ".".join(self.path)


def read_values(text: str) -> tuple[Value, ...]:
    """Read values.yaml with its comments; every leaf must have one."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        raise DocsError("values.yaml holds no mapping")
    return tuple(_children(root, (), yaml.safe_load(text), text.splitlines()))


def _children(
    node: yaml.MappingNode, path: tuple[str, ...], defaults: dict[str, object], lines: list[str]
) -> Iterator[Value]:
    for key, below in node.value:
        here = (*path, str(key.value))
        line = key.start_mark.line
        comment = _comment(lines, line)
        default = defaults[key.value]
        children: tuple[Value, ...] = ()
        if isinstance(below, yaml.MappingNode) and isinstance(default, dict) and _descends(comment, default):
            children = tuple(_children(below, here, default, lines))
        elif not comment.text:
            raise DocsError(f"{'.'.join(here)} has no comment")
        yield Value(here, default, comment, _section(lines, line), line, children)


def _descends(comment: Comment, default: dict[str, object]) -> bool:
    """Whether the values below a mapping are values of the chart; otherwise it belongs to the user."""
    closed = "additionalProperties" not in comment.keywords
    return bool(default) and (closed or bool(comment.keywords.get("descend")))


def _comment(lines: Sequence[str], key_line: int) -> Comment:
    """Return the comment directly above a key, with its directives."""
    words: list[str] = []
    keywords: Schema = {}
    default = None
    for line in (raw.lstrip().removeprefix("#").strip() for raw in lines[_first_line(lines, key_line) : key_line]):
        if line.startswith("@schema "):
            keywords |= yaml.safe_load(line.removeprefix("@schema "))
        elif line.startswith("@default "):
            default = line.removeprefix("@default ")
        elif line and not line.startswith("@section "):
            words.append(line)
    return Comment(" ".join(words), keywords, default)


def _first_line(lines: Sequence[str], key_line: int) -> int:
    """Return the first line of the comment directly above a key."""
    first = key_line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return first


def _section(lines: Sequence[str], key_line: int) -> str:
    titles = [line.removeprefix("# @section ") for line in lines[:key_line] if line.startswith("# @section ")]
    if not titles:
        raise DocsError("the first value comes before the first @section")
    return titles[-1]


def leaves(values: Sequence[Value]) -> Iterator[Value]:
    """Yield each value without values below it."""
    for value in values:
        if value.children:
            yield from leaves(value.children)
        else:
            yield value


def described(text: str, known: Mapping[tuple[str, ...], Setting]) -> str:
    """Return values.yaml with the description of each setting as the first paragraph of its comment."""
    lines = text.splitlines()
    found = {value.path: value for value in leaves(read_values(text))}
    if missing := known.keys() - found.keys():
        raise DocsError(f"values.yaml has no value for the settings {', '.join(sorted(map('.'.join, missing)))}")
    for value in sorted((found[path] for path in known), key=lambda value: -value.line):
        setting = known[value.path]
        try:
            same = setting.is_default(value.default)
        except SettingsError as error:
            raise DocsError(f"the default of {value.name} is refused: {error}") from error
        if not same:
            raise DocsError(f"the default of {value.name} is not the program's")
        if value.comment.keywords:
            raise DocsError(f"{value.name} is a setting of the program, which has its schema: remove @schema")
        first = _first_line(lines, value.line)
        own = [number for number in range(first, value.line) if lines[number].strip() == "#"]
        indent = " " * (len(lines[value.line]) - len(lines[value.line].lstrip()))
        lines[first : own[0] if own else value.line] = textwrap.wrap(
            setting.description, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def schema(values: Sequence[Value], known: Mapping[tuple[str, ...], Setting], definitions: Schema) -> Schema:
    """Build the schema of all values: ours, the GPU operator's (ignored), and no other."""
    ours = {value.path[0]: _schema_of(value, known) for value in values}
    ignored = {
        key: {"description": f"Ignored: a value of the GPU operator's chart ({source})."}
        for key, source in sorted((ROOT_KEYS | NESTS).items())
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Generated by tools/chart_docs.py, do not edit.",
        "title": "Values of the gpu-operator-post chart",
        "type": "object",
        "properties": ours | ignored,
        "patternProperties": {"^_": {"description": "Ignored: notes that bundlers leave for themselves."}},
        "additionalProperties": False,
        "required": _required(values),
        "$defs": DEFINITIONS | definitions,
    }


def _schema_of(value: Value, known: Mapping[tuple[str, ...], Setting]) -> Schema:
    keywords = {key: word for key, word in value.comment.keywords.items() if key != "descend"}
    result: Schema = {"description": value.comment.text} if value.comment.text else {}
    if value.path in known:
        keywords = known[value.path].schema
    elif "$ref" not in keywords and "type" not in keywords:
        result["type"] = TYPES[type(value.default)]
    if value.children:
        result["properties"] = {child.path[-1]: _schema_of(child, known) for child in value.children}
        result["additionalProperties"] = False
        result["required"] = _required(value.children)
    elif value.default not in ({}, [], "", None):
        result["default"] = value.default
    return result | keywords


def _required(values: Sequence[Value]) -> list[str]:
    """Return which values may not be removed: Helm removes a value that is null, and the templates need these.

    A mapping that belongs to the user, a value that is empty by default, and the parent's `global` may be null.
    """
    needed = (value for value in values if value.children or not isinstance(value.default, dict))
    return [
        value.path[-1]
        for value in needed
        if value.path != ("global",) and (value.children or value.default not in ([], "", None))
    ]


def table(values: Sequence[Value]) -> str:
    """Write the README's tables, one a section."""
    sections: dict[str, list[Value]] = {}
    for value in values:
        sections.setdefault(value.section, []).extend(_rows(value))
    parts = []
    for title, rows in sections.items():
        lines = [f"### {title}", "", "| Value | Description | Default |", "|---|---|---|"]
        parts.append("\n".join([*lines, *map(_row, rows)]))
    return "\n\n".join(parts)


def _rows(value: Value) -> Iterator[Value]:
    """Flatten a value; a mapping has a row of its own only where its comment says something."""
    if value.comment.text:
        yield value
    for child in value.children:
        yield from _rows(child)


def _row(value: Value) -> str:
    text = value.comment.text.replace("|", "\\|")
    if value.comment.default is not None:
        default = value.comment.default
    elif value.children:
        default = ""
    else:
        default = f"`{json.dumps(value.default)}`"
    return f"| `{value.name}` | {text}{_choices(value)} | {default} |"


def _choices(value: Value) -> str:
    """Name the choices of an enumeration, unless the comment does so already."""
    missing = [choice for choice in value.comment.keywords.get("enum", ()) if f"`{choice}`" not in value.comment.text]
    every = value.comment.keywords.get("enum", ())
    return f" One of {', '.join(f'`{choice}`' for choice in every)}." if missing else ""


def generate(chart: Path) -> dict[Path, str]:
    """Return what each generated file should contain."""
    known, definitions = settings()
    text = described((chart / "values.yaml").read_text(), known)
    values = read_values(text)
    readme = (chart / "README.md").read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(readme):
        raise DocsError(f"README.md has no place for the values: it needs the lines {BEGIN!r} and {END!r}")
    block = f"{BEGIN}\n\n{table(values)}\n\n{END}"
    found = schema(values, known, definitions)
    return {
        chart / "values.yaml": text,
        chart / "README.md": pattern.sub(lambda _: block, readme),
        chart / "values.schema.json": json.dumps(found, indent=2, ensure_ascii=False) + "\n",
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description="Generate the chart's README table and schema from values.yaml.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file would change")
    parser.add_argument("--chart", type=Path, default=CHART, help="folder of the chart")
    options = parser.parse_args(arguments)
    try:
        files = generate(options.chart)
    except (DocsError, OSError) as error:
        sys.stderr.write(f"chart_docs: {error}\n")
        return 1
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if options.check:
            sys.stderr.write(f"chart_docs: {path.name} is out of date: run python -m tools.chart_docs\n")
        else:
            path.write_text(files[path])
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
