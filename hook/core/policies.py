"""Cut the objects in which somebody says what a driver shall be down to one view of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hook.core import limits, names
from hook.core.fields import Json, MalformedObjectError, flag, items, mapping, number, required, text, when
from hook.core.objects import condition
from hook.objects.policy import Policy

if TYPE_CHECKING:
    from datetime import datetime

_STATE_OF_OFED: Final = "state-OFED"
"""NO ``pkg/state/state_ofed.go``: name of the driver's entry in ``status.appliedStates``."""


def cluster_policy(obj: Json) -> Policy:
    """Read a ClusterPolicy. One without ``spec.driver`` states no intent and is malformed."""
    driver = ("spec", "driver")
    if not mapping(obj, *driver):
        raise MalformedObjectError("spec.driver: missing")
    return Policy(
        **_identity(obj, "ClusterPolicy"),
        state=text(obj, "status", "state"),
        namespace=text(obj, "status", "namespace"),
        # GO api/nvidia/v1: DriverSpec.IsEnabled is true where the field is absent.
        driver_enabled=flag(obj, *driver, "enabled", default=True),
        pooled=flag(obj, *driver, "useNvidiaDriverCRD", default=False),
        **_image(obj, *driver),
        precompiled=flag(obj, *driver, "usePrecompiled", default=False),
        chart=text(obj, "spec", "daemonsets", "labels", names.CHART_LABEL),
        manual=_manual(obj),
        halted=_halted(obj),
        rdma=_needs_ofed(obj, *driver),
        eviction_label=_eviction_label(obj, *driver),
        upgrade=limits.read(obj, (*driver, "upgradePolicy"), has_unavailable=True),
    )


def nvidia_driver(obj: Json) -> Policy:
    """Read an NVIDIADriver: the intent for one pool of nodes. What it has no field for is left to the policy."""
    if not mapping(obj, "spec"):
        raise MalformedObjectError("spec: missing")
    return Policy(
        **_identity(obj, "NVIDIADriver"),
        state=text(obj, "status", "state"),
        namespace=text(obj, "status", "namespace"),
        driver_enabled=True,
        pooled=False,
        **_image(obj, "spec"),
        precompiled=flag(obj, "spec", "usePrecompiled", default=False),
        chart="",
        manual=_pool_manual(obj),
        halted="",
        rdma=_needs_ofed(obj, "spec"),
        eviction_label=_eviction_label(obj, "spec"),
        upgrade=limits.read(obj, ("spec", "upgradePolicy"), has_unavailable=True),
    )


def nic_cluster_policy(obj: Json) -> Policy:
    """Read a NicClusterPolicy. One without ``spec.ofedDriver`` asks for no driver, which is no mistake."""
    driver = ("spec", "ofedDriver")
    rotates = flag(obj, *driver, "upgradePolicy", "autoUpgrade", default=False)
    states = {text(one, "name"): text(one, "state") for one in items(obj, "status", "appliedStates")}
    return Policy(
        **_identity(obj, "NicClusterPolicy"),
        state=states.get(_STATE_OF_OFED, ""),
        namespace="",
        driver_enabled=bool(mapping(obj, *driver)),
        pooled=False,
        **_image(obj, *driver),
        precompiled=False,
        chart="",
        # NO api/v1alpha1: the CRD's default is false.
        manual="" if rotates else "ofedDriver.upgradePolicy.autoUpgrade is off",
        halted="",
        rdma=False,
        eviction_label="",
        upgrade=limits.read(obj, (*driver, "upgradePolicy"), has_unavailable=False),
    )


def _identity(obj: Json, kind: str) -> dict[str, Any]:
    """Read what every policy has."""
    created = when(obj, "metadata", "creationTimestamp")
    if created is None:
        raise MalformedObjectError("metadata.creationTimestamp: missing")
    ready = condition(obj, "Ready")
    return {
        "kind": kind,
        "name": required(obj, "metadata", "name"),
        "uid": required(obj, "metadata", "uid"),
        "created": created,
        "generation": number(obj, "metadata", "generation"),
        "ready_since": when(ready, "lastTransitionTime") if text(ready, "status") == "True" else None,
        "changed": _spec_changed(obj),
    }


def _image(obj: Json, *driver: str) -> dict[str, Any]:
    """Read repository, image and version. Without the first and the last the image is a whole reference.

    The operator uses that one as it is, with the operating system appended unless it holds a digest (GO
    ``api/nvidia/v1/clusterpolicy_types.go``, ``imagePath``; ``controllers/object_controls.go``, ``resolveDriverTag``).
    """
    found = {field: text(obj, *driver, field) for field in ("repository", "image", "version")}
    if found["repository"] or found["version"]:
        return found
    path, at, digest = found["image"].partition("@")
    if at:
        return {"repository": "", "image": path, "version": digest}
    name, colon, tag = path.rpartition(":")
    # Without a tag the colon is that of a registry's port.
    return {"repository": "", "image": name, "version": tag} if colon and "/" not in tag else found


def _halted(obj: Json) -> str:
    """Say why the GPU operator's upgrade controller does nothing, whatever autoUpgrade says, or nothing."""
    # GO controllers/upgrade_controller.go, Reconcile.
    halted = flag(obj, "spec", "sandboxWorkloads", "enabled", default=False)
    return "sandbox workloads are enabled, which turns the upgrade controller off" if halted else ""


def _manual(obj: Json) -> str:
    """Say why a policy's driver pods are not rotated, or nothing."""
    # GO api/nvidia/v1: the CRD's default is false; the chart sets it.
    rotates = flag(obj, "spec", "driver", "upgradePolicy", "autoUpgrade", default=False)
    return _halted(obj) or ("" if rotates else "autoUpgrade is off")


def _pool_manual(obj: Json) -> str | None:
    """Read a pool's own upgrade policy, if it has one (GO >= v26.7.0, api/nvidia/v1alpha1: its default is true)."""
    if not mapping(obj, "spec", "upgradePolicy"):
        return None
    rotates = flag(obj, "spec", "upgradePolicy", "autoUpgrade", default=True)
    return "" if rotates else "its upgradePolicy.autoUpgrade is off"


def _needs_ofed(obj: Json, *driver: str) -> bool:
    """Whether the driver manager waits for a containerised network driver (DM ``isGPUDirectRDMAEnabled``)."""
    rdma = (*driver, "rdma")
    return flag(obj, *rdma, "enabled", default=False) and not flag(obj, *rdma, "useHostMofed", default=False)


def _eviction_label(obj: Json, *driver: str) -> str:
    """Give the node label that the driver manager was told to pause as well."""
    variables = items(obj, *driver, "manager", "env")
    return next((text(one, "value") for one in variables if text(one, "name") == names.EVICTION_LABEL_VARIABLE), "")


def _spec_changed(obj: Json) -> datetime | None:
    """Return when a manager of spec fields wrote last, in UTC; None where that is not known.

    A manager of metadata alone, such as a tool that annotates, changes no intent.
    """
    writes = (one for one in items(obj, "metadata", "managedFields") if text(one, "subresource") != "status")
    moments = (when(one, "time") for one in writes if "f:spec" in mapping(one, "fieldsV1") or "fieldsV1" not in one)
    return max((moment for moment in moments if moment), default=None)
