"""Policies: the objects that specify the drivers of a stack."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - msgspec evaluates it
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec.structs import force_setattr

from hook.objects import names
from hook.objects.decoding import LONGEST_TEXT, NOTHING, Count, Labels, Name, Text, Time, Value
from hook.objects.parts import Variable  # noqa: TC001 - msgspec evaluates it
from hook.objects.views import At, View, at, made


class Manager(Value, frozen=True):
    """The driver manager."""

    env: tuple[Variable, ...] = ()


class Driver(Value, frozen=True):
    """The driver, as each kind specifies it."""

    enabled: bool = True
    """GO api/nvidia/v1, ``DriverSpec.IsEnabled``: it is where the field is absent."""
    pooled: bool = msgspec.field(name="useNvidiaDriverCRD", default=False)
    """The drivers are specified in one object per pool of nodes (NVIDIADriver); an image here has no effect."""
    repository: Text = ""
    image: Text = ""
    version: Text = ""
    use_precompiled: bool = False
    upgrade_policy: Mapping[str, Any] | None = None
    """As written. Plans read it, leniently (``ctl.plan.limits``)."""
    manager: Manager = Manager()
    node_selector: Labels = NOTHING

    def __post_init__(self) -> None:
        """Split an image that is a whole reference. It is one without a repository and a version.

        The operator uses it as it is, with the operating system appended unless it holds a digest (GO
        ``api/nvidia/v1/clusterpolicy_types.go``, ``imagePath``; ``controllers/object_controls.go``,
        ``resolveDriverTag``).
        """
        if not isinstance(self.auto_upgrade, bool | None):
            raise ValueError("Expected `bool | null` - at `$.upgradePolicy.autoUpgrade`")  # noqa: TRY004 - as msgspec
        if self.repository or self.version:
            return
        path, at_sign, version = self.image.partition("@")
        if not at_sign:
            path, colon, version = self.image.rpartition(":")
            if not colon or "/" in version:  # Without a tag the colon is that of a registry's port.
                return
        force_setattr(self, "image", path)
        force_setattr(self, "version", version)

    @property
    def eviction_label(self) -> str:
        """Return one more node label that the driver manager pauses, to evict DaemonSets that select it; or ""."""
        variables = (each for each in self.manager.env if each.name == names.EVICTION_LABEL_VARIABLE)
        return next((each.value for each in variables), "")[:LONGEST_TEXT]

    @property
    def auto_upgrade(self) -> bool | None:
        """Return whether outdated driver pods are rotated; None if the object does not say it."""
        found: bool | None = (self.upgrade_policy or {}).get("autoUpgrade")
        return found


class _Written(Value, frozen=True):
    """An entry of ``managedFields``."""

    time: Time | None = None
    subresource: Text = ""
    fields_v1: dict[str, Any] | None = None


def _changed(writes: tuple[_Written, ...]) -> Time | None:
    """Return when a manager of spec fields wrote last; None if that is unknown.

    A manager of metadata alone, such as a tool that annotates, does not change the spec.
    """
    specs = (write for write in writes if write.subresource != "status")
    moments = (write.time for write in specs if write.fields_v1 is None or "f:spec" in write.fields_v1)
    return max((moment for moment in moments if moment), default=None)


class Policy(View, frozen=True):
    """What a driver stack must be. Each kind of policy has a class of its own."""

    group: ClassVar[str]
    version: ClassVar[str]
    plural: ClassVar[str]
    kind: ClassVar[str]
    upgrade: ClassVar[str]
    """Path of the upgrade policy in its spec."""
    only_name: ClassVar[str] = ""
    """The only name that the operator accepts. Empty if it uses the oldest object."""
    carries_chart: ClassVar[bool] = False
    """It names the chart that it comes from."""

    name: Annotated[Name, at("metadata", "name")]
    uid: Annotated[Name, at("metadata", "uid")]
    created: Annotated[Time, at("metadata", "creationTimestamp")]
    changed: Annotated[Time | None, made(_changed, At(("metadata", "managedFields"), tuple[_Written, ...], ()))]
    """When its spec was last written."""
    driver: Driver
    generation: Annotated[Count, at("metadata", "generation")] = 0
    state: Annotated[Text, at("status", "state")] = ""
    """``ready``, ``notReady``, ``ignored`` or empty; of the driver, where the kind has that. It can be ``ready`` too
    early, so it is only a late veto."""
    namespace: Annotated[Text, at("status", "namespace")] = ""
    """Where the operator runs. Empty until it reconciled once, or where the kind has none."""
    chart: str = ""
    """``helm.sh/chart`` that operands must carry; or empty."""
    halted: str = ""
    """Why the upgrade controller is off, also for all pools; or empty."""
    manual: str | None = ""
    """Why outdated driver pods are not rotated; empty if they are, None if a pool has no upgrade policy."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels belongs to the pool; all do if it has no selector."""
        return self.driver.node_selector.items() <= labels.items()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


