"""Read YAML and JSON as Helm does, and write YAML with the same bytes every time. Messages name file and place.

PyYAML parses. Plain scalars mean what they mean for Helm's reader: ``1e3`` is a number, ``0644`` is 420, ``on`` is
true, ``1:30`` and a date are texts. The reader refuses numbers that programs read differently, duplicate keys, keys
that are no text, and documents without end.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

import click
import yaml
from yaml.constructor import ConstructorError

if TYPE_CHECKING:
    from pathlib import Path

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""What JSON can hold, and so every value of a Helm chart."""
Mapping = dict[str, Value]

DEEPEST: Final = 64
"""Recipes and values nest a dozen levels; a document that contains itself nests without end."""
MOST_VALUES: Final = 50_000
"""A hundred times the largest recipe; nine lines of aliases can stand for billions."""
_LONGEST_INT: Final = 18
"""Digits that fit 64 bits."""
_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final = ("true", "false", "yes", "no", "on", "off")
_PLAIN: Final = {
    f"{_TAG}merge": "<<",
    f"{_TAG}null": "~|null|Null|NULL|",
    f"{_TAG}bool": "|".join(f"{word}|{word.title()}|{word.upper()}" for word in _WORDS),
    f"{_TAG}int": rf"[-+]?(?:0|[1-9][0-9]{{0,{_LONGEST_INT - 1}}})|0[0-7]+",
    # Numbers in other bases, with leading zeros or separators, and those that JSON cannot hold.
    "!ambiguous": r"[-+]?0[0-9_]+|[-+]?0[xX][0-9a-fA-F_]+|[-+]?0[oO][0-7_]+|[-+]?0[bB][01_]+"
    r"|[-+]?[0-9]+_[0-9_]*(?:\.[0-9_]*)?|[-+]?\.(?i:inf)|\.(?i:nan)",
    f"{_TAG}float": r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE])|[1-9][0-9]*)(?:[eE][-+]?[0-9]+)?",
}
"""What a scalar without quotes is; in any other case it is a text."""
_KNOWN: Final = {None, *(f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float", "str", "seq", "map"))}
_SURELY_TEXT: Final = re.compile(r"(?:\./)?[A-Za-z/](?:[A-Za-z0-9./_@$()=-]|:(?=/))+")
"""Neither a number nor a date for any reader. PyYAML quotes words with another meaning, but not ``y``, which some
readers take for a boolean: hence two characters at least."""
_LINES: Final = re.compile(r"[!-~][ -~\xa0-\u2027\u202a-\ud7ff\n]*\n[ -~\xa0-\u2027\u202a-\ud7ff\n]*")
"""Plain lines, which stay readable. All other texts with a line break are quoted, with everything unusual escaped."""
_ENDLESS: Final = 2**31
"""The writer folds no line, because readers can disagree about folded ones."""
_COMMENT_WIDTH: Final = 110


class InputError(click.ClickException):
    """A flag, a recipe or values that cannot work."""

    exit_code = 2


def at(path: str, key: str | int) -> str:
    """Name a place inside a document, as ``componentRefs[1].version``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


def kind(value: object) -> str:
    """Name the kind of a value."""
    names = {bool: "true or false", str: "a text", list: "a list", dict: "a mapping"}
    return "nothing" if value is None else names.get(type(value), "a number")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with Helm's scalars. Keys are texts, and each is there once."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 - incomplete stubs
        """Refuse keys here, where merged mappings are not yet mixed with a mapping's own."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                raise ConstructorError(None, None, "a key is no text: quote it", key.start_mark)
            if key.value in seen:
                raise ConstructorError(None, None, f"the key {key.value[:40]!r} is there twice", key.start_mark)
            seen.add(key.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge with each key once, so that a few lines of merges do not become billions of keys."""
        super().flatten_mapping(node)
        node.value = list({key.value: (key, value) for key, value in node.value}.values())

    def refuse(self, node: yaml.ScalarNode) -> None:
        """Refuse a number that programs read differently."""
        problem = f"{node.value[:40]} is read differently by different programs: quote it, or write it out"
        raise ConstructorError(None, None, problem, node.start_mark)


_Loader.yaml_implicit_resolvers = {}
_Loader.yaml_constructors = {tag: each for tag, each in yaml.SafeLoader.yaml_constructors.items() if tag in _KNOWN}
for _tag, _pattern in _PLAIN.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), None)
_Loader.add_constructor("!ambiguous", _Loader.refuse)
_Loader.add_constructor(f"{_TAG}merge", lambda _, node: node.value)


def read(file: Path) -> Mapping:
    """Read a file that holds one mapping."""
    try:
        return parse(file.read_text(encoding="utf-8-sig"), name_of(file))
    except UnicodeDecodeError as error:
        raise InputError(f"{name_of(file)}: it is no UTF-8 text ({error.reason})") from error
    except OSError as error:
        raise InputError(f"{name_of(file)}: it cannot be read: {error.strerror}") from error


def name_of(file: Path) -> str:
    """Name a file as it can be written into another one."""
    return file.name.encode(errors="replace").decode()


def parse(text: str, name: str) -> Mapping:
    """Read a text that holds one mapping. An empty text is an empty mapping, as for Helm."""
    try:
        # Not all JSON is YAML 1.1: tabs, and characters beyond the first 65,536 that are written as pairs.
        value = json.loads(text, object_pairs_hook=_unique, parse_int=_int, parse_constant=int)
    except (ValueError, RecursionError):
        value = _yaml(text, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{name}: it holds {kind(value)}, not a mapping")
    _Check(name).value(value, "", 0)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(mapping := dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return mapping


def _int(digits: str) -> float:
    return int(digits) if len(digits.lstrip("-")) <= _LONGEST_INT else float(digits)


def _yaml(text: str, name: str) -> object:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise InputError(f"{name}: it cannot be read: {problem}{where}") from error
    except (ValueError, LookupError) as error:
        raise InputError(f"{name}: a tag does not fit its value: {error}") from error
    except RecursionError as error:
        raise InputError(f"{name}: it nests too deeply") from error


class _Check:
    """Refuses what JSON cannot hold, and documents without end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MOST_VALUES

    def value(self, value: object, path: str, depth: int) -> None:
        """Check a value and all below it."""
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise InputError(f"{self._name}: {path[:80]}: it has no end: does an alias stand for a part of itself?")
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{self._name}: {path}: it is too large a number: quote it if it is a text")
        if isinstance(value, str) and not value.isascii() and value.encode(errors="ignore").decode() != value:
            raise InputError(f"{self._name}: {path}: half a character (a lone surrogate) is no text")
        if isinstance(value, dict):
            for key, item in value.items():
                self.value(key, path, depth)
                self.value(item, at(path, key), depth + 1)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.value(item, at(path, index), depth + 1)


class _Dumper(yaml.SafeDumper):
    """Writes block style, lists indented, no anchors, doubtful text in quotes."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the library's signature
        """Write everything out: an anchor would be one more thing to understand."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - as above
        """Indent lists below their key."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote all but plain words: ``1e3`` without quotes would be text here and a number for Helm."""
    style = None if _SURELY_TEXT.fullmatch(text) else "|" if _LINES.fullmatch(text) else '"'
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: Mapping, comment: str = "") -> str:
    """Write one document, keys in their given order, below a comment."""
    body = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ENDLESS)
    lines = (wrapped for line in comment.splitlines() for wrapped in textwrap.wrap(line, _COMMENT_WIDTH))
    return "".join(f"# {line}\n" for line in lines) + body
