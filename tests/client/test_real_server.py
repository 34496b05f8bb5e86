"""The client layer on a real API server: pages, watches, preconditions, rights, kinds that come later, an outage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from hook.errors import ApiError, LeaseLostError, PermissionDeniedError
from hook.kube import election, retry
from hook.kube import events as recording
from hook.kube import informer as informers
from hook.kube.client import Api, delete_options
from hook.kube.election import LeaderElectionConfig, LeaderElector
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.informer import Informer, ListWatch, list_views
from hook.kube.resources import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, RESOURCE_SLICES, Resource, policies_of
from hook.kube.retry import CONTROLLER, JOB, WRITE, Patience
from hook.objects import decoding, read_node, read_slice
from hook.objects.stacks import GPU_OPERATOR
from tests.client.apiserver import ApiServer, booted, create
from tests.client.server import PATIENCE, until

CRDS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")
BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")
STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
POLICIES: Final = policies_of(GPU_OPERATOR.policy)
DEFAULT: Final = "default"
POD: Final = {"containers": [{"name": "c", "image": "x"}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Boot an API server for the tests of this module."""
    with booted(tmp_path_factory.mktemp("apiserver")) as server:
        yield server


@pytest.fixture
def api(server: ApiServer) -> Api:
    """Return a client of the administrator."""
    return server.api()


@contextmanager
def following(
    api: Api,
    resource: Resource,
    read: Any = read_node,  # noqa: ANN401 - any reader
    patience: Patience = JOB,
) -> Iterator[Informer]:
    """Follow the objects of a resource."""
    informer = Informer(api, ListWatch(resource, read), lambda _before, _after: None, patience)
    informer.start()
    try:
        yield informer
    finally:
        informer.stop()


def nodes(api: Api, test: str, *names: str) -> Resource:
    """Create nodes of one test, and return the resource that selects them."""
    for name in names:
        create(api, NODES, f"{test}-{name}", metadata={"labels": {"test": test, STATE: "upgrade-done"}})
    return NODES.select(labels=f"test={test}")


def label(api: Api, name: str, state: str) -> None:
    """Change a node."""
    api.send("patch", NODES, name, {"metadata": {"labels": {STATE: state}}})


def states(informer: Informer) -> dict[str, str]:
    """Return the upgrade state of each node that is known."""
    return {view.name: view.labels[STATE] for view in informer.views()}


def test_a_fleet_is_read_in_pages(api: Api) -> None:
    """At most 50 objects are in memory as text."""
    paged = nodes(api, "paged", *map(str, range(120)))
    metadata, first = api.list_page(paged)
    assert (len(first), bool(metadata["continue"])) == (50, True)
    found = list_views(api, ListWatch(paged, read_node), WRITE)
    assert found is not None
    assert len(found.views) == 120
    with following(api, paged) as informer:
        until(lambda: informer.synced, "it is listed")
        assert len(informer.views()) == 120


def test_changes_are_followed(api: Api) -> None:
    """Of the selected objects, and of no others."""
    with following(api, nodes(api, "followed", "a", "b")) as informer:
        until(lambda: informer.synced, "it is listed")
        nodes(api, "other", "z")
        nodes(api, "followed", "c")
        label(api, "followed-b", "drain-required")
        api.send("delete", NODES, "followed-a", {})
        expected = {"followed-b": "drain-required", "followed-c": "upgrade-done"}
        until(lambda: states(informer) == expected, "it is followed")
        label(api, "followed-c", "upgrade-required")
        until(lambda: states(informer)["followed-c"] == "upgrade-required", "it is followed further")


