"""The cache: what it watches, for how long, whom it wakes, and the snapshots that it builds."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from hook.errors import ApiError
from hook.kube import cache as caches
from hook.kube import retry
from hook.kube.cache import DRIVER_PODS, PLUGIN_PODS, POLICIES, POOLS, REVISIONS, SLICES, Cache, Lists, assemble
from hook.kube.informer import ListWatch
from hook.kube.resources import PODS, RESOURCE_SLICES, policies_of
from hook.kube.retry import Patience
from hook.objects import Malformed, read_daemonset, read_pod
from hook.objects.stacks import GPU_OPERATOR
from hook.settings import Settings
from tests.client.server import PATIENCE, Said, Server, refused, serving, until
from tests.client.shown import Shown
from tests.fixtures.cluster import Cluster, cluster
from tests.fixtures.modes import with_toolkit
from tests.fixtures.objects import Object, merged, obj, plugin_pod, raw

RECORDED: Final = "data: {spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: b}]}}}}"
FOUND: Final = cluster("a", "b").change("revision", RECORDED).seen()
CLAIMS: Final = "/resourceclaims?limit="
"""Claims decide nothing, so no second read confirms them."""
ODD: Final = Malformed("Pod", "dra", "odd", "a", "it has no spec")


def source(field: str, namespace: str = "") -> ListWatch:
    """Name objects that fill a field; how they are read does not matter here."""
    kinds = {POLICIES: policies_of(GPU_OPERATOR.policy), POOLS: policies_of(GPU_OPERATOR.policy)}
    resource = kinds.get(field, RESOURCE_SLICES if field == SLICES else PODS)
    return ListWatch(resource.select(namespace, labels=field), read_pod)


def shown(field: str, *found: object, unknown: bool = False) -> Any:  # noqa: ANN401 - a snapshot's field
    """Fill one field, and return what the snapshot has of it."""
    return getattr(assemble({source(field): field}, {source(field): (found, unknown)}), field)


@contextmanager
def watching(found: Cluster, settings: Settings | None = None, **more: Any) -> Iterator[tuple[Cache, Server, Shown]]:  # noqa: ANN401 - as Shown has them
    """Watch a cluster of fixtures until everything is read."""
    with serving(shows := Shown(found, **more)) as server:
        cache = Cache(server.api, settings or Settings(), Patience(PATIENCE))
        cache.start()
        until(lambda: cache.synced and cache.watch_plugins() is not None and cache.synced, "everything is read")
        try:
            yield cache, server, shows
        finally:
            cache.stop()


@pytest.mark.parametrize("field", [SLICES, POLICIES])
def test_a_kind_that_is_not_served_is_absent(field: str) -> None:
    """A cluster without DRA publishes nothing, and one without the operator wants nothing. An empty list differs."""
    assert shown(field, unknown=True) is None
    assert shown(field, ODD) == ()  # What cannot be read is kept apart.
    assert shown(field) == ()


def test_snapshots_of_what_is_not_read() -> None:
    """Slices that are not read yet are no empty list. Pools are looked at only where a policy asks for them."""
    assert shown(POOLS, unknown=True) == ()
    seen = assemble({source(PLUGIN_PODS): PLUGIN_PODS}, {source(PLUGIN_PODS): ((*FOUND.plugin_pods, ODD), False)})
    assert (seen.plugin_pods, seen.malformed) == (FOUND.plugin_pods, (ODD,))
    assert assemble({}, {}).slices is assemble({source(SLICES): SLICES}, {}).slices is None
    assert assemble({}, {}).policies == ()
    # A server has a kind in all namespaces or in none.
    here, there = source(SLICES, "a"), source(SLICES, "b")
    views: Lists = {here: ((), False), there: ((), True)}
    assert assemble({here: SLICES, there: SLICES}, views).slices is None


@pytest.mark.parametrize("field", [PLUGIN_PODS, DRIVER_PODS, REVISIONS])
def test_what_two_selectors_bring_counts_once(field: str) -> None:
    """Labels of two charts may overlap: a node with two driver pods would wait without end."""
    found = tuple(getattr(FOUND, field))
    assert found
    both = {source(field, "a"): (found, False), source(field, "b"): (found, False)}
    assert getattr(assemble(dict.fromkeys(both, field), both), field) == found


def test_a_change_names_its_node() -> None:
    """The node of an object before and after. It is named once, and a snapshot of that moment comes with it."""
    with watching(cluster("a", "b")) as (cache, _server, _shows):
        until(lambda: cache.observe()[1] == set(), "nothing changes any more")
        (informer,) = [each for key, each in cache._informers.items() if cache._fields[key] == PLUGIN_PODS]
        first, *_ = informer.views()
        informer._apply("DELETED", raw({"metadata": {"namespace": first.namespace, "name": first.name}}))
        snapshot, changed = cache.observe()
        assert (changed - {""}, len(snapshot.plugin_pods)) == ({first.node}, 1)
        assert cache.observe()[1] == set()
        moved = merged(plugin_pod("b"), {"spec": {"nodeName": "c"}})
        informer._apply("MODIFIED", raw(moved))
        assert cache.observe()[1] == {"b", "c"}


def test_a_snapshot_sees_a_whole_change_or_none() -> None:
    """While one is taken, no object changes: the next one would not name its node."""
    with watching(cluster()) as (cache, _server, _shows):
        (informer,) = [each for key, each in cache._informers.items() if cache._fields[key] == PLUGIN_PODS]
        (pod,) = cache.snapshot().plugin_pods
        gone = raw({"metadata": {"namespace": pod.namespace, "name": pod.name}})
        deleting = threading.Thread(target=informer._apply, args=("DELETED", gone))
        with cache._condition:
            deleting.start()
            deleting.join(0.1)
            assert len(informer._views) == 1
        deleting.join(PATIENCE)
        assert cache.snapshot().plugin_pods == ()


@pytest.mark.parametrize(("refresh_after", "count"), [((), 0), (("toolkit",), 1)])
def test_a_prerequisite_is_watched_where_the_settings_name_it(refresh_after: tuple[str, ...], count: int) -> None:
    """Nothing waits for another one."""
    with watching(with_toolkit(cluster()), Settings(refresh_after=refresh_after)) as (cache, _server, _shows):
        assert len(cache.snapshot().prerequisite_pods) == count


def test_a_second_read_reads_everything() -> None:
    """It shows what no watch has reported: here, all watches are silent."""
    with watching(cluster("a", "b")) as (cache, server, shows):
        before = cache.snapshot()
        lists = server.count("limit=") - server.count(CLAIMS)
        shows.found.parts["plugin-pod"] = shows.found.of("plugin-pod")[:1]
        again = cache.read_consistently(PATIENCE)
        assert (len(before.plugin_pods), len(cache.snapshot().plugin_pods), len(again.plugin_pods)) == (2, 2, 1)
        assert again.nodes["a"] is before.nodes["a"], "an equal view is in memory once"
        assert server.count("limit=") - server.count(CLAIMS) - lists == len(cache._informers)
        shows.instead = lambda line: refused(404) if "clusterpolicies" in line else None
        assert cache.read_consistently(PATIENCE).policies is None
        shows.instead = lambda line: Said(503) if "/nodes" in line else None
        with pytest.raises(ApiError):
            cache.read_consistently(0.3)


def test_the_longest_outage_of_any_kind_counts() -> None:
    """Nothing may be restarted while one of them cannot be read."""
    with watching(cluster()) as (cache, server, shows):
        shows.instead = lambda line: Said(503) if "/nodes" in line else None
        until(lambda: cache.out_of_sync, "it is out of sync")
        shows.instead = lambda line: Said(503) if "/nodes" in line or "/clusterpolicies" in line else None
        before = server.count("/clusterpolicies")
        until(lambda: server.count("/clusterpolicies") > before + 2, "another kind is out of sync, too")
        assert "nodes" in str(cache.out_of_sync)
        shows.instead = lambda _line: None
        until(lambda: cache.out_of_sync is None, "it is in sync")


def test_what_cannot_be_read_from_the_start_ends_a_run() -> None:
    """By its own error: another pod of the Job follows, or an administrator has to act."""
    with serving(refused(400)) as server:
        cache = Cache(server.api, Settings(), Patience(0.0, 0.0))
        cache.start()
        until(lambda: any(each.problem for each in cache._informers.values()), "an informer ends")
        with pytest.raises(ApiError):
            assert not cache.synced
        cache.stop()


POOL: Final[Object] = {"metadata": {"labels": {"pool": "a", "team": "b"}}}


def test_a_node_is_read_with_the_labels_by_which_daemonsets_select_it() -> None:
    """Whether a DaemonSet wants a pod there follows from them. All others are dropped, because fleets are large."""
    with watching(cluster().change("node", POOL)) as (cache, _server, _shows):
        assert "pool" not in cache.snapshot().nodes["gpu-0"].labels
    selecting = cluster().change("node", POOL)
    selecting.change("daemonset", {"spec": {"template": {"spec": {"nodeSelector": {"pool": "a"}}}}})
    with watching(selecting) as (cache, _server, _shows):
        (labels,) = (node.labels for node in cache.snapshot().nodes.values())
        assert (labels.get("pool"), labels.get("team")) == ("a", None)


def test_pods_of_a_plugin_that_is_gone_are_watched_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is often installed again. After that, a controller of months lets go of the watch."""
    with watching(cluster()) as (cache, _server, _shows):
        (source_,) = [key for key, field in cache._fields.items() if field == PLUGIN_PODS]
        monkeypatch.setattr(cache, "_intent", lambda: assemble({}, {}))
        cache.watch_plugins()
        assert source_ in cache._informers
        monkeypatch.setattr(caches, "UNUSED_SECONDS", 0.0)
        cache.observe()
        cache.watch_plugins()
        assert source_ not in cache._informers
        assert cache.observe()[1] >= {"gpu-0"}, "its pods are gone from their nodes"


def test_an_outage_does_not_end_a_run_that_has_read_everything() -> None:
    """Also for kinds that are watched later, such as the pods of a new plugin."""
    with watching(cluster()) as (cache, _server, _shows):
        assert cache._patience == retry.Patience(retry.FOREVER)


def test_pods_are_read_by_all_labels_of_their_selector() -> None:
    """Plugins that share a label differ in another one."""
    selector = {"matchLabels": {"b": "2", "a": "1"}}
    found = read_daemonset(raw(obj("plugin-daemonset", {"spec": {"selector": selector}})))
    assert not isinstance(found, Malformed)
    labels = caches._pods_of(found).labels
    assert labels.startswith("a=1,b=2,")
