"""Parts that API objects of several kinds have: metadata, conditions and environment variables.

The API server leaves out fields that are not set, so they have the default of Kubernetes. It writes null only for a
time, a list or an object that Go does not omit: only these fields accept null.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Final

import msgspec

from hook.objects import names
from hook.objects.decoding import NOTHING, Count, Key, Labels, Name, Text, Time, Value

if TYPE_CHECKING:
    from collections.abc import Iterable


class Owner(Value, frozen=True):
    """An entry of ``metadata.ownerReferences``."""

    kind: Text = ""
    uid: Text = ""
    controller: bool = False


class Annotations(Value, frozen=True):
    """The only annotations that are read, of any kind."""

    deployment_revision: Text = msgspec.field(name=names.DEPLOYMENT_REVISION_ANNOTATION, default="")
    safe_load: Text = msgspec.field(name=names.OFED_SAFE_LOAD_ANNOTATION, default="")


class Metadata(Value, frozen=True, kw_only=True):
    """The metadata of an object of any kind."""

    name: Name
    namespace: Text = ""
    resource_version: Text = ""
    generation: Count = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Labels = NOTHING
    annotations: Annotations = Annotations()
    owner_references: tuple[Owner, ...] = ()

    @property
    def owner(self) -> Owner:
        """Return the controlling owner; an empty one if there is none."""
        return next((owner for owner in self.owner_references if owner.controller), NO_OWNER)

    @property
    def key(self) -> Key:
        """Return the namespace and the name, which are unique in a kind."""
        return intern(self.namespace), self.name


NO_OWNER: Final = Owner()


class Namespaced(Metadata, frozen=True, kw_only=True):
    """The metadata of an object in a namespace."""

    namespace: Name


class Identified(Namespaced, frozen=True, kw_only=True):
    """The metadata of an object whose identity decides what is done to it."""

    uid: Name


class Condition(Value, frozen=True):
    """An entry of ``status.conditions``."""

    type: Text = ""
    status: Text = ""
    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str = ""

    @property
    def true(self) -> bool:
        """Return whether the condition holds."""
        return self.status == "True"


NO_CONDITION: Final = Condition()


def condition(conditions: Iterable[Condition], kind: str) -> Condition:
    """Return the condition of a type; an empty one, which does not hold, if there is none."""
    return next((condition for condition in conditions if condition.type == kind), NO_CONDITION)


class Variable(Value, frozen=True):
    """An environment variable of a container."""

    name: Text = ""
    value: str = ""


class Labelled(Value, frozen=True):
    """An object of which only the labels are read."""

    labels: Labels = NOTHING
