"""DeviceTaintRules of this program: each keeps new claims away from the devices of one pool of one DRA driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from hook.objects import names
from hook.objects.decoding import Name, Text, Time  # noqa: TC001 - msgspec evaluates them
from hook.objects.views import View, at, reader

if TYPE_CHECKING:
    from collections.abc import Mapping

TAINT_KEY: Final = f"{names.OWN_NAME}/unverified"
"""Key of the taint. Its value is the reason for which the rule was created."""
EFFECT: Final = "NoSchedule"
"""It keeps new claims away. Running pods, and claims that are allocated, stay as they are."""


class Place(NamedTuple):
    """The devices that a rule selects."""

    driver: str
    """DRA driver."""
    pool: str

    def __str__(self) -> str:
        return f"{self.pool} ({self.driver})"


class TaintRule(View, frozen=True):
    """A DeviceTaintRule of this program."""

    name: Annotated[Name, at("metadata", "name")]
    component: Annotated[Text, at("metadata", "labels", names.COMPONENT_LABEL)] = ""
    """``job`` or ``controller``: which process it belongs to."""
    driver: Annotated[Text, at("spec", "deviceSelector", "driver")] = ""
    pool: Annotated[Text, at("spec", "deviceSelector", "pool")] = ""
    reason: Annotated[Text, at("spec", "taint", "value")] = ""
    created: Annotated[Time | None, at("metadata", "creationTimestamp")] = None

    @property
    def place(self) -> Place:
        """Return the devices that it selects."""
        return Place(self.driver, self.pool)


read_taint_rule = reader(TaintRule)


def spec_of(place: Place, reason: str) -> Mapping[str, Any]:
    """Return the spec of a rule."""
    return {
        "deviceSelector": {"driver": place.driver, "pool": place.pool},
        "taint": {"key": TAINT_KEY, "value": reason, "effect": EFFECT},
    }
