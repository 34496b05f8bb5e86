"""The schemas of the API server's objects, as far as a reader might look.

`tests/fixtures/schemas.json` is cut from the OpenAPI of the embedded API server (`reduced`); a test on a cluster
compares it with that of the current one. Policies have no schema there: their CRDs keep unknown fields, so that for
them the objects themselves show which paths there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE: Final = Path(__file__).parents[1] / "fixtures" / "schemas.json"
Schema = dict[str, Any]
Path_ = tuple[str, ...]

KINDS: Final = {
    "Pod": ("api/v1", "io.k8s.api.core.v1.Pod"),
    "Node": ("api/v1", "io.k8s.api.core.v1.Node"),
    "DaemonSet": ("apis/apps/v1", "io.k8s.api.apps.v1.DaemonSet"),
    "Deployment": ("apis/apps/v1", "io.k8s.api.apps.v1.Deployment"),
    "ReplicaSet": ("apis/apps/v1", "io.k8s.api.apps.v1.ReplicaSet"),
    "ControllerRevision": ("apis/apps/v1", "io.k8s.api.apps.v1.ControllerRevision"),
    "Lease": ("apis/coordination.k8s.io/v1", "io.k8s.api.coordination.v1.Lease"),
    "ResourceSlice": ("apis/resource.k8s.io/v1", "io.k8s.api.resource.v1.ResourceSlice"),
}
"""Each kind's document under ``/openapi/v3``, and its name in it."""
UNREAD: Final = frozenset(
    {
        "affinity", "dnsConfig", "env", "envFrom", "ephemeralContainers", "ephemeralContainerStatuses", "lifecycle",
        "livenessProbe", "readinessProbe", "resources", "securityContext", "startupProbe", "volumeDevices",
        "volumeMounts", "volumes", "topologySpreadConstraints", "images", "volumesAttached", "nodeInfo", "config",
        "sharedCounters", "consumesCounters", "hostAliases", "resourceClaimStatuses", "allocatedResourcesStatus",
    }
)  # fmt: skip
"""Subtrees that say nothing about drivers and would be most of the file."""
DEEPEST: Final = 9
END: Final = "[]"
"""Stands in a path for any element of a list."""
ANY: Final = "*"
"""Stands in a path for any key of a map."""


@dataclass(frozen=True, slots=True)
class Place:
    """A path of a kind, and what the schema says of it."""

    path: Path_
    type: str
    format: str = ""


def reduced(document: Mapping[str, Schema], name: str) -> Schema:
    """Cut a schema down to types, formats and values, with its references followed."""
    return _reduced(document, {"$ref": f"/{name}"}, DEEPEST)


def _reduced(document: Mapping[str, Schema], schema: Schema, depth: int) -> Schema:
    if len(schema.get("allOf", ())) == 1:
        schema = {**schema, **schema["allOf"][0]}
    if "$ref" in schema:
        schema = document[schema["$ref"].rpartition("/")[2]]
    found: Schema = {key: schema[key] for key in ("type", "format", "enum") if key in schema}
    if depth and "properties" in schema:
        read = {key: one for key, one in sorted(schema["properties"].items()) if key not in UNREAD}
        found["properties"] = {key: _reduced(document, one, depth - 1) for key, one in read.items()}
    for key in ("items", "additionalProperties") if depth else ():
        if isinstance(schema.get(key), dict):
            found[key] = _reduced(document, schema[key], depth - 1)
    return found


@cache
def places(kind: str) -> tuple[Place, ...]:
    """List every path of a kind; none for one whose schema is open."""
    schemas: dict[str, Schema] = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(_places(schemas[kind], ())) if kind in schemas else ()


def _places(schema: Schema, path: Path_) -> Iterator[Place]:
    if path:
        yield Place(path, schema.get("type", "any"), schema.get("format", ""))
    for key, one in schema.get("properties", {}).items():
        yield from _places(one, (*path, key))
    for key, step in (("items", END), ("additionalProperties", ANY)):
        if key in schema:
            yield from _places(schema[key], (*path, step))
