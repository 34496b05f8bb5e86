"""ResourceSlices: the devices that a plugin publishes."""

from __future__ import annotations

from sys import intern
from typing import Annotated, Final

import msgspec

from hook.objects import names
from hook.objects.decoding import Count, Text, Value
from hook.objects.sharing import shared
from hook.objects.views import At, View, at, made, reader


class _Version(Value, frozen=True):
    version: Text = ""


class _Attributes(Value, frozen=True):
    driver_version: _Version = msgspec.field(name=names.DRIVER_VERSION_ATTRIBUTE, default=_Version())


class _Basic(Value, frozen=True):
    attributes: _Attributes = _Attributes()


class _Device(Value, frozen=True):
    attributes: _Attributes = _Attributes()
    basic: _Basic = _Basic()
    """In ``v1beta1``, the attributes are one level deeper."""


_Devices = tuple[_Device, ...] | None
DEVICES: Final = At(("spec", "devices"), _Devices, None)


def _number(devices: _Devices) -> int:
    return len(devices or ())


def _versions(devices: _Devices) -> frozenset[str]:
    each = ((device.attributes.driver_version, device.basic.attributes.driver_version) for device in devices or ())
    return shared(frozenset(intern(new.version or old.version) for new, old in each) - {""})


class DeviceSlice(View, frozen=True):
    """A ResourceSlice, reduced to what verifies a plugin."""

    node: Annotated[str, made(intern, At(("spec", "nodeName"), Text, ""))]
    devices: Annotated[int, made(_number, DEVICES)]
    pool: Annotated[str, made(intern, At(("spec", "pool", "name"), Text, ""))]
    driver_versions: Annotated[frozenset[str], made(_versions, DEVICES)]
    """As published, without leading zeros; empty where devices have none (MIG, VFIO)."""
    generation: Annotated[Count, at("spec", "pool", "generation")] = 0
    """Of its pool: the scheduler and the kubelet ignore slices of an older one (K8S ``resource/v1`` ResourcePool)."""


read_slice = reader(DeviceSlice)
