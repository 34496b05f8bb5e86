"""Generate the chart's README table and its schema from the comments in values.yaml.

One source, so that what a value is, what it may hold and what people read about it cannot drift apart. The head
of values.yaml says which lines in its comments are directives.

    python -m tools.chart_docs           write README.md and values.schema.json
    python -m tools.chart_docs --check   write nothing; exit 1 where a file would change
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tools.parent_values import NESTS, ROOT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHART: Final = Path(__file__).parents[1] / "charts" / "gpu-operator-post"
BEGIN: Final = "<!-- values: generated from values.yaml by tools/chart_docs.py, do not edit -->"
END: Final = "<!-- end of values -->"

LABEL: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
"""K8S ``apimachinery/pkg/util/validation``, DNS-1123 label; several with dots between them are a subdomain."""
SUBDOMAIN: Final = f"^{LABEL}([.]{LABEL})*$"
DEFINITIONS: Final = {
    "duration": {
        "type": "string",
        # Alternatives, because Helm's regular expressions cannot look ahead to refuse an empty text.
        "pattern": "^([0-9]+h([0-9]+m)?([0-9]+s)?|[0-9]+m([0-9]+s)?|[0-9]+s)$",
    },
    "numberOrPercent": {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 999999},
            {"type": "string", "pattern": "^([0-9]{1,6}|[0-9]{1,2}%|100%)$"},
        ],
    },
    "hookDeletePolicy": {
        "type": "string",
        "pattern": "^({0})(, ?({0}))*$".format("before-hook-creation|hook-succeeded|hook-failed"),
    },
    "eventTarget": {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "pattern": f"^{LABEL}([.]{LABEL})*/v[a-z0-9]+$", "maxLength": 253},
            "kind": {"type": "string", "pattern": "^[A-Z][A-Za-z0-9]{0,62}$"},
            "namespace": {"type": "string", "pattern": f"^{LABEL}$"},
            "name": {"type": "string", "pattern": SUBDOMAIN, "maxLength": 253},
        },
        "required": ["apiVersion", "kind", "namespace", "name"],
        "additionalProperties": False,
    },
    "pluginName": {
        "anyOf": [
            {"type": "string", "pattern": SUBDOMAIN, "maxLength": 253},
            {
                "type": "object",
                "properties": {
                    "driver": {"type": "string"},
                    "name": {"type": "string", "pattern": SUBDOMAIN, "maxLength": 253},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        ],
    },
    "driverClient": {
        "type": "object",
        "properties": {
            "driver": {"type": "string"},
            "namespace": {"type": "string", "pattern": f"^{LABEL}$"},
            "name": {"type": "string", "pattern": SUBDOMAIN, "maxLength": 253},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
        },
        "oneOf": [{"required": ["namespace", "name"]}, {"required": ["labels"]}],
        "additionalProperties": False,
    },
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
TYPES: Final = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}

Schema = dict[str, Any]


class DocsError(Exception):
    """values.yaml says something that cannot be documented."""


@dataclass(frozen=True, slots=True)
class Comment:
    """The comment above one value."""

    text: str
    keywords: Schema
    default: str | None
    needs: dict[object, Schema]
    """By a word of this value: other values, by their paths, and what they must then be."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart, with those below it where it is a closed mapping."""

    path: tuple[str, ...]
    default: object
    comment: Comment
    section: str
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
        yield Value(here, default, comment, _section(lines, line), children)


def _descends(comment: Comment, default: dict[str, object]) -> bool:
    """Whether the values below a mapping are values of the chart; otherwise it belongs to the user."""
    closed = "additionalProperties" not in comment.keywords
    return bool(default) and (closed or bool(comment.keywords.get("descend")))


def _comment(lines: Sequence[str], key_line: int) -> Comment:
    """Take the comment lines directly above a key, and the directives among them."""
    first = key_line
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    words: list[str] = []
    keywords: Schema = {}
    needs: dict[object, Schema] = {}
    default = None
    for line in (raw.lstrip().removeprefix("#").strip() for raw in lines[first:key_line]):
        if line.startswith("@schema "):
            keywords |= yaml.safe_load(line.removeprefix("@schema "))
        elif line.startswith("@default "):
            default = line.removeprefix("@default ")
        elif line.startswith("@needs "):
            needs |= yaml.safe_load(line.removeprefix("@needs "))
        elif not line.startswith("@section "):
            words.append(line)
    return Comment(" ".join(words), keywords, default, needs)


def _section(lines: Sequence[str], key_line: int) -> str:
    titles = [line.removeprefix("# @section ") for line in lines[:key_line] if line.startswith("# @section ")]
    if not titles:
        raise DocsError("the first value comes before the first @section")
    return titles[-1]


def schema(values: Sequence[Value]) -> Schema:
    """Build the schema of all values: ours, the GPU operator's (ignored), and no other."""
    ours = {value.path[0]: _schema_of(value) for value in values}
    ignored = {
        key: {"description": f"Ignored: a value of the GPU operator's chart ({source})."}
        for key, source in sorted((ROOT_KEYS | NESTS).items())
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": "Generated from values.yaml by tools/chart_docs.py, do not edit.",
        "title": "Values of the gpu-operator-post chart",
        "type": "object",
        "properties": ours | ignored,
        "patternProperties": {"^_": {"description": "Ignored: notes that bundlers leave for themselves."}},
        "additionalProperties": False,
        "allOf": [rule for value in values for rule in _rules_of(value)],
        "$defs": DEFINITIONS,
    }


def _schema_of(value: Value) -> Schema:
    keywords = {key: word for key, word in value.comment.keywords.items() if key != "descend"}
    result: Schema = {"description": value.comment.text} if value.comment.text else {}
    if "$ref" not in keywords and "type" not in keywords:
        result["type"] = TYPES[type(value.default)]
    if value.children:
        result["properties"] = {child.path[-1]: _schema_of(child) for child in value.children}
        result["additionalProperties"] = False
    elif value.default not in ({}, [], "", None):
        result["default"] = value.default
    return result | keywords


def _rules_of(value: Value) -> Iterator[Schema]:
    """Yield what a value, or one below it, requires of others; Helm validates with every default filled in."""
    for word, others in value.comment.needs.items():
        for name, wanted in others.items():
            yield {"if": _at(value.path, word), "then": _at(tuple(name.split(".")), wanted)}
    for child in value.children:
        yield from _rules_of(child)


def _at(path: tuple[str, ...], wanted: object) -> Schema:
    """Return a schema that requires this value at a path."""
    if not path:
        return {"const": wanted}
    return {"properties": {path[0]: _at(path[1:], wanted)}, "required": [path[0]]}


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
    values = read_values((chart / "values.yaml").read_text())
    readme = (chart / "README.md").read_text()
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(readme):
        raise DocsError(f"README.md has no place for the values: it needs the lines {BEGIN!r} and {END!r}")
    block = f"{BEGIN}\n\n{table(values)}\n\n{END}"
    return {
        chart / "README.md": pattern.sub(lambda _: block, readme),
        chart / "values.schema.json": json.dumps(schema(values), indent=2, ensure_ascii=False) + "\n",
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
