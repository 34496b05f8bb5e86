"""Read YAML as Helm does, and write YAML with the same bytes every time.

PyYAML's safe loader reads. Keys must be texts and unique. Numbers and dates are what they are for Helm: ``1e3`` is a
number, ``1:30`` and ``2026-11-21`` are texts.
"""

from __future__ import annotations

import json
import re
import textwrap
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec
import yaml
from yaml.constructor import ConstructorError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""What JSON can hold, and so every value of a Helm chart."""
Mapping = dict[str, Value]
T = TypeVar("T")

MAX_DEPTH: Final = 64
"""Recipes and values nest a dozen levels. A document that contains itself has no end."""
MAX_VALUES: Final = 50_000
"""A hundred times the largest recipe. Nine lines of aliases can stand for billions of values."""
_TAG: Final = "tag:yaml.org,2002:"
_SAME_AS_HELM: Final = (f"{_TAG}null", f"{_TAG}bool", f"{_TAG}merge")
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[oO]?[0-7_]+|0|[1-9][0-9_]*)\Z")
_FLOAT: Final = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?i:inf)|\.(?i:nan))\Z"
)
_PLAIN_TEXT: Final = re.compile(r"(?:\./)?[A-Za-z/](?:[A-Za-z0-9./_@$()=-]|:(?=/))+")
"""Neither a number nor a date for any reader. PyYAML quotes words with another meaning, but not ``y``, which some
readers take for a boolean: hence at least two characters."""
_LINES: Final = re.compile(r"[!-~][ -~\xa0-\u2027\u202a-\ud7ff\n]*\n[ -~\xa0-\u2027\u202a-\ud7ff\n]*")
"""Plain lines, which stay readable. All other texts with a line break are quoted, with everything unusual escaped."""
_WIDTH: Final = 2**31
"""The dumper folds no line, because readers can disagree about folded lines."""


class InputError(click.ClickException):
    """A flag, a recipe or values that cannot work."""

    exit_code = 2


def at(path: str, key: str | int) -> str:
    """Name a place inside a document, such as ``componentRefs[1].version``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


def convert(value: object, into: type[T], name: str, path: str = "") -> T:
    """Convert a value to a type. An error names the document and the place in it."""
    try:
        return msgspec.convert(value, into)
    except msgspec.ValidationError as error:
        problem, _, below = str(error).partition(" - at `$")
        where = (path + below.rstrip("`")).lstrip(".") or "the document"
        hint = ": quote it" if re.match(r"Expected `str`, got `(int|float|bool)`", problem) else ""
        raise InputError(f"{name}: {where}: {problem}{hint}") from error


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with Helm's numbers and dates, and with unique keys that are texts."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the library's attribute
        first: [resolver for resolver in resolvers if resolver[0] in _SAME_AS_HELM]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 - incomplete stubs
        """Check keys before merged mappings add theirs."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                raise ConstructorError(None, None, "a key is not a text: quote it", key.start_mark)
            if key.value in seen:
                raise ConstructorError(None, None, f"duplicate key {key.value[:40]!r}", key.start_mark)
            seen.add(key.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge each key once, so that a few lines of merges do not become billions of keys."""
        super().flatten_mapping(node)
        node.value = list({key.value: (key, value) for key, value in node.value}.values())


_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))


def read(file: Path) -> Mapping:
    """Read a file that holds one mapping."""
    try:
        return parse(file.read_text(encoding="utf-8-sig"), file.name)
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name}: the file is not UTF-8 text ({error.reason})") from error
    except OSError as error:
        raise InputError(f"{file.name}: cannot read the file: {error.strerror}") from error


def parse(text: str, name: str) -> Mapping:
    """Read a text that holds one mapping. An empty text is an empty mapping, as for Helm."""
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
        _check(value, name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not YAML"
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise InputError(f"{name}: cannot read the document: {problem}{where}") from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{name}: the document holds a value that JSON cannot hold: {error}") from error
    except RecursionError as error:
        raise InputError(f"{name}: the document nests too deeply") from error
    return {} if value is None else convert(value, dict, name)


def _check(value: object, name: str) -> None:
    """Refuse a document that is too large, and values that JSON cannot hold."""
    if sum(1 for _ in islice(_values(value, 0), MAX_VALUES)) == MAX_VALUES:
        raise InputError(f"{name}: the document is too large; check its aliases")
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _values(value: object, depth: int) -> Iterator[object]:
    """Yield a value and all below it."""
    if depth > MAX_DEPTH:
        raise RecursionError
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _values(item, depth + 1)


class _Dumper(yaml.SafeDumper):
    """Writes block style and no anchors, and quotes every doubtful text."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the library's signature
        """Write repeated values in full, without anchors."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote all but plain words. Helm reads ``1e3`` without quotes as a number."""
    style = None if _PLAIN_TEXT.fullmatch(text) else "|" if _LINES.fullmatch(text) else '"'
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: Mapping, comment: str = "") -> str:
    """Write one document below a comment, with keys in the given order."""
    body = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    lines = (wrapped for line in comment.splitlines() for wrapped in textwrap.wrap(line, 110))
    return "".join(f"# {line}\n" for line in lines) + body
