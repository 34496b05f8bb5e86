"""Cut API objects down to views, as they arrive.

What repeats across a fleet is shared, because five thousand nodes carry the same labels.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from hook.core import names
from hook.core.coherence import contradiction
from hook.core.containers import containers
from hook.core.fields import (
    Json,
    MalformedObjectError,
    counted,
    flag,
    items,
    mapping,
    number,
    required,
    shared,
    small_number,
    text,
    when,
)
from hook.core.objects import condition, owner_of, owner_uid, texts
from hook.objects import views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

View = TypeVar("View")


def node(obj: Json) -> views.Node:
    """Read a Node. One without a Ready condition has not reported yet: not ready."""
    ready = condition(obj, "Ready")
    return views.Node(
        name=required(obj, "metadata", "name"),
        labels=_labels_of(obj, names.NODE_LABEL_PREFIXES),
        ready=text(ready, "status") == "True",
        ready_since=when(ready, "lastTransitionTime"),
        taints=_taints(obj),
        cordoned=flag(obj, "spec", "unschedulable", default=False),
        annotations={
            key: text(obj, "metadata", "annotations", key)
            for key in names.NODE_ANNOTATIONS
            if key in mapping(obj, "metadata", "annotations")
        },
        gpus=small_number(mapping(obj, "status", "capacity").get(names.GPU_RESOURCE)),
    )


def _labels_of(obj: Json, prefixes: tuple[str, ...]) -> Mapping[str, str]:
    """Return the labels under these prefixes; objects with the same ones share them."""
    found = (
        (intern(key), intern(text(obj, "metadata", "labels", key)))
        for key in mapping(obj, "metadata", "labels")
        if key.startswith(prefixes)
    )
    return _labels(tuple(sorted(found)))


@lru_cache(maxsize=1024)
def _labels(found: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return MappingProxyType(dict(found))


def daemonset(obj: Json) -> views.DaemonSet:
    """Read a DaemonSet of any kind; which ones matter is decided elsewhere."""
    template = mapping(obj, "spec", "template")
    owner = owner_of(obj)
    return views.DaemonSet(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        uid=required(obj, "metadata", "uid"),
        generation=counted(obj, "metadata", "generation"),
        observed_generation=number(obj, "status", "observedGeneration"),
        # A controller that has seen it once writes this also where it is zero.
        desired=(counted if mapping(obj, "status").get("observedGeneration") else number)(
            obj, "status", "desiredNumberScheduled"
        ),
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
        template_labels=texts(template, "metadata", "labels"),
        node_selector=texts(template, "spec", "nodeSelector"),
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
        owner_uid=owner_uid(obj),
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
    ready = condition(obj, "Ready")
    found = views.Pod(
        namespace=intern(required(obj, "metadata", "namespace")),
        name=required(obj, "metadata", "name"),
        uid=required(obj, "metadata", "uid"),
        resource_version=required(obj, "metadata", "resourceVersion"),
        node=intern(text(obj, "spec", "nodeName")),
        owner_uid=intern(owner_uid(obj)),
        hash=intern(text(obj, "metadata", "labels", names.REVISION_HASH_LABEL)),
        deleting=when(obj, "metadata", "deletionTimestamp") is not None,
        ended=text(obj, "status", "phase") in ("Succeeded", "Failed"),
        ready=text(ready, "status") == "True",
        containers_ready_since=since,
        init_containers=containers(obj, "initContainers", "initContainerStatuses"),
        containers=containers(obj, "containers", "containerStatuses"),
        labels=_labels_of(obj, ("",)),
    )
    if impossible := contradiction(found, when(ready, "lastTransitionTime")):
        raise MalformedObjectError(f"status: {impossible}")
    return found


def device_slice(obj: Json) -> views.DeviceSlice:
    """Read a ResourceSlice; ``v1beta1`` keeps attributes one level deeper, under ``basic``."""
    devices = items(obj, "spec", "devices")
    attributes = (mapping(device, "attributes") or mapping(device, "basic", "attributes") for device in devices)
    versions = (text(found, names.DRIVER_VERSION_ATTRIBUTE, "version") for found in attributes)
    return views.DeviceSlice(
        name=required(obj, "metadata", "name"),
        node=intern(text(obj, "spec", "nodeName")),
        devices=len(devices),
        pool=intern(text(obj, "spec", "pool", "name")),
        generation=number(obj, "spec", "pool", "generation"),
        driver_versions=shared(frozenset(intern(version) for version in versions if version)),
    )


def deployment(obj: Json) -> views.Deployment:
    """Read the operator's Deployment."""
    replicas, pods = mapping(obj, "spec").get("replicas"), ("spec", "template", "spec")
    return views.Deployment(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        uid=required(obj, "metadata", "uid"),
        revision=text(obj, "metadata", "annotations", names.DEPLOYMENT_REVISION_ANNOTATION),
        generation=counted(obj, "metadata", "generation"),
        observed_generation=number(obj, "status", "observedGeneration"),
        wanted=1 if replicas is None else number(obj, "spec", "replicas"),
        total=number(obj, "status", "replicas"),
        updated=number(obj, "status", "updatedReplicas"),
        available=number(obj, "status", "availableReplicas"),
        changed=when(condition(obj, "Progressing"), "lastUpdateTime"),
        named_by_host=flag(obj, *pods, "hostNetwork", default=False) or bool(text(obj, *pods, "hostname")),
    )


def replicaset(obj: Json) -> views.ReplicaSet:
    """Read a ReplicaSet of the operator's Deployment."""
    return views.ReplicaSet(
        namespace=required(obj, "metadata", "namespace"),
        name=required(obj, "metadata", "name"),
        owner_uid=owner_uid(obj),
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


def _taints(obj: Json) -> tuple[views.Taint, ...]:
    """Give the taints that can keep a DaemonSet's pod off a node."""
    found = (
        views.Taint(key=text(one, "key"), value=text(one, "value"), effect=text(one, "effect"))
        for one in items(obj, "spec", "taints")
    )
    taints = tuple(found)
    if odd := next((taint.effect for taint in taints if taint.effect not in names.TAINT_EFFECTS), None):
        raise MalformedObjectError(f"spec.taints: unknown effect {odd[:40]!r}")
    return tuple(
        taint
        for taint in taints
        if taint.effect in names.REPELLING_EFFECTS and not taint.key.startswith(names.NODE_CONDITION_TAINTS)
    )


def _text_or_empty(obj: Json, *path: str) -> str:
    try:
        return text(obj, *path)
    except MalformedObjectError:
        return ""


def _match_labels(obj: Json) -> tuple[tuple[str, str], ...]:
    labels = mapping(obj, "spec", "selector", "matchLabels")
    return tuple(sorted((key, text(labels, key)) for key in labels))