def test_the_past_of_a_watch_is_gone(server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that is too old is a 410, after which an informer lists again."""
    past = nodes(api, "past", "a")
    server.end()
    server.start()  # It remembers no events of before.
    with pytest.raises(ApiError) as caught, api.watch(NODES, "1", 5) as events:
        list(events)
    assert caught.value.status == 410
    page = api.list_page

    def outdated(*arguments: Any) -> Any:  # noqa: ANN401 - as the client has them
        metadata, objects = page(*arguments)
        monkeypatch.setattr(api, "list_page", page)
        return {**metadata, "resourceVersion": "1"}, objects

    monkeypatch.setattr(api, "list_page", outdated)
    with following(api, past) as informer:
        until(lambda: api.counters.errors.get(("410", "watch", "nodes"), 0) == 2, "the watch is refused")
        label(api, "past-a", "drain-required")
        until(lambda: states(informer) == {"past-a": "drain-required"}, "it is followed")


def test_a_restart_deletes_the_pod_that_was_read(api: Api) -> None:
    """Its UID and its version are preconditions. Otherwise the API server answers 409."""
    pods = PODS.select(DEFAULT)
    read = create(api, pods, "plugin", spec=POD)["metadata"]
    uid, version = read["uid"], read["resourceVersion"]
    changed = api.send("patch", pods, "plugin", {"metadata": {"labels": {"a": "b"}}})["metadata"]["resourceVersion"]
    for outdated in (delete_options(uid, version), delete_options("another", changed)):
        with pytest.raises(ApiError) as caught:
            api.send("delete", pods, "plugin", outdated)
        assert caught.value.status == 409
    api.send("delete", pods, "plugin", {**delete_options(uid, changed), "gracePeriodSeconds": 0})
    with pytest.raises(ApiError) as caught:
        api.send("get", pods, "plugin")
    assert caught.value.status == 404


def test_a_missing_permission_is_named_and_ends_an_informer(server: ApiServer) -> None:
    """After its time, which is 15 seconds for a Job (test_retry.py)."""
    with following(server.api("nobody"), NODES, patience=Patience(retry.FOREVER, 0.0)) as informer:
        until(lambda: informer.problem, "it ends")
        assert isinstance(informer.problem, PermissionDeniedError)
        assert str(informer.problem).startswith(
            "permission missing: list nodes in the whole cluster (nodes is forbidden"
        )
    api = server.api("nobody")
    with pytest.raises(PermissionDeniedError, match="permission missing: delete pods in namespace default"):
        api.send("delete", PODS.select(DEFAULT), "plugin", delete_options("u", "1"))
    assert api.counters.errors == {("403", "delete", "pods"): 1}


def test_a_permission_that_comes_in_time_is_used(server: ApiServer, api: Api) -> None:
    """RBAC objects of a release reach the API server a moment after its Job starts."""
    found = nodes(api, "granted", "a")
    with following(server.api("newcomer"), found, patience=CONTROLLER) as informer:
        until(lambda: informer.out_of_sync, "it is refused")
        assert not informer.synced
        rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
        create(api, ROLES, "newcomer", rules=[rule])
        role = {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "newcomer"}
        subject = {"apiGroup": ROLES.group, "kind": "User", "name": "newcomer"}
        create(api, BINDINGS, "newcomer", roleRef=role, subjects=[subject])
        until(lambda: informer.synced and informer.out_of_sync is None, "it reads")
        assert states(informer) == {"granted-a": "upgrade-done"}


def definition() -> dict[str, Any]:
    """Return the CRD of ClusterPolicies, without their schema."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "group": POLICIES.group,
        "scope": "Cluster",
        "names": {"plural": POLICIES.plural, "kind": POLICIES.kind},
        "versions": [{"name": POLICIES.version, "served": True, "storage": True, "schema": schema}],
    }


def test_a_kind_whose_crd_comes_later(api: Api) -> None:
    """Until then it is absent, which is not the same as empty. Afterwards it is followed, and it may go again."""
    name = f"{POLICIES.plural}.{POLICIES.group}"
    with following(api, POLICIES, GPU_OPERATOR.policy.read) as informer:
        until(lambda: informer.synced, "it is listed")
        assert (informer.absent, informer.views()) == (True, ())
        assert informer.read_again(retry.FOREVER) == ((), True)
        create(api, CRDS, name, spec=definition())
        create(api, POLICIES, "cluster-policy", spec={})
        until(lambda: [view.name for view in informer.views()] == ["cluster-policy"], "it is followed")
        assert not informer.absent
        api.send("delete", CRDS, name, {})
        until(lambda: informer.absent, "it is gone")
        assert (informer.views(), informer.problem) == ((), None)


def test_the_newest_version_of_slices_is_read(api: Api) -> None:
    """This API server has v1."""
    with following(api, RESOURCE_SLICES, read_slice) as informer:
        until(lambda: informer.synced, "it is listed")
        assert (informer.absent, informer._watched.version) == (False, "v1")


