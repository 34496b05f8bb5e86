"""Nodes."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec evaluates it
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from hook.objects import names
from hook.objects.decoding import NOTHING, Reader, Text, Time, Value
from hook.objects.parts import Condition, Metadata, condition
from hook.objects.scheduling import Taint  # noqa: TC001 - msgspec evaluates it
from hook.objects.sharing import interned, labels_under, moment

if TYPE_CHECKING:
    from datetime import datetime

LONGEST_SMALL_NUMBER: Final = 9
"""Digits; no node has more GPUs, and Python refuses to read numbers of thousands of digits."""


class Write(NamedTuple):
    """When a manager of a label wrote last: the label, or another field after it."""

    at: datetime
    merged: bool = False
    """The API server keeps the last ten managers, and one time for all others, which may be later (K8S
    ``managedfields/internal/capmanagers.go``)."""


class Node(Value, frozen=True):
    """A node that has, or had, a device of the driver stack."""

    name: str
    labels: Mapping[str, str]
    """Only labels under ``names.NODE_LABEL_PREFIXES``, and those by which DaemonSets select nodes."""
    ready: bool
    ready_since: datetime | None
    """Last transition of the Ready condition, whichever way."""
    taints: tuple[Taint, ...] = ()
    """Taints that keep pods off, except for those that every DaemonSet pod tolerates."""
    cordoned: bool = False
    waits_for_drain: bool = False
    """Its network driver does not load until the node is drained (``names.OFED_SAFE_LOAD_ANNOTATION``)."""
    written: Mapping[str, Write] = NOTHING
    """When the last writer of a label wrote, of the labels that the settings need it for (``managedFields``)."""
    created: datetime | None = None
    gpus: int | None = None
    """What its device plugin reports (``status.capacity``); None without one, as with DRA alone."""


class _Spec(Value, frozen=True):
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class _Capacity(Value, frozen=True):
    gpus: Text = msgspec.field(name=names.GPU_RESOURCE, default="")


class _Status(Value, frozen=True):
    conditions: tuple[Condition, ...] = ()
    capacity: _Capacity = _Capacity()


class _Node(Value, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Labels(Value, frozen=True):
    labels: Mapping[str, Any] = msgspec.field(name="f:labels", default=NOTHING)


class _Fields(Value, frozen=True):
    metadata: _Labels = msgspec.field(name="f:metadata", default=_Labels())


class _Write(Value, frozen=True):
    manager: Text = ""
    time: Time | None = None
    fields_v1: _Fields | None = None


class _ManagedMetadata(Metadata, frozen=True, kw_only=True):
    managed_fields: tuple[_Write, ...] = ()


class _ManagedNode(_Node, frozen=True):
    """A node with ``managedFields``, which are large. They are read only if a setting needs them."""

    metadata: _ManagedMetadata


@lru_cache(maxsize=64)
def node_reader(selected: tuple[str, ...] = (), timed: tuple[str, ...] = ()) -> Reader[Node]:
    """Return a reader of Nodes that keeps in addition labels under the selected prefixes.

    It also keeps when the `timed` labels were written.
    """
    prefixes = (*names.NODE_LABEL_PREFIXES, *selected)
    if not timed:
        return Reader(_Node, lambda decoded: _node(decoded, prefixes))
    return Reader(_ManagedNode, lambda decoded: replace(_node(decoded, prefixes), written=_written(decoded, timed)))


def _node(decoded: _Node, prefixes: tuple[str, ...]) -> Node:
    """Build the value. A node without a Ready condition has not reported yet, so it is not ready."""
    metadata, spec, status = decoded.metadata, decoded.spec, decoded.status
    ready = condition(status.conditions, "Ready")
    return Node(
        name=metadata.name,
        labels=labels_under(metadata.labels, prefixes),
        ready=ready.true,
        ready_since=moment(ready.last_transition_time),
        taints=interned(tuple(taint for taint in spec.taints if _repels(taint))),
        cordoned=spec.unschedulable,
        waits_for_drain=bool(metadata.annotations.safe_load),
        created=moment(metadata.creation_timestamp),
        gpus=small_number(status.capacity.gpus),
    )


def _repels(taint: Taint) -> bool:
    """Return whether a taint can keep a DaemonSet's pod off."""
    return taint.effect in names.REPELLING_EFFECTS and not taint.key.startswith(names.NODE_CONDITION_TAINTS)


def _written(decoded: _ManagedNode, labels: tuple[str, ...]) -> Mapping[str, Write]:
    """Return the last write of each label."""
    written: dict[str, Write] = {}
    for write in decoded.metadata.managed_fields:
        at, owned = moment(write.time), write.fields_v1.metadata.labels if write.fields_v1 else {}
        for label in labels:
            if at is not None and f"f:{label}" in owned:
                found = Write(at, write.manager == names.MERGED_MANAGER)
                written[label] = max(found, written.get(label, found))
    return written


def small_number(text: str) -> int | None:
    """Read text that is a plain number of at most nine digits; None for anything else."""
    plain = text.isascii() and text.isdecimal() and len(text) <= LONGEST_SMALL_NUMBER
    return int(text) if plain else None


read_node: Final = node_reader()
"""Reader of Nodes without anything in addition."""
