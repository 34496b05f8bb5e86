"""Readers: build the views of API objects, and record which objects are malformed.

Equal values of a fleet are shared, because thousands of nodes have the same labels.

Freshness is proved by a few times that one kubelet writes. If a clock was set back, or a status was edited, these times
can contradict each other. Such a pod proves nothing, so it counts as malformed: its node waits, and it is neither fresh
nor restarted.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from hook.objects import decoding, names, views, wire
from hook.objects.decoding import Key, MalformedObjectError, interned, moment, reads, utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from hook.objects.decoding import Raw, Reader

LONGEST_MESSAGE: Final = 1024
"""Characters of a container's message that are kept, which is as much as an Event can hold."""
LONGEST_SMALL_NUMBER: Final = 9
"""Digits; no node has more GPUs, and Python refuses to read numbers of thousands of digits."""

_Named = TypeVar("_Named", wire.Container, wire.ContainerStatus)


class Entry(NamedTuple):
    """One object of a cache."""

    key: Key
    version: str
    view: Any
    """The view of its kind, or Malformed."""


def entry(reader: Reader[Any], kind: str, body: Raw) -> Entry:
    """Read an object; a malformed one becomes `Malformed`. Raises ApiError if the text is not an object."""
    try:
        decoded = decoding.read(reader.shape, body)
        return Entry(decoded.metadata.key, decoded.metadata.resource_version or "", reader.build(decoded))
    except MalformedObjectError as error:
        loose = decoding.decode(body)
        metadata, spec = (decoding.section(loose, name) for name in ("metadata", "spec"))
        namespace, name, node_name = (
            value if isinstance(value, str) and len(value) <= decoding.LONGEST_TEXT else ""
            for value in (metadata.get("namespace"), metadata.get("name"), spec.get("nodeName"))
        )
        return Entry(*decoding.identity(loose), views.Malformed(kind, namespace, name, node_name, str(error)))


def _node(decoded: wire.Node, labels: tuple[str, ...]) -> views.Node:
    """Build the view of a Node with the labels under these prefixes.

    One without a Ready condition has not reported yet: not ready.
    """
    spec, status = decoded.spec or wire.Node.Spec(), decoded.status or wire.Node.Status()
    ready = wire.condition(status.conditions, "Ready")
    safe_load = decoded.metadata.noted.safe_load
    return views.Node(
        name=decoded.metadata.name,
        labels=_labels_of(decoded.metadata.labels, labels),
        ready=ready.true,
        ready_since=moment(ready.last_transition_time),
        taints=_taints(spec.taints or ()),
        cordoned=bool(spec.unschedulable),
        annotations={names.OFED_SAFE_LOAD_ANNOTATION: safe_load} if safe_load is not None else views.NONE,
        created=moment(decoded.metadata.creation_timestamp),
        gpus=small_number((status.capacity or {}).get(names.GPU_RESOURCE)),
    )


@lru_cache(maxsize=64)
def node_with(selected: tuple[str, ...] = (), writes_of: tuple[str, ...] = ()) -> Reader[views.Node]:
    """Return a reader of Nodes that keeps in addition what the settings and the DaemonSets need.

    These are the labels by which DaemonSets select nodes, and when other labels were written.
    """
    labels = (*names.NODE_LABEL_PREFIXES, *selected)
    if not writes_of:
        return decoding.Reader(wire.Node, lambda decoded: _node(decoded, labels))

    def build(decoded: wire.ManagedNode) -> views.Node:
        written: dict[str, views.Write] = {}
        for write in decoded.metadata.managed_fields or ():
            if write.time is None:
                continue
            found = views.Write(utc(write.time), write.manager == names.MERGED_MANAGER)
            written |= {label: max(found, written.get(label, found)) for label in writes_of if write.has(label)}
        return replace(_node(decoded, labels), written=written)

    return decoding.Reader(wire.ManagedNode, build)


node: Final = node_with()
"""Reader of Nodes without anything in addition."""


