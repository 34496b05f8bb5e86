"""Policies: one value for the objects that specify the drivers of a stack, of every kind of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from hook.objects import names
from hook.objects.decoding import LONGEST_TEXT, NOTHING, Labels, Name, Text, Time, Value, read, reads
from hook.objects.parts import Labelled, Metadata, Variable
from hook.objects.sharing import moment, utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

_STATE_OF_OFED: Final = "state-OFED"
"""NO ``pkg/state/state_ofed.go``: name of the driver's entry in ``status.appliedStates``."""


class Policy(Value, frozen=True):
    """What a driver stack must be: a ClusterPolicy, NVIDIADriver or NicClusterPolicy."""

    kind: str
    name: str
    uid: str
    created: datetime
    generation: int
    state: str
    """``ready``, ``notReady``, ``ignored`` or empty; of the driver, where the kind has that. It can be ``ready`` too
    early, so it is only a late veto."""
    repository: str
    image: str
    version: str
    manual: str | None
    """Why outdated driver pods are not rotated; empty if the upgrade controller rotates them, None if a pool has no
    upgrade policy."""
    changed: datetime | None
    """When its spec was last written (``managedFields``)."""
    driver_enabled: bool = True
    namespace: str = ""
    """``status.namespace``: where the operator runs. Empty until it reconciled once, or where the kind has none."""
    pooled: bool = False
    """The drivers are specified in one object per pool of nodes (NVIDIADriver); an image here has no effect."""
    precompiled: bool = False
    chart: str = ""
    """``helm.sh/chart`` that operands must carry (``spec.daemonsets.labels``), or empty."""
    halted: str = ""
    """Why the upgrade controller is off, also for all pools; or empty."""
    eviction_label: str = ""
    """One more node label that the driver manager pauses, so that DaemonSets which select it are evicted."""
    spec: Mapping[str, Any] = NOTHING
    """As written. Only plans read it, and leniently (``ctl.plan.limits``)."""
    node_selector: Mapping[str, str] = NOTHING
    """Labels of the nodes of a pool; empty if all nodes with a device are."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels belongs to the pool."""
        return all(labels.get(key) == value for key, value in self.node_selector.items())

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class _Written(Value, frozen=True):
    """An entry of ``managedFields``."""

    time: Time | None = None
    subresource: Text = ""
    fields_v1: dict[str, Any] | None = None


class _Metadata(Metadata, frozen=True, kw_only=True):
    uid: Name
    creation_timestamp: Time
    managed_fields: tuple[_Written, ...] = ()


class _AppliedState(Value, frozen=True):
    name: Text = ""
    state: Text = ""


class _Status(Value, frozen=True):
    state: Text = ""
    namespace: Text = ""
    applied_states: tuple[_AppliedState, ...] = ()


class _Object(Value, frozen=True):
    """A policy of any kind. Its spec stays as written for plans, and is read in addition by its kind."""

    metadata: _Metadata
    spec: dict[str, Any] | None = None
    status: _Status = _Status()


class _Upgrade(Value, frozen=True):
    auto_upgrade: bool | None = None


class _Manager(Value, frozen=True):
    env: tuple[Variable, ...] = ()


class _Driver(Value, frozen=True):
    """The driver, as each kind specifies it."""

    enabled: bool = True
    """GO api/nvidia/v1, ``DriverSpec.IsEnabled``: it is where the field is absent."""
    use_nvidia_driver_crd: bool = msgspec.field(name="useNvidiaDriverCRD", default=False)
    repository: Text = ""
    image: Text = ""
    version: Text = ""
    use_precompiled: bool = False
    upgrade_policy: _Upgrade | None = None
    manager: _Manager = _Manager()
    node_selector: Labels = NOTHING

    @property
    def auto_upgrade(self) -> bool | None:
        """Return whether outdated driver pods are rotated; None if the object has no such field."""
        return self.upgrade_policy.auto_upgrade if self.upgrade_policy else None


class _Sandbox(Value, frozen=True):
    enabled: bool = False


class _ClusterPolicy(Value, frozen=True):
    class Spec(Value, frozen=True):
        driver: _Driver
        daemonsets: Labelled = Labelled()
        sandbox_workloads: _Sandbox = _Sandbox()

    spec: Spec


class _NvidiaDriver(Value, frozen=True):
    spec: _Driver


class _NicClusterPolicy(Value, frozen=True):
    class Spec(Value, frozen=True):
        ofed_driver: _Driver | None = None

    spec: Spec


