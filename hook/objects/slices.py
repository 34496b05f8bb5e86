"""ResourceSlices: the devices that a plugin publishes."""

from __future__ import annotations

from sys import intern

import msgspec

from hook.objects import names
from hook.objects.decoding import Count, Text, Value, reads
from hook.objects.parts import Metadata  # noqa: TC001 - msgspec evaluates it
from hook.objects.sharing import interned


class DeviceSlice(Value, frozen=True):
    """A ResourceSlice, reduced to what verifies a plugin."""

    node: str
    devices: int
    pool: str
    generation: int
    """Of its pool: the scheduler and the kubelet ignore slices of an older one (K8S ``resource/v1`` ResourcePool)."""
    driver_versions: frozenset[str]
    """As published, without leading zeros; empty where devices have none (MIG, VFIO)."""


class _Attribute(Value, frozen=True):
    version: Text = ""


class _Attributes(Value, frozen=True):
    driver_version: _Attribute = msgspec.field(name=names.DRIVER_VERSION_ATTRIBUTE, default=_Attribute())


class _Basic(Value, frozen=True):
    attributes: _Attributes = _Attributes()


class _Device(Value, frozen=True):
    attributes: _Attributes = _Attributes()
    basic: _Basic = _Basic()
    """In ``v1beta1``, the attributes are one level deeper."""

    @property
    def driver_version(self) -> str:
        """Return the version that the device publishes, or empty."""
        return self.attributes.driver_version.version or self.basic.attributes.driver_version.version


class _Pool(Value, frozen=True):
    name: Text = ""
    generation: Count = 0


class _Spec(Value, frozen=True):
    node_name: Text = ""
    pool: _Pool = _Pool()
    devices: tuple[_Device, ...] | None = None


class _ResourceSlice(Value, frozen=True):
    metadata: Metadata
    spec: _Spec = _Spec()


@reads(_ResourceSlice)
def read_slice(decoded: _ResourceSlice) -> DeviceSlice:
    """Read a ResourceSlice."""
    spec = decoded.spec
    devices = spec.devices or ()
    versions = {device.driver_version for device in devices} - {""}
    return DeviceSlice(
        node=intern(spec.node_name),
        devices=len(devices),
        pool=intern(spec.pool.name),
        generation=spec.pool.generation,
        driver_versions=interned(frozenset(map(intern, versions))),
    )
