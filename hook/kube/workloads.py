"""Informers of claims and of the pods that hold them, apart from those that decisions need.

They only serve the report of affected workloads. A run never fails because of them, and waits for them a few seconds
at most. Without the permission to list claims or pods, they try again without end, and the program works without the
report. Pods are listed once there is a claim of one of the drivers, so a cluster without one costs little.
"""

from __future__ import annotations

import logging
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

View = TypeVar("View")

log = logging.getLogger(__name__)

NOT_OVER: Final = "status.phase!=Succeeded,status.phase!=Failed"
NOT_READ: Final = "claims and pods have not been read yet"


class WorkloadCache:
    """The pods of the cluster that hold claims of the given DRA drivers."""

    def __init__(self, api: Api, drivers: Sequence[str]) -> None:
        self._api, self._drivers = api, drivers
        self._claims: Informer | None = None
        self._pods: Informer | None = None
        self._logged = False

    def watch(self) -> None:
        """Watch the claims, then the pods. Log once in a row why they cannot be read."""
        if self._drivers and self._claims is None:
            self._claims = self._start(ListWatch(resources.RESOURCE_CLAIMS, claim_reader(self._drivers)))
        if self._pods is None and any(self._views(self._claims, Claim)):
            self._pods = self._start(ListWatch(resources.PODS.select(fields=NOT_OVER), read_claim_pod))
        if not self._failed:
            self._logged = False
        elif not self._logged and any(_lasts(informer) for informer in self._informers):
            self._logged = True
            log.warning("continuing without the report of affected workloads: %s", self.problem)

    @property
    def problem(self) -> str:
        """Return why the pods are not known, or ""."""
        for informer in self._informers:
            if trouble := informer.problem or informer.out_of_sync:
                return str(trouble)
        awaits_pods = self._pods is None and any(self._views(self._claims, Claim))
        synced = self._claims is not None and all(informer.synced for informer in self._informers)
        return "" if synced and not awaits_pods else NOT_READ

    @property
    def pending(self) -> bool:
        """Return whether a short wait helps: nothing has failed so far."""
        return bool(self._drivers and self.problem) and not self._failed

    def holders(self) -> Holders:
        """Return the pods that hold claims, with the names of the claims."""
        return joined(self._views(self._claims, Claim), self._views(self._pods, ClaimPod))

    @property
    def malformed(self) -> str:
        """Return which claims and pods cannot be read, or ""."""
        found = [each for informer in self._informers for each in self._views(informer, Malformed)]
        return some([f"{each.kind} {each.namespace}/{each.name} cannot be read: {each.problem}" for each in found])

    def stop(self) -> None:
        """Stop the informers."""
        for informer in self._informers:
            informer.stop()

    @property
    def _informers(self) -> list[Informer]:
        return [informer for informer in (self._claims, self._pods) if informer is not None]

    @property
    def _failed(self) -> bool:
        return any(informer.problem or informer.out_of_sync for informer in self._informers)

    def _start(self, list_watch: ListWatch) -> Informer:
        # What a report lacks must not look like an outage, so nothing ends these informers.
        informer = Informer(self._api, list_watch, retry.CONTROLLER)
        informer.start()
        return informer

    @staticmethod
    def _views(informer: Informer | None, kind: type[View]) -> Iterator[View]:
        return (view for view in (informer.views() if informer is not None else ()) if isinstance(view, kind))


def _lasts(informer: Informer) -> bool:
    """Return whether something keeps an informer from reading for more than a moment."""
    lost = informer.out_of_sync
    return informer.problem is not None or (lost is not None and lost.lasting)
