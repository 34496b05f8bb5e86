"""What objects of any kind have: an owner, conditions, labels."""

from __future__ import annotations

from typing import Final

from hook.core.fields import Json, MalformedObjectError, flag, items, mapping, text

CONDITION_STATUSES: Final = ("True", "False", "Unknown")


def owner_of(obj: Json) -> Json:
    """Give the controlling owner, whose UID outlives neither a rename nor an orphaning."""
    for owner in items(obj, "metadata", "ownerReferences"):
        if flag(owner, "controller", default=False):
            return owner
    return {}


def owner_uid(obj: Json) -> str:
    """Give the UID of the controlling owner; empty without one."""
    return text(owner_of(obj), "uid")


def condition(obj: Json, kind: str) -> Json:
    """Give the one condition of a type. Two of a type contradict each other: malformed."""
    found = [one for one in items(obj, "status", "conditions") if text(one, "type") == kind]
    if len(found) > 1:
        raise MalformedObjectError(f"status.conditions: {len(found)} times {kind}")
    if found and text(found[0], "status") not in CONDITION_STATUSES:
        raise MalformedObjectError(f"status.conditions: {kind} is none of {', '.join(CONDITION_STATUSES)}")
    return found[0] if found else {}


def texts(obj: Json, *path: str) -> dict[str, str]:
    """Give an object of texts, such as labels."""
    return {key: text(obj, *path, key) for key in mapping(obj, *path)}
