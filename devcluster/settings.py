"""Settings for processes of the program that no chart starts: words such as ``advanced.policyGrace=15s``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

VARIABLE: Final = "GPU_OPERATOR_POST_CONFIG"
"""Environment variable with the program's settings as a JSON object."""
_WORD: Final = re.compile(r"([A-Za-z][A-Za-z.]*)=(.*)", re.DOTALL)
_JSON: Final = re.compile(r"[\[{].*|true|false|[0-9]+", re.DOTALL)


def separated(words: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a command line that are no settings, and the environment with those that are."""
    arguments, settings = [], {}
    for word in words:
        found = _WORD.fullmatch(word)
        if found is None:
            arguments.append(word)
        else:
            settings[found[1]] = json.loads(found[2]) if _JSON.fullmatch(found[2]) else found[2]
    return arguments, {VARIABLE: json.dumps(tree(settings))} if settings else {}


def tree(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings by path as blocks."""
    root: dict[str, Any] = {}
    for path, value in settings.items():
        *blocks, name = path.split(".")
        block = root
        for each in blocks:
            block = block.setdefault(each, {})
        block[name] = value
    return root


def client(namespace: str, name: str) -> str:
    """Return the word for another DaemonSet with driver clients."""
    return f"driverClients={json.dumps([{'namespace': namespace, 'name': name}])}"
