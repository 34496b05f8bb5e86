"""What a container needs to know of its pod, and a pod of its node."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from devcluster.boot.layout import State
    from devcluster.client import Api, Object


@dataclass(frozen=True, slots=True)
class Host:
    """What all pods of the node share."""

    state: State
    authority: str
    """Certificate that the API server is verified by."""
    variables: Mapping[str, str]
    """What every container's environment begins with."""


@dataclass(slots=True)
class PodContext:
    """One pod, as its containers see it."""

    api: Api
    manifest: Object
    host: Host
    publish: Callable[[], Awaitable[None]]
    """Write the status of the pod."""
    deleted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the pod is being deleted."""
    grace: float = 0.0
    """Seconds from SIGTERM to SIGKILL of the deletion."""

    @property
    def name(self) -> str:
        """Return ``namespace/name``."""
        metadata = self.manifest["metadata"]
        return f"{metadata['namespace']}/{metadata['name']}"

    @property
    def folder(self) -> Path:
        """Return the folder for the files of the pod."""
        metadata = self.manifest["metadata"]
        return self.host.state.pod(metadata["namespace"], metadata["name"])

    @property
    def usual_grace(self) -> float:
        """Return the grace period of the manifest; the API server fills in its default."""
        return float(self.manifest["spec"]["terminationGracePeriodSeconds"])

    @property
    def service_account(self) -> Path:
        """Return the folder with the pod's token, as it would be mounted."""
        return self.folder / "serviceaccount"
