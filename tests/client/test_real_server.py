"""The client layer on a real API server: what it answers to what is gone, or comes later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from hook.errors import ApiError
from hook.kube import client, retry
from hook.kube.client import Api, delete_options
from hook.kube.election import LeaderElectionConfig, LeaderElector
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.informer import Informer, ListWatch
from hook.kube.resources import CONFIG_MAPS, EVENTS, LEASES, NODES, PODS, Resource, policies_of
from hook.objects import decoding, deleted_at, names, read_node, read_pod
from hook.objects.stacks import GPU_OPERATOR
from hook.objects.views import reader
from tests.client.apiserver import ApiServer, booted, create
from tests.client.server import JOB, ONE, PATIENCE, until

CRDS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition")
STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
POLICIES: Final = policies_of(GPU_OPERATOR.policy)
DEFAULT: Final = "default"


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
def following(api: Api, resource: Resource, read: Any = read_node) -> Iterator[Informer]:  # noqa: ANN401 - any reader
    """Follow the objects of a resource."""
    informer = Informer(api, ListWatch(resource, read), JOB)
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


def test_a_list_of_many_pages_and_its_watch_have_the_same_selector(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch continues where the list ends. What the selector leaves out is never read."""
    monkeypatch.setattr(client, "PAGE_SIZE", 2)
    nodes(api, "others", "a")
    with following(api, nodes(api, "paged", *"abcde")) as informer:
        until(lambda: informer.synced, "it is listed")
        assert len(states(informer)) == 5
        nodes(api, "others", "b")
        label(api, "paged-a", "drain-required")
        nodes(api, "paged", "f")
        api.send("delete", NODES, "paged-b", {})
        until(lambda: "paged-f" in states(informer) and "paged-b" not in states(informer), "it is followed")
        expected = {f"paged-{name}": "upgrade-done" for name in "cdef"}
        assert states(informer) == {**expected, "paged-a": "drain-required"}


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
    """Until then it is absent, which is not the same as empty. Afterwards it is followed, and it may go again.

    A version that is too old for a watch is a 410.
    """
    name = f"{POLICIES.plural}.{POLICIES.group}"
    with following(api, POLICIES, reader(GPU_OPERATOR.policy)) as informer:
        until(lambda: informer.synced, "it is listed")
        assert (informer.absent, informer.views()) == (True, ())
        assert informer.read_again(retry.FOREVER) == ((), True)
        create(api, CRDS, name, spec=definition())
        create(api, POLICIES, "cluster-policy", spec={})
        until(lambda: [view.name for view in informer.views()] == ["cluster-policy"], "it is followed")
        assert not informer.absent
        # What the server remembers of it begins now. What an informer makes of that is in test_informer.py.
        with pytest.raises(ApiError) as caught, api.watch(POLICIES, "1", 5) as events:
            list(events)
        assert caught.value.status == 410
        api.send("delete", CRDS, name, {})
        until(lambda: informer.absent, "it is gone")
        assert (informer.views(), informer.problem) == ((), None)


def test_a_token_that_the_server_does_not_know(server: ApiServer) -> None:
    """It is a 401, which is no missing permission."""
    with pytest.raises(ApiError) as caught:
        replace(server, account="stranger").api().send(*ONE)
    assert (caught.value.status, type(caught.value)) == (401, ApiError)


@pytest.mark.parametrize(("wrong", "status"), [("uid", 409), ("resourceVersion", 409), ("name", 404)])
def test_only_the_pod_that_was_read_is_deleted(wrong: str, status: int, api: Api) -> None:
    """Not another one of its name, nor a later version of it; and one that is gone is not there."""
    pods = PODS.select(DEFAULT)
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    read = create(api, pods, f"read-{wrong.lower()}", spec=spec)["metadata"]
    named = {"uid": read["uid"], "resourceVersion": read["resourceVersion"], "name": read["name"]}
    named[wrong] = {"uid": "other", "resourceVersion": "1", "name": "gone"}[wrong]
    with pytest.raises(ApiError) as caught:
        api.send("delete", pods, named["name"], delete_options(named["uid"], named["resourceVersion"]))
    assert caught.value.status == status
    assert "deletionTimestamp" not in api.send("get", pods, read["name"])["metadata"]


def test_a_deletion_shows_when_it_was_accepted(api: Api) -> None:
    """By the API server's clock, as the creation of every pod is: whatever grace period the pod has."""
    pods = PODS.select(DEFAULT)
    containers = [{"name": "c", "image": "i"}]
    spec = {"nodeName": "n", "terminationGracePeriodSeconds": 60, "containers": containers}
    times: list[datetime | None] = []
    for name in ("before", "after"):
        times.append(read_pod(create(api, pods, name, spec=spec)).created)
        pod = api.send("get", pods, name)["metadata"]
        times.append(deleted_at(api.send("delete", pods, name, delete_options(pod["uid"], pod["resourceVersion"]))))
    known = [each for each in times if each is not None]
    assert (len(known), sorted(known)) == (4, known)
    assert known[-1] - known[0] < timedelta(minutes=1)


def test_the_status_object_drops_what_is_no_longer_applied(api: Api) -> None:
    """Keys of others stay."""
    maps = CONFIG_MAPS.select(DEFAULT)
    create(api, maps, "applied", data={"trigger": "helm"})
    for data in ({"phase": "Progressing", "affectedPods": "1"}, {"phase": "Succeeded"}):
        api.apply(maps, "applied", {"data": data}, "gpu-operator-post", 5)
    assert api.send("get", maps, "applied")["data"] == {"trigger": "helm", "phase": "Succeeded"}


def test_events_of_one_fact_are_counted_together(api: Api) -> None:
    """One Event with the newest message, and how often it occurred; of another process it is another one."""
    subject = ObjectReference("apps/v1", "DaemonSet", DEFAULT, "plugin", "plugin-uid")
    for writer in ("run", "run", "other"):
        recorder = EventRecorder(api, writer, silent=False)
        for message in ("one", "two"):
            recorder.event(subject, "Restarted", f"{message} by {writer}", about="gpu-0")
            recorder.flush(PATIENCE)
    _metadata, found = api.list_page(EVENTS.select(DEFAULT, fields="involvedObject.name=plugin"))
    kept = sorted((event["message"], event["count"]) for event in map(decoding.decode, found))
    assert kept == [("two by other", 2), ("two by run", 2)]


def test_a_lease_is_created_and_renewed(api: Api) -> None:
    """It has the labels by which it is found. A renewal changes nothing else, and one that was deleted is made anew."""
    leases, elector = LEASES.select(DEFAULT), LeaderElector(api, LeaderElectionConfig(DEFAULT, "renewed", "a"))
    assert elector._try()
    api.send("patch", leases, "renewed", {"metadata": {"annotations": {"of": "others"}}})
    first = api.send("get", leases, "renewed")
    assert first["metadata"]["labels"] == {**names.OWN_LABELS, names.OWN_STACK_LABEL: "gpu"}
    assert first["spec"]["acquireTime"] == first["spec"]["renewTime"]
    assert elector._try()
    renewed = api.send("get", leases, "renewed")
    assert renewed["spec"] == {**first["spec"], "renewTime": renewed["spec"]["renewTime"]}
    assert renewed["spec"]["renewTime"] > first["spec"]["renewTime"]
    assert renewed["metadata"]["annotations"] == {"of": "others"}
    api.send("delete", leases, "renewed", {})
    assert elector._try()
    assert (api.send("get", leases, "renewed")["spec"]["holderIdentity"], elector.leading) == ("a", True)
