"""Cut API objects down to views, as they arrive.

Strings that repeat across a fleet are interned, because five thousand nodes carry the same labels.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, TypeVar

from hook.core import names, views
from hook.core.fields import Json, MalformedObjectError, flag, items, mapping, number, required, text, when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

View = TypeVar("View")


def node(obj: Json) -> views.Node:
    """Read a Node. One without a Ready condition has not reported yet: not ready."""
    ready = condition(obj, "Ready")
    return views.Node(
        name=required(obj, "metadata", "name"),
        labels={
            intern(key): intern(value)
            for key in mapping(obj, "metadata", "labels")
            if key.startswith(names.NODE_LABEL_PREFIXES)
            for value in [text(obj, "metadata", "labels", key)]
        },
        ready=text(ready, "status") == "True",
        ready_since=when(ready, "lastTransitionTime"),
        taints=_taints(obj),
        cordoned=flag(obj, "spec", "unschedulable", default=False),
        annotations={
            key: text(obj, "metadata", "annotations", key)
            for key in names.NODE_ANNOTATIONS
            if key in mapping(obj, "metadata", "annotations")
        },
        gpus=_gpus(obj),
    )


def daemonset(obj: Json) -> views.DaemonSet:
    """Read a DaemonSet of any kind; which ones matter is decided elsewhere."""
    template = mapping(obj, "spec", "template")
    owner = _owner(obj)
    return views.DaemonSet(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        uid=required(obj, "metadata", "uid"),
        generation=number(obj, "metadata", "generation"),
        observed_generation=number(obj, "status", "observedGeneration"),
        desired=number(obj, "status", "desiredNumberScheduled"),
        misscheduled=number(obj, "status", "numberMisscheduled"),
        updated=number(obj, "status", "updatedNumberScheduled"),
        owner_kind=text(owner, "kind"),
        owner_uid=text(owner, "uid"),
        labels={
            key: text(obj, "metadata", "labels", key)
            for key in mapping(obj, "metadata", "labels")
            if key in names.DAEMONSET_LABELS
        },
        selector=_match_labels(obj),
        template_labels=_texts(template, "metadata", "labels"),
        node_selector=_texts(template, "spec", "nodeSelector"),
        images={
            required(container, "name"): text(container, "image") for container in items(template, "spec", "containers")
        },
        tolerations=tuple(
            views.Taint(
                key=text(one, "key"),
                value=text(one, "value"),
                effect=text(one, "effect"),
                exists=text(one, "operator") == "Exists",
            )
            for one in items(template, "spec", "tolerations")
        ),
        rolling=text(obj, "spec", "updateStrategy", "type") != "OnDelete",
    )


def revision(obj: Json) -> views.Revision:
    """Read a ControllerRevision, whose hash the pods made from it carry as a label."""
    created = when(obj, "metadata", "creationTimestamp")
    if created is None:
        raise MalformedObjectError("metadata.creationTimestamp: missing")
    return views.Revision(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        owner_uid=_owner_uid(obj),
        revision=number(obj, "revision"),
        hash=required(obj, "metadata", "labels", names.REVISION_HASH_LABEL),
        created=created,
    )


def pod(obj: Json) -> views.Pod:
    """Read a pod's ownership, placement and container statuses."""
    containers_ready = condition(obj, "ContainersReady")
    is_ready = text(containers_ready, "status") == "True"
    since = when(containers_ready, "lastTransitionTime") if is_ready else None
    if is_ready and since is None:
        raise MalformedObjectError("status.conditions: ContainersReady without lastTransitionTime")
    return views.Pod(
        namespace=intern(required(obj, "metadata", "namespace")),
        name=required(obj, "metadata", "name"),
        uid=required(obj, "metadata", "uid"),
        resource_version=required(obj, "metadata", "resourceVersion"),
        node=intern(text(obj, "spec", "nodeName")),
        owner_uid=intern(_owner_uid(obj)),
        hash=intern(text(obj, "metadata", "labels", names.REVISION_HASH_LABEL)),
        deleting=when(obj, "metadata", "deletionTimestamp") is not None,
        ended=text(obj, "status", "phase") in ("Succeeded", "Failed"),
        ready=text(condition(obj, "Ready"), "status") == "True",
        containers_ready_since=since,
        init_containers=_containers(obj, "initContainers", "initContainerStatuses"),
        containers=_containers(obj, "containers", "containerStatuses"),
    )


def device_slice(obj: Json) -> views.DeviceSlice:
    """Read a ResourceSlice; ``v1beta1`` keeps attributes one level deeper, under ``basic``."""
    devices = items(obj, "spec", "devices")
    attributes = (mapping(device, "attributes") or mapping(device, "basic", "attributes") for device in devices)
    versions = (text(found, names.DRIVER_VERSION_ATTRIBUTE, "version") for found in attributes)
    return views.DeviceSlice(
        name=required(obj, "metadata", "name"),
        node=intern(text(obj, "spec", "nodeName")),
        devices=len(devices),
        driver_versions=frozenset(intern(version) for version in versions if version),
    )


