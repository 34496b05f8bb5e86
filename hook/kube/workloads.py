"""Informers of claims and of the pods that hold them, apart from those that decisions need.

They only serve the report of affected workloads. A run never fails because of them, and waits for them a few seconds
at most. Without the permission to list claims or pods, they are tried again from time to time, and the program works
without the report. Pods are listed once there is a claim of one of the drivers, so a cluster without one costs little.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

from hook.decide.workloads import joined
from hook.format import some
from hook.kube import resources, retry
from hook.kube.informer import Informer, ListWatch
from hook.objects import Claim, ClaimPod, Malformed, claim_reader, read_claim_pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hook.decide.workloads import Holders
    from hook.kube.client import Api
    from hook.kube.retry import Patience

View = TypeVar("View")

log = logging.getLogger(__name__)

NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"
NOT_READ: Final = "claims and pods have not been read yet"
AGAIN_SECONDS: Final = 600.0
"""Time until informers that ended are started again. An administrator may add a missing permission."""


class WorkloadCache:
    """The pods of the cluster that hold claims of the given DRA drivers."""

    def __init__(self, api: Api, drivers: Sequence[str], patience: Patience) -> None:
        # A controller tries forever what decisions need. What a report lacks must not look like an outage.
        self._patience = retry.JOB if patience is retry.CONTROLLER else patience
        self._api, self._drivers = api, drivers
        self._claims: Informer | None = None
        self._pods: Informer | None = None
        self._ended_at: float | None = None
        """When an informer was seen to have ended, by the monotonic clock."""
        self._logged = ""

    def watch(self) -> None:
        """Watch the claims, then the pods. Start again what ended some time ago."""
        if not self._drivers:
            return
        if self._claims is None or self._is_retry_due():
            self.stop()
            self._claims = self._start(ListWatch(resources.RESOURCE_CLAIMS, claim_reader(self._drivers)))
        if self._pods is None and any(self._views(self._claims, Claim)):
            self._pods = self._start(ListWatch(resources.PODS.select(fields=NOT_OVER), read_claim_pod))

    def _is_retry_due(self) -> bool:
        """Return whether an informer ended some time ago. Log once why it ended."""
        ended = next((each.problem for each in (self._claims, self._pods) if each is not None and each.problem), None)
        if ended is None:
            return False
        if self._ended_at is None:
            self._ended_at = time.monotonic()
            level = logging.DEBUG if str(ended) == self._logged else logging.WARNING
            log.log(level, "continuing without the report of affected workloads: %s", ended)
            self._logged = str(ended)
        return time.monotonic() - self._ended_at >= AGAIN_SECONDS

    @property
    def problem(self) -> str:
        """Return why the pods are not known, or ""."""
        for informer in filter(None, (self._claims, self._pods)):
            if informer.problem is not None:
                return str(informer.problem)
            if informer.out_of_sync is not None or not informer.synced:
                return str(informer.out_of_sync or NOT_READ)
        awaits_pods = self._pods is None and self._claims is not None and any(self._views(self._claims, Claim))
        return NOT_READ if self._claims is None or awaits_pods else ""

    @property
    def pending(self) -> bool:
        """Return whether a short wait helps: nothing has failed so far."""
        failed = (each.problem or each.out_of_sync for each in (self._claims, self._pods) if each is not None)
        return bool(self._drivers and self.problem) and not any(failed)

    def holders(self) -> Holders:
        """Return the pods that hold claims, with the names of the claims."""
        if self._claims is None or self._pods is None:
            return []
        return joined(self._views(self._claims, Claim), self._views(self._pods, ClaimPod))

    @property
    def malformed(self) -> str:
        """Return which claims and pods cannot be read, or ""."""
        informers = filter(None, (self._claims, self._pods))
        found = [each for informer in informers for each in self._views(informer, Malformed)]
        return some([f"{each.kind} {each.namespace}/{each.name} cannot be read: {each.problem}" for each in found])

    def stop(self) -> None:
        """Stop the informers."""
        for informer in filter(None, (self._claims, self._pods)):
            informer.stop()
        self._claims = self._pods = self._ended_at = None

    def _start(self, list_watch: ListWatch) -> Informer:
        informer = Informer(self._api, list_watch, _ignore, self._patience)
        informer.start()
        return informer

    @staticmethod
    def _views(informer: Informer, kind: type[View]) -> Iterator[View]:
        return (view for view in informer.views() if isinstance(view, kind))


def _ignore(_before: object, _after: object) -> None:
    """Ignore a change: it makes no decision due."""
