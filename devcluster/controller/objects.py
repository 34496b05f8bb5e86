"""Plain API objects: the fields that every controller asks for, and how it meets failing requests."""

from __future__ import annotations

import json
import zlib
from typing import Any

import aiohttp

from devcluster.client import ApiError, path

Object = dict[str, Any]

TROUBLE = (ApiError, aiohttp.ClientError, TimeoutError)
"""What a request can end with: the object is gone or newer, a permission not there yet, a server too busy.
A controller does not ask which; it looks again."""

HASH = "controller-revision-hash"
"""What the DaemonSet controller labels pods and revisions with."""

NFD_KERNEL = "feature.node.kubernetes.io/kernel-version.full"
NFD_OS = "feature.node.kubernetes.io/system-os_release.ID"
NFD_OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"

NODES = path("v1", "nodes")


TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""What lets a pod on the GPU nodes."""

NODE_NAME = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
"""The environment variable that names a pod's node."""


def labels_of(thing: Object) -> dict[str, str]:
    """Return an object's labels."""
    labels: dict[str, str] = thing["metadata"].get("labels", {})
    return labels


def annotations_of(thing: Object) -> dict[str, str]:
    """Return an object's annotations."""
    annotations: dict[str, str] = thing["metadata"].get("annotations", {})
    return annotations


def name_of(thing: Object) -> str:
    """Return an object's name."""
    return str(thing["metadata"]["name"])


def is_owned_by(thing: Object, owner: Object) -> bool:
    """Return whether an object belongs to another one."""
    return any(each["uid"] == owner["metadata"]["uid"] for each in thing["metadata"].get("ownerReferences", []))


def lives(thing: Object) -> bool:
    """Return whether an object is not being deleted."""
    return "deletionTimestamp" not in thing["metadata"]


def age(thing: Object) -> tuple[str, str]:
    """Sort the oldest first; of two of one second the first by name."""
    return thing["metadata"]["creationTimestamp"], name_of(thing)


def by_number(name: str) -> tuple[int, str]:
    """Sort gpu-2 before gpu-10."""
    return len(name), name


def digest(value: object) -> str:
    """Return a short fingerprint of anything that JSON can spell."""
    return str(zlib.crc32(json.dumps(value, sort_keys=True).encode()))


def image_of(spec: Object) -> str:
    """Spell the image of an operand."""
    return f"{spec['repository']}/{spec['image']}:{spec['version']}"


def owned_daemonset(owner: Object, metadata: Object, spec: Object, hash_key: str) -> Object:
    """Spell a DaemonSet of one of an operator's own objects; an annotation says what it was rendered as."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    further = {"annotations": {hash_key: digest(spec)}, "ownerReferences": [reference]}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata | further, "spec": spec}
