"""Claims of the driver's devices, and the pods that hold them.

A cluster may have far more pods than nodes, so pods without claims and claims without one of the drivers are left out.
"""

from __future__ import annotations

from datetime import UTC
from sys import intern
from typing import TYPE_CHECKING, Annotated, Final

from hook.objects.decoding import Reader, Text, Time, Value
from hook.objects.parts import Identified, Namespaced
from hook.objects.sharing import shared
from hook.objects.views import At, at, made, reader

if TYPE_CHECKING:
    from collections.abc import Collection


class _Result(Value, frozen=True):
    driver: Text = ""


class _Consumer(Value, frozen=True):
    resource: Text = ""
    uid: Text = ""


def _drivers(results: tuple[_Result, ...]) -> frozenset[str]:
    return shared(frozenset(result.driver for result in results))


def _pods(consumers: tuple[_Consumer, ...]) -> tuple[str, ...]:
    return tuple(consumer.uid for consumer in consumers if consumer.resource == "pods")


class Claim(Namespaced, frozen=True):
    """An allocated claim of one of the drivers. Its fields are the same in ``v1``, ``v1beta2`` and ``v1beta1``."""

    drivers: Annotated[
        frozenset[str], made(_drivers, At(("status", "allocation", "devices", "results"), tuple[_Result, ...], ()))
    ]
    pods: Annotated[tuple[str, ...], made(_pods, At(("status", "reservedFor"), tuple[_Consumer, ...], ()))]
    """UIDs of the pods that it is reserved for."""


def claim_reader(drivers: Collection[str]) -> Reader[Claim | None]:
    """Return a reader that keeps only the allocated claims of these DRA drivers that are reserved for pods."""

    def keep(claim: Claim) -> Claim | None:
        return claim if claim.pods and not claim.drivers.isdisjoint(drivers) else None

    return reader(Claim).keeping(keep)


NEVER: Final = Time(9999, 12, 31, tzinfo=UTC)


class _Present(Value, frozen=True):
    """A JSON object whose presence is all that counts."""


def _holds(claims: tuple[_Present, ...], extended: _Present | None) -> bool:
    return bool(claims) or extended is not None


def _is_over(phase: str, deleted: Time | None) -> bool:
    return phase in ("Succeeded", "Failed") or deleted is not None


class ClaimPod(Identified, frozen=True):
    """A pod with claims that the kubelet of its node has started, and that has not ended."""

    node: Annotated[str, made(intern, At(("spec", "nodeName"), Text, ""))]
    holds: Annotated[
        bool,
        made(
            _holds,
            At(("spec", "resourceClaims"), tuple[_Present, ...], ()),
            # The claim that the scheduler made for an extended resource (KEP-5004).
            At(("status", "extendedResourceClaimStatus"), _Present | None, None),
        ),
    ]
    over: Annotated[
        bool,
        made(_is_over, At(("status", "phase"), Text, ""), At(("metadata", "deletionTimestamp"), Time | None, None)),
    ]
    started: Annotated[Time, at("status", "startTime")] = NEVER
    """Before it the kubelet prepares nothing. A container that restarts does not change it."""


def _keep(pod: ClaimPod) -> ClaimPod | None:
    """Return nothing for a pod that holds no claim, or that has not started, has ended or terminates."""
    return pod if pod.holds and not pod.over and pod.node and pod.started < NEVER else None


read_claim_pod = reader(ClaimPod).keeping(_keep)
