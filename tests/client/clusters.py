"""A cluster of the fixtures as an API server shows it: lists by selector, watches that end at once, a clock."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.client.server import JSON, Said
from tests.fixtures.cluster import LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.fixtures.cluster import Cluster

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "clusterpolicies": ("policy",),
    "daemonsets": ("daemonset",),
    "nodes": ("node",),
    "pods": ("driver-pod", "plugin-pod"),
    "controllerrevisions": ("revision",),
    "deployments": ("deployment",),
    "replicasets": ("replicaset",),
    "leases": ("lease",),
    "resourceslices": ("slice",),
}


class Shown:
    """Answers as an API server with this cluster would."""

    def __init__(self, found: Cluster) -> None:
        self.found = found
        self.version = 1000
        """Of the cluster: no object is of a later one."""
        self.instead: Callable[[str], Said | None] = lambda _line: None
        """Answers in place of the truth, where it gives an answer."""
        self._began = time.monotonic()

    def __call__(self, line: str) -> Said:
        """Answer what has no body."""
        if (instead := self.instead(line)) is not None:
            return instead
        path, query = urlsplit(line.split(" ")[1])[2:4]
        if path == "/apis/resource.k8s.io":
            return self.said({"kind": "APIGroup", "versions": [{"version": "v1"}]})
        asked = {key: found[0] for key, found in parse_qs(query).items()}
        if "watch" in asked:
            # Nothing more is to come, as a bookmark shows.
            mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
            return Said(200, json.dumps(mark).encode() + b"\n", self._headers())
        parts = PARTS.get(path.rsplit("/", 1)[-1], ())
        found = [one for part in parts for one in self.found.of(part) if _selected(one, asked.get("labelSelector", ""))]
        return self.said({"kind": "List", "items": found, "metadata": {"resourceVersion": str(self.version)}})

    def said(self, obj: dict[str, Any]) -> Said:
        """Answer with an object, at this server's time."""
        return Said(200, json.dumps(obj).encode(), self._headers())

    def _headers(self) -> dict[str, str]:
        now = LATER + timedelta(seconds=time.monotonic() - self._began)
        return {**JSON, "date": format_datetime(now, usegmt=True)}


def _selected(obj: dict[str, Any], labels: str) -> bool:
    """Whether an object has labels; sets of values are no matter of these tests."""
    wanted = (one.partition("=") for one in labels.split(",") if "=" in one and "(" not in labels)
    has = obj["metadata"].get("labels", {})
    return all(has.get(key) == value for key, _equal, value in wanted)