@reads(_Object)
def cluster_policy(decoded: _Object) -> Policy:
    """Read a ClusterPolicy."""
    spec = read(_ClusterPolicy, {"spec": decoded.spec}).spec
    driver, chart = spec.driver, spec.daemonsets.labels.get(names.CHART_LABEL, "")
    # GO controllers/upgrade_controller.go, Reconcile.
    sandbox = spec.sandbox_workloads.enabled
    halted = "sandbox workloads are enabled, which turns the upgrade controller off" if sandbox else ""
    # GO api/nvidia/v1: the CRD's default is false; the chart sets it.
    manual = halted or ("" if driver.auto_upgrade else "autoUpgrade is off")
    return Policy(
        **_common("ClusterPolicy", decoded, driver),
        **_of_gpus(decoded, driver),
        manual=manual,
        driver_enabled=driver.enabled,
        pooled=driver.use_nvidia_driver_crd,
        chart=chart,
        halted=halted,
    )


@reads(_Object)
def nvidia_driver(decoded: _Object) -> Policy:
    """Read an NVIDIADriver, which specifies the drivers of one pool of nodes."""
    driver = read(_NvidiaDriver, {"spec": decoded.spec}).spec
    # GO >= v26.7.0, api/nvidia/v1alpha1: its default is true.
    manual = "its upgradePolicy.autoUpgrade is off" if driver.auto_upgrade is False else ""
    return Policy(
        **_common("NVIDIADriver", decoded, driver),
        **_of_gpus(decoded, driver),
        manual=manual if driver.upgrade_policy else None,
        node_selector=driver.node_selector,
    )


@reads(_Object)
def nic_cluster_policy(decoded: _Object) -> Policy:
    """Read a NicClusterPolicy. One without ``spec.ofedDriver`` is valid: it asks for no driver."""
    ofed = read(_NicClusterPolicy, {"spec": decoded.spec or {}}).spec.ofed_driver
    driver = ofed or _Driver()
    states = {applied.name: applied.state for applied in decoded.status.applied_states}
    return Policy(
        **_common("NicClusterPolicy", decoded, driver),
        state=states.get(_STATE_OF_OFED, ""),
        # NO api/v1alpha1: the CRD's default is false.
        manual="" if driver.auto_upgrade else "ofedDriver.upgradePolicy.autoUpgrade is off",
        driver_enabled=ofed is not None,
    )


def _common(kind: str, decoded: _Object, driver: _Driver) -> dict[str, Any]:
    """Read the fields that every kind has."""
    metadata = decoded.metadata
    return {
        "kind": kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "created": utc(metadata.creation_timestamp),
        "generation": metadata.generation,
        "changed": _spec_changed(metadata.managed_fields),
        "spec": decoded.spec or {},
        **_image(driver),
    }


def _of_gpus(decoded: _Object, driver: _Driver) -> dict[str, Any]:
    """Read the fields that the kinds of the GPU operator have."""
    labels = (variable.value for variable in driver.manager.env if variable.name == names.EVICTION_LABEL_VARIABLE)
    return {
        "state": decoded.status.state,
        "namespace": decoded.status.namespace,
        "precompiled": driver.use_precompiled,
        "eviction_label": next(labels, "")[:LONGEST_TEXT],
    }


def _image(driver: _Driver) -> dict[str, str]:
    """Return repository, image and version. Without the first and the last the image is a whole reference.

    The operator uses that one as it is, with the operating system appended unless it holds a digest (GO
    ``api/nvidia/v1/clusterpolicy_types.go``, ``imagePath``; ``controllers/object_controls.go``, ``resolveDriverTag``).
    """
    repository, image, version = driver.repository, driver.image, driver.version
    if not repository and not version:
        path, at, digest = image.partition("@")
        name, colon, tag = path.rpartition(":")
        if at:
            image, version = path, digest
        elif colon and "/" not in tag:  # Without a tag the colon is that of a registry's port.
            image, version = name, tag
    return {"repository": repository, "image": image, "version": version}


def _spec_changed(writes: Iterable[_Written]) -> datetime | None:
    """Return when a manager of spec fields wrote last; None if that is unknown.

    A manager of metadata alone, such as a tool that annotates, does not change the spec.
    """
    specs = (write for write in writes if write.subresource != "status")
    moments = (moment(write.time) for write in specs if write.fields_v1 is None or "f:spec" in write.fields_v1)
    return max((at for at in moments if at), default=None)
