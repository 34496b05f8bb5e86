"""API servers that show a cluster of fixtures: lists by selector, and watches that end at once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from email.utils import format_datetime
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.client.server import JSON, Said, Server, listed, serving, told
from tests.fixtures.cluster import LATER, Cluster
from tests.fixtures.objects import Object

PLURALS: Final = {"ClusterPolicy": "clusterpolicies"}
"""Of the kinds that do not only get an s."""
GROUP: Final = told(kind="APIGroup", versions=[{"version": "v1"}])
DISCOVERY: Final = "/apis/resource.k8s.io"
"""Where the versions of ResourceSlices are asked for."""


class Shown:
    """Answers as an API server with this cluster would, with its time."""

    def __init__(self, found: Cluster, more: Callable[[], list[Object]] = list) -> None:
        self.found, self._more = found, more
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
        if path == DISCOVERY:
            return self.dated(GROUP)
        asked = {key: found[0] for key, found in parse_qs(query).items()}
        if "watch" in asked:
            # Nothing more is to come, as a bookmark shows.
            mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
            return self.dated(Said(200, json.dumps(mark).encode() + b"\n"))
        there = (obj for part in self.found.parts for obj in self.found.of(part))
        items = [obj for obj in (*there, *self._more()) if _is_in(obj, path) and _is_selected(obj, asked)]
        return self.dated(listed(*items, version=str(self.version)))

    def dated(self, said: Said) -> Said:
        """Answer at this server's time."""
        now = LATER + timedelta(seconds=time.monotonic() - self._began)
        return Said(said.status, said.body, {**JSON, "date": format_datetime(now, usegmt=True)})


@contextlib.contextmanager
def showing(found: Cluster, own_leases: Callable[[], list[Object]] = list) -> Iterator[Server]:
    """Show the cluster at the real time, and Leases made anew for each request: a controller renews its own."""
    shown = Shown(found, own_leases)
    shown.dated = lambda said: said  # type: ignore[method-assign]
    with serving(shown) as server:
        yield server


def _is_in(obj: Object, path: str) -> bool:
    *folders, plural = path.split("/")
    namespace = folders[-1] if "namespaces" in folders else obj["metadata"].get("namespace")
    mine = PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
    return bool(mine == plural and obj["metadata"].get("namespace") == namespace)


def _is_selected(obj: Object, asked: Mapping[str, str]) -> bool:
    """Whether an object has the labels, or the name; other fields are the same for all fixtures of a kind."""
    labels: Mapping[str, str] = obj["metadata"].get("labels", {})
    selector = asked.get("labelSelector", "")
    wanted = [] if "(" in selector else [each.partition("=") for each in selector.split(",") if each]
    name = asked.get("fieldSelector", "").partition("metadata.name=")[2]
    held = all(labels.get(key) == value if equals else key in labels for key, equals, value in wanted)
    return held and name in ("", obj["metadata"]["name"])
