"""Parse the flags that select DaemonSets with driver clients: by name or labels, with an optional stack."""

from __future__ import annotations

import re
from typing import Final

from hook.core.stacks import STACKS
from hook.errors import SettingsError
from hook.settings import Wanted

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""K8S ``apimachinery/pkg/util/validation``, DNS-1123 subdomain."""
_LABEL: Final = re.compile(
    r"(?P<key>([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)"
    r"==?(?P<value>([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?)"
)
"""Same source: qualified name, and value of a label."""


def named(text: str, first: str) -> Wanted:
    """Parse the name of a DaemonSet, with its stack."""
    stack, name = _stack_and_rest(text, first)
    if not _NAME.fullmatch(name):
        raise SettingsError(f"--consumer-name {text!r} is not a valid name of a DaemonSet")
    return Wanted(stack=stack, name=name)


def consumer(text: str, first: str) -> Wanted:
    """Parse another DaemonSet: ``namespace/name``, or labels of its pod template."""
    stack, rest = _stack_and_rest(text, first)
    namespace, _, name = rest.partition("/")
    if _NAME.fullmatch(namespace) and _NAME.fullmatch(name):
        return Wanted(stack=stack, namespace=namespace, name=name)
    pairs = tuple(_LABEL.fullmatch(pair) for pair in rest.split(","))
    labels = tuple((found["key"], found["value"]) for found in pairs if found is not None)
    if not rest or len(labels) != len(pairs):
        raise SettingsError(f"--consumer {text!r} is neither NAMESPACE/NAME nor KEY=VALUE[,KEY=VALUE]")
    return Wanted(stack=stack, labels=labels)


def _stack_and_rest(text: str, first: str) -> tuple[str, str]:
    before, colon, rest = text.partition(":")
    if not colon:
        return first, text
    if before not in STACKS:
        raise SettingsError(f"{text!r} names an unknown driver stack before the colon; known are {', '.join(STACKS)}")
    return before, rest
