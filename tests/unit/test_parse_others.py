"""Reading ResourceSlices and the operator's own objects, and setting apart what cannot be read."""

from __future__ import annotations

import pytest

from hook.core import parse
from hook.objects import views
from tests.fixtures.objects import Object, at, obj

V1BETA1 = """
apiVersion: resource.k8s.io/v1beta1
spec:
  devices:
    - name: gpu-0
      basic: {attributes: {driverVersion: {version: 580.105.8}}}
"""
MIG = """
spec:
  devices:
    - {name: gpu-0-mig-1g, attributes: {type: {string: mig}}}
    - {name: gpu-0, attributes: {driverVersion: {version: 580.126.20}}}
    - {name: gpu-1, attributes: {driverVersion: {version: 580.126.20}}}
"""


@pytest.mark.parametrize(
    ("patch", "devices", "versions"),
    [
        pytest.param("{}", 1, {"580.126.20"}, id="v1"),
        pytest.param(V1BETA1, 1, {"580.105.8"}, id="v1beta1-keeps-attributes-deeper"),
        pytest.param(MIG, 3, {"580.126.20"}, id="several-devices"),
        pytest.param("spec: {devices: null}", 0, set(), id="no-devices"),
        pytest.param("spec: {devices: [{name: vfio}]}", 1, set(), id="no-version-published"),
        pytest.param(
            "spec: {devices: [{name: x, attributes: {driverVersion: {string: a}}}]}", 1, set(), id="no-version-type"
        ),
    ],
)
def test_a_slice_is_read(patch: str, devices: int, versions: set[str]) -> None:
    """How many devices, and which driver versions they say."""
    expected = views.DeviceSlice("0-gpu.nvidia.com-gpu-0", "gpu-0", devices, "gpu-0", 1, frozenset(versions))
    assert expected == parse.device_slice(obj("slice", patch))


def test_a_deployment_is_read() -> None:
    """What tells whether it is rolled out."""
    expected = views.Deployment(
        namespace="gpu-operator", name="gpu-operator", uid="operator", revision="2", generation=2,
        observed_generation=2, wanted=1, total=1, updated=1, available=1,
    )  # fmt: skip
    assert expected == parse.deployment(obj("deployment"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("{}", True, id="rolled-out"),
        pytest.param("spec: {replicas: null}", True, id="one-replica-by-default"),
        pytest.param("metadata: {generation: 3}", False, id="stale-generation"),
        pytest.param("status: {replicas: 2}", False, id="an-old-pod-is-left"),
        pytest.param("status: {updatedReplicas: null}", False, id="no-new-pod-yet"),
        pytest.param("status: {availableReplicas: 0}", False, id="not-available"),
        pytest.param("spec: {replicas: 2}", False, id="one-of-two"),
        pytest.param("status: null", False, id="no-status"),
    ],
)
def test_a_deployment_is_rolled_out_when_all_its_pods_are_new_and_available(patch: str, expected: bool) -> None:
    """As ``kubectl rollout status`` has it."""
    assert expected == parse.deployment(obj("deployment", patch)).rolled_out


def test_a_replicaset_is_read() -> None:
    """Its owner, and which revision of it it is."""
    expected = views.ReplicaSet("gpu-operator", "gpu-operator-5ddc6f64ff", "operator", "2")
    assert expected == parse.replicaset(obj("replicaset"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("{}", ("gpu-operator-5ddc6f64ff-dtlr4_0e3f4b9a-8a0e-4a51-9c5e-3b7d8f1a2c44", -58), id="held"),
        pytest.param("spec: null", ("", None), id="never-held"),
    ],
)
def test_a_lease_is_read(patch: str, expected: tuple[str, float | None]) -> None:
    """Who holds it, since when."""
    holder, seconds = expected
    lease = views.Lease("gpu-operator", holder, None if seconds is None else at(seconds))
    assert lease == parse.lease(obj("lease", patch))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(
            obj("driver-pod", "metadata: {uid: 7}"), ("gpu-operator", "driver-gpu-0", "gpu-0"), id="whose-it-is"
        ),
        pytest.param(
            {"metadata": {"name": ["a"], "namespace": 3}, "spec": []}, ("", "", ""), id="not-even-whose-it-is"
        ),
    ],
)
def test_what_cannot_be_read_is_set_apart(found: Object, expected: tuple[str, str, str]) -> None:
    """A malformed object is kept as such, with as much of its identity as can be told."""
    unreadable = parse.readable(parse.pod, "Pod", found)
    assert isinstance(unreadable, views.Unreadable)
    assert ("Pod", *expected) == (unreadable.kind, unreadable.namespace, unreadable.name, unreadable.node)


def test_what_can_be_read_is_a_view() -> None:
    """Nothing is set apart without a reason."""
    assert parse.lease(obj("lease")) == parse.readable(parse.lease, "Lease", obj("lease"))
