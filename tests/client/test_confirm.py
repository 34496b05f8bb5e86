"""An end is believed only by a second list of everything: it shows what a watch does not."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from hook.config import Settings
from hook.errors import ApiError
from hook.kube import retry
from hook.kube.cache import Cache
from tests.client.fixtured import DISCOVERY, GROUP
from tests.client.server import PATIENCE, Said, Server, Trickle, listed, refused, serving, until
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
    deliver: threading.Event = field(default_factory=threading.Event)
    """Until then watches are open. They never send anything."""
    instead: Callable[[str], Said | None] = lambda _line: None
    """Answers lists of policies in place of the truth, where it gives an answer."""

    def answer(self, line: str) -> Said:
        """Answer a request."""
        if line.endswith(DISCOVERY):
            return GROUP
        if "watch=true" in line:
            self.deliver.wait()
            return Said(200)
        if OURS in line and (said := self.instead(line)) is not None:
            return said
        return listed(*(self.there if OURS in line else []), version=self.version)

    def change(self, *there: dict[str, Any]) -> None:
        """Let something happen, which no watch shows."""
        self.there, self.version = list(there), "120"


def begun(server: Server) -> Cache:
    """Return a cache that is synced, with watches that are open."""
    cache = Cache(server.api, Settings(), retry.starting(PATIENCE))
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


def confirmed(cluster: Cluster, happens: Callable[[], object] = lambda: None) -> list[tuple[str, int]]:
    """Read a second time, and return the policies that are seen then."""
    with observed(cluster) as cache:
        happens()
        seen = cache.read_consistently(10 * PATIENCE)
    return [(policy.name, policy.generation) for policy in seen.policies or ()]


CHANGES: Final = {
    "changed": (policy(2, "115"),),
    "vanished": (),
    "appeared": (FIRST, policy(7, "115", "other")),
    "recreated": (policy(1, "116"),),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_dead_watch_does_not_show_is_read(change: str) -> None:
    """It is open and silent, and what it does not show is seen all the same."""
    cluster, there = Cluster(), CHANGES[change]
    expected = [(each["metadata"]["name"], each["metadata"]["generation"]) for each in there]
    assert confirmed(cluster, lambda: cluster.change(*there)) == expected


def test_a_cluster_that_was_set_back_is_read() -> None:
    """Objects and versions are older than those in the cache."""
    cluster = Cluster()

    def restored() -> None:
        cluster.there, cluster.version = [policy(9, "80")], "85"

    assert confirmed(cluster, restored) == [(NAME, 9)]


def test_what_did_not_change_is_in_memory_once() -> None:
    """A view of the second list that is equal to the one in the cache is the same object; fleets are large."""
    cluster = Cluster([FIRST, policy(7, "95", "other")])
    with observed(cluster) as cache:
        cluster.change(policy(1, "115"), policy(8, "116", "other"))
        (first, other), again = (seen.policies or () for seen in (cache.snapshot(), cache.read_consistently(60)))
        assert [each is before for each, before in zip(again, (first, other), strict=True)] == [True, False]


def test_a_kind_that_is_gone_is_seen() -> None:
    """The API server no longer serves it."""
    cluster = Cluster()
    with observed(cluster) as cache:
        cluster.instead = lambda _line: refused(404)
        assert cache.read_consistently(10 * PATIENCE).policies is None


def test_all_pages_count() -> None:
    """Also a compressed one. One that broke off is asked for again, and pages that expired from the first one on."""
    other = policy(7, "95", "other")
    cluster = Cluster([FIRST, other])
    first, last = listed(FIRST, version="100", **{"continue": "more"}), listed(other, version="100")
    pages = [
        first,
        refused(410),
        first,
        Said(200, b'{"items": ['),
        Said(200, gzip.compress(last.body), {**last.headers, "content-encoding": "gzip"}),
    ]

    def paged() -> None:
        cluster.instead = lambda _line: pages.pop(0)

    assert confirmed(cluster, paged) == [(NAME, 1), ("other", 7)]
    assert pages == []


def test_a_second_read_has_a_bound() -> None:
    """Kinds, pages and tries have the seconds that are left, however an answer trickles."""
    start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    cluster, slow = Cluster(), threading.Event()

    def answer(line: str) -> Said | Trickle:
        if slow.is_set() and "watch=true" not in line:
            return Trickle(start, b" " * 1500)
        return cluster.answer(line)

    with serving(answer) as server:
        cache = begun(server)
        slow.set()
        with pytest.raises(ApiError):
            cache.read_consistently(0.5)
        assert not server.finished.is_set()
        cache.stop()
        cluster.deliver.set()
