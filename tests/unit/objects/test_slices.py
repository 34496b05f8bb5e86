"""ResourceSlices: what is kept of them."""

from __future__ import annotations

import pytest

from hook.objects.slices import read_slice
from tests.fixtures.objects import Object, obj

NEWER = {"attributes": {"driverVersion": {"version": "580.126.20"}}}


def test_a_slice_of_a_node_is_read() -> None:
    """Its node, its pool and the versions of its devices."""
    found = read_slice(obj("slice"))
    assert ("gpu-0", "gpu-0", 1) == (found.node, found.pool, found.generation)
    assert (1, {"580.126.20"}) == (found.devices, set(found.driver_versions))


@pytest.mark.parametrize(
    ("devices", "versions"),
    [
        pytest.param([NEWER, NEWER], {"580.126.20"}, id="v1"),
        pytest.param([{"basic": NEWER}], {"580.126.20"}, id="v1beta1"),
        pytest.param(
            [NEWER, {"attributes": {"driverVersion": {"version": "570.1.0"}}}], {"580.126.20", "570.1.0"}, id="two"
        ),
        pytest.param([{"attributes": {"type": {"string": "mig"}}}, {}], set(), id="without-a-version"),
        pytest.param([], set(), id="empty"),
        pytest.param(None, set(), id="null"),
    ],
)
def test_the_versions_of_devices_are_read(devices: list[Object] | None, versions: set[str]) -> None:
    """MIG and VFIO devices publish none. Go writes null for a slice without devices."""
    whole = obj("slice")
    whole["spec"]["devices"] = devices
    found = read_slice(whole)
    assert (len(devices or ()), versions) == (found.devices, set(found.driver_versions))
