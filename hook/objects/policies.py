"""Policies: one view of the objects that specify the drivers of a stack, for every kind of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.objects import names, wire
from hook.objects.decoding import (
    LONGEST_TEXT,
    Count,
    MalformedObjectError,
    Name,
    Part,
    Text,
    Time,
    moment,
    read,
    reads,
    utc,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime


_STATE_OF_OFED: Final = "state-OFED"
"""NO ``pkg/state/state_ofed.go``: name of the driver's entry in ``status.appliedStates``."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What a driver stack must be: a ClusterPolicy, NVIDIADriver or NicClusterPolicy."""

    kind: str
    name: str
    uid: str
    created: datetime
    generation: int
    state: str
    """``ready``, ``notReady``, ``ignored`` or empty, of the driver where the kind has it. It lies; only a late veto."""
    ready_since: datetime | None
    """When its Ready condition last changed to true; None while it is not, or where the kind has none."""
    namespace: str
    """``status.namespace``: where the operator runs. Empty until it reconciled once, or where the kind has none."""
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
    """Why outdated driver pods are not rotated; empty where the upgrade controller does it, None where a pool
    does not say."""
    halted: str
    """Why the upgrade controller does nothing at all, whatever pools say; or empty."""
    rdma: bool
    """GPUDirect RDMA is on with a containerised network driver, which the GPU driver waits for."""
    eviction_label: str
    """One more node label that the driver manager pauses, so that what selects it goes away during a reload."""
    changed: datetime | None
    """When its spec was last written (``managedFields``)."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """As written. Only plans read it, and leniently (``hook.plan.limits``)."""
    last_applied: str = ""
    """The manifest of the last ``kubectl apply``, with fields that the API server dropped."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class _Managed(Part):
    time: Time | None = None
    subresource: Text | None = None
    fields_v1: dict[str, Any] | None = None


class _Object(wire.Object):
    """A policy of any kind. Its spec is decoded by `_Stated`; plans read the plain values."""

    class Meta(wire.Metadata, kw_only=True):
        uid: Name
        creation_timestamp: Time
        generation: Count | None = None
        managed_fields: list[_Managed] | None = None

    class AppliedState(Part):
        name: Text | None = None
        state: Text | None = None

    class Status(Part):
        state: Text | None = None
        namespace: Text | None = None
        conditions: list[wire.Condition] | None = None
        applied_states: list[_Object.AppliedState] | None = None

    metadata: Meta
    spec: dict[str, Any] | None = None
    status: Status | None = None

    @property
    def reported(self) -> Status:
        """Return its status."""
        return self.status or _Object.Status()

    @property
    def stated(self) -> _Stated.Spec:
        """Return its spec. Raises MalformedObjectError."""
        return read(_Stated, {"spec": self.spec or {}}).spec


class _Switch(Part):
    enabled: bool | None = None
    use_host_mofed: bool | None = None
    """Of ``rdma``."""


class _Driver(Part):
    """What each kind says of its driver."""

    class Upgrade(Part):
        auto_upgrade: bool | None = None

    class Variable(Part):
        name: Text | None = None
        value: str | None = None

    class Manager(Part):
        env: list[_Driver.Variable] | None = None

    enabled: bool | None = None
    use_nvidia_driver_crd: bool | None = msgspec.field(name="useNvidiaDriverCRD", default=None)
    repository: Text | None = None
    image: Text | None = None
    version: Text | None = None
    use_precompiled: bool | None = None
    upgrade_policy: Upgrade | None = None
    rdma: _Switch | None = None
    manager: Manager | None = None

    @property
    def auto_upgrade(self) -> bool | None:
        """Return whether outdated driver pods are rotated; None where the object does not say."""
        return self.upgrade_policy.auto_upgrade if self.upgrade_policy else None


class _Stated(Part):
    """What the kinds have in their specs. That of an NVIDIADriver is its driver."""

    class Spec(_Driver):
        driver: _Driver | None = None
        ofed_driver: _Driver | None = None
        daemonsets: wire.Labelled | None = None
        sandbox_workloads: _Switch | None = None

    spec: Spec


