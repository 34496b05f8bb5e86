"""API servers that show a cluster of fixtures: lists by selector, and watches that end at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.client.server import Said, Server, listed, serving
from tests.fixtures.cluster import Cluster
from tests.fixtures.objects import Object

PLURALS: Final = {"ClusterPolicy": "clusterpolicies"}
"""Of the kinds that do not only get an s."""


class Shown:
    """Answers as an API server with this cluster would."""

    def __init__(self, found: Cluster, more: Callable[[], list[Object]] = list) -> None:
        self.found, self._more = found, more
        self.version = 1000
        """Of the cluster: no object is of a later one."""
        self.instead: Callable[[str], Said | None] = lambda _line: None
        """Answers in place of the truth, where it gives an answer."""

    def __call__(self, line: str) -> Said:
        """Answer what has no body."""
        if (instead := self.instead(line)) is not None:
            return instead
        path, query = urlsplit(line.split(" ")[1])[2:4]
        asked = {key: found[0] for key, found in parse_qs(query).items()}
        if "watch" in asked:
            # Nothing more is to come, as a bookmark shows.
            mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
            return Said(200, json.dumps(mark).encode() + b"\n")
        there = (obj for part in self.found.parts for obj in self.found.of(part))
        items = [obj for obj in (*there, *self._more()) if _is_in(obj, path) and _is_selected(obj, asked)]
        return listed(*items, version=str(self.version))


@contextlib.contextmanager
def showing(found: Cluster, own_leases: Callable[[], list[Object]] = list) -> Iterator[Server]:
    """Show the cluster, and Leases made anew for each request: a controller renews its own."""
    with serving(Shown(found, own_leases)) as server:
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