@reads(wire.Controller)
def daemonset(decoded: wire.Controller) -> views.DaemonSet:
    """Build the view of a DaemonSet."""
    metadata, spec = decoded.metadata, decoded.spec or wire.Controller.Spec()
    status = decoded.status or wire.Controller.Status()
    template = spec.template or wire.Controller.Template()
    pod_spec = template.spec or wire.TemplateSpec()
    if status.observed_generation and status.desired_number_scheduled is None:
        # A controller that has seen it once writes this also where it is zero.
        raise MalformedObjectError("status.desiredNumberScheduled: missing")
    return views.DaemonSet(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        generation=metadata.generation,
        observed_generation=status.observed_generation or 0,
        desired=status.desired_number_scheduled or 0,
        owner_kind=metadata.owner.kind or "",
        owner_uid=metadata.owner.uid or "",
        labels={key: value for key, value in (metadata.labels or {}).items() if key in names.DAEMONSET_LABELS},
        selector=tuple(sorted(((spec.selector and spec.selector.match_labels) or {}).items())),
        template_labels=(template.metadata and template.metadata.labels) or {},
        node_selector=pod_spec.node_selector or {},
        terms=pod_spec.terms,
        images={container.name: container.image or "" for container in pod_spec.containers or ()},
        tolerations=tuple(map(_taint, pod_spec.tolerations or ())),
        rolling=spec.update_strategy is None or spec.update_strategy.type != "OnDelete",
        gates=tuple(sorted({gate for container in pod_spec.containers or () for gate in _gates(container)})),
    )


def _gates(container: wire.TemplateContainer) -> Iterator[str]:
    """Yield the feature gates that a container of NVIDIA's DRA driver turns on."""
    variables = container.env if isinstance(container.env, list) else ()
    for variable in variables:
        if isinstance(variable, dict) and variable.get("name") == names.FEATURE_GATES_VARIABLE:
            pairs = (pair.partition("=") for pair in str(variable.get("value")).split(","))
            yield from (name.strip() for name, _equals, value in pairs if value.strip().lower() == "true")


@reads(wire.ControllerRevision)
def revision(decoded: wire.ControllerRevision) -> views.Revision:
    """Build the view of a ControllerRevision, whose hash the pods made from it carry as a label."""
    metadata = decoded.metadata
    revision_hash = (metadata.labels or {}).get(names.REVISION_HASH_LABEL)
    if not revision_hash:
        raise MalformedObjectError(f"metadata.labels: no {names.REVISION_HASH_LABEL}")
    spec = decoded.data and decoded.data.spec
    return views.Revision(
        namespace=metadata.namespace,
        name=metadata.name,
        owner_uid=metadata.owner.uid or "",
        revision=decoded.revision or 0,
        hash=revision_hash,
        created=utc(metadata.creation_timestamp),
        template=_template(spec.template) if spec and spec.template else None,
    )


def _template(template: wire.Controller.Template) -> views.Template:
    """Build the view of a pod template."""
    containers = (template.spec and template.spec.containers) or ()
    images = {container.name: container.image or "" for container in containers}
    return views.Template.of((template.metadata and template.metadata.labels) or {}, images)


