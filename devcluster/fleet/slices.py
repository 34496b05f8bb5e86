"""The ResourceSlice of a plugin's GPUs on one node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devcluster.client import path, retry

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.fleet.node import Node

Object = dict[str, Any]

API_VERSION = "resource.k8s.io/v1"

GPUS_PER_NODE = 8


async def publish(api: Api, node: Node, driver: str, version: str) -> None:
    """Publish the GPUs of a node, with the driver version that the plugin found at its start.

    A slice that is there is updated in place, as the real library does.
    """
    name = f"{node.name}-{driver}"
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}
    spec = {
        "driver": driver,
        "nodeName": node.name,
        "pool": {"name": node.name, "generation": 1, "resourceSliceCount": 1},
        "devices": [_gpu(number, version) for number in range(GPUS_PER_NODE)],
    }
    slice_ = {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": spec,
    }
    url_path = path(API_VERSION, "resourceslices", name=name)
    await retry(lambda: api.apply(url_path, slice_, "devcluster"))


def _gpu(number: int, version: str) -> Object:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{number}"},
            "driverVersion": {"version": semantic(version)},
        },
    }


def semantic(version: str) -> str:
    """Spell a version as a semantic one, which has no leading zeros: 580.105.08 becomes 580.105.8."""
    return ".".join(str(int(part)) for part in version.split("."))
