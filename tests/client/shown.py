"""API servers that show a cluster of fixtures and keep what is written: lists by selector, watches that end at once."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from hook.format import timestamp
from hook.kube.election import LeaderElectionConfig, LeaderElector
from tests.client.server import GRANTED, Said, Server, listed, refused, serving, told, until
from tests.fixtures.cluster import Cluster
from tests.fixtures.objects import Object
from tests.fixtures.schemas import conforms

PLURALS: Final = {"ClusterPolicy": "clusterpolicies"}
"""Of the kinds that do not only get an s."""
NAMESPACE, NAME = "gpu-operator", "post"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LEASE: Final = f"{LEASES}/{NAME}"
JOB: Final = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{NAME}"


class Shown:
    """Answers as an API server with this cluster would, and with a Job that has just started. It grants every write."""

    def __init__(self, found: Cluster | None = None, more: Callable[[], list[Object]] = list) -> None:
        self.found, self._more = found or Cluster(), more
        self.version = 1000
        """Of the cluster: no object is of a later one."""
        self.instead: Callable[[str], Said | None] = lambda _line: None
        """Answers in place of the truth, where it gives an answer."""
        self.lease: dict[str, Any] | None = None
        self.written: list[tuple[str, Any]] = []
        """Other writes that were granted: each one's method and path, and its body."""
        self._changes = 0

    def __call__(self, line: str) -> Said:
        """Answer what has no body."""
        if (instead := self.instead(line)) is not None:
            return instead
        if line.endswith(LEASE):
            return told(**self.lease) if self.lease else refused(404)
        if line.endswith(JOB):
            return told(kind="Job", metadata={"name": NAME, "uid": "job-uid"}, status={"startTime": _now()})
        path, query = urlsplit(line.split(" ")[1])[2:4]
        asked = {key: found[0] for key, found in parse_qs(query).items()}
        if "watch" in asked:
            # Nothing more is to come, as a bookmark shows.
            mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
            return Said(200, json.dumps(mark).encode() + b"\n")
        there = (obj for part in self.found.parts for obj in self.found.of(part))
        items = [obj for obj in (*there, *self._more()) if _is_in(obj, path) and _is_selected(obj, asked)]
        return listed(*items, version=str(self.version))

    def wrote(self, line: str, body: bytes) -> Said:
        """Answer a write: of the Lease with its version as precondition."""
        if (instead := self.instead(line)) is not None:
            return instead
        said = json.loads(body)
        if line == f"POST {LEASES}":
            return self.keep(said) if self.lease is None else refused(409)
        if line != f"PATCH {LEASE}":
            self.written.append((line, said))
            return GRANTED
        if self.lease is None:
            return refused(404)
        current = said["metadata"]["resourceVersion"] == str(self._changes)
        return self.keep(_merged(self.lease, said)) if current else refused(409)

    def keep(self, lease: dict[str, Any]) -> Said:
        """Keep the Lease in its next version."""
        self._changes += 1
        self.lease = _merged(lease, {"metadata": {"resourceVersion": str(self._changes)}})
        return told(**self.lease)

    def change(self, **spec: object) -> None:
        """Change the Lease as another replica does."""
        assert self.lease is not None
        self.keep(_merged(self.lease, {"spec": spec}))

    @property
    def statuses(self) -> list[dict[str, str]]:
        """Return each state of the status object."""
        return [conforms("status-object", body["data"]) for line, body in self.written if "/configmaps/" in line]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return each Event, as often as it was written."""
        return [body for line, body in self.written if "/events/" in line]

    def events_on(self, kind: str) -> list[tuple[str, str]]:
        """Return type and reason of the Events on objects of a kind."""
        return [(each["type"], each["reason"]) for each in self.events if each["involvedObject"]["kind"] == kind]

    @property
    def holder(self) -> str:
        """Who holds the Lease."""
        return str(self.lease["spec"].get("holderIdentity", "")) if self.lease else ""


@contextlib.contextmanager
def showing(found: Cluster, more: Callable[[], list[Object]] = list) -> Iterator[Server]:
    """Show a cluster, and objects made anew for each request."""
    with serving(Shown(found, more)) as server:
        yield server


@contextlib.contextmanager
def keeping() -> Iterator[tuple[Shown, Server]]:
    """Show nothing, and keep the Lease."""
    shown = Shown()
    with serving(shown, shown.wrote) as server:
        yield shown, server


def held(server: Server, retry_period: float = 300) -> LeaderElector:
    """Hold the Lease for as long as a test may take. It was renewed once, and is renewed again after the period."""
    tries: list[str] = []
    config = LeaderElectionConfig(NAMESPACE, NAME, "a", 900, 600, retry_period)
    lease = LeaderElector(server.api, config, tries.append)
    lease.start()
    until(lambda: len(tries) > 1 and lease.leading, "it leads and has renewed once")
    return lease


def _now() -> str:
    return timestamp(datetime.now(UTC))


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Merge as RFC 7396 says, for what is patched here."""
    return {**old, **{key: _merged(old.get(key) or {}, value) if isinstance(value, dict) else value
                      for key, value in new.items()}}  # fmt: skip


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
