"""The cache: what it watches, for how long, and the snapshots that it builds. It serves a Job and a controller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import pytest

from hook.config import Settings
from hook.errors import ApiError
from hook.kube import cache as caches
from hook.kube import retry
from hook.kube.cache import DRIVER_PODS, PLUGIN_PODS, POLICIES, POOLS, REVISIONS, SLICES, Cache, Lists, assemble
from hook.kube.listing import ListWatch
from hook.kube.requests import PODS, RESOURCE_SLICES, ListOptions, policies_of
from hook.objects import readers
from hook.objects.drivers import GPU_OPERATOR
from hook.objects.views import Malformed
from tests.client.fixtured import DISCOVERY, Shown
from tests.client.leases import keeping
from tests.client.server import PATIENCE, Said, Server, refused, serving, until
from tests.fixtures.cluster import cluster
from tests.fixtures.limits import FOLLOWING

RECORDED: Final = "data: {spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: b}]}}}}"
FOUND: Final = cluster("a", "b").change("revision", RECORDED).seen()
ODD: Final = Malformed("Pod", "dra", "odd", "a", "it has no spec")


def source(part: str, namespace: str = "") -> ListWatch:
    """Name a selection; how it is read does not matter here."""
    kinds = {POLICIES: policies_of(GPU_OPERATOR.policy), POOLS: policies_of(GPU_OPERATOR.policy)}
    resource = kinds.get(part, RESOURCE_SLICES if part == SLICES else PODS)
    return ListWatch(ListOptions(resource, namespace, labels=part), readers.pod)


def shown(part: str, *found: object, unknown: bool = False) -> Any:  # noqa: ANN401 - a snapshot's part
    """Fill one part, and return what the snapshot has of it."""
    return getattr(assemble({source(part): part}, {source(part): (found, unknown)}), part)


def test_a_kind_that_is_not_served_is_absent() -> None:
    """A cluster without DRA publishes nothing, and one without the operator wants nothing; an empty list differs."""
    for part in (SLICES, POLICIES):
        assert shown(part, unknown=True) is None, part
        assert shown(part) == shown(part, ODD) == (), part  # what cannot be read is kept apart, below
    assert shown(POOLS, unknown=True) == ()  # they are looked at only where a policy asks for it
    seen = assemble({source(PLUGIN_PODS): PLUGIN_PODS}, {source(PLUGIN_PODS): ((*FOUND.plugin_pods, ODD), False)})
    assert (seen.plugin_pods, seen.malformed) == (FOUND.plugin_pods, (ODD,))
    # Slices that are not requested, or not read yet, are no empty list either.
    assert assemble({}, {}).slices is assemble({source(SLICES): SLICES}, {}).slices is None
    assert assemble({}, {}).policies == ()
    # A server has a kind in all namespaces or in none.
    here, there = source(SLICES, "a"), source(SLICES, "b")
    views: Lists = {here: ((), False), there: ((), True)}
    assert assemble({here: SLICES, there: SLICES}, views).slices is None


def test_what_two_selections_bring_counts_once() -> None:
    """Labels of two charts may overlap: a node with two driver pods would wait without end."""
    for part in (PLUGIN_PODS, DRIVER_PODS, REVISIONS):
        found = tuple(getattr(FOUND, part))
        assert found, part
        both = {source(part, "a"): (found, False), source(part, "b"): (found, False)}
        assert getattr(assemble(dict.fromkeys(both, part), both), part) == found, part


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISCOVERY_SECONDS", "FIRST_DISCOVERY_SECONDS"):
        monkeypatch.setattr(caches, name, 0.0)


def questions(server: Server) -> int:
    """Count how often the versions of ResourceSlices were asked for."""
    return sum(line.endswith(DISCOVERY) for line in list(server.asked))


def undiscovered(said: Said) -> Callable[[str], Said | None]:
    """Answer the question for the versions of ResourceSlices in another way."""
    return lambda line: said if line.endswith(DISCOVERY) else None


@pytest.mark.usefixtures("_at_once")
def test_slices_are_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    """Until then nothing is decided, and one line says why. If an upgrade removes a version, the next is used."""
    with keeping() as (kept, server):
        cache = Cache(server.api, FOLLOWING, retry.starting(PATIENCE))
        kept.instead = undiscovered(Said(503))
        for _time in range(3):
            cache.watch_fleet()
        warned = [record.levelno for record in caplog.records if "ResourceSlices" in record.message]
        assert (questions(server), warned) == (3, [logging.WARNING])
        until(lambda: server.count("/nodes?") and server.count("/leases?"), "the rest is read")
        assert not cache.synced
        kept.served = {"v1beta1"}
        kept.instead = lambda line: refused(404) if "/v1/resourceslices" in line else None
        cache.watch_fleet()
        until(lambda: cache.synced and server.count("v1beta1/resourceslices"), "slices are read")
        assert cache.snapshot().slices == ()
        kept.served = {"v1"}
        kept.instead = lambda line: refused(404) if "v1beta1" in line else None
        until(lambda: (cache.watch_plugins(), server.count("/v1/resourceslices"))[1], "the next version is read")
        until(lambda: cache.synced and cache.snapshot().slices == (), "it is shown")
        cache.stop()


@pytest.mark.usefixtures("_at_once")
def test_what_is_worth_no_other_try_ends_a_run() -> None:
    """By its own error, and not by the deadline. A server that asks for time is not asked again at once."""
    for said, patience, status in (
        (Said(503), retry.starting(0), 503),
        (refused(401), retry.interactive(0), 401),
        (refused(400), retry.starting(60), 400),
    ):
        with keeping() as (kept, server):
            kept.instead = undiscovered(said)
            cache = Cache(server.api, Settings(), patience)
            with pytest.raises(ApiError) as caught:
                cache.watch_fleet()
            assert caught.value.status == status
            cache.stop()
    with keeping() as (kept, server):
        kept.instead = undiscovered(refused(429, **{"retry-after": "60"}))
        cache = Cache(server.api, Settings(), retry.starting(PATIENCE))
        for _time in range(3):
            cache.watch_fleet()
        cache.stop()
        assert questions(server) == 1


def test_a_node_is_read_with_the_labels_by_which_daemonsets_select_it() -> None:
    """Whether a DaemonSet wants a pod there follows from them. All others are dropped, because fleets are large."""
    with serving(Shown(cluster().change("node", {"metadata": {"labels": {"pool": "a", "team": "b"}}}))) as server:
        cache = Cache(server.api, Settings(), retry.starting(PATIENCE))
        cache.watch_fleet()
        until(lambda: cache.synced, "everything is read")
        assert "pool" not in cache.snapshot().nodes["gpu-0"].labels
        cache.stop()
    selecting = cluster().change("node", {"metadata": {"labels": {"pool": "a", "team": "b"}}})
    selecting.change("daemonset", {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}})
    with serving(Shown(selecting)) as server:
        cache = Cache(server.api, Settings(), retry.starting(PATIENCE))
        cache.watch_fleet()
        until(lambda: cache.synced and cache.watch_plugins() and cache.synced, "everything is read")
        (labels,) = (node.labels for node in cache.snapshot().nodes.values())
        assert ("a", None) == (labels.get("pool"), labels.get("team"))
        cache.stop()
