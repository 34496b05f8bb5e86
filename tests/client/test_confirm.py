"""An end is believed once the caches hold what a consistent list of metadata shows; what they lack is read in full."""

# ruff: noqa: B023 - what is defined in a loop is used in the same turn
from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import pytest

from hook.config import Settings
from hook.errors import ClusterError
from hook.kube import confirm, retry
from hook.kube.cache import Cache
from hook.kube.listing import list_views
from hook.objects.drivers import GPU_OPERATOR
from tests.client.fixtured import DISCOVERY, GROUP
from tests.client.server import METADATA, PATIENCE, Said, Server, Trickle, events, listed, refused, serving, told, until
from tests.fixtures.objects import obj

OURS: Final = "clusterpolicies"
NAME: Final = "cluster-policy"


def policy(generation: int, version: str, name: str = "cluster-policy") -> dict[str, Any]:
    """Return a policy at a version."""
    return obj("policy", {"metadata": {"name": name, "generation": generation, "resourceVersion": version}})


FIRST: Final = policy(1, "90")


@dataclass
class Cluster:
    """Policies, as an API server shows them to lists and to watches; no object of any other kind."""

    there: list[dict[str, Any]] = field(default_factory=lambda: [FIRST])
    version: str = "100"
    events: Said = field(default_factory=lambda: Said(200))
    """What a watch from the first version sends. A watch from a later one sends nothing."""
    deliver: threading.Event = field(default_factory=threading.Event)
    """Until then the watch sends nothing."""
    metadata: Callable[[str], Said | None] = lambda _line: None
    """Answers a question for metadata in place of the truth, where it gives an answer."""

    def answer(self, line: str) -> Said:
        """Answer a request; every list with whole objects, as a server does that ignores what was asked for."""
        if line.endswith(DISCOVERY):
            return GROUP
        if "watch=true" in line:
            self.deliver.wait()
            return self.events if OURS in line and "resourceVersion=100&" in f"{line}&" else Said(200)
        if OURS in line and METADATA in line and (said := self.metadata(line)) is not None:
            return said
        return listed(*(self.there if OURS in line else []), version=self.version)

    def change(self, *there: dict[str, Any], watched: tuple[tuple[str, dict[str, Any]], ...] = ()) -> None:
        """Let something happen, which the watch may show."""
        self.there, self.version, self.events = list(there), "120", events(*watched)


def begun(server: Server) -> Cache:
    """Return a cache that is synced, with watches that are open."""
    cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
    cache.watch_fleet()
    until(lambda: cache.synced and server.count("watch=true") >= len(cache._informers), "all is read and watched")
    return cache


@contextlib.contextmanager
def observed(cluster: Cluster) -> Iterator[Cache]:
    """Observe the cluster as it is, with watches that are open and send nothing."""
    with serving(cluster.answer) as server:
        cache = begun(server)
        try:
            yield cache
        finally:
            cache.stop()
            cluster.deliver.set()


def confirmed(cluster: Cluster, happens: Callable[[], object] = lambda: None) -> tuple[list[tuple[str, int]], int]:
    """Read a second time: return the policies that are seen then, and how many full lists of them that took."""
    with observed(cluster) as cache, patch.object(confirm, "list_views", wraps=list_views) as spy:
        happens()
        seen = cache.read_consistently(10 * PATIENCE)[GPU_OPERATOR.name]
    # Only what the second read lists: an informer may list again by itself.
    lists = sum(call.args[1].options.resource.plural == OURS for call in spy.call_args_list)
    return [(policy.name, policy.generation) for policy in seen.policies or ()], lists


@pytest.fixture
def _no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirm, "DELIVERY_SECONDS", 0.0)


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
    there, watched = CHANGES[change]
    cluster = Cluster()
    cluster.metadata = lambda _line: cluster.deliver.set()
    expected = [(each["metadata"]["name"], each["metadata"]["generation"]) for each in there]
    assert confirmed(cluster, lambda: cluster.change(*there, watched=watched)) == (expected, 0)


@pytest.mark.usefixtures("_no_wait")
def test_what_a_dead_watch_does_not_show_is_read_in_full() -> None:
    """It is open and silent, and what it does not show is seen all the same; also in a cluster that was set back."""
    for name, (there, _watched) in CHANGES.items():
        cluster = Cluster()
        expected = [(each["metadata"]["name"], each["metadata"]["generation"]) for each in there]
        assert confirmed(cluster, lambda: cluster.change(*there)) == (expected, 1), name
    cluster = Cluster()

    def restored() -> None:
        cluster.there, cluster.version = [policy(9, "80")], "85"

    assert confirmed(cluster, restored) == ([(NAME, 9)], 1)


@pytest.mark.usefixtures("_no_wait")
def test_where_metadata_cannot_be_listed_all_is_read_in_full() -> None:
    """A page that expired while others were read, a refusal, an answer that is no list: none of them ends a run."""
    first = listed(FIRST, version="100", **{"continue": "more"})
    for name, odd in (("expired", refused(410)), ("refused", refused(406)), ("no list", told(items="?"))):
        cluster = Cluster()
        cluster.metadata = lambda line: odd if "continue" in line else first
        assert confirmed(cluster) == ([(NAME, 1)], 1), name


@pytest.mark.usefixtures("_no_wait")
def test_all_pages_count() -> None:
    """Also one that the server has compressed; an answer that broke off is asked for again."""
    other = policy(7, "95", "other")
    cluster = Cluster([FIRST, other])
    last = listed(other, version="100")
    pages = [
        listed(FIRST, version="100", **{"continue": "more"}),
        Said(200, b'{"items": ['),
        Said(200, gzip.compress(last.body), {**last.headers, "content-encoding": "gzip"}),
    ]
    cluster.metadata = lambda _line: pages.pop(0)
    assert confirmed(cluster) == ([(NAME, 1), ("other", 7)], 0)
    assert pages == []


def test_a_second_read_has_a_bound() -> None:
    """Kinds, pages, tries and the wait for watches have the seconds that are left, however an answer trickles."""
    start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    for metadata in (True, False):
        cluster, slow = Cluster(), threading.Event()

        def answer(line: str) -> Said | Trickle:
            if slow.is_set() and "watch=true" not in line and (METADATA in line) is metadata:
                return Trickle(start, b" " * 1500)
            return cluster.answer(line)

        with serving(answer) as server:
            cache = begun(server)
            cluster.change(policy(2, "115"))
            slow.set()
            with pytest.raises(ClusterError):
                cache.read_consistently(0.5)
            assert not server.finished.is_set(), metadata
            cache.stop()
            cluster.deliver.set()
