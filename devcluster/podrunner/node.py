"""The node itself: registered, and kept alive as a kubelet keeps its own."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from datetime import UTC, datetime

import aiohttp

from devcluster.boot.layout import SYSTEM_NODE
from devcluster.boot.machines import NODES, create_missing, is_ready
from devcluster.build.programs import KUBERNETES
from devcluster.client import STRATEGIC_PATCH, Api, ApiError, Object, path
from devcluster.podrunner.status import LOOPBACK, timestamp

logger = logging.getLogger(__name__)

RENEW_SECONDS = 4.0
"""A fifth of the shortest grace period: three renewals may get lost on a busy machine."""

LEASE_SECONDS = 40
"""As every kubelet's; the node lifecycle controller goes by renewals, not by this."""

RETRY_SECONDS = 0.2
"""A new API server needs a moment to make the namespace of the leases."""

LEASES = path("coordination.k8s.io/v1", "leases", namespace="kube-node-lease")
NODE = f"{NODES}/{SYSTEM_NODE}"


def node() -> Object:
    """Describe the node."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "metadata": {
            "name": SYSTEM_NODE,
            "labels": {
                "kubernetes.io/hostname": SYSTEM_NODE,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": architecture,
                "devcluster/system": "true",
            },
        }
    }


def node_status(port: int) -> Object:
    """Describe the node's state: Ready, with room, and its log server at a port; with none it has no address either."""
    room = {"cpu": str(os.cpu_count() or 1), "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "250"}
    now = timestamp()
    ready: Object = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the pod runner is posting ready status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "capacity": room,
        "allocatable": room,
        "conditions": [ready],
        "addresses": [
            *([{"type": "InternalIP", "address": LOOPBACK}] if port else []),
            {"type": "Hostname", "address": SYSTEM_NODE},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "architecture": node()["metadata"]["labels"]["kubernetes.io/arch"],
            "bootID": "",
            "containerRuntimeVersion": "process://1",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": KUBERNETES,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "this machine",
            "systemUUID": "",
        },
    }


async def register(api: Api, port: int) -> None:
    """Create the node, say that it is Ready, and create its lease."""
    await create_missing(api, NODES, node())
    await api.patch(f"{NODE}/status", {"status": node_status(port)}, STRATEGIC_PATCH)
    while True:
        try:
            await create_missing(api, LEASES, {"metadata": {"name": SYSTEM_NODE}, "spec": _lease_spec()})
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def keep_alive(api: Api, port: int) -> None:
    """Renew the lease without an end, and say Ready again should someone have given us up."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            await api.patch(f"{LEASES}/{SYSTEM_NODE}", {"spec": _lease_spec()})
            if not is_ready(await api.get(NODE)):
                await api.patch(f"{NODE}/status", {"status": node_status(port)}, STRATEGIC_PATCH)
        except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.warning("the node's lease was not renewed: %s", error)


def _lease_spec() -> Object:
    """Spell a lease that is renewed now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {"holderIdentity": SYSTEM_NODE, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