def deployment(obj: Json) -> views.Deployment:
    """Read the operator's Deployment."""
    replicas = mapping(obj, "spec").get("replicas")
    return views.Deployment(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        uid=required(obj, "metadata", "uid"),
        revision=text(obj, "metadata", "annotations", names.DEPLOYMENT_REVISION_ANNOTATION),
        generation=number(obj, "metadata", "generation"),
        observed_generation=number(obj, "status", "observedGeneration"),
        wanted=1 if replicas is None else number(obj, "spec", "replicas"),
        total=number(obj, "status", "replicas"),
        updated=number(obj, "status", "updatedReplicas"),
        available=number(obj, "status", "availableReplicas"),
    )


def replicaset(obj: Json) -> views.ReplicaSet:
    """Read a ReplicaSet of the operator's Deployment."""
    return views.ReplicaSet(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        owner_uid=_owner_uid(obj),
        revision=text(obj, "metadata", "annotations", names.DEPLOYMENT_REVISION_ANNOTATION),
    )


def lease(obj: Json) -> views.Lease:
    """Read the operator's leader lease."""
    return views.Lease(
        namespace=required(obj, "metadata", "namespace"),
        holder=text(obj, "spec", "holderIdentity"),
        acquired=when(obj, "spec", "acquireTime"),
    )


def readable(read: Callable[[Json], View], kind: str, obj: Json) -> View | views.Unreadable:
    """Read an object, or say what is wrong with it and where it belongs, as far as that can be told."""
    try:
        return read(obj)
    except MalformedObjectError as error:
        return views.Unreadable(
            kind=kind,
            namespace=_text_or_empty(obj, "metadata", "namespace"),
            name=_text_or_empty(obj, "metadata", "name"),
            node=_text_or_empty(obj, "spec", "nodeName"),
            problem=str(error),
        )


def _gpus(obj: Json) -> int | None:
    """Read a quantity that is always a whole number; anything else is not known."""
    quantity = mapping(obj, "status", "capacity").get(names.GPU_RESOURCE)
    return int(quantity) if isinstance(quantity, str) and quantity.isdecimal() else None


def _taints(obj: Json) -> tuple[views.Taint, ...]:
    """Give the taints that can keep a DaemonSet's pod off a node."""
    found = (
        views.Taint(key=text(one, "key"), value=text(one, "value"), effect=text(one, "effect"))
        for one in items(obj, "spec", "taints")
    )
    return tuple(
        taint
        for taint in found
        if taint.effect in names.REPELLING_EFFECTS and not taint.key.startswith(names.NODE_CONDITION_TAINTS)
    )


def _text_or_empty(obj: Json, *path: str) -> str:
    try:
        return text(obj, *path)
    except MalformedObjectError:
        return ""


def _owner(obj: Json) -> Json:
    """Give the controlling owner, whose UID outlives neither a rename nor an orphaning."""
    for owner in items(obj, "metadata", "ownerReferences"):
        if flag(owner, "controller", default=False):
            return owner
    return {}


def _owner_uid(obj: Json) -> str:
    return text(_owner(obj), "uid")


def _texts(obj: Json, *path: str) -> dict[str, str]:
    return {key: text(obj, *path, key) for key in mapping(obj, *path)}


def condition(obj: Json, kind: str) -> Json:
    """Give the one condition of a type. Two of a type contradict each other: malformed."""
    found = [one for one in items(obj, "status", "conditions") if text(one, "type") == kind]
    if len(found) > 1:
        raise MalformedObjectError(f"status.conditions: {len(found)} times {kind}")
    return found[0] if found else {}


def _match_labels(obj: Json) -> tuple[tuple[str, str], ...]:
    labels = mapping(obj, "spec", "selector", "matchLabels")
    return tuple(sorted((key, text(labels, key)) for key in labels))


def _containers(obj: Json, wanted: str, reported: str) -> tuple[views.Container, ...]:
    """Give one status for every container of the spec; one that is not reported yet is waiting."""
    statuses = {required(status, "name"): status for status in items(obj, "status", reported)}
    return tuple(_container(name, statuses.get(name, {})) for name in _container_names(obj, wanted, statuses))


def _container_names(obj: Json, wanted: str, statuses: Mapping[str, Json]) -> Sequence[str]:
    spec = [required(container, "name") for container in items(obj, "spec", wanted)]
    return spec or tuple(statuses)


def _container(name: str, status: Json) -> views.Container:
    state = mapping(status, "state")
    running, terminated, waiting = (mapping(state, key) for key in ("running", "terminated", "waiting"))
    ended = "terminated" in state and state["terminated"] is not None
    began, finished = when(terminated, "startedAt"), when(terminated, "finishedAt")
    return views.Container(
        name=intern(name),
        started_at=when(running, "startedAt"),
        finished_at=finished,
        succeeded=terminated.get("exitCode") is not None and number(terminated, "exitCode") == 0,
        last_finished_at=when(status, "lastState", "terminated", "finishedAt"),
        restarts=number(status, "restartCount"),
        waiting=text(waiting, "reason") or ("" if running or ended else "ContainerCreating"),
        message=text(waiting, "message") or text(terminated, "message"),
        lasted=int((finished - began).total_seconds()) if began is not None and finished is not None else None,
    )
