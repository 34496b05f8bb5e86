"""Nodes."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec evaluates it
from functools import lru_cache
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec.structs import force_setattr

from hook.objects import names
from hook.objects.decoding import NOTHING, Labels, Name, Reader, Text, Time, Value
from hook.objects.parts import CONDITIONS, Conditions, condition, is_ready
from hook.objects.scheduling import Taint  # noqa: TC001 - msgspec evaluates it
from hook.objects.sharing import shared, shared_labels
from hook.objects.views import At, View, at, made, reader

LONGEST_SMALL_NUMBER: Final = 9
"""Digits; no node has more GPUs, and Python refuses to read numbers of thousands of digits."""


class Write(NamedTuple):
    """When a manager of a label wrote last: the label, or another field after it."""

    at: datetime
    merged: bool = False
    """The API server keeps the last ten managers, and one time for all others, which may be later (K8S
    ``managedfields/internal/capmanagers.go``)."""


class _Labels(Value, frozen=True):
    mig: dict[str, Any] | None = msgspec.field(name=f"f:{names.MIG_STATE_LABEL}", default=None)


class _Metadata(Value, frozen=True):
    labels: _Labels = msgspec.field(name="f:labels", default=_Labels())


class _Fields(Value, frozen=True):
    metadata: _Metadata = msgspec.field(name="f:metadata", default=_Metadata())


class _Managed(Value, frozen=True):
    manager: Text = ""
    time: Time | None = None
    fields_v1: _Fields = _Fields()


def _mig_state_written(managed: tuple[_Managed, ...]) -> Write | None:
    of_mig = (each for each in managed if each.fields_v1.metadata.labels.mig is not None)
    writes = (Write(each.time, each.manager == names.MERGED_MANAGER) for each in of_mig if each.time is not None)
    return max(writes, default=None)


def _ready_since(conditions: Conditions) -> Time | None:
    return condition(conditions, "Ready").last_transition_time


def _repelling(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    effective = (taint for taint in taints if taint.effect in names.REPELLING_EFFECTS)
    return shared(tuple(taint for taint in effective if not taint.key.startswith(names.NODE_CONDITION_TAINTS)))


def small_number(text: str) -> int | None:
    """Read text that is a plain number of at most nine digits; None for anything else."""
    plain = text.isascii() and text.isdecimal() and len(text) <= LONGEST_SMALL_NUMBER
    return int(text) if plain else None


class Node(View, frozen=True):
    """A node that has, or had, a device of the driver stack."""

    name: Annotated[Name, at("metadata", "name")]
    ready: Annotated[bool, made(is_ready, CONDITIONS)]
    """A node without the condition has not reported yet."""
    ready_since: Annotated[Time | None, made(_ready_since, CONDITIONS)]
    """Last transition of the Ready condition, whichever way."""
    taints: Annotated[tuple[Taint, ...], made(_repelling, At(("spec", "taints"), tuple[Taint, ...], ()))]
    """Taints that keep pods off, except for those that every DaemonSet pod tolerates."""
    waits_for_drain: Annotated[
        bool, made(bool, At(("metadata", "annotations", names.OFED_SAFE_LOAD_ANNOTATION), Text, ""))
    ]
    """Its network driver does not load until the node is drained."""
    mig_state_written: Annotated[
        Write | None, made(_mig_state_written, At(("metadata", "managedFields"), tuple[_Managed, ...], ()))
    ]
    """When the state of its MIG reconfiguration was last written."""
    gpus: Annotated[int | None, made(small_number, At(("status", "capacity", names.GPU_RESOURCE), Text, ""))]
    """What its device plugin reports; None without one, as with DRA alone."""
    labels: Annotated[Labels, at("metadata", "labels")] = NOTHING
    """Only labels under ``names.NODE_LABEL_PREFIXES``, and those by which DaemonSets select nodes."""
    cordoned: Annotated[bool, at("spec", "unschedulable")] = False
    created: Annotated[Time | None, at("metadata", "creationTimestamp")] = None


@lru_cache(maxsize=64)
def node_reader(selected: tuple[str, ...] = ()) -> Reader[Node]:
    """Return a reader of Nodes. In addition to the program's own labels, it keeps those under the selected prefixes."""
    prefixes = (*names.NODE_LABEL_PREFIXES, *selected)

    def keep(node: Node) -> Node:
        kept = {key: text for key, text in node.labels.items() if key.startswith(prefixes)}
        force_setattr(node, "labels", shared_labels(kept))
        return node

    return reader(Node).keeping(keep)


read_node = node_reader()
