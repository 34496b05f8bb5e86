"""Pods of drivers and of plugins, with the states of their containers."""

from __future__ import annotations

from datetime import timedelta
from sys import intern
from typing import TYPE_CHECKING, Final

from hook.objects import names
from hook.objects.decoding import NOTHING, Count, MalformedObjectError, Name, Text, Time, Value, read, reads
from hook.objects.parts import Condition, Identified, condition
from hook.objects.scheduling import Affinity
from hook.objects.sharing import labels_under, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from hook.objects.decoding import Json

LONGEST_MESSAGE: Final = 1024
"""Characters of a container's message that are kept, which is as much as an Event can hold."""


class Container(Value, frozen=True):
    """The status of one container of a pod."""

    name: str
    started_at: datetime | None
    """Of the current run; None while it is not running."""
    finished_at: datetime | None
    """Of the run that ended: of an init container, its completion."""
    succeeded: bool
    """It ended with exit code 0, as a completed init container does."""
    last_finished_at: datetime | None
    """End of the run before this one (``lastState.terminated``)."""
    restarts: int
    waiting: str
    """Why it is not running, e.g. ``CrashLoopBackOff``; empty otherwise."""
    message: str
    lasted: int | None = None
    """Seconds of the run that ended; None where there is none, or its times are not known."""


class Pod(Value, frozen=True):
    """A pod of a driver, a prerequisite or a driver client."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    node: str
    """Also of a DaemonSet's pod that is not scheduled yet; empty if it is unknown."""
    owner_uid: str
    hash: str
    deleting: bool
    ended: bool
    """Phase Succeeded or Failed: the DaemonSet controller will replace it."""
    ready: bool
    containers_ready_since: datetime | None
    """Transition of a true ``ContainersReady``; None while it is not true."""
    init_containers: tuple[Container, ...]
    containers: tuple[Container, ...]
    labels: Mapping[str, str] = NOTHING
    """Pods of one DaemonSet revision share them."""
    unscheduled: str = ""
    """Why it is not scheduled; empty once it is."""
    created: datetime | None = None
    """By the clock of the API server, in whole seconds."""

    @property
    def live(self) -> bool:
        """Return whether the pod counts: it is not being deleted, and has not ended."""
        return not self.deleting and not self.ended

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Metadata(Identified, frozen=True, kw_only=True):
    resource_version: Name


class _Container(Value, frozen=True):
    name: Name
    restart_policy: Text = ""


class _Spec(Value, frozen=True):
    node_name: Text = ""
    affinity: Affinity = Affinity()
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()


class _Run(Value, frozen=True):
    """A container that waits, runs or has ended."""

    reason: Text = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    exit_code: int | None = None


class _State(Value, frozen=True):
    waiting: _Run = _Run()
    running: _Run = _Run()
    terminated: _Run = _Run()


class _ContainerStatus(Value, frozen=True):
    name: Name
    restart_count: Count = 0
    state: _State = _State()
    last_state: _State = _State()


class _Status(Value, frozen=True):
    phase: Text = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Pod(Value, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


@reads(_Pod)
def read_pod(decoded: _Pod) -> Pod:
    """Read a pod: its owner, its node and the statuses of its containers."""
    metadata, spec, status = decoded.metadata, decoded.spec, decoded.status
    containers_ready = condition(status.conditions, "ContainersReady")
    unscheduled = condition(status.conditions, "PodScheduled").message or "it is not scheduled yet"
    return Pod(
        namespace=intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        node=intern(spec.node_name or spec.affinity.node),
        owner_uid=intern(metadata.owner.uid),
        hash=intern(metadata.labels.get(names.REVISION_HASH_LABEL, "")),
        deleting=metadata.deletion_timestamp is not None,
        ended=status.phase in ("Succeeded", "Failed"),
        ready=condition(status.conditions, "Ready").true,
        containers_ready_since=moment(containers_ready.last_transition_time) if containers_ready.true else None,
        init_containers=_containers(spec.init_containers, status.init_container_statuses),
        containers=_containers(spec.containers, status.container_statuses),
        labels=labels_under(metadata.labels),
        unscheduled="" if spec.node_name else unscheduled[:LONGEST_MESSAGE],
        created=moment(metadata.creation_timestamp),
    )


def _containers(specified: Iterable[_Container], reported: Iterable[_ContainerStatus]) -> tuple[Container, ...]:
    """Return one status for every container of the spec; one that is not reported yet is waiting.

    A reported container counts, whether the spec names it or not: it runs. An init container that keeps running (a
    sidecar) does not, because it is no step of the pod's start.
    """
    statuses = {status.name: status for status in reported}
    sidecars = {container.name for container in specified if container.restart_policy == "Always"}
    every = dict.fromkeys([*(container.name for container in specified), *statuses])
    return tuple(
        _read_container(statuses.get(name) or _ContainerStatus(name)) for name in every if name not in sidecars
    )


def _read_container(status: _ContainerStatus) -> Container:
    state, ended = status.state, status.state.terminated
    started, finished = moment(ended.started_at), moment(ended.finished_at)
    runs = state.running.started_at is not None or ended.exit_code is not None
    return Container(
        name=intern(status.name),
        started_at=moment(state.running.started_at),
        finished_at=finished,
        succeeded=ended.exit_code == 0,
        last_finished_at=moment(status.last_state.terminated.finished_at),
        restarts=status.restart_count,
        waiting=state.waiting.reason or ("" if runs else "ContainerCreating"),
        message=(state.waiting.message or ended.message)[:LONGEST_MESSAGE],
        lasted=int((finished - started).total_seconds()) if started is not None and finished is not None else None,
    )


class _Deletion(Value, frozen=True):
    """The metadata of an object that is being deleted."""

    deletion_timestamp: Time | None = None
    """When its grace period ends."""
    deletion_grace_period_seconds: Count = 0


class _Deleted(Value, frozen=True):
    metadata: _Deletion = _Deletion()


def deleted_at(answer: Json) -> datetime | None:
    """Return when the API server accepted a deletion, by its own clock. None if its answer does not show it."""
    try:
        found = read(_Deleted, answer).metadata
        ends = moment(found.deletion_timestamp)
        return None if ends is None else ends - timedelta(seconds=found.deletion_grace_period_seconds)
    except (MalformedObjectError, OverflowError):
        return None
