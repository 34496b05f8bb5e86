"""Pods that use devices through claims, and the claims: the fields that show when a pod began to hold one.

A cluster may have far more pods than nodes, so pods without claims and claims without one of the drivers have no view.
"""

from __future__ import annotations

from functools import partial
from sys import intern
from typing import TYPE_CHECKING, Any, Final

from hook.objects import wire
from hook.objects.decoding import Name, Part, Reader, Text, Time, moment
from hook.objects.views import View

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

PODS: Final = "pods"


class Named(Part):
    """An entry whose presence is all that counts."""


class Consumer(Part):
    """An entry of ``status.reservedFor``."""

    resource: Text | None = None
    uid: Text | None = None


class ClaimShape(wire.Object):
    """A ResourceClaim. These fields are the same in ``v1``, ``v1beta2`` and ``v1beta1``."""

    class Result(Part):
        driver: Text | None = None

    class Devices(Part):
        results: list[ClaimShape.Result] | None = None

    class Allocation(Part):
        devices: ClaimShape.Devices | None = None

    class Status(Part):
        allocation: ClaimShape.Allocation | None = None
        reserved_for: list[Consumer] | None = None

    metadata: wire.Namespaced
    status: Status | None = None

    @property
    def drivers(self) -> set[str]:
        """Return the DRA drivers of the allocated devices."""
        devices = self.status and self.status.allocation and self.status.allocation.devices
        return {result.driver or "" for result in (devices and devices.results) or ()}


class PodShape(wire.Object):
    """A pod, with the fields that show that it has claims, and when its kubelet started it."""

    class Meta(wire.Namespaced, kw_only=True):
        uid: Name
        deletion_timestamp: Time | None = None

    class Spec(Part):
        node_name: Text | None = None
        resource_claims: list[Named] | None = None

    class Status(Part):
        phase: Text | None = None
        start_time: Time | None = None
        extended_resource_claim_status: Named | None = None
        """The claim that the scheduler made for an extended resource (KEP-5004)."""

    metadata: Meta
    spec: Spec | None = None
    status: Status | None = None


class Claim(View, frozen=True):
    """An allocated claim of one of the drivers."""

    namespace: str
    name: str
    pods: tuple[str, ...]
    """UIDs of the pods that it is reserved for."""


class ClaimPod(View, frozen=True):
    """A pod with claims that the kubelet of its node has started, and that has not ended."""

    namespace: str
    name: str
    uid: str
    node: str
    started: datetime
    """``status.startTime``, before which the kubelet prepares nothing. A container that restarts does not change it."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def claim_reader(drivers: Collection[str]) -> Reader[Claim | None]:
    """Return a reader that keeps only the allocated claims of these DRA drivers that are reserved for pods."""
    return Reader(ClaimShape, partial(_claim, frozenset(drivers)))


def _claim(drivers: frozenset[str], decoded: Any) -> Claim | None:  # noqa: ANN401 - a ClaimShape
    if decoded.drivers.isdisjoint(drivers):
        return None
    consumers = (decoded.status.reserved_for or ()) if decoded.status else ()
    pods = tuple(consumer.uid for consumer in consumers if consumer.resource == PODS and consumer.uid)
    return Claim(intern(decoded.metadata.namespace), decoded.metadata.name, pods) if pods else None


def _pod(decoded: PodShape) -> ClaimPod | None:
    """Build the view of a pod. A pod that terminates, has ended or has not started has none."""
    spec, status = decoded.spec or PodShape.Spec(), decoded.status or PodShape.Status()
    metadata, claims = decoded.metadata, spec.resource_claims or status.extended_resource_claim_status
    over = metadata.deletion_timestamp is not None or status.phase in ("Succeeded", "Failed")
    started = moment(status.start_time)
    if not claims or not spec.node_name or started is None or over:
        return None
    return ClaimPod(intern(metadata.namespace), metadata.name, metadata.uid, intern(spec.node_name), started)


claim_pod: Final[Reader[ClaimPod | None]] = Reader(PodShape, _pod)
"""Reader of pods; None for each pod that holds no claim."""