@reads(wire.Pod)
def pod(decoded: wire.Pod) -> views.Pod:
    """Build the view of a pod: its owner, its node and the statuses of its containers."""
    metadata, spec, status = decoded.metadata, decoded.spec or wire.PodSpec(), decoded.status or wire.Pod.Status()
    containers_ready = wire.condition(status.conditions, "ContainersReady")
    since = moment(containers_ready.last_transition_time) if containers_ready.true else None
    if containers_ready.true and since is None:
        raise MalformedObjectError("status.conditions: ContainersReady without lastTransitionTime")
    ready = wire.condition(status.conditions, "Ready")
    scheduled = wire.condition(status.conditions, "PodScheduled")
    labels = metadata.labels or {}
    view = views.Pod(
        namespace=intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        node=intern(spec.node),
        owner_uid=intern(metadata.owner.uid or ""),
        hash=intern(labels.get(names.REVISION_HASH_LABEL, "")),
        deleting=metadata.deletion_timestamp is not None,
        ended=status.phase in ("Succeeded", "Failed"),
        ready=ready.true,
        containers_ready_since=since,
        init_containers=_containers(spec.init_containers, status.init_container_statuses),
        containers=_containers(spec.containers, status.container_statuses),
        labels=_labels_of(labels, ("",)),
        unscheduled="" if spec.node_name else (scheduled.message or "it is not scheduled yet")[:LONGEST_MESSAGE],
        created=moment(metadata.creation_timestamp),
    )
    if contradiction := _contradiction(view, moment(ready.last_transition_time)):
        raise MalformedObjectError(f"status: {contradiction}")
    return view


@reads(wire.ResourceSlice)
def device_slice(decoded: wire.ResourceSlice) -> views.DeviceSlice:
    """Build the view of a ResourceSlice."""
    spec = decoded.spec or wire.ResourceSlice.Spec()
    pool, devices = spec.pool or wire.ResourceSlice.Pool(), spec.devices or ()
    return views.DeviceSlice(
        node=intern(spec.node_name or ""),
        devices=len(devices),
        pool=intern(pool.name or ""),
        generation=pool.generation or 0,
        driver_versions=interned(
            frozenset(intern(device.driver_version) for device in devices if device.driver_version)
        ),
    )


@reads(wire.Controller)
def deployment(decoded: wire.Controller) -> views.Deployment:
    """Build the view of the operator's Deployment."""
    metadata, spec = decoded.metadata, decoded.spec or wire.Controller.Spec()
    status = decoded.status or wire.Controller.Status()
    pod_spec = (spec.template and spec.template.spec) or wire.PodSpec()
    return views.Deployment(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        revision=metadata.noted.deployment_revision or "",
        generation=metadata.generation,
        observed_generation=status.observed_generation or 0,
        wanted=1 if spec.replicas is None else spec.replicas,
        total=status.replicas or 0,
        updated=status.updated_replicas or 0,
        available=status.available_replicas or 0,
        changed=moment(wire.condition(status.conditions, "Progressing").last_update_time),
        named_by_host=bool(pod_spec.host_network or pod_spec.hostname),
    )


@reads(wire.ReplicaSet)
def replicaset(decoded: wire.ReplicaSet) -> views.ReplicaSet:
    """Build the view of a ReplicaSet of the operator's Deployment."""
    metadata = decoded.metadata
    return views.ReplicaSet(metadata.name, metadata.owner.uid or "", metadata.noted.deployment_revision or "")


@reads(wire.Lease)
def lease(decoded: wire.Lease) -> views.Lease:
    """Build the view of the operator's leader lease."""
    spec = decoded.spec or wire.Lease.Spec()
    return views.Lease(decoded.metadata.namespace, spec.holder_identity or "", moment(spec.acquire_time))


def small_number(value: object) -> int | None:
    """Read text that is a plain number of at most nine digits; None for anything else."""
    plain = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= LONGEST_SMALL_NUMBER
    return int(str(value)) if plain else None


def _labels_of(labels: Mapping[str, str] | None, prefixes: tuple[str, ...]) -> Mapping[str, str]:
    """Return the labels under these prefixes; objects with the same ones share them."""
    kept = ((intern(key), intern(value)) for key, value in (labels or {}).items() if key.startswith(prefixes))
    return _shared_labels(tuple(sorted(kept)))


@lru_cache(maxsize=1024)
def _shared_labels(labels: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(labels))


def _taints(decoded: Iterable[wire.Taint]) -> tuple[views.Taint, ...]:
    """Return the taints that can keep a DaemonSet's pod off a node."""
    taints = tuple(map(_taint, decoded))
    if unknown := next((taint.effect for taint in taints if taint.effect not in names.TAINT_EFFECTS), None):
        raise MalformedObjectError(f"spec.taints: unknown effect {unknown[:40]!r}")
    return tuple(
        taint
        for taint in taints
        if taint.effect in names.REPELLING_EFFECTS and not taint.key.startswith(names.NODE_CONDITION_TAINTS)
    )


