"""Read how an upgrade controller shall go about its nodes, and what people wrote about it in vain.

Everything here is for planning alone, so a field of a wrong type reads as its default: a policy that the
operator understands must not become unreadable to a run because of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hook.core import names
from hook.objects.policy import UpgradePolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.core.fields import Json

PARALLEL: Final = "maxParallelUpgrades"
UNAVAILABLE: Final = "maxUnavailable"
DEFAULT_PARALLEL: Final = 1
DEFAULT_UNAVAILABLE: Final = "25%"
"""LIB ``api/upgrade/v1alpha1``, GO ``api/nvidia/v1alpha1``: defaults of the kinds."""
LOOKS_LIKE_A_LIMIT: Final = ("maxparallel", "maxunavailable")
"""Beginnings of such fields, in lower case: a misspelt one must be found, too."""
LONGEST: Final = 80
"""Characters of what people wrote that are kept: nothing that means anything here is longer."""
DEEPEST: Final = 20
"""Levels of an object that are searched; the real kinds have half as many."""
MOST: Final = 8
"""Fields in the wrong place that are told."""
LARGEST: Final = 10**9
HARMLESS: Final = ("", "1")
"""What charts write by themselves (GO ``daemonsets.rollingUpdate.maxUnavailable``): nobody meant anything by it."""


def read(obj: Json, path: tuple[str, ...], *, has_unavailable: bool) -> UpgradePolicy:
    """Read the upgrade policy at a path of an object; `has_unavailable` says whether its kind has that limit."""
    found = _inside(obj, *path)
    deletion, drain, waiting = (_inside(found, part) for part in ("podDeletion", "drain", "waitForCompletion"))
    known = {PARALLEL, UNAVAILABLE} if has_unavailable else {PARALLEL}
    return UpgradePolicy(
        stated=bool(found),
        parallel=_number(found, PARALLEL, DEFAULT_PARALLEL),
        unavailable=_limit(found.get(UNAVAILABLE, DEFAULT_UNAVAILABLE)) if has_unavailable else "",
        waits_for=_text(waiting.get("podSelector", "")),
        wait_seconds=_number(waiting, "timeoutSeconds", 0),
        force=deletion.get("force") is True,
        delete_empty_dir=deletion.get("deleteEmptyDir") is True,
        drains=drain.get("enable") is True,
        elsewhere=tuple(sorted(_elsewhere(obj, {(*path, name) for name in known}))[:MOST]),
    )


def _elsewhere(obj: Json, known: set[tuple[str, ...]]) -> set[str]:
    """Find fields that look like limits, in what is there and in what was applied; but those that are read."""
    found: set[str] = set()
    for whole in (obj, _last_applied(obj)):
        for path, value in _fields(_inside(whole, "spec"), ("spec",)):
            if path not in known and _text(value) not in HARMLESS:
                found.add(f"{_plain('.'.join(path[1:]))}={_text(value)}")
    return found


def _fields(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    if not isinstance(value, Mapping) or len(path) > DEEPEST:
        return
    for key, inner in value.items():
        here = (*path, str(key))
        if here[-1].lower().startswith(LOOKS_LIKE_A_LIMIT):
            yield here, inner
        yield from _fields(inner, here)


def _last_applied(obj: Json) -> Json:
    text = _inside(obj, "metadata", "annotations").get(names.LAST_APPLIED_ANNOTATION)
    try:
        applied = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return applied if isinstance(applied, Mapping) else {}


def _inside(obj: Any, *path: str) -> Json:  # noqa: ANN401 - JSON is any of it
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}


def _number(obj: Json, key: str, default: int) -> int:
    value = obj.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    return default


def _limit(value: object) -> str:
    """Write a limit; a text that is no percentage keeps its quotes, because ``"7"`` is no number (K8S ``intstr``)."""
    written = _text(value)
    return f'"{written}"' if isinstance(value, str) and not value.endswith("%") else written


def _text(value: object) -> str:
    """Write a number or a text as text; anything else says nothing."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) <= LARGEST else "(out of range)"
    return _plain(value) if isinstance(value, str) else ""


def _plain(text: str) -> str:
    """Make text that strangers wrote short, and plain: it is shown to people."""
    short = text[:LONGEST].encode("ascii", "backslashreplace").decode()
    return "".join(one if one.isprintable() else "?" for one in short)
