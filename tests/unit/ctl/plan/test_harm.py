"""What a restart of a plugin does to GPUs, by the plugin's feature gates."""

from __future__ import annotations

from typing import Final

import pytest

from ctl.plan.harm import PassthroughClaim, PassthroughClaims, passthrough_claim
from ctl.plan.plan import Options
from ctl.plan.result import Finding, Obstacle, Severity
from tests.fixtures.objects import Object
from tests.fixtures.planning import fleet, obstacles, only

PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"
EVICTED: Final[Object] = {"nodeSelector": {"nvidia.com/gpu.deploy.client": "true"}}
NONE: Final = PassthroughClaims()
ONE: Final = PassthroughClaims((PassthroughClaim("team", "vm", "gpu-1"),))


def found(gates: str, claims: PassthroughClaims = NONE, spec: Object | None = None) -> dict[Obstacle, Finding]:
    """Return the obstacles of a fleet whose plugin has these feature gates."""
    env = [{"name": "NODE_NAME", "valueFrom": {}}, {"name": "FEATURE_GATES", "value": gates}]
    template = {"spec": {"containers": [{"name": "gpus", "env": env}], **(spec or {})}}
    seen = fleet(2).change("daemonset", {"spec": {"template": template}}, PLUGIN)
    return obstacles(only(seen, Options(claims=claims)))


@pytest.mark.parametrize(
    ("gates", "spec", "expected"),
    [
        ("DynamicMIG=true,", {}, {Obstacle.PLUGIN_HOLDS_DRIVER, Obstacle.RESTART_DELETES_MIG}),
        ("A=true,NVMLDeviceHealthCheck=True", {}, {Obstacle.PLUGIN_HOLDS_DRIVER}),
        ("DynamicMIG=true", EVICTED, {Obstacle.RESTART_DELETES_MIG}),
        ("PassthroughSupport=true", {}, {Obstacle.RESTART_LOSES_GPUS}),
    ],
)
def test_gates_that_hold_the_driver_or_lose_devices_are_named(
    gates: str, spec: Object, expected: set[Obstacle]
) -> None:
    """A plugin that the driver manager evicts before the reload holds no driver, but starts again, too."""
    assert expected == found(gates, spec=spec).keys() - {Obstacle.STEP_IS_ASSUMED}


@pytest.mark.parametrize(
    ("claims", "severity", "words", "nodes"),
    [
        (NONE, Severity.NOTE, "(VFIO; now none)", ()),
        (ONE, Severity.HARMS, "(VFIO; now team/vm on gpu-1)", ("gpu-1",)),
        (PassthroughClaims(unread="not allowed"), Severity.HARMS, "(VFIO; not allowed)", ()),
    ],
)
def test_passthrough_harms_while_a_claim_holds_a_gpu(
    claims: PassthroughClaims, severity: Severity, words: str, nodes: tuple[str, ...]
) -> None:
    """Claims that were not read are not taken for none."""
    seen = found("PassthroughSupport=true", claims)[Obstacle.RESTART_LOSES_GPUS]
    assert (severity, True, nodes) == (seen.severity, words in seen.message, seen.nodes)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allocation": {"devices": {"results": [{"pool": "gpu-1", "device": "gpu-vfio-0"}]}}}, ONE.found[0]),
        ({"allocation": {"devices": {"results": [{"pool": "gpu-1", "device": "gpu-0"}]}}}, None),
        ({"allocation": {}}, None),
        ({}, None),
    ],
)
def test_claims_of_passthrough_devices_are_known_by_the_device(
    status: Object, expected: PassthroughClaim | None
) -> None:
    """The scheduler wrote its name into the claim."""
    assert expected == passthrough_claim({"metadata": {"namespace": "team", "name": "vm"}, "status": status})
