"""Policies: one view of the objects that specify the drivers of a stack, for every kind of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.objects import names, wire
from hook.objects.decoding import (
    LONGEST_TEXT,
    Count,
    Labels,
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
    """``ready``, ``notReady``, ``ignored`` or empty; of the driver, where the kind has that. It can be ``ready`` too
    early, so it is only a late veto."""
    ready_since: datetime | None
    """When its Ready condition last changed to true; None while it is not, or where the kind has none."""
    namespace: str
    """``status.namespace``: where the operator runs. Empty until it reconciled once, or where the kind has none."""
    driver_enabled: bool
    pooled: bool
    """The drivers are specified in one object per pool of nodes (NVIDIADriver); an image here has no effect."""
    repository: str
    image: str
    version: str
    precompiled: bool
    chart: str
    """``helm.sh/chart`` that operands must carry (``spec.daemonsets.labels``), or empty."""
    manual: str | None
    """Why outdated driver pods are not rotated; empty if the upgrade controller rotates them, None if a pool has no
    upgrade policy."""
    halted: str
    """Why the upgrade controller is off, also for all pools; or empty."""
    eviction_label: str
    """One more node label that the driver manager pauses, so that DaemonSets which select it are evicted."""
    changed: datetime | None
    """When its spec was last written (``managedFields``)."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """As written. Only plans read it, and leniently (``ctl.plan.limits``)."""
    last_applied: str = ""
    """The manifest of the last ``kubectl apply``, with fields that the API server dropped."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the nodes of a pool; empty if all nodes with a device are."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels belongs to the pool."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

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
        """Return the status; an empty one if there is none."""
        return self.status or _Object.Status()

    @property
    def stated(self) -> _Stated.Spec:
        """Return the spec. Raises MalformedObjectError."""
        return read(_Stated, {"spec": self.spec or {}}).spec


class _Switch(Part):
    enabled: bool | None = None


class _Driver(Part):
    """The driver, as each kind specifies it."""

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
    manager: Manager | None = None
    node_selector: Labels | None = None

    @property
    def auto_upgrade(self) -> bool | None:
        """Return whether outdated driver pods are rotated; None if the object has no such field."""
        return self.upgrade_policy.auto_upgrade if self.upgrade_policy else None


class _Stated(Part):
    """The fields that the kinds have in their specs. The spec of an NVIDIADriver is its driver."""

    class Spec(_Driver):
        driver: _Driver | None = None
        ofed_driver: _Driver | None = None
        daemonsets: wire.Labelled | None = None
        sandbox_workloads: _Switch | None = None

    spec: Spec


@reads(_Object)
def cluster_policy(decoded: _Object) -> Policy:
    """Read a ClusterPolicy. One without ``spec.driver`` specifies no driver and is malformed."""
    if not (decoded.spec or {}).get("driver"):
        raise MalformedObjectError("spec.driver: missing")
    spec = decoded.stated
    driver, labels = spec.driver or _Driver(), (spec.daemonsets and spec.daemonsets.labels) or {}
    # GO controllers/upgrade_controller.go, Reconcile.
    sandbox = spec.sandbox_workloads is not None and spec.sandbox_workloads.enabled
    halted = "sandbox workloads are enabled, which turns the upgrade controller off" if sandbox else ""
    return Policy(
        **_common("ClusterPolicy", decoded, driver),
        state=decoded.reported.state or "",
        namespace=decoded.reported.namespace or "",
        # GO api/nvidia/v1: DriverSpec.IsEnabled is true where the field is absent.
        driver_enabled=driver.enabled is not False,
        pooled=bool(driver.use_nvidia_driver_crd),
        chart=labels.get(names.CHART_LABEL, ""),
        # GO api/nvidia/v1: the CRD's default is false; the chart sets it.
        manual=halted or ("" if driver.auto_upgrade else "autoUpgrade is off"),
        halted=halted,
    )


@reads(_Object)
def nvidia_driver(decoded: _Object) -> Policy:
    """Read an NVIDIADriver, which specifies the drivers of one pool of nodes."""
    if not decoded.spec:
        raise MalformedObjectError("spec: missing")
    driver = decoded.stated
    # GO >= v26.7.0, api/nvidia/v1alpha1: its default is true.
    manual = "its upgradePolicy.autoUpgrade is off" if driver.auto_upgrade is False else ""
    return Policy(
        **_common("NVIDIADriver", decoded, driver),
        state=decoded.reported.state or "",
        namespace=decoded.reported.namespace or "",
        driver_enabled=True,
        pooled=False,
        chart="",
        manual=manual if decoded.spec.get("upgradePolicy") else None,
        halted="",
        node_selector=driver.node_selector or {},
    )


@reads(_Object)
def nic_cluster_policy(decoded: _Object) -> Policy:
    """Read a NicClusterPolicy. One without ``spec.ofedDriver`` is valid: it asks for no driver."""
    driver = decoded.stated.ofed_driver or _Driver()
    states = {applied.name: applied.state for applied in decoded.reported.applied_states or ()}
    common = _common("NicClusterPolicy", decoded, driver) | {"precompiled": False, "eviction_label": ""}
    return Policy(
        **common,
        state=states.get(_STATE_OF_OFED) or "",
        namespace="",
        driver_enabled=bool((decoded.spec or {}).get("ofedDriver")),
        pooled=False,
        chart="",
        # NO api/v1alpha1: the CRD's default is false.
        manual="" if driver.auto_upgrade else "ofedDriver.upgradePolicy.autoUpgrade is off",
        halted="",
    )


def _common(kind: str, decoded: _Object, driver: _Driver) -> dict[str, Any]:
    """Read the fields that every kind has."""
    ready = wire.condition(decoded.reported.conditions, "Ready")
    variables = (driver.manager and driver.manager.env) or ()
    labels = (variable.value or "" for variable in variables if variable.name == names.EVICTION_LABEL_VARIABLE)
    return {
        "kind": kind,
        "name": decoded.metadata.name,
        "uid": decoded.metadata.uid,
        "created": utc(decoded.metadata.creation_timestamp),
        "generation": decoded.metadata.generation or 0,
        "ready_since": moment(ready.last_transition_time) if ready.true else None,
        "changed": _spec_changed(decoded.metadata.managed_fields or ()),
        "spec": decoded.spec or {},
        "last_applied": decoded.metadata.noted.last_applied or "",
        **_image(driver),
        "precompiled": bool(driver.use_precompiled),
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
    """Return when a manager of spec fields wrote last; None if that is unknown.

    A manager of metadata alone, such as a tool that annotates, does not change the spec.
    """
    specs = (write for write in writes if write.subresource != "status")
    moments = (moment(write.time) for write in specs if write.fields_v1 is None or "f:spec" in write.fields_v1)
    return max((at for at in moments if at), default=None)
