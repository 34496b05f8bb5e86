"""What somebody wants a driver stack to be, whatever kind of object it is written in: ``policies.py`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """How an upgrade controller goes about its nodes, as somebody wrote it; defaults are those of the kinds.

    Only for planning: nothing here says whether a driver is settled, so nothing here makes a policy unreadable.
    """

    stated: bool = False
    """The object says anything of it."""
    parallel: int = 1
    """Nodes at once; zero is no limit."""
    unavailable: str = ""
    """Nodes that may be unavailable, a number or a percentage; empty where the kind knows no such limit."""
    waits_for: str = ""
    """Selector of pods that must complete before a node begins."""
    wait_seconds: int = 0
    """How long they may take; zero is for ever."""
    force: bool = False
    """Pods without a controller are deleted, too."""
    delete_empty_dir: bool = False
    """Pods with local data are deleted, too."""
    drains: bool = False
    elsewhere: tuple[str, ...] = ()
    """Fields that look like such limits where no upgrade controller reads them, as ``path=value``."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What somebody wants a driver stack to be: a ClusterPolicy, NVIDIADriver or NicClusterPolicy."""

    kind: str
    name: str
    uid: str
    created: datetime
    generation: int
    state: str
    """``ready``, ``notReady``, ``ignored`` or empty, of the driver where the kind tells. It lies; only a late veto."""
    ready_since: datetime | None
    """When its Ready condition last changed to true; None while it is not, or where the kind has none."""
    namespace: str
    """``status.namespace``: where the operator lives. Empty until it reconciled once, or where the kind has none."""
    driver_enabled: bool
    pooled: bool
    """The intent is in an object for each pool of nodes (NVIDIADriver); an image here says nothing."""
    repository: str
    image: str
    version: str
    precompiled: bool
    chart: str
    """``helm.sh/chart`` that operands must carry (``spec.daemonsets.labels``), or empty."""
    manual: str | None
    """Why nobody rotates outdated driver pods; empty where the upgrade controller does, None where a pool
    does not say."""
    halted: str
    """Why the upgrade controller does nothing at all, whatever pools say; or empty."""
    rdma: bool
    """GPUDirect RDMA is on with a containerised network driver, which the GPU driver waits for."""
    eviction_label: str
    """One more node label that the driver manager pauses, so that what selects it goes away during a reload."""
    changed: datetime | None
    """When its spec was last written (``managedFields``)."""
    upgrade: UpgradePolicy = UpgradePolicy()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
