"""What the lives of all pods have in common: reports, deletion, reboot."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError, path, retry
from devcluster.fleet.status import PodStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from devcluster.client import Api
    from devcluster.fleet.node import Node
    from devcluster.fleet.settings import Settings
    from devcluster.fleet.stack import DriverPod

Object = dict[str, Any]

log = logging.getLogger(__name__)

POD_IS_ANOTHER = {404, 409}
"""The pod is gone, or another one has its name: nothing is left to report."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod lives: everything that it shares with others."""

    api: Api
    settings: Settings
    node: Node
    is_current: Callable[[DriverPod], bool]
    """Whether a driver pod is of its DaemonSet's newest revision."""


class Life:
    """One pod on one node. Subclasses say in `live` what becomes of it; one task runs at a time."""

    def __init__(self, place: Place, pod: Object) -> None:
        self.place = place
        self.api = place.api
        self.settings = place.settings
        self.node = place.node
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.name: str = pod["metadata"]["name"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.selected_by: dict[str, str] = pod["spec"].get("nodeSelector", {})
        """The node labels that its template selects nodes by; a DaemonSet's pod goes when one of them changes."""
        self.status = PodStatus.of(pod)
        self.deleted = False
        self.gone = False
        self._task: asyncio.Task[None] | None = None

    @property
    def owner(self) -> Object:
        """The owner's reference; empty for a pod without an owner."""
        owners: list[Object] = self.pod["metadata"].get("ownerReferences", [])
        return owners[0] if owners else {}

    # What a kind of pod does.

    async def live(self) -> None:
        """Be a pod: everything from the first container to Ready."""
        raise NotImplementedError

    def on_deleted(self) -> None:
        """Do what the first sight of the deletion asks for."""

    async def wind_down(self) -> None:
        """Do what the containers do between the signal to stop and their end."""
        await self.pause(self.settings.pod_stop_seconds)

    def on_gone(self) -> None:
        """Do what the end of the last container asks for."""

    # Its steps.

    async def pause(self, seconds: float) -> None:
        """Let time pass, with the fleet's jitter."""
        await asyncio.sleep(self.settings.vary(seconds))

    async def report(self) -> None:
        """Write the status, when the kubelet can; the UID keeps it off a namesake."""
        await self.node.online()
        body = {"metadata": {"uid": self.uid}, "status": self.status.render()}
        try:
            await retry(lambda: self.api.patch(self._path("status"), body))
        except ApiError as error:
            if error.code not in POD_IS_ANOTHER:
                raise

    async def accept(self) -> None:
        """Take the pod in: a sandbox, and all containers waiting."""
        await self.node.online()
        self.status.begin()
        await self.report()
        await self.pause(self.settings.pod_start_seconds)

    @contextlib.asynccontextmanager
    async def initializing(self) -> AsyncIterator[None]:
        """Run the init containers for as long as the body takes."""
        self.status.run_inits()
        await self.report()
        yield
        self.status.end_inits()
        await self.report()

    async def patch_node(self, metadata: Object, manager: str = "") -> None:
        """Write labels or annotations of the node, as soon as its kubelet is heard, and see the answer at once."""
        await self.node.online()
        url_path = path("v1", "nodes", name=self.node.name) + (f"?fieldManager={manager}" if manager else "")
        self.node.update(await retry(lambda: self.api.patch(url_path, {"metadata": metadata})))

    # What happens to it.

    def start(self) -> None:
        """Begin to live."""
        self.node.admit(self.uid, self.selected_by)
        self.become(self.live())

    def become(self, life: Coroutine[Any, Any, None]) -> None:
        """Replace what the pod does now."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.create_task(life, name=f"{self.namespace}/{self.name}")
        self._task.add_done_callback(say_if_it_broke)

    def delete(self) -> None:
        """See the pod's deletion; stopping it waits until its kubelet can hear of it."""
        if not self.deleted:
            self.deleted = True
            self.on_deleted()
            self.become(self._stop())

    def reboot(self) -> None:
        """Lose all containers with the node, and start again when its kubelet is back."""
        self.status.lose_node()
        self.become(self._stop() if self.deleted else self.live())

    def vanish(self) -> None:
        """Stop at once: the pod is gone from the API, perhaps by force."""
        if self._task is not None:
            self._task.cancel()
        if not self.deleted:
            self.deleted = True
            self.on_deleted()
        self._end()

    @property
    def mistaken_for_lost(self) -> bool:
        """Whether the node controller took Ready away while the node was lost; it moves Ready alone."""
        if self.deleted or self.node.silent:
            return False
        conditions = {c["type"]: c["status"] for c in self.pod.get("status", {}).get("conditions", [])}
        return conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True"

    async def assert_ready(self) -> None:
        """Report again that the pod is Ready: its kubelet was only silent."""
        self.status.touch_ready()
        await self.report()

    async def _stop(self) -> None:
        """Turn not Ready first, then end, as a kubelet does."""
        await self.node.online()
        self.status.stop()
        await self.report()
        await self.wind_down()
        self._end()
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        try:
            await retry(lambda: self.api.delete(self._path(), options))
        except ApiError as error:
            if error.code not in POD_IS_ANOTHER:
                raise

    def _end(self) -> None:
        if not self.gone:
            self.gone = True
            self.node.dismiss(self.uid)
            self.on_gone()

    def _path(self, subresource: str | None = None) -> str:
        return path("v1", "pods", namespace=self.namespace, name=self.name, subresource=subresource)


def say_if_it_broke(task: asyncio.Task[None]) -> None:
    """Log a task that breaks: that is a bug of the simulator and must not stay unseen."""
    if not task.cancelled() and task.exception() is not None:
        log.error("%s broke", task.get_name(), exc_info=task.exception())