def test_an_outage_of_the_api_server(server: ApiServer, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has read everything outlasts it. Meanwhile its cache is out of sync; afterwards it is current."""
    monkeypatch.setattr(informers, "LONGEST_GAP_SECONDS", 0.0)
    with following(api, nodes(api, "outage", "a", "b"), patience=Patience(0.0)) as informer:
        until(lambda: informer.synced, "it is listed")
        server.end()
        try:
            until(lambda: informer.out_of_sync, "it is out of sync")
            first = informer.out_of_sync
            with pytest.raises(ApiError) as caught:
                informer.read_again(time.monotonic() + 0.5)
            assert caught.value.unreachable
            assert first is not None
            assert informer.out_of_sync is not None
            assert (informer.out_of_sync.last_synced, informer.problem) == (first.last_synced, None)
            assert set(states(informer)) == {"outage-a", "outage-b"}, "the last known views stay"
        finally:
            server.start()
        label(api, "outage-b", "drain-required")
        until(lambda: informer.out_of_sync is None, "it is in sync")
        until(lambda: states(informer)["outage-b"] == "drain-required", "it is followed further")


def test_a_second_read_shows_what_a_dead_watch_does_not(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of an object that has not changed is the same, so a fleet is in memory once."""
    with following(api, nodes(api, "second", "a", "b")) as informer:
        until(lambda: informer.synced, "it is listed")
        (before,) = [view for view in informer.views() if view.name == "second-a"]
        monkeypatch.setattr(informer, "_apply", lambda _kind, _obj: None)
        label(api, "second-b", "drain-required")
        views, absent = informer.read_again(retry.FOREVER)
        assert not absent
        assert {view.name: view.labels[STATE] for view in views}["second-b"] == "drain-required"
        assert any(view is before for view in views)
        assert states(informer)["second-b"] == "upgrade-done"


def elector(api: Api, identity: str) -> LeaderElector:
    """Return a replica whose writes are fenced. Its terms are long, so that a busy machine loses no Lease."""
    config = LeaderElectionConfig(DEFAULT, "post", identity, lease_duration=900, renew_deadline=600, retry_period=0.1)
    replica = LeaderElector(api, config)
    api.fence = replica.fence
    return replica


def write(api: Api) -> None:
    """Write something that needs the Lease."""
    api.apply(CONFIG_MAPS.select(DEFAULT), "status", {"data": {"a": "b"}}, "gpu-operator-post", PATIENCE)


def test_one_of_two_replicas_writes(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is fenced, and takes over as soon as the first releases the Lease. One that cannot renew ends."""
    monkeypatch.setattr(election, "RELEASE_SECONDS", PATIENCE)
    apis = {name: server.api() for name in ("a", "b")}
    first, second = (elector(api, name) for name, api in apis.items())
    first.start()
    until(lambda: first.leading, "the first leads")
    second.start()
    until(lambda: second.holder == "a", "the second waits")
    write(apis["a"])
    with pytest.raises(LeaseLostError, match="the Lease default/post is held by a"):
        write(apis["b"])
    first.release()
    until(lambda: second.leading, "the second leads")
    write(apis["b"])
    with pytest.raises(LeaseLostError):
        write(apis["a"])
    spec = server.api().send("get", LEASES.select(DEFAULT), "post")["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("b", 1)
    server.end()
    try:
        until(lambda: second.trouble, "the second cannot renew")
        assert second.leading, "one failed renewal loses no Lease"
        second._renewed_at -= second.config.renew_deadline
        until(lambda: second.ended, "its time is over")
        with pytest.raises(LeaseLostError, match="was not renewed in time"):
            write(apis["b"])
    finally:
        server.start()


def test_events_count_and_outlive_their_expiry(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same fact is one Event. One that the API server has deleted is created again."""
    monkeypatch.setattr(recording, "WRITE_SECONDS", PATIENCE)
    uid = create(api, CONFIG_MAPS.select(DEFAULT), "subject")["metadata"]["uid"]
    subject = ObjectReference("v1", "ConfigMap", DEFAULT, "subject", uid)
    recorder = EventRecorder(api, "run", silent=False)
    events = EVENTS.select(DEFAULT, fields=f"involvedObject.uid={uid}")

    def recorded() -> list[tuple[str, int, str]]:
        recorder.flush(PATIENCE)
        _metadata, found = api.list_page(events)
        items = [decoding.decode(each) for each in found]
        return sorted((each["reason"], each["count"], each["message"]) for each in items)

    for message in ("one", "two"):
        recorder.event(subject, "Restarted", message, about="gpu-0")
        assert recorded() == [("Restarted", 1 if message == "one" else 2, message)]
    recorder.event(subject, "Failed", "three", about="gpu-0", warning=True)
    assert recorded() == [("Failed", 1, "three"), ("Restarted", 2, "two")]
    for name in list(recorder._counts):
        api.send("delete", EVENTS.select(DEFAULT), name, {})
    recorder.event(subject, "Restarted", "four", about="gpu-0")
    assert recorded() == [("Restarted", 1, "four")]


def test_the_status_object_drops_what_is_no_longer_applied(api: Api) -> None:
    """Keys of others stay."""
    maps = CONFIG_MAPS.select(DEFAULT)
    create(api, maps, "applied", data={"trigger": "helm"})
    for data in ({"phase": "Progressing", "affectedPods": "1"}, {"phase": "Succeeded"}):
        api.apply(maps, "applied", {"data": data}, "gpu-operator-post", 5)
    assert api.send("get", maps, "applied")["data"] == {"trigger": "helm", "phase": "Succeeded"}
