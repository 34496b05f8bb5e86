"""Claims of the driver's devices, and the pods that hold them.

A cluster may have far more pods than nodes, so pods without claims and claims without one of the drivers are left out.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING

from hook.objects.decoding import Reader, Text, Time, Value, reads
from hook.objects.parts import Identified, Namespaced  # noqa: TC001 - msgspec evaluates it
from hook.objects.sharing import moment

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime


class Claim(Value, frozen=True):
    """An allocated claim of one of the drivers."""

    namespace: str
    name: str
    pods: tuple[str, ...]
    """UIDs of the pods that it is reserved for."""


class ClaimPod(Value, frozen=True):
    """A pod with claims that the kubelet of its node has started, and that has not ended."""

    namespace: str
    name: str
    uid: str
    node: str
    started: datetime
    """``status.startTime``, before which the kubelet prepares nothing. A container that restarts does not change it."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class _Result(Value, frozen=True):
    driver: Text = ""


class _Devices(Value, frozen=True):
    results: tuple[_Result, ...] = ()


class _Allocation(Value, frozen=True):
    devices: _Devices = _Devices()


class _Consumer(Value, frozen=True):
    resource: Text = ""
    uid: Text = ""


class _ClaimStatus(Value, frozen=True):
    allocation: _Allocation = _Allocation()
    reserved_for: tuple[_Consumer, ...] = ()


class _Claim(Value, frozen=True):
    """A ResourceClaim. These fields are the same in ``v1``, ``v1beta2`` and ``v1beta1``."""

    metadata: Namespaced
    status: _ClaimStatus = _ClaimStatus()


def claim_reader(drivers: Collection[str]) -> Reader[Claim | None]:
    """Return a reader that keeps only the allocated claims of these DRA drivers that are reserved for pods."""

    def read(decoded: _Claim) -> Claim | None:
        metadata, status = decoded.metadata, decoded.status
        pods = tuple(consumer.uid for consumer in status.reserved_for if consumer.resource == "pods")
        if pods and any(result.driver in drivers for result in status.allocation.devices.results):
            return Claim(intern(metadata.namespace), metadata.name, pods)
        return None

    return Reader(_Claim, read)


class _Present(Value, frozen=True):
    """A JSON object whose presence is all that counts."""


class _PodSpec(Value, frozen=True):
    node_name: Text = ""
    resource_claims: tuple[_Present, ...] = ()


class _PodStatus(Value, frozen=True):
    phase: Text = ""
    start_time: Time | None = None
    extended_resource_claim_status: _Present | None = None
    """The claim that the scheduler made for an extended resource (KEP-5004)."""


class _Pod(Value, frozen=True):
    metadata: Identified
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


@reads(_Pod)
def read_claim_pod(decoded: _Pod) -> ClaimPod | None:
    """Return nothing for a pod that holds no claim, or that has not started, has ended or terminates."""
    metadata, spec, status = decoded.metadata, decoded.spec, decoded.status
    holds = spec.resource_claims or status.extended_resource_claim_status
    over = metadata.deletion_timestamp is not None or status.phase in ("Succeeded", "Failed")
    started = moment(status.start_time)
    if not holds or over or not spec.node_name or started is None:
        return None
    return ClaimPod(intern(metadata.namespace), metadata.name, metadata.uid, intern(spec.node_name), started)