def _taint(taint: wire.Taint) -> views.Taint:
    return views.Taint(taint.key or "", taint.value or "", taint.effect or "", taint.operator or "")


def _containers(
    specified: Iterable[wire.Container] | None, reported: Iterable[wire.ContainerStatus] | None
) -> tuple[views.Container, ...]:
    """Return one status for every container of the spec; one that is not reported yet is waiting.

    A reported container counts, whether the spec names it or not: it runs.
    """
    spec, statuses = _by_name(specified), _by_name(reported)
    # An init container that keeps running (a sidecar) is no step of the pod's start.
    sidecars = {name for name, container in spec.items() if container.restart_policy == "Always"}
    return tuple(
        _container(name, statuses.get(name)) for name in dict.fromkeys((*spec, *statuses)) if name not in sidecars
    )


def _by_name(containers: Iterable[_Named] | None) -> dict[str, _Named]:
    """Return containers by name. Raises MalformedObjectError if two have the same name."""
    listed = tuple(containers or ())
    named = {container.name: container for container in listed}
    if len(named) < len(listed):
        raise MalformedObjectError("containers: a name comes twice")
    return named


def _container(name: str, status: wire.ContainerStatus | None) -> views.Container:
    status = status or wire.ContainerStatus(name)
    state, last = status.state or wire.ContainerStatus.State(), status.last_state or wire.ContainerStatus.State()
    running, ended, waiting, before = (
        run or wire.ContainerStatus.Run() for run in (state.running, state.terminated, state.waiting, last.terminated)
    )
    began, finished = moment(ended.started_at), moment(ended.finished_at)
    if began is not None and finished is not None and finished < began:
        raise MalformedObjectError(f"status: container {name} ended before it started")
    return views.Container(
        name=intern(name),
        started_at=moment(running.started_at),
        finished_at=finished,
        succeeded=ended.exit_code == 0,
        last_finished_at=moment(before.finished_at),
        restarts=status.restart_count or 0,
        waiting=waiting.reason or ("" if running.started_at or state.terminated else "ContainerCreating"),
        message=(waiting.message or ended.message or "")[:LONGEST_MESSAGE],
        lasted=int((finished - began).total_seconds()) if began is not None and finished is not None else None,
    )


def _contradiction(pod: views.Pod, ready_since: datetime | None) -> str:
    """Return which two times of a pod cannot both be true, or "". Equal times can.

    `ready_since` is the last transition of its Ready condition.
    """
    since = pod.containers_ready_since
    if pod.ready and since is not None and ready_since is not None and ready_since < since:
        # The kubelet sets ContainersReady first (K8S pkg/kubelet/status, updateStatusInternal).
        return "Ready is older than ContainersReady, without which no pod is Ready"
    return next(filter(None, (_out_of_order(container, pod) for container in pod.containers)), "")


def _out_of_order(container: views.Container, pod: views.Pod) -> str:
    """Compare the start of a main container's current run with the times that must come before or after it."""
    started, since = container.started_at, pod.containers_ready_since
    if started is None:
        return ""
    if since is not None and since < started and not container.restarts:
        # After a restart it can be true: a liveness probe restarts the container within one sync of the kubelet, which
        # then never sees it down, unless another probe makes it unready (K8S pkg/kubelet, SyncPod).
        return f"container {container.name} started after all containers were ready"
    if container.last_finished_at is not None and started < container.last_finished_at:
        return f"container {container.name} started before its last run ended"
    # After a reboot too: init containers run again before any main container does.
    ended = (init_container.finished_at for init_container in pod.init_containers)
    if any(end is not None and started < end for end in ended):
        return f"container {container.name} started before an init container ended"
    return ""
