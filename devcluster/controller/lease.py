"""Leader election on the Lease that the real operator would hold."""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from devcluster.client import ApiError, path
from devcluster.controller.objects import TROUBLE

if TYPE_CHECKING:
    from devcluster.client import Api
    from devcluster.controller.settings import OperatorSettings

Object = dict[str, Any]

log = logging.getLogger(__name__)

LEASE_SECONDS = 5
"""The term of a leader; three renewals fit into it."""

RETRY_SECONDS = 0.5
"""How often a candidate looks; 2 s in reality."""

ABSENT = 404


class LeadershipLostError(Exception):
    """Another operator holds the Lease; the real one exits then."""


class Lease:
    """Our claim to be the leader. The holder is known as ``<pod>_<random>``, as in reality."""

    def __init__(self, api: Api, name: str, settings: OperatorSettings) -> None:
        self.api = api
        self.identity = f"{settings.pod}_{uuid.uuid4()}"
        self._name = name
        self._namespace = settings.namespace

    async def acquire(self) -> None:
        """Wait until the Lease is free, released or expired, and take it."""
        while True:
            try:
                if await self._try():
                    return
            except TROUBLE as error:
                log.warning("lease: %r", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def keep(self) -> None:
        """Renew until cancelled. Another holder ends us."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                lease = await self.api.get(self._path(self._name))
                if lease["spec"].get("holderIdentity") != self.identity:
                    raise LeadershipLostError(self.identity)
                lease["spec"]["renewTime"] = _micro_time()
                await self.api.replace(self._path(self._name), lease)
            except TROUBLE as error:
                log.warning("lease: %r", error)

    async def release(self) -> None:
        """Let the next candidate have it at once."""
        try:
            lease = await self.api.get(self._path(self._name))
            if lease["spec"].get("holderIdentity") == self.identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _micro_time()}
                await self.api.replace(self._path(self._name), lease)
        except TROUBLE as error:
            log.warning("lease: %r", error)

    async def _try(self) -> bool:
        """Take the Lease if it has no holder; who loses the race looks again."""
        try:
            lease = await self.api.get(self._path(self._name))
        except ApiError as error:
            if error.code != ABSENT:
                raise
            await self.api.create(self._path(), {"metadata": {"name": self._name}, "spec": self._spec(0)})
            return True
        if not _is_free(lease["spec"]):
            return False
        lease["spec"] = self._spec(lease["spec"].get("leaseTransitions", 0) + 1)
        await self.api.replace(self._path(self._name), lease)
        return True

    def _spec(self, transitions: int) -> Object:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": _micro_time(),
            "renewTime": _micro_time(),
            "leaseTransitions": transitions,
        }

    def _path(self, name: str | None = None) -> str:
        return path("coordination.k8s.io/v1", "leases", namespace=self._namespace, name=name)


def _is_free(spec: Object) -> bool:
    """Released, or not renewed for a whole term."""
    if not spec.get("holderIdentity"):
        return True
    age = datetime.now(UTC) - datetime.fromisoformat(spec["renewTime"])
    return bool(age.total_seconds() > spec["leaseDurationSeconds"])


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
