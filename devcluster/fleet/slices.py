"""The ResourceSlices of one node: published by plugins, wiped by the kubelet when they stay away."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError, path, retry

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.fleet.node import Node
    from devcluster.fleet.settings import Settings

Object = dict[str, Any]

GROUP = "resource.k8s.io"

GONE = 404

CUDA_VERSION = "13.0.0"
"""The newest CUDA that the driver supports; nothing depends on it."""


MIG_PROFILE = "3g.40gb"
"""Two of them fit on a GPU."""

COMPUTE_DOMAINS = "compute-domain.nvidia.com"
"""The other DRA driver of the same plugin."""


class Devices(StrEnum):
    """What a plugin finds on its node, and what it says about that."""

    GPU = "gpu"
    MIG = "mig"
    """Parts of GPUs."""
    UNVERSIONED = "unversioned"
    """GPUs without the driver's version, as those are published that are bound to vfio."""
    CHANNELS = "channels"
    """Of a compute domain; nothing about them depends on the driver."""


class Slices:
    """One slice for each DRA driver; an existing one is updated in place, as the real library does."""

    def __init__(self, api: Api, node: Node) -> None:
        self.api = api
        self.node = node
        self._names: dict[str, str] = {}
        """The slice of each DRA driver."""
        self.version = ""
        """Of the API, as the server prefers it; not known before the first slice."""
        self._wipes: dict[str, asyncio.Task[None]] = {}

    async def publish(self, driver: str, devices: Devices, version: str, settings: Settings) -> None:
        """Publish which devices there are, with the driver version that the plugin found at its start."""
        wipe = self._wipes.pop(driver, None)
        if wipe is not None:
            wipe.cancel()
        await self._learn_version()
        slice_ = describe(
            self.node.name, self.node.uid, driver, spelled(listed(devices, version, settings), self.version)
        )
        if driver in self._names:
            try:
                await retry(lambda: self.api.patch(self._path(driver), {"spec": slice_["spec"]}))
            except ApiError as error:
                if error.code != GONE:
                    raise
            else:
                return
        slices = path(f"{GROUP}/{self.version}", "resourceslices")
        created = await retry(lambda: self.api.create(slices, slice_))
        self._names[driver] = created["metadata"]["name"]

    def schedule_wipe(self, driver: str, seconds: float) -> None:
        """Wipe the slice after a while, unless a plugin publishes it anew before that."""
        if driver in self._names and driver not in self._wipes:
            self._wipes[driver] = asyncio.create_task(self._wipe_later(driver, seconds))

    async def wipe_all(self) -> None:
        """Wipe everything, as a kubelet does when it starts."""
        for driver in list(self._names):
            await self._wipe(driver)

    async def _learn_version(self) -> None:
        """Ask for the newest version that exists, as the real library does."""
        if not self.version:
            group = await retry(lambda: self.api.get(f"/apis/{GROUP}"))
            self.version = group["preferredVersion"]["version"]

    async def _wipe_later(self, driver: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.node.online()
        self._wipes.pop(driver, None)
        await self._wipe(driver)

    async def _wipe(self, driver: str) -> None:
        if driver not in self._names:
            return  # wiped by a reboot meanwhile
        url_path = self._path(driver)
        del self._names[driver]
        try:
            await retry(lambda: self.api.delete(url_path))
        except ApiError as error:
            if error.code != GONE:
                raise

    def _path(self, driver: str) -> str:
        return path(f"{GROUP}/{self.version}", "resourceslices", name=self._names[driver])


def describe(node: str, node_uid: str, driver: str, devices: list[Object]) -> Object:
    """Spell a node's slice."""
    return {
        "metadata": {
            "generateName": f"{node}-{driver}-",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
            ],
        },
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def spelled(devices: list[Object], version: str) -> list[Object]:
    """Spell devices for one version of the API: the oldest nests what they are."""
    if version != "v1beta1":
        return devices
    return [
        {"name": device["name"], "basic": {key: device[key] for key in device if key != "name"}} for device in devices
    ]


def listed(devices: Devices, version: str, settings: Settings) -> list[Object]:
    """Spell the devices of a node."""
    if devices is Devices.CHANNELS:
        return [_channel(number) for number in range(settings.devices_per_node)]
    gpus = [_gpu(number, version, settings) for number in range(settings.devices_per_node)]
    if devices is Devices.MIG:
        return [part for number, gpu in enumerate(gpus) for part in _parts(number, gpu)]
    if devices is Devices.UNVERSIONED:
        for gpu in gpus:
            del gpu["attributes"]["driverVersion"], gpu["attributes"]["cudaDriverVersion"]
    return gpus


def _gpu(number: int, version: str, settings: Settings) -> Object:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{number}"},
            "productName": {"string": settings.product_name},
            "driverVersion": {"version": semantic(version)},
            "cudaDriverVersion": {"version": CUDA_VERSION},
        },
        "capacity": {"memory": {"value": "81559Mi"}},
    }


def _parts(number: int, gpu: Object) -> list[Object]:
    """Cut a GPU into two instances."""
    attributes = gpu["attributes"] | {
        "type": {"string": "mig"},
        "parentUUID": gpu["attributes"]["uuid"],
        "profile": {"string": MIG_PROFILE},
    }
    return [
        {"name": f"gpu-{number}-mig-{part}", "attributes": attributes, "capacity": {"memory": {"value": "40192Mi"}}}
        for part in range(2)
    ]


def _channel(number: int) -> Object:
    return {"name": f"channel-{number}", "attributes": {"type": {"string": "channel"}, "id": {"int": number}}}


def semantic(version: str) -> str:
    """Spell a version as a semantic one, which has no leading zeros: 580.105.08 becomes 580.105.8."""
    return ".".join(str(int(part)) for part in version.split("."))
