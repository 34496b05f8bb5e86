"""Pods of drivers and of plugins, with the states of their containers."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec evaluates it
from datetime import timedelta
from sys import intern
from typing import TYPE_CHECKING, Annotated, Final

from hook.objects import names
from hook.objects.decoding import NOTHING, Count, Excerpt, Labels, MalformedObjectError, Name, Text, Time, Value
from hook.objects.parts import CONDITIONS, OWNERS, Conditions, Identified, condition, is_ready, owner_uid
from hook.objects.scheduling import REQUIRED, Terms, only_node
from hook.objects.sharing import shared_labels
from hook.objects.views import At, View, at, made, reader

if TYPE_CHECKING:
    from datetime import datetime

    from hook.objects.decoding import Json


class Container(Value, frozen=True):
    """The status of one container of a pod."""

    name: str
    started_at: Time | None
    """Of the current run; None while it is not running."""
    finished_at: Time | None
    """Of the run that ended: of an init container, its completion."""
    succeeded: bool
    """It ended with exit code 0, as a completed init container does."""
    last_finished_at: Time | None
    """End of the run before this one (``lastState.terminated``)."""
    restarts: int
    waiting: str
    """Why it is not running, e.g. ``CrashLoopBackOff``; empty otherwise."""
    message: str
    lasted: int | None = None
    """Seconds of the run that ended; None where there is none, or its times are not known."""


class _Run(Value, frozen=True):
    """A container that waits, runs or has ended."""

    reason: Text = ""
    message: Excerpt = Excerpt()
    started_at: Time | None = None
    finished_at: Time | None = None
    exit_code: int | None = None


class _State(Value, frozen=True):
    waiting: _Run = _Run()
    running: _Run = _Run()
    terminated: _Run = _Run()


class _Status(Value, frozen=True):
    name: Name
    restart_count: Count = 0
    state: _State = _State()
    last_state: _State = _State()


class _Spec(Value, frozen=True):
    name: Name
    restart_policy: Text = ""


def _containers(specified: tuple[_Spec, ...], reported: tuple[_Status, ...]) -> tuple[Container, ...]:
    """Return one status for every container of the spec; one that is not reported yet is waiting.

    A reported container counts, whether the spec names it or not: it runs. An init container that keeps running (a
    sidecar) does not, because it is no step of the pod's start.
    """
    statuses = {status.name: status for status in reported}
    sidecars = {container.name for container in specified if container.restart_policy == "Always"}
    every = dict.fromkeys([*(container.name for container in specified), *statuses])
    return tuple(_container(statuses.get(name) or _Status(name)) for name in every if name not in sidecars)


def _container(status: _Status) -> Container:
    state, ended = status.state, status.state.terminated
    started, finished = ended.started_at, ended.finished_at
    runs = state.running.started_at is not None or ended.exit_code is not None
    return Container(
        name=intern(status.name),
        started_at=state.running.started_at,
        finished_at=finished,
        succeeded=ended.exit_code == 0,
        last_finished_at=status.last_state.terminated.finished_at,
        restarts=status.restart_count,
        waiting=state.waiting.reason or ("" if runs else "ContainerCreating"),
        message=state.waiting.message or ended.message,
        lasted=int((finished - started).total_seconds()) if started is not None and finished is not None else None,
    )


def _node(name: str, terms: Terms) -> str:
    return intern(name or only_node(terms))


def _unscheduled(node: str, conditions: Conditions) -> str:
    return "" if node else condition(conditions, "PodScheduled").message or "it is not scheduled yet"


def _hash(labels: Labels) -> str:
    return intern(labels.get(names.REVISION_HASH_LABEL, ""))


def _ready_since(conditions: Conditions) -> Time | None:
    found = condition(conditions, "ContainersReady")
    return found.last_transition_time if found.true else None


def _has_ended(phase: str) -> bool:
    return phase in ("Succeeded", "Failed")


LABELS: Final = At(("metadata", "labels"), Labels, NOTHING)
NODE: Final = At(("spec", "nodeName"), Text, "")
_SPECS: Final = tuple[_Spec, ...]
_STATUSES: Final = tuple[_Status, ...]


class Pod(Identified, frozen=True):
    """A pod of a driver, a prerequisite or a driver client."""

    resource_version: Annotated[Name, at("metadata", "resourceVersion")]
    node: Annotated[str, made(_node, NODE, At(("spec", *REQUIRED), Terms, ()))]
    """Also of a DaemonSet's pod that is not scheduled yet; empty if it is unknown."""
    unscheduled: Annotated[str, made(_unscheduled, NODE, CONDITIONS)]
    """Why it is not scheduled; empty once it is."""
    owner_uid: Annotated[str, made(owner_uid, OWNERS)]
    labels: Annotated[Mapping[str, str], made(shared_labels, LABELS)]
    """Pods of one DaemonSet revision share them."""
    hash: Annotated[str, made(_hash, LABELS)]
    """Of the revision that it is made from."""
    deleting: Annotated[bool, made(bool, At(("metadata", "deletionTimestamp"), Time | None, None))]
    ended: Annotated[bool, made(_has_ended, At(("status", "phase"), Text, ""))]
    """The DaemonSet controller will replace it."""
    ready: Annotated[bool, made(is_ready, CONDITIONS)]
    containers_ready_since: Annotated[Time | None, made(_ready_since, CONDITIONS)]
    """Transition of a true ``ContainersReady``; None while it is not true."""
    init_containers: Annotated[
        tuple[Container, ...],
        made(
            _containers,
            At(("spec", "initContainers"), _SPECS, ()),
            At(("status", "initContainerStatuses"), _STATUSES, ()),
        ),
    ]
    containers: Annotated[
        tuple[Container, ...],
        made(_containers, At(("spec", "containers"), _SPECS, ()), At(("status", "containerStatuses"), _STATUSES, ())),
    ]
    created: Annotated[Time | None, at("metadata", "creationTimestamp")] = None
    """By the clock of the API server."""

    @property
    def live(self) -> bool:
        """Return whether the pod counts: it is not being deleted, and has not ended."""
        return not self.deleting and not self.ended

    @property
    def up(self) -> bool:
        """Return whether its kubelet reports it as ready.

        On a silent node the node controller sets Ready to False, but leaves ContainersReady as it was.
        """
        return self.ready or self.containers_ready_since is not None


read_pod = reader(Pod)


class Deletion(View, frozen=True):
    """What an answer shows of an object that is being deleted."""

    ends: Annotated[Time | None, at("metadata", "deletionTimestamp")] = None
    """When its grace period ends."""
    grace: Annotated[Count, at("metadata", "deletionGracePeriodSeconds")] = 0


_read_deletion = reader(Deletion)


def deleted_at(answer: Json) -> datetime | None:
    """Return when the API server accepted a deletion, by its own clock. None if its answer does not show it."""
    try:
        found = _read_deletion(answer)
        return None if found.ends is None else found.ends - timedelta(seconds=found.grace)
    except (MalformedObjectError, OverflowError):
        return None
