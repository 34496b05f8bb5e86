"""Parts that API objects of several kinds have: owners, conditions and environment variables.

The API server leaves out fields that are not set, so they have the default of Kubernetes. It writes null only for a
time, a list or an object that Go does not omit: only these fields accept null.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Annotated, Final

from hook.objects.decoding import Excerpt, Name, Text, Time, Value
from hook.objects.views import At, View, at, made

if TYPE_CHECKING:
    from collections.abc import Iterable


class Namespaced(View, frozen=True):
    """An object in a namespace."""

    namespace: Annotated[str, made(intern, At(("metadata", "namespace"), Name))]
    name: Annotated[Name, at("metadata", "name")]

    def __str__(self) -> str:
        # The status of each node has it.
        return intern(f"{self.namespace}/{self.name}")


class Identified(Namespaced, frozen=True):
    """An object whose identity decides what is done to it."""

    uid: Annotated[Name, at("metadata", "uid")]


class Owner(Value, frozen=True):
    """An entry of ``metadata.ownerReferences``."""

    kind: Text = ""
    uid: Text = ""
    controller: bool = False


Owners = tuple[Owner, ...]
OWNERS: Final = At(("metadata", "ownerReferences"), Owners, ())
NO_OWNER: Final = Owner()


def owner(owners: Owners) -> Owner:
    """Return the controlling owner; an empty one if there is none."""
    return next((each for each in owners if each.controller), NO_OWNER)


def owner_uid(owners: Owners) -> str:
    """Return the UID of the controlling owner, or ""."""
    return intern(owner(owners).uid)


class Condition(Value, frozen=True):
    """An entry of ``status.conditions``."""

    type: Text = ""
    status: Text = ""
    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: Excerpt = Excerpt()

    @property
    def true(self) -> bool:
        """Return whether the condition holds."""
        return self.status == "True"


Conditions = tuple[Condition, ...]
CONDITIONS: Final = At(("status", "conditions"), Conditions, ())
NO_CONDITION: Final = Condition()


def condition(conditions: Iterable[Condition], kind: str) -> Condition:
    """Return the condition of a type; an empty one, which does not hold, if there is none."""
    return next((condition for condition in conditions if condition.type == kind), NO_CONDITION)


def is_ready(conditions: Conditions) -> bool:
    """Return whether a node or a pod is ready."""
    return condition(conditions, "Ready").true


class Variable(Value, frozen=True):
    """An environment variable of a container."""

    name: Text = ""
    value: str = ""
