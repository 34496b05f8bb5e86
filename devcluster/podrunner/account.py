"""A pod's ServiceAccount directory: a real token, bound to the pod, replaced before it expires."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp

from devcluster.boot.certificates import write_private
from devcluster.client import ApiError, path

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.client import Api, Object

logger = logging.getLogger(__name__)

DEFAULT_SECONDS = 3600
"""Lifetime of a token whose volume names none (API default)."""

RENEW_AT = 0.8
"""A kubelet replaces a token when this part of its life has passed (pkg/kubelet/token)."""

RETRY_SECONDS = 1.0
"""After a token could not be had."""


def token_source(pod: Object) -> Object | None:
    """Find the token that a projected volume asks for; admission adds one unless the pod opts out."""
    for volume in pod["spec"].get("volumes", []):
        for source in volume.get("projected", {}).get("sources", []):
            if "serviceAccountToken" in source:
                return dict(source["serviceAccountToken"])
    return None


async def write(api: Api, pod: Object, authority: str, folder: Path) -> datetime:
    """Write token, authority and namespace; return when the token is to be replaced."""
    source = token_source(pod) or {}
    metadata = pod["metadata"]
    url_path = path(
        "v1",
        "serviceaccounts",
        namespace=metadata["namespace"],
        name=pod["spec"]["serviceAccountName"],
        subresource="token",
    )
    spec: Object = {
        "expirationSeconds": source.get("expirationSeconds", DEFAULT_SECONDS),
        "boundObjectRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    if "audience" in source:
        spec["audiences"] = [source["audience"]]
    asked = datetime.now(UTC)
    status = (await api.create(url_path, {"spec": spec}))["status"]
    write_private(folder / "ca.crt", authority)
    write_private(folder / "namespace", metadata["namespace"])
    write_private(folder / source.get("path", "token"), status["token"])
    return asked + (datetime.fromisoformat(status["expirationTimestamp"]) - asked) * RENEW_AT


async def keep(api: Api, pod: Object, authority: str, folder: Path, arrived: asyncio.Event) -> None:
    """Get the first token, say so, and replace it in time for as long as the pod lives."""
    while True:
        try:
            renew_at = await write(api, pod, authority, folder)
        except (ApiError, aiohttp.ClientError, TimeoutError, OSError) as error:
            logger.warning("no token for %s: %s", pod["metadata"]["name"], error)
            await asyncio.sleep(RETRY_SECONDS)
            continue
        arrived.set()
        await asyncio.sleep(max(0.0, (renew_at - datetime.now(UTC)).total_seconds()))
