"""Write YAML with the same bytes every time, in a form that every reader takes the same way."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from bundler.documents import Mapping

_SURELY_TEXT: Final = re.compile(r"(?:\./)?[A-Za-z/](?:[A-Za-z0-9./_@$()=-]|:(?=/))+")
"""Neither a number nor a date for anybody. PyYAML quotes the words that may stand for something else, but not ``y``,
which some readers take for a boolean: hence two characters at least."""
_LINES: Final = re.compile(r"[!-~][ -~\xa0-\u2027\u202a-\ud7ff\n]*\n[ -~\xa0-\u2027\u202a-\ud7ff\n]*")
"""Plain lines, which stay readable. Whatever else holds a line break is quoted, with everything unusual escaped."""
_ENDLESS: Final = 2**31
"""No line is folded: a folded line is one more thing that readers can disagree about."""
_COMMENT_WIDTH: Final = 110


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
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(value: Mapping, comment: str = "") -> str:
    """Write one document, keys in their given order, below a comment."""
    body = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_ENDLESS)
    lines = (wrapped for line in comment.splitlines() for wrapped in textwrap.wrap(line, _COMMENT_WIDTH))
    return "".join(f"# {line}\n" for line in lines) + body
