"""The API client: refusals, pages, and a watch that survives what happens to watches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from devcluster import client
from devcluster.access import Access, decode
from devcluster.client import Api, ApiError, path
from devcluster.watching import follow
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from devcluster.cluster import Cluster
    from devcluster.watching import Event

pytestmark = pytest.mark.e2e


def test_paths_and_refusals(cluster: Cluster) -> None:
    """Paths follow the API's rules; a Status object becomes an error with fields, a plain text keeps its words."""
    with pytest.raises(ApiError) as refusal:
        cluster.get("/api/v1/nodes/missing")
    assert (refusal.value.code, refusal.value.reason) == (404, "NotFound")
    assert '"missing" not found' in refusal.value.message
    with pytest.raises(ApiError, match="503 : busy"):
        decode(503, "busy\n")
    assert path("apps/v1", "daemonsets") == "/apis/apps/v1/daemonsets"
    assert path("v1", "pods", namespace="a", name="b", subresource="status") == "/api/v1/namespaces/a/pods/b/status"


def test_list_reads_all_pages(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection larger than a page comes whole."""
    maps = path("v1", "configmaps", namespace=namespace)
    for number in range(5):
        cluster.create(maps, {"metadata": {"name": f"map-{number}"}})
    monkeypatch.setattr(client, "PAGE", 2)
    names = {each["metadata"]["name"] for each in cluster.list(maps)}
    assert names >= {f"map-{number}" for number in range(5)}


async def take(events: AsyncIterator[Event], kind: str, name: str = "") -> None:
    """Read events until one of a kind, about an object of a name, arrives."""
    async with asyncio.timeout(20):
        async for event in events:
            if event.kind == kind and event.object.get("metadata", {}).get("name", "") == name:
                return


def test_watch_reports_every_change(cluster: Cluster, namespace: str) -> None:
    """What is there comes first, then SYNCED, then each change; a kind that does not exist is an error at once."""
    maps = path("v1", "configmaps", namespace=namespace)
    cluster.create(maps, {"metadata": {"name": "old"}})

    async def story(api: Api) -> None:
        events = follow(api, maps)
        await take(events, "ADDED", "old")
        await take(events, "SYNCED")
        await api.create(maps, {"metadata": {"name": "new"}})
        await take(events, "ADDED", "new")
        await api.patch(f"{maps}/new", {"data": {"a": "b"}})
        await take(events, "MODIFIED", "new")
        await api.delete(f"{maps}/new")
        await take(events, "DELETED", "new")

    cluster.run(story)
    with pytest.raises(ApiError, match="404"):
        cluster.run(lambda api: take(follow(api, path("example.invalid/v1", "things")), "SYNCED"))


class ForgetfulApi(Api):
    """Returns its first list as one of version 1, long before the API server began to remember."""

    lists = 0

    async def list_at(self, url_path: str, **selectors: str) -> tuple[list[client.Object], str]:
        """Read the collection, with a wrong version once."""
        items, version = await super().list_at(url_path, **selectors)
        self.lists += 1
        return items, "1" if self.lists == 1 else version


@pytest.fixture
def notes(cluster: Cluster) -> str:
    """Define a new kind; the API server remembers its changes from this moment only."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "notes", "kind": "Note"}
    spec = {"group": "example.invalid", "names": names, "scope": "Cluster", "versions": [version]}
    definitions = path("apiextensions.k8s.io/v1", "customresourcedefinitions")
    cluster.create(definitions, {"metadata": {"name": "notes.example.invalid"}, "spec": spec})
    cluster.kubectl("wait", "--for=condition=Established", "crd/notes.example.invalid")
    return path("example.invalid/v1", "notes")


def note(name: str) -> client.Object:
    """Describe an object of the new kind."""
    return {"apiVersion": "example.invalid/v1", "kind": "Note", "metadata": {"name": name}}


def test_watch_lists_again_when_its_version_has_expired(cluster: Cluster, notes: str) -> None:
    """After 410 Gone the watch continues from a new list, and reports what happened in between."""
    until(lambda: cluster.create(notes, note("vanishes")))

    async def story() -> None:
        async with ForgetfulApi.from_kubeconfig(cluster.kubeconfig) as api:
            events = follow(api, notes)
            await take(events, "SYNCED")
            await api.delete(f"{notes}/vanishes")
            await api.create(notes, note("appears"))
            await take(events, "DELETED", "vanishes")
            await take(events, "ADDED", "appears")
            await take(events, "SYNCED")
            assert api.lists == 2

    asyncio.run(story())


class Wire:
    """A TCP forwarder to the API server, whose connections can be cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()

    async def open(self) -> int:
        """Begin to forward; returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop forwarding."""
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections without a word."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while block := await source.read(65536):
                target.write(block)
        except ConnectionError:
            pass
        finally:
            target.close()


def test_watch_survives_a_broken_connection(cluster: Cluster, namespace: str) -> None:
    """A cut connection is made again, and nothing that happened meanwhile is missed."""
    maps = path("v1", "configmaps", namespace=namespace)
    access = Access.from_kubeconfig(cluster.kubeconfig)

    async def story(direct: Api) -> None:
        wire = Wire(int(access.server.rsplit(":", 1)[1]))
        server = f"https://127.0.0.1:{await wire.open()}"
        async with Api(Access(server, access.tls, access.token)) as api:
            events = follow(api, maps)
            await take(events, "SYNCED")
            wire.cut()
            await direct.create(maps, {"metadata": {"name": "meanwhile"}})
            await take(events, "ADDED", "meanwhile")
        await wire.close()

    cluster.run(story)
