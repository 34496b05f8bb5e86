"""Find the prose of a file: what people read, without code, identifiers and addresses."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final

import yaml

FENCE: Final = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"``.+?``|`[^`]+`|\S+=\S+")
"""Code in prose: what stands in backticks, and labels or assignments."""
LINK_TARGET: Final = re.compile(r"\]\([^)]*\)")
MARKS: Final = {".go": "//", ".mod": "//", ".c": r"//|/?\*", ".h": r"//|/?\*", ".lua": "--"}
"""What begins a comment, by suffix; elsewhere a number sign."""
QUOTED: Final = re.compile(r'"[^"]+ [^"]+"')
COMMENT_MARK: Final = re.compile(r"^\s*#+ ?", re.MULTILINE)
SPACE: Final = re.compile(r"\s+")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each paragraph of a file with the number of its first line."""
    text = path.read_text()
    if path.suffix == ".py":
        found = _python(text)
    elif path.suffix == ".md":
        found = _markdown(text)
    elif "templates" in path.parts:
        found = _paragraphs(COMMENT_MARK.sub("", text))
    elif path.suffix == ".json":
        found = ((number, text) for number, line in enumerate(text.splitlines(), 1) for text in QUOTED.findall(line))
    else:
        found = _comments(enumerate(text.splitlines(), 1), MARKS.get(path.suffix, "#"))
        if path.suffix in {".yaml", ".yml"}:
            values = (token for token in yaml.scan(text) if isinstance(token, yaml.ScalarToken))
            found = chain(found, ((token.start_mark.line + 1, token.value) for token in values))
    for line, paragraph in found:
        yield line, SPACE.sub(" ", CODE.sub("``", paragraph)).strip()


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, other strings of more than one word, and comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SPACE.search(node.value.strip()):
            yield node.lineno, node.value
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from _comments(((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT), "#")


def _comments(lines: Iterable[tuple[int, str]], mark: str) -> Iterator[tuple[int, str]]:
    """Yield comments; those on consecutive lines are one paragraph."""
    first, last, words = 0, 0, list[str]()
    for number, line in lines:
        comment = re.search(rf"(?:^|\s)(?:{mark})+ ?(.*)$", line)
        if comment is None:
            continue
        if words and number != last + 1:
            yield first, " ".join(words)
            words = []
        first = first if words else number
        last = number
        words.append(comment[1])
    if words:
        yield first, " ".join(words)


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    blanked = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    yield from _paragraphs(LINK_TARGET.sub("]", blanked))


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    line = 1
    for paragraph in text.split("\n\n"):
        yield line, paragraph
        line += paragraph.count("\n") + 2
