"""The cluster that the tests of one worker share, one after the other: each test finds it as it was booted.

Between two tests everything that is not the cluster's own is deleted: nodes, namespaces, custom resource definitions,
journals. That is asserted. Where it fails, the next test gets a new cluster. To count the control planes that are
booted: ``BOOTS_LOG=$PWD/boots make test; wc -l boots``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from devcluster import patience
from devcluster.access import ApiError
from devcluster.boot.cluster import Cluster
from devcluster.boot.machines import GPU_TAINT
from devcluster.client import Api, Object
from devcluster.fleet import settings
from devcluster.truth import Truth

EMPTY_SECONDS: Final = 90.0
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
NAMESPACES: Final = "/api/v1/namespaces"
PODS: Final = "/api/v1/pods"
FIRST: Final = (
    *(f"{ADMISSION}/{kind}" for kind in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")),
    *(f"{ADMISSION}/{kind}" for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings")),
    *(f"/apis/apps/v1/{kind}" for kind in ("deployments", "daemonsets", "statefulsets", "replicasets")),
    "/apis/batch/v1/jobs",
    "/api/v1/nodes",
    PODS,
)
"""What refuses deletions, creates other objects, or keeps a namespace from being deleted at once."""
THEN: Final = (
    *(f"/api/v1/{kind}" for kind in ("configmaps", "secrets", "serviceaccounts", "resourcequotas", "services")),
    "/apis/apps/v1/controllerrevisions",
    *(f"{RBAC}/{kind}" for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")),
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/leases",
    *(f"/apis/resource.k8s.io/v1/{kind}" for kind in ("resourceclaims", "resourceslices", "devicetaintrules")),
)
LAST: Final = (NAMESPACES, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
"""What is empty by now; custom resources go with their definitions."""
OF_THE_CONTROL_PLANE: Final = ("kube-system", "kube-node-lease", "kube-public")
"""Namespaces in which it keeps and creates what it likes, but no pods."""
EVERYWHERE: Final = ("kube-root-ca.crt", "default", "kubernetes")
"""A ConfigMap and a ServiceAccount that it creates in each namespace, and its own service."""
NOW: Final[dict[str, Any]] = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
GONE: Final = 404


@dataclass(slots=True)
class Pool:
    """The clusters of one process."""

    folder: Path
    _shared: Cluster | None = None
    _kept: set[str] = field(default_factory=set)
    """The objects that the shared cluster had when it was booted, but its GPU nodes."""
    _count: int = 0

    def take(self, nodes: int) -> Cluster:
        """Return the shared cluster, with so many new GPU nodes and nothing else."""
        if self._shared is not None:
            try:
                empty(self._shared, self._kept)
                self._shared.add_gpu_nodes(nodes)
            except Exception as error:  # noqa: BLE001 - whatever was broken: another cluster takes its place
                print(f"the shared cluster is replaced: {error!r}")  # noqa: T201 - pytest shows it
                self.down()
        if self._shared is None:
            self._shared = self.boot(nodes)
            self._kept = self._shared.run(_objects_at_boot)
        return self._shared

    def boot(self, nodes: int) -> Cluster:
        """Boot a cluster, which the caller takes down."""
        self._count += 1
        cluster = Cluster(self.folder / f"cluster-{self._count}")
        cluster.__enter__()
        cluster.up(nodes=nodes, fleet=True)
        return cluster

    def down(self) -> None:
        """Take the shared cluster down."""
        if self._shared is not None:
            self._shared.down()
            self._shared = None


def empty(cluster: Cluster, kept: set[str]) -> None:
    """Delete everything but what is kept, and assert that it is gone, from the fleet's journal too."""
    end = time.monotonic() + EMPTY_SECONDS

    def until_gone(look: Callable[[], Iterable[str]]) -> None:
        left: list[str] = []

        def all_gone() -> bool:
            left[:] = look()
            return not left

        patience.until(all_gone, lambda: f"these are gone: {sorted(left)}", end - time.monotonic())

    cluster.end_adopted()
    cluster.patch(settings.URL, {"data": {settings.KEY: "{}"}})
    for kinds in (FIRST, THEN, LAST):
        if kinds is LAST:
            cluster.run(_delete_events)
        until_gone(partial(cluster.run, partial(_delete, collections=kinds, kept=kept)))
    until_gone(lambda: Truth.read(cluster.state).nodes)
    assert cluster.run(lambda api: _objects(api, (*FIRST, *THEN, *LAST))).keys() <= kept
    cluster.forget()


async def _objects_at_boot(api: Api) -> set[str]:
    found = await _objects(api, (*FIRST, *THEN, *LAST))
    return {url for url, each in found.items() if GPU_TAINT not in each.get("spec", {}).get("taints", [])}


async def _objects(api: Api, collections: tuple[str, ...]) -> dict[str, Object]:
    """List objects by their paths, without what the control plane creates by itself."""
    lists = await asyncio.gather(*(api.list(collection) for collection in collections))
    return {
        url: each
        for collection, items in zip(collections, lists, strict=True)
        for each in items
        for url in _concerning(collection, each["metadata"])
    }


def _concerning(collection: str, metadata: Object) -> Iterator[str]:
    """Return the path of an object, unless the control plane created it by itself."""
    namespace, name = metadata.get("namespace"), str(metadata["name"])
    if collection in FIRST or not (
        namespace in OF_THE_CONTROL_PLANE or name in EVERYWHERE or name.startswith("system:")
    ):
        group, _, kind = collection.rpartition("/")
        yield f"{group}/namespaces/{namespace}/{kind}/{name}" if namespace else f"{collection}/{name}"


async def _delete(api: Api, collections: tuple[str, ...], kept: set[str]) -> set[str]:
    found = {url: each for url, each in (await _objects(api, collections)).items() if url not in kept}
    await asyncio.gather(*(_delete_one(api, url, each["metadata"]) for url, each in found.items()))
    return set(found)


async def _delete_events(api: Api) -> None:
    names = [namespace["metadata"]["name"] for namespace in await api.list(NAMESPACES)]
    await asyncio.gather(*(api.delete(f"{NAMESPACES}/{name}/events") for name in names))


async def _delete_one(api: Api, url: str, metadata: Object) -> None:
    """Delete one object by force; pods do not wait for their owners."""
    try:
        if "/pods/" in url and metadata.get("finalizers"):
            await api.patch(url, {"metadata": {"finalizers": None}})
        if "deletionTimestamp" not in metadata or "/pods/" in url:
            await api.delete(url, NOW)
        if url == f"{NAMESPACES}/{metadata['name']}":
            # Its controller would wait for five seconds before it looks whether anything is left.
            await api.replace(f"{url}/finalize", {"metadata": {"name": metadata["name"]}, "spec": {"finalizers": []}})
    except ApiError as error:
        if error.code != GONE:
            raise
