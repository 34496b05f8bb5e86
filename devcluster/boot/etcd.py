"""Put objects straight into the API server's storage: a fleet of thousands in seconds, statuses and all.

Through the API the same takes several writes an object, each with admission and validation, and minutes.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from devcluster.boot.layout import State
    from devcluster.client import Object

PREFIXES = {
    "Node": "minions",
    "Pod": "pods",
    "DaemonSet": "daemonsets",
    "ControllerRevision": "controllerrevisions",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
}
"""Where the API server keeps each kind, below ``/registry`` (pkg/registry: the resource's name, but for nodes)."""

MOST_OBJECTS = 100
"""In one transaction; etcd takes 128 operations (``--max-txn-ops``)."""

MOST_BYTES = 1_000_000
"""In one transaction; etcd takes 1.5 MiB (``--max-request-bytes``)."""


def put(state: State, objects: Iterable[Object]) -> None:
    """Store objects as they are, with names and identities of the caller's choice. The API server decodes JSON."""
    for batch in _batches((_key(each), json.dumps(each).encode()) for each in objects):
        puts = [{"requestPut": {"key": _encoded(key.encode()), "value": _encoded(value)}} for key, value in batch]
        _post(f"{state.etcd.read_text()}/v3/kv/txn", {"success": puts})


def _key(each: Object) -> str:
    """Name the key of an object."""
    metadata = each["metadata"]
    parts = ("registry", PREFIXES[each["kind"]], metadata.get("namespace", ""), metadata["name"])
    return "/" + "/".join(part for part in parts if part)


def _batches(pairs: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Group what fits into one transaction."""
    batch: list[tuple[str, bytes]] = []
    size = 0
    for key, value in pairs:
        if batch and (len(batch) == MOST_OBJECTS or size + len(value) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += len(value)
    if batch:
        yield batch


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _post(url: str, body: dict[str, Any]) -> None:
    """Put objects by etcd's JSON gateway, all or none."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback, ours
        if not json.load(answer).get("succeeded"):
            raise OSError(f"etcd did not take {len(body['success'])} objects")
