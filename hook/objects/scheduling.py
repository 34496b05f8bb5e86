"""Scheduling: taints, tolerations and the nodes that a pod requires."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hook.objects.decoding import Text, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBER: Final = re.compile("-?[0-9]{1,19}")
"""A number as Kubernetes compares it."""


class Taint(Value, frozen=True):
    """A taint of a node, or a toleration of a pod."""

    key: Text = ""
    value: Text = ""
    effect: Text = ""
    operator: Text = ""
    """Of a toleration. ``Exists`` tolerates any value, and with an empty key any taint."""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether this toleration lets a pod onto a node with a taint (K8S ``ToleratesTaint``).

        An operator that this version does not know may tolerate the taint, so it does.
        """
        if self.effect not in ("", taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return bool(self.key) and self.value == taint.value
        if self.operator in ("Gt", "Lt"):
            return _is_beyond(taint.value, self.operator, self.value)
        return True


class Requirement(Value, frozen=True):
    """A requirement of a label selector or a node selector."""

    key: Text = ""
    operator: Text = ""
    values: tuple[Text, ...] = ()

    def met_by(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement. An unknown operator is never met."""
        value = labels.get(self.key)
        return {
            "In": value in self.values,
            "NotIn": value not in self.values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(self.operator, _is_beyond(value or "", self.operator, "".join(self.values)))


class Term(Value, frozen=True):
    """A term of a node affinity."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether a node matches. A term without a requirement matches none."""
        met = [requirement.met_by(labels) for requirement in self.match_expressions]
        met += [requirement.met_by({"metadata.name": name}) for requirement in self.match_fields]
        return bool(met) and all(met)


Terms = tuple[Term, ...]
"""Terms of the required node affinity. A node must match one of them; without one, any node will do."""
REQUIRED: Final = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
"""Place of the terms in the spec of a pod."""


def only_node(terms: Terms) -> str:
    """Return the only node that is required, or "".

    The DaemonSet controller names the node of each pod so (K8S ``ReplaceDaemonSetPodNodeNameNodeAffinity``).
    """
    fields = (field for term in terms for field in term.match_fields)
    named = (field.values for field in fields if (field.key, field.operator) == ("metadata.name", "In"))
    return next((values[0] for values in named if values), "")


def _is_beyond(value: str, operator: str, bound: str) -> bool:
    """Return whether a number is greater (``Gt``) or less (``Lt``) than a bound. Text that is no number is neither."""
    if not (NUMBER.fullmatch(value) and NUMBER.fullmatch(bound)):
        return False
    return (operator == "Gt" and int(value) > int(bound)) or (operator == "Lt" and int(value) < int(bound))
