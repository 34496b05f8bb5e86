"""An end is believed once the caches hold what a consistent list of metadata shows; what they lack is read in full."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from hook.config import Settings
from hook.kube import confirm, retry
from hook.kube.cache import Cache
from hook.objects.drivers import GPU_OPERATOR
from tests.client.server import METADATA, Said, serving
from tests.client.test_losing_contact import PATIENCE, told, until
from tests.fixtures.objects import obj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.client.server import Server

OURS: Final = "clusterpolicies"


def policy(generation: int, version: str, name: str = "cluster-policy") -> dict[str, Any]:
    """Return a policy at a version."""
    return obj("policy", {"metadata": {"name": name, "generation": generation, "resourceVersion": version}})


FIRST: Final = policy(1, "90")
GONE: Final = Said(410, b'{"kind": "Status", "code": 410}')
UNKNOWN: Final = Said(404, b'{"kind": "Status", "code": 404}')


@dataclass
class Cluster:
    """Policies, as an API server shows them to lists and to watches; no object of any other kind."""

    there: list[dict[str, Any]] = field(default_factory=lambda: [FIRST])
    version: str = "100"
    events: bytes = b""
    """What a watch from the first version sends. A watch from a later one sends nothing."""
    deliver: threading.Event = field(default_factory=threading.Event)
    """Until then the watch says nothing."""
    metadata: Callable[[str], Said | None] = lambda _line: None
    """Answers a question for metadata in place of the truth, where it gives an answer."""

    def answer(self, line: str) -> Said:
        """Answer a request; every list with whole objects, as a server does that ignores what was asked for."""
        if "watch=true" in line:
            self.deliver.wait()
            return Said(200, self.events if OURS in line and "resourceVersion=100&" in f"{line}&" else b"")
        if OURS in line and METADATA in line and (said := self.metadata(line)) is not None:
            return said
        return told(items=self.there if OURS in line else [], metadata={"resourceVersion": self.version})

    def change(self, *there: dict[str, Any], events: tuple[tuple[str, dict[str, Any]], ...] = ()) -> None:
        """Let something happen, of which the watch may tell."""
        self.there, self.version = list(there), "120"
        lines = (json.dumps({"type": kind, "object": each}).encode() + b"\n" for kind, each in events)
        self.events = b"".join(lines)


@contextlib.contextmanager
def observed(cluster: Cluster) -> Iterator[tuple[Cache, Server]]:
    """Observe the cluster as it is, with watches that are open and say nothing."""
    with serving(cluster.answer) as server:
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        cache.watch_policies()
        until(lambda: cache.synced and server.count("watch=true") >= 2)
        try:
            yield cache, server
        finally:
            cache.stop()
            cluster.deliver.set()


def confirmed(cluster: Cluster, happens: Callable[[], object] = lambda: None) -> tuple[list[tuple[str, int]], int]:
    """Read a second time: return the policies that are seen then, and how many full lists of them that took."""
    with observed(cluster) as (cache, server):
        happens()
        before = len(server.asked)
        seen = cache.read_consistently(10 * PATIENCE)[GPU_OPERATOR.name]
        lists = sum(OURS in line and "limit=" in line and METADATA not in line for line in server.asked[before:])
    return [(policy.name, policy.generation) for policy in seen.policies or ()], lists


@pytest.fixture
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no watch: it is dead."""
    monkeypatch.setattr(confirm, "DELIVERY_SECONDS", 0.0)


NAME: Final = "cluster-policy"


@pytest.mark.usefixtures("_no_wait")
def test_what_the_watches_have_shown_is_not_read_again() -> None:
    """Each object is held at the version that it is at; that other kinds have moved on means nothing."""
    cluster = Cluster()
    assert confirmed(cluster, lambda: cluster.change(FIRST)) == ([(NAME, 1)], 0)


CHANGES: Final = {
    "changed": ((policy(2, "115"),), (("MODIFIED", policy(2, "115")),)),
    "vanished": ((), (("DELETED", policy(1, "115")),)),
    "appeared": ((FIRST, policy(7, "115", "other")), (("ADDED", policy(7, "115", "other")),)),
    "recreated": ((policy(1, "116"),), (("DELETED", policy(1, "115")), ("ADDED", policy(1, "116")))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_watch_that_is_behind_is_waited_for(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """It delivers only after the metadata was listed; then nothing needs to be read in full."""
    monkeypatch.setattr(confirm, "DELIVERY_SECONDS", 10 * PATIENCE)
    there, events = CHANGES[change]
    cluster = Cluster()
    cluster.metadata = lambda _line: cluster.deliver.set()
    expected = [(one["metadata"]["name"], one["metadata"]["generation"]) for one in there]
    assert confirmed(cluster, lambda: cluster.change(*there, events=events)) == (expected, 0)


@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_dead_watch_does_not_show_is_read_in_full(change: str) -> None:
    """It is open and silent, and what it does not show is seen all the same."""
    there, _events = CHANGES[change]
    cluster = Cluster()
    expected = [(one["metadata"]["name"], one["metadata"]["generation"]) for one in there]
    assert confirmed(cluster, lambda: cluster.change(*there)) == (expected, 1)


@pytest.mark.usefixtures("_no_wait")
def test_a_cluster_that_was_set_back_is_read_in_full() -> None:
    """Restored from a backup: the later version that the cache holds is of a future that is gone."""
    cluster = Cluster()

    def restored() -> None:
        cluster.there, cluster.version = [policy(9, "80")], "85"

    assert confirmed(cluster, restored) == ([(NAME, 9)], 1)


@pytest.mark.usefixtures("_no_wait")
@pytest.mark.parametrize("odd", [GONE, Said(406, GONE.body), told(items="?")], ids=["expired", "refused", "no-list"])
def test_where_metadata_cannot_be_listed_all_is_read_in_full(odd: Said) -> None:
    """A page that expired while others were read, a refusal, an answer that is no list: none of them ends a run."""
    cluster = Cluster()
    first = told(items=[FIRST], metadata={"resourceVersion": "100", "continue": "more"})
    cluster.metadata = lambda line: odd if "continue" in line else first
    assert confirmed(cluster) == ([(NAME, 1)], 1)


@pytest.mark.usefixtures("_no_wait")
def test_all_pages_count() -> None:
    """Also one that the server has compressed; an answer that broke off is asked for again."""
    other = policy(7, "95", "other")
    cluster = Cluster([FIRST, other])
    last = told(items=[other], metadata={"resourceVersion": "100"})
    pages = [
        told(items=[FIRST], metadata={"resourceVersion": "100", "continue": "more"}),
        Said(200, b'{"items": ['),
        Said(200, gzip.compress(last.body), {**last.headers, "content-encoding": "gzip"}),
    ]
    cluster.metadata = lambda _line: pages.pop(0)
    assert confirmed(cluster) == ([(NAME, 1), ("other", 7)], 0)
    assert pages == []


def test_a_kind_that_vanished_is_absent_from_a_second_read() -> None:
    """A CRD that was deleted: none is not the same as an empty list."""
    cluster = Cluster()
    with serving(lambda line: UNKNOWN if gone.is_set() and OURS in line else cluster.answer(line)) as server:
        gone = threading.Event()
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        cache.watch_policies()
        until(lambda: cache.synced and server.count("watch=true") >= 2)
        gone.set()
        seen = cache.read_consistently(PATIENCE)[GPU_OPERATOR.name]
        cache.stop()
        cluster.deliver.set()
    assert (seen.policies, seen.daemonsets) == (None, ())
