"""Plain API objects: the fields that every controller asks for, and how it meets failing requests."""

from __future__ import annotations

import json
import zlib
from typing import Any

import aiohttp

from devcluster.client import ApiError

Object = dict[str, Any]

TROUBLE = (ApiError, aiohttp.ClientError, TimeoutError)
"""What a request can end with: the object is gone or newer, a permission not there yet, a server too busy.
A controller does not ask which; it looks again."""

HASH = "controller-revision-hash"
"""What the DaemonSet controller labels pods and revisions with."""

RENDERED = "nvidia.com/last-applied-hash"
"""An operator updates a DaemonSet only where this annotation says that its rendering changed."""

OS_TAG = "ubuntu22.04"
"""How images name the system of every simulated node."""

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""What lets a pod on the GPU nodes."""


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


def age(thing: Object) -> tuple[str, str]:
    """Sort the oldest first; of two of one second the first by name."""
    return thing["metadata"]["creationTimestamp"], name_of(thing)


def digest(value: object) -> str:
    """Return a short fingerprint of anything that JSON can spell."""
    return str(zlib.crc32(json.dumps(value, sort_keys=True).encode()))


def image_of(spec: Object) -> str:
    """Spell the image of an operand."""
    return f"{spec['repository']}/{spec['image']}:{spec['version']}"


def owned_by(owner: Object, daemonset: Object, namespace: str) -> Object:
    """Complete a DaemonSet of one of an operator's own objects; an annotation says what it was rendered as."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    further = {
        "namespace": namespace,
        "annotations": {RENDERED: digest(daemonset["spec"])},
        "ownerReferences": [reference],
    }
    return daemonset | {"metadata": daemonset["metadata"] | further}
