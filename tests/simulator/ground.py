"""One simulated node without a cluster: an API server that takes everything, and nothing takes any time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from devcluster.access import Access
from devcluster.client import Api, Object
from devcluster.fleet.kubelet import kind_of
from devcluster.fleet.life import Life, Place
from devcluster.fleet.node import Node
from devcluster.fleet.settings import Settings
from devcluster.fleet.stack import DriverPod
from devcluster.journal import JOURNAL, Entry, Journal
from devcluster.truth import GPU, Truth

NAME: Final = "gpu-0"
OWNER: Final = "owner-uid"
SPELLED: Final = [each for each in fields(Entry) if each.name not in {"t", "event", "node", "stack", "uid"}]


class Obliging(Api):
    """An API server that takes everything. It keeps one node, and what the journal had when pods turned Ready."""

    def __init__(self, journal: Path) -> None:
        super().__init__(Access("", ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ""))
        self.journal = journal
        self.node: Object = {"metadata": {"resourceVersion": "1", "annotations": {}, "labels": {}}}
        self.ready: dict[str, list[str]] = {}
        """The events in the journal when a pod was first reported Ready, by its UID."""

    async def request(
        self,
        method: str,
        url_path: str,
        *,
        body: Any = None,  # noqa: ANN401 - any object
        params: Mapping[str, str] | None = None,  # noqa: ARG002 - as its base has it
        content_type: str = "",  # noqa: ARG002 - as its base has it
    ) -> Object:
        """Answer at once."""
        if method == "PATCH" and "/nodes/" in url_path:
            return self.change(body.get("metadata", {}))
        if method == "PATCH" and "status" in body:
            conditions = {each["type"]: each["status"] for each in body["status"]["conditions"]}
            if conditions["Ready"] == "True":
                written = self.journal.read_text().splitlines(keepends=True)
                self.ready.setdefault(body["metadata"]["uid"], [Entry.parse(line).event for line in written])
        return {}

    def change(self, metadata: Object) -> Object:
        """Merge something into the node, and return it as it is then."""
        mine = self.node["metadata"]
        changed = {key: mine[key] | metadata.get(key, {}) for key in ("annotations", "labels")}
        self.node = {"metadata": changed | {"resourceVersion": str(int(mine["resourceVersion"]) + 1)}}
        return self.node


class Ground:
    """The node, what lives on it, and its journal."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder = folder
        self.api = Obliging(folder / JOURNAL)
        self.node = Node(NAME, "node-uid", journal)
        self.newest = "new"
        """The hash of the newest revision of the driver's DaemonSet."""
        self.settings = at_once()
        self.place = Place(self.api, self.settings, self.node, self._is_current)

    def _is_current(self, driver: DriverPod) -> bool:
        return (driver.owner, driver.hash) == (OWNER, self.newest)

    async def change(self, **metadata: dict[str, str]) -> None:
        """Change the node's labels or annotations, and let everyone see it."""
        self.node.update(self.api.change(metadata))
        await settle()

    async def start(self, pod: Object) -> Life:
        """Let a pod come, and live until it waits for something."""
        kind = kind_of(pod)
        assert kind is not None
        life = kind(self.place, pod)
        life.start()
        await settle()
        return life

    async def end(self, life: Life) -> None:
        """Delete a pod, and wait until it is gone."""
        life.delete()
        await settle()
        assert life.gone

    def truth(self, stack: str = GPU) -> Truth:
        """Read the journal."""
        return Truth.read(self.folder, stack)

    def restarts(self) -> dict[str, str]:
        """Return how each plugin's pod that was restarted was judged."""
        return {each.pod: "stale" if each.stale else "fresh" for each in self.truth().restarts()}

    def told(self, stack: str = GPU, since: int = 0) -> list[str]:
        """Spell the journal from this line on: each event with what it has."""
        return [_spelled(each) for each in self.truth(stack).entries[since:]]


def at_once() -> Settings:
    """Return settings with which nothing takes any time."""
    return Settings(**{each.name: 0.0 for each in fields(Settings) if each.name.endswith("_seconds")})


async def settle() -> None:
    """Let everyone go on until all wait for something that is not time."""
    for _ in range(100):
        await asyncio.sleep(0)


def pod(name: str, *containers: str, init: str = "", **more: Any) -> Object:  # noqa: ANN401 - parts of a spec or metadata
    """Make a pod; `more` are image, env, labels, annotations, claims, and the labels that select its node."""
    env = [{"name": key, "value": value} for key, value in more.get("env", {}).items()]
    image = more.get("image", "image:1")
    spec = {
        "containers": [{"name": each, "image": image, "env": env} for each in containers],
        "initContainers": [{"name": init, "image": image}] if init else [],
        "nodeSelector": dict.fromkeys(more.get("selects", ()), "true"),
        "resourceClaims": [{"name": "gpu"}] if more.get("claims") else [],
    }
    owner = {"kind": "DaemonSet", "name": more.get("owner", "plugin"), "uid": OWNER}
    metadata = {
        "name": name,
        "uid": f"{name}-uid",
        "namespace": "dra",
        "ownerReferences": [owner],
        "labels": more.get("labels", {}),
        "annotations": more.get("annotations", {}),
    }
    return {"metadata": metadata, "spec": spec}


def _spelled(each: Entry) -> str:
    found = {field.name: getattr(each, field.name) for field in SPELLED if getattr(each, field.name) != field.default}
    return " ".join([each.event, *(key if value is True else f"{key}={value}" for key, value in found.items())])
