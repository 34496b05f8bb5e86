"""The operator that deploys the driver: its Deployment, its ReplicaSets and its Lease."""

from __future__ import annotations

from typing import Annotated, Final

from hook.objects import names
from hook.objects.decoding import Count, Name, Text, Time
from hook.objects.parts import CONDITIONS, OWNERS, Conditions, Identified, Namespaced, condition, owner_uid
from hook.objects.views import At, View, at, made, reader

REVISION: Final = at("metadata", "annotations", names.DEPLOYMENT_REVISION_ANNOTATION)
POD: Final = ("spec", "template", "spec")


def _changed(conditions: Conditions) -> Time | None:
    return condition(conditions, "Progressing").last_update_time


def _has_name(host_network: bool, hostname: str) -> bool:
    return bool(host_network or hostname)


class Deployment(Identified, frozen=True):
    """The operator's Deployment."""

    generation: Annotated[Count, at("metadata", "generation")]
    revision: Annotated[Text, REVISION] = ""
    observed_generation: Annotated[Count, at("status", "observedGeneration")] = 0
    wanted: Annotated[Count, at("spec", "replicas")] = 1
    total: Annotated[Count, at("status", "replicas")] = 0
    updated: Annotated[Count, at("status", "updatedReplicas")] = 0
    available: Annotated[Count, at("status", "availableReplicas")] = 0
    changed: Annotated[Time | None, made(_changed, CONDITIONS)] = None
    """When its last rollout advanced or completed."""
    named_by_host: Annotated[
        bool, made(_has_name, At((*POD, "hostNetwork"), bool, False), At((*POD, "hostname"), Text, ""))
    ] = False
    """Its pods have other host names than their own, and so has the holder of its Lease."""


class ReplicaSet(View, frozen=True):
    """A ReplicaSet of the operator's Deployment."""

    name: Annotated[Name, at("metadata", "name")]
    owner_uid: Annotated[str, made(owner_uid, OWNERS)]
    revision: Annotated[Text, REVISION] = ""


class Lease(Namespaced, frozen=True):
    """The operator's leader lease."""

    holder: Annotated[Text, at("spec", "holderIdentity")] = ""
    """``<pod name>_<uuid>`` (controller-runtime); empty once it was released."""
    acquired: Annotated[Time | None, at("spec", "acquireTime")] = None


read_deployment, read_replicaset, read_lease = reader(Deployment), reader(ReplicaSet), reader(Lease)
