"""The operator that deploys the driver: its Deployment, its ReplicaSets and its Lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hook.objects.decoding import Count, Text, Time, Value, reads
from hook.objects.parts import Condition, Identified, Metadata, Namespaced, condition
from hook.objects.sharing import moment

if TYPE_CHECKING:
    from datetime import datetime


class Deployment(Value, frozen=True):
    """The operator's Deployment."""

    namespace: str
    name: str
    uid: str
    revision: str
    generation: int
    observed_generation: int
    wanted: int
    total: int
    updated: int
    available: int
    changed: datetime | None = None
    """When its last rollout advanced or completed (condition Progressing)."""
    named_by_host: bool = False
    """Its pods have other host names than their own (hostNetwork, hostname), and so has the holder of its Lease."""


class ReplicaSet(Value, frozen=True):
    """A ReplicaSet of the operator's Deployment."""

    name: str
    owner_uid: str
    revision: str


class Lease(Value, frozen=True):
    """The operator's leader lease."""

    namespace: str
    holder: str
    """``<pod name>_<uuid>`` (controller-runtime)."""
    acquired: datetime | None


class _PodSpec(Value, frozen=True):
    host_network: bool = False
    hostname: Text = ""


class _Template(Value, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Spec(Value, frozen=True):
    replicas: Count = 1
    template: _Template = _Template()


class _Status(Value, frozen=True):
    observed_generation: Count = 0
    replicas: Count = 0
    updated_replicas: Count = 0
    available_replicas: Count = 0
    conditions: tuple[Condition, ...] = ()


class _Metadata(Identified, frozen=True, kw_only=True):
    generation: Count


class _Deployment(Value, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


@reads(_Deployment)
def read_deployment(decoded: _Deployment) -> Deployment:
    """Read the operator's Deployment."""
    metadata, spec, status = decoded.metadata, decoded.spec, decoded.status
    pods = spec.template.spec
    return Deployment(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        revision=metadata.annotations.deployment_revision,
        generation=metadata.generation,
        observed_generation=status.observed_generation,
        wanted=spec.replicas,
        total=status.replicas,
        updated=status.updated_replicas,
        available=status.available_replicas,
        changed=moment(condition(status.conditions, "Progressing").last_update_time),
        named_by_host=bool(pods.host_network or pods.hostname),
    )


class _ReplicaSet(Value, frozen=True):
    metadata: Metadata


@reads(_ReplicaSet)
def read_replicaset(decoded: _ReplicaSet) -> ReplicaSet:
    """Read a ReplicaSet."""
    metadata = decoded.metadata
    return ReplicaSet(metadata.name, metadata.owner.uid, metadata.annotations.deployment_revision)


class _LeaseSpec(Value, frozen=True):
    holder_identity: Text = ""
    acquire_time: Time | None = None


class _Lease(Value, frozen=True):
    metadata: Namespaced
    spec: _LeaseSpec = _LeaseSpec()


@reads(_Lease)
def read_lease(decoded: _Lease) -> Lease:
    """Read the operator's Lease."""
    return Lease(decoded.metadata.namespace, decoded.spec.holder_identity, moment(decoded.spec.acquire_time))
