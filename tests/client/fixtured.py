"""An API server that shows a cluster of fixtures, for the program as a process."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from tests.client.server import Said, Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.cluster import Cluster
    from tests.fixtures.objects import Object

PLURALS: Final = {"ClusterPolicy": "clusterpolicies"}
"""Of the kinds that do not only get an s."""
GROUP: Final = {"kind": "APIGroup", "versions": [{"version": "v1"}]}


@contextlib.contextmanager
def showing(found: Cluster, own_leases: Callable[[], list[Object]] = list) -> Iterator[Server]:
    """Show the cluster, and Leases that are made anew for each request: a living controller renews its own."""
    objects = [obj for part in found.parts for obj in found.of(part)]

    def answer(line: str) -> Said:
        url = urlsplit(line.split(" ")[1])
        if url.path == "/apis/resource.k8s.io":
            return _json(GROUP)
        asked = {key: values[0] for key, values in parse_qs(url.query).items()}
        if asked.get("watch") == "true":
            return Said(200)
        items = [obj for obj in (*objects, *own_leases()) if _is_in(obj, url.path) and _is_selected(obj, asked)]
        return _json({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})

    with serving(answer) as server:
        yield server


def _json(body: dict[str, Any]) -> Said:
    return Said(200, json.dumps(body).encode())


def _is_in(obj: Object, path: str) -> bool:
    *folders, plural = path.split("/")
    namespace = folders[-1] if "namespaces" in folders else obj["metadata"].get("namespace")
    mine = PLURALS.get(obj["kind"], f"{obj['kind'].lower()}s")
    return bool(mine == plural and obj["metadata"].get("namespace") == namespace)


def _is_selected(obj: Object, asked: dict[str, str]) -> bool:
    """Whether an object has the labels, or the name; other fields are the same for all fixtures of a kind."""
    labels: dict[str, str] = obj["metadata"].get("labels", {})
    wanted = [one.partition("=") for one in asked.get("labelSelector", "").split(",") if one]
    name = asked.get("fieldSelector", "").partition("metadata.name=")[2]
    held = all(labels.get(key) == value if equals else key in labels for key, equals, value in wanted)
    return held and name in ("", obj["metadata"]["name"])
