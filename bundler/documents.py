"""Read YAML and JSON strictly. Every complaint names the file and the place in it.

PyYAML parses; what its nodes mean is decided here, because none of its schemas will do: values must be what
Helm's reader takes them for (``1e3`` is a number, ``1:30`` and a date are texts), and what readers take
differently is refused, as are duplicate keys, tags, keys that are no text, and documents without end.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
"""What JSON can hold, and so every value of a Helm chart."""
Mapping = dict[str, Value]

DEEPEST: Final = 64
"""Recipes and values nest a dozen levels; a document that is its own part nests for ever."""
MOST_VALUES: Final = 50_000
"""A hundred times the largest recipe; nine lines of aliases can stand for billions."""

_TRUE: Final = ("true", "yes", "on")
_BOOL: Final = re.compile(
    "|".join(f"{word}|{word.title()}|{word.upper()}" for word in ("true", "false", "yes", "no", "on", "off"))
)
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_OCTAL: Final = re.compile(r"0[0-7]+")
"""Modes of files: Helm's reader and most others take 0644 for 420; only YAML 1.2 does not."""
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE])|[1-9][0-9]*)(?:[eE][-+]?[0-9]+)?")
_AMBIGUOUS: Final = re.compile(
    r"[-+]?0[0-9_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?0o[0-7_]+|[-+]?0b[01_]+|[-+]?[0-9]+_[0-9_]*(?:\.[0-9_]*)?"
    r"|[-+]?\.inf|\.nan",
    re.IGNORECASE,
)
"""Numbers in other bases, with leading zeros or separators, and those that JSON cannot hold."""
_STR: Final = "tag:yaml.org,2002:str"
_TAGS: Final = {
    yaml.ScalarNode: _STR,
    yaml.SequenceNode: "tag:yaml.org,2002:seq",
    yaml.MappingNode: "tag:yaml.org,2002:map",
}
"""What nodes have without a tag; with another one they mean something that a value cannot hold."""
_LONGEST_PATH: Final = 80
"""Enough to find a place; a document without end would name an endless one."""


class InputError(Exception):
    """A flag, a recipe or values that cannot work (exit 2)."""


def at(path: str, key: str | int) -> str:
    """Name a place inside a document, as ``componentRefs[1].version``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        return f"{path}[{key!r}]"
    return f"{path}.{key}" if path else key


class _Loader(yaml.BaseLoader):
    """PyYAML's parser, without its ideas about what a scalar means."""

    def compose_scalar_node(self, anchor: dict[Any, yaml.Node]) -> yaml.ScalarNode:
        """Treat what is tagged as a text like what is quoted."""
        event: yaml.ScalarEvent = self.peek_event()  # type: ignore[no-untyped-call] # incomplete stubs
        node = super().compose_scalar_node(anchor)
        if event.tag == _STR:
            node.style = "'"
        return node


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
        return _parse(text, name)
    except InputError:
        # Not all JSON is YAML 1.1: tabs, and characters beyond the first 65,536 that are written as pairs.
        if (again := _respelled(text)) is None:
            raise
        return _parse(again, name)


def _respelled(text: str) -> str | None:
    """Spell JSON as YAML 1.1 understands it; nothing where it is no JSON, or JSON that readers take differently."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is there twice")
        return found

    try:
        spelled = json.dumps(json.loads(text, object_pairs_hook=unique), ensure_ascii=False, allow_nan=False)
        spelled.encode()
    except (ValueError, RecursionError):
        return None
    return spelled if text.lstrip().startswith("{") and spelled != text else None


def _parse(text: str, name: str) -> Mapping:
    try:
        node = yaml.compose(text, Loader=_Loader)
        value = {} if node is None else _Reader(name).value(node, "", 0)
    except yaml.YAMLError as error:
        raise InputError(f"{name}: it is no YAML: {_located(error)}") from error
    except RecursionError as error:
        raise InputError(f"{name}: it nests too deeply") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{name}: it holds {kind(value)}, not a mapping")
    return value


def kind(value: object) -> str:
    """Name the kind of a value for people."""
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a mapping",
    }
    return "nothing" if value is None else names[type(value)]


def _located(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else str(problem)


class _Reader:
    """Turns one document's nodes into values."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MOST_VALUES

    def value(self, node: yaml.Node, path: str, depth: int) -> Value:
        """Read one node and all below it."""
        self._left -= 1
        if self._left < 0 or depth > DEEPEST:
            raise self._error(path, "the document has no end: does an alias stand for a part of itself?")
        if node.tag != _TAGS[type(node)]:
            raise self._error(path, f"the tag {node.tag} has no meaning here")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, at(path, index), depth + 1) for index, item in enumerate(node.value)]
        return self._mapping(node, path, depth)

    def _mapping(self, node: yaml.Node, path: str, depth: int) -> Mapping:
        own: Mapping = {}
        merged: Mapping = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style:
                merged = {**self._merged(value, path, depth), **merged}
                continue
            name = self._key(key, path)
            if name in own:
                raise self._error(at(path, name), "it is there twice")
            own[name] = self.value(value, at(path, name), depth + 1)
        return {**merged, **own}

    def _key(self, node: yaml.Node, path: str) -> str:
        name = self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(name, str):
            raise self._error(path, f"a key is no text (line {node.start_mark.line + 1}): quote it")
        return name

    def _merged(self, node: yaml.Node, path: str, depth: int) -> Mapping:
        """Read what ``<<`` brings in: one mapping, or several of which the first wins."""
        found = self.value(node, at(path, "<<"), depth + 1)
        parts = found if isinstance(found, list) else [found]
        result: Mapping = {}
        for part in parts:
            if not isinstance(part, dict):
                raise self._error(at(path, "<<"), f"{kind(part)} cannot be merged, only mappings can")
            result = {**part, **result}
        return result

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Value:
        try:
            str(node.value).encode()
        except UnicodeEncodeError as error:
            raise self._error(path, "half a character (a lone surrogate) is no text") from error
        return str(node.value) if node.style else self._plain(str(node.value), path)

    def _plain(self, text: str, path: str) -> Value:
        """Read a scalar without quotes."""
        if _NULL.fullmatch(text):
            return None
        if _BOOL.fullmatch(text):
            return text.lower() in _TRUE
        if _INT.fullmatch(text):
            return int(text)
        if _OCTAL.fullmatch(text):
            return int(text, 8)
        if _AMBIGUOUS.fullmatch(text):
            raise self._error(path, f"{text[:40]} is read differently by different programs: quote it, or write it out")
        if not _FLOAT.fullmatch(text):
            return text
        number = float(text)
        if not math.isfinite(number):
            raise self._error(path, "it is too large a number: quote it if it is a text")
        return number

    def _error(self, path: str, problem: str) -> InputError:
        where = path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"
        return InputError(f"{self._name}: {where or 'the document'}: {problem}")
