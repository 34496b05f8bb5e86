"""One pod's life: prepare, run its containers, report, and end when it is deleted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp

from devcluster.client import STRATEGIC_PATCH, ApiError, path
from devcluster.podrunner import account, status
from devcluster.podrunner.container import ContainerLife
from devcluster.podrunner.context import PodContext

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from devcluster.client import Api, Object
    from devcluster.podrunner.context import Host

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""Before asking the API server again for what it could not do."""


class PodLife:
    """Runs one pod from the moment it is bound to the node until its object is gone."""

    def __init__(self, api: Api, manifest: Object, host: Host) -> None:
        metadata, spec = manifest["metadata"], manifest["spec"]
        self._pod = pod = PodContext(api, manifest, host, self.publish)
        self._path = path("v1", "pods", namespace=metadata["namespace"], name=metadata["name"])
        self._init = [ContainerLife(pod, each) for each in spec.get("initContainers", [])]
        self._main = [ContainerLife(pod, each) for each in spec["containers"]]
        self._conditions = status.Conditions()
        self._started = datetime.now(UTC)
        self._publishing = asyncio.Lock()
        self._again: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """Return ``namespace/name``."""
        return self._pod.name

    def container(self, name: str) -> ContainerLife | None:
        """Find a container by name."""
        return next((each for each in [*self._init, *self._main] if each.state.name == name), None)

    def delete(self, grace: float) -> None:
        """End the pod; asked again with a shorter grace period, sooner."""
        if self._pod.deleted.is_set() and grace >= self._pod.grace:
            return
        self._pod.grace = grace
        self._pod.deleted.set()
        for each in [*self._init, *self._main]:
            each.stop(grace)

    def kill(self) -> None:
        """End the processes now: the object is gone, or the node is."""
        for each in [*self._init, *self._main]:
            each.kill()

    async def live(self) -> None:
        """Run the pod; returns after it was deleted."""
        if self._pod.manifest.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            shutil.rmtree(self._pod.folder, ignore_errors=True)
            (self._pod.folder / "tmp").mkdir(parents=True)
            await self.publish()
            async with self._token():
                await self._run_containers()
            await self.publish()
        await self._pod.deleted.wait()
        await self._remove()

    @contextlib.asynccontextmanager
    async def _token(self) -> AsyncIterator[None]:
        """Write the token of the pod's ServiceAccount, and keep it fresh."""
        if account.token_source(self._pod.manifest) is None:
            yield
            return
        arrived = asyncio.Event()
        keeping = asyncio.create_task(
            account.keep(
                self._pod.api,
                self._pod.manifest,
                self._pod.host.authority,
                self._pod.service_account,
                arrived,
            )
        )
        try:
            await _first(arrived.wait(), self._pod.deleted.wait())
            yield
        finally:
            keeping.cancel()

    async def _run_containers(self) -> None:
        """Run the init containers one after the other, then the others together."""
        policy = self._pod.manifest["spec"].get("restartPolicy", "Always")
        for each in self._init:
            await each.live("Never" if policy == "Never" else "OnFailure")
            if not each.state.succeeded:
                return
        async with asyncio.TaskGroup() as group:
            for each in self._main:
                group.create_task(each.live(policy))

    def see(self, manifest: Object) -> None:
        """Look at the object as it is now: with the API server gone every node is silent, for the node controller."""
        if status.mistaken_for_lost(manifest) and not self._pod.deleted.is_set():
            self._conditions.touch_ready()
            self._again = asyncio.create_task(self.publish())

    async def publish(self) -> None:
        """Write the status; one write after the other, so that an older one never wins."""
        async with self._publishing:
            init, main = ([each.state for each in kind] for kind in (self._init, self._main))
            body = {
                "metadata": {"uid": self._pod.manifest["metadata"]["uid"]},
                "status": status.pod_status(self._conditions, init, main, self._started),
            }
            await self._insist("PATCH", f"{self._path}/status", body, STRATEGIC_PATCH)

    async def _remove(self) -> None:
        """Remove the object, as a kubelet does after the last container has ended."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._pod.manifest["metadata"]["uid"]}}
        await self._insist("DELETE", self._path, options, "application/json")

    async def _insist(self, method: str, url_path: str, body: Object, content_type: str) -> None:
        """Write until the API server has taken it, or says that the pod is no longer ours."""
        while True:
            try:
                await self._pod.api.request(method, url_path, body=body, content_type=content_type)
            except ApiError as error:
                if error.code in (404, 409):  # gone, or another pod of the same name
                    return
                logger.warning("%s %s: %s", method, self.name, error)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                logger.warning("%s %s: %s", method, self.name, error)
            else:
                return
            await asyncio.sleep(RETRY_SECONDS)


async def _first(*waits: Coroutine[object, object, object]) -> None:
    """Wait for the first of several things."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