SANDBOX: Final = At(("spec", "sandboxWorkloads", "enabled"), bool, default=False)


def _halted(sandbox_workloads: bool) -> str:
    # GO controllers/upgrade_controller.go, Reconcile.
    return "sandbox workloads are enabled, which turns the upgrade controller off" if sandbox_workloads else ""


def _manual(driver: Driver, sandbox_workloads: bool) -> str:
    # GO api/nvidia/v1: the CRD's default is false; the chart sets it.
    return _halted(sandbox_workloads) or ("" if driver.auto_upgrade else "autoUpgrade is off")


class ClusterPolicy(Policy, frozen=True):
    """A ClusterPolicy of the GPU operator."""

    group = "nvidia.com"
    version = "v1"
    plural = "clusterpolicies"
    kind = "ClusterPolicy"
    upgrade = "driver.upgradePolicy"
    carries_chart = True

    driver: Annotated[Driver, at("spec", "driver")]
    chart: Annotated[Text, at("spec", "daemonsets", "labels", names.CHART_LABEL)] = ""
    halted: Annotated[str, made(_halted, SANDBOX)] = ""
    manual: Annotated[str, made(_manual, At(("spec", "driver"), Driver), SANDBOX)] = ""


def _manual_pool(driver: Driver) -> str | None:
    if driver.upgrade_policy is None:
        return None
    # GO >= v26.7.0, api/nvidia/v1alpha1: its default is true.
    return "its upgradePolicy.autoUpgrade is off" if driver.auto_upgrade is False else ""


class NvidiaDriver(Policy, frozen=True):
    """An NVIDIADriver, which specifies the drivers of one pool of nodes."""

    group = "nvidia.com"
    version = "v1alpha1"
    plural = "nvidiadrivers"
    kind = "NVIDIADriver"
    upgrade = "upgradePolicy"

    driver: Annotated[Driver, at("spec")]
    manual: Annotated[str | None, made(_manual_pool, At(("spec",), Driver))] = ""


class _Applied(Value, frozen=True):
    name: Text = ""
    state: Text = ""


def _state_of_ofed(states: tuple[_Applied, ...]) -> str:
    # NO pkg/state/state_ofed.go: name of the driver's entry.
    return next((each.state for each in states if each.name == "state-OFED"), "")


def _manual_ofed(driver: Driver) -> str:
    # NO api/v1alpha1: the CRD's default is false.
    return "" if driver.auto_upgrade else "ofedDriver.upgradePolicy.autoUpgrade is off"


NO_DRIVER: Final = Driver(enabled=False)


class NicClusterPolicy(Policy, frozen=True):
    """A NicClusterPolicy of the network operator. One without ``spec.ofedDriver`` asks for no driver."""

    group = "mellanox.com"
    version = "v1alpha1"
    plural = "nicclusterpolicies"
    kind = "NicClusterPolicy"
    upgrade = "ofedDriver.upgradePolicy"
    only_name = "nic-cluster-policy"  # NO controllers/nicclusterpolicy_controller.go.

    driver: Annotated[Driver, at("spec", "ofedDriver")] = NO_DRIVER
    state: Annotated[str, made(_state_of_ofed, At(("status", "appliedStates"), tuple[_Applied, ...], ()))] = ""
    namespace: str = ""
    manual: Annotated[str, made(_manual_ofed, At(("spec", "ofedDriver"), Driver, NO_DRIVER))] = ""