@reads(_Object)
def cluster_policy(found: _Object) -> Policy:
    """Read a ClusterPolicy. One without ``spec.driver`` states no intent and is malformed."""
    if not (found.spec or {}).get("driver"):
        raise MalformedObjectError("spec.driver: missing")
    spec = found.stated
    driver, labels = spec.driver or _Driver(), (spec.daemonsets and spec.daemonsets.labels) or {}
    # GO controllers/upgrade_controller.go, Reconcile.
    sandbox = spec.sandbox_workloads is not None and spec.sandbox_workloads.enabled
    halted = "sandbox workloads are enabled, which turns the upgrade controller off" if sandbox else ""
    return Policy(
        **_common("ClusterPolicy", found, driver),
        state=found.reported.state or "",
        namespace=found.reported.namespace or "",
        # GO api/nvidia/v1: DriverSpec.IsEnabled is true where the field is absent.
        driver_enabled=driver.enabled is not False,
        pooled=bool(driver.use_nvidia_driver_crd),
        chart=labels.get(names.CHART_LABEL, ""),
        # GO api/nvidia/v1: the CRD's default is false; the chart sets it.
        manual=halted or ("" if driver.auto_upgrade else "autoUpgrade is off"),
        halted=halted,
    )


@reads(_Object)
def nvidia_driver(found: _Object) -> Policy:
    """Read an NVIDIADriver: the intent for one pool of nodes. What it has no field for is left to the policy."""
    if not found.spec:
        raise MalformedObjectError("spec: missing")
    driver = found.stated
    # GO >= v26.7.0, api/nvidia/v1alpha1: its default is true.
    manual = "its upgradePolicy.autoUpgrade is off" if driver.auto_upgrade is False else ""
    return Policy(
        **_common("NVIDIADriver", found, driver),
        state=found.reported.state or "",
        namespace=found.reported.namespace or "",
        driver_enabled=True,
        pooled=False,
        chart="",
        manual=manual if found.spec.get("upgradePolicy") else None,
        halted="",
    )


@reads(_Object)
def nic_cluster_policy(found: _Object) -> Policy:
    """Read a NicClusterPolicy. One without ``spec.ofedDriver`` asks for no driver, which is no mistake."""
    driver = found.stated.ofed_driver or _Driver()
    states = {each.name: each.state for each in found.reported.applied_states or ()}
    common = _common("NicClusterPolicy", found, driver) | {"precompiled": False, "rdma": False, "eviction_label": ""}
    return Policy(
        **common,
        state=states.get(_STATE_OF_OFED) or "",
        namespace="",
        driver_enabled=bool((found.spec or {}).get("ofedDriver")),
        pooled=False,
        chart="",
        # NO api/v1alpha1: the CRD's default is false.
        manual="" if driver.auto_upgrade else "ofedDriver.upgradePolicy.autoUpgrade is off",
        halted="",
    )


def _common(kind: str, found: _Object, driver: _Driver) -> dict[str, Any]:
    """Read what every policy has."""
    ready, rdma = wire.condition(found.reported.conditions, "Ready"), driver.rdma or _Switch()
    variables = (driver.manager and driver.manager.env) or ()
    labels = (each.value or "" for each in variables if each.name == names.EVICTION_LABEL_VARIABLE)
    return {
        "kind": kind,
        "name": found.metadata.name,
        "uid": found.metadata.uid,
        "created": utc(found.metadata.creation_timestamp),
        "generation": found.metadata.generation or 0,
        "ready_since": moment(ready.last_transition_time) if ready.true else None,
        "changed": _spec_changed(found.metadata.managed_fields or ()),
        "spec": found.spec or {},
        "last_applied": found.metadata.noted.last_applied or "",
        **_image(driver),
        "precompiled": bool(driver.use_precompiled),
        # The driver manager waits for a containerised network driver (DM isGPUDirectRDMAEnabled).
        "rdma": bool(rdma.enabled and not rdma.use_host_mofed),
        "eviction_label": next(labels, "")[:LONGEST_TEXT],
    }


def _image(driver: _Driver) -> dict[str, str]:
    """Return repository, image and version. Without the first and the last the image is a whole reference.

    The operator uses that one as it is, with the operating system appended unless it holds a digest (GO
    ``api/nvidia/v1/clusterpolicy_types.go``, ``imagePath``; ``controllers/object_controls.go``, ``resolveDriverTag``).
    """
    repository, image, version = driver.repository or "", driver.image or "", driver.version or ""
    if not repository and not version:
        path, at, digest = image.partition("@")
        name, colon, tag = path.rpartition(":")
        if at:
            image, version = path, digest
        elif colon and "/" not in tag:  # Without a tag the colon is that of a registry's port.
            image, version = name, tag
    return {"repository": repository, "image": image, "version": version}


def _spec_changed(writes: Iterable[_Managed]) -> datetime | None:
    """Return when a manager of spec fields wrote last, in UTC; None where that is not known.

    A manager of metadata alone, such as a tool that annotates, changes no intent.
    """
    specs = (each for each in writes if each.subresource != "status")
    moments = (moment(each.time) for each in specs if each.fields_v1 is None or "f:spec" in each.fields_v1)
    return max((at for at in moments if at), default=None)
