"""Policies: what each kind says about its drivers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hook.objects.policies import ClusterPolicy, NicClusterPolicy, NvidiaDriver
from hook.objects.views import reader
from tests.fixtures.objects import Object, merged, obj, parsed

cluster_policy, nvidia_driver = reader(ClusterPolicy), reader(NvidiaDriver)
nic_cluster_policy = reader(NicClusterPolicy)


def test_a_clusterpolicy_is_read() -> None:
    """Its driver, its chart and its state."""
    found = cluster_policy(obj("policy"))
    assert ("ClusterPolicy cluster-policy", "policy-uid", 2) == (str(found), found.uid, found.generation)
    assert ("nvcr.io/nvidia", "driver", "580.126.20") == (
        found.driver.repository,
        found.driver.image,
        found.driver.version,
    )
    assert ("ready", "gpu-operator", "gpu-operator-v26.3.4") == (found.state, found.namespace, found.chart)
    assert ("", "", "", False, None) == (
        found.manual,
        found.halted,
        found.driver.eviction_label,
        found.driver.pooled,
        found.changed,
    )
    assert datetime(2025, 6, 1, 8, tzinfo=UTC) == found.created
    assert obj("policy")["spec"]["driver"]["upgradePolicy"] == found.driver.upgrade_policy


@pytest.mark.parametrize(
    ("spec", "enabled", "precompiled", "manual"),
    [
        ("driver: {enabled: null}", True, False, ""),
        ("driver: {enabled: false}", False, False, ""),
        ("driver: {usePrecompiled: true}", True, True, ""),
        ("driver: {upgradePolicy: null}", True, False, "autoUpgrade is off"),
        ("driver: {upgradePolicy: {autoUpgrade: false}}", True, False, "autoUpgrade is off"),
        ("sandboxWorkloads: {enabled: true}", True, False, "sandbox workloads"),
        ("sandboxWorkloads: {enabled: false}", True, False, ""),
    ],
)
def test_a_field_that_is_absent_means_what_the_operator_assumes(
    spec: str, enabled: bool, precompiled: bool, manual: str
) -> None:
    """The driver is enabled; it is not precompiled; nothing is rotated. Sandbox workloads turn the rotation off."""
    found = cluster_policy(obj("policy", f"spec: {{{spec}}}"))
    assert (enabled, precompiled) == (found.driver.enabled, found.driver.use_precompiled)
    assert (bool(manual), manual in (found.manual or "")) == (bool(found.manual), True)
    assert ("sandbox" in manual) is bool(found.halted)


def test_the_label_for_evictions_is_read() -> None:
    """From the environment of the driver manager."""
    env = [{"name": "OTHER"}, {"name": "NODE_LABEL_FOR_GPU_POD_EVICTION", "value": "example.com/evict"}]
    found = cluster_policy(obj("policy", {"spec": {"driver": {"manager": {"env": env}}}}))
    assert "example.com/evict" == found.driver.eviction_label


@pytest.mark.parametrize(
    ("upgrade", "manual"),
    [
        ("null", None),
        ("{}", ""),
        ("{autoUpgrade: true}", ""),
        ("{autoUpgrade: false}", "its upgradePolicy.autoUpgrade is off"),
    ],
)
def test_a_pool_has_an_upgrade_policy_of_its_own_or_none(upgrade: str, manual: str | None) -> None:
    """Its default is on, other than that of a ClusterPolicy."""
    pool = obj("pool/policy", "spec: {upgradePolicy: null}")
    assert manual == nvidia_driver(merged(pool, parsed(f"spec: {{upgradePolicy: {upgrade}}}"))).manual


@pytest.mark.parametrize(
    ("spec", "enabled", "manual"),
    [
        pytest.param("{}", True, "", id="driver"),
        pytest.param(
            "{ofedDriver: {upgradePolicy: null}}", True, "ofedDriver.upgradePolicy.autoUpgrade is off", id="manual"
        ),
        pytest.param("{ofedDriver: null}", False, "ofedDriver.upgradePolicy.autoUpgrade is off", id="no-driver"),
        pytest.param("null", False, "ofedDriver.upgradePolicy.autoUpgrade is off", id="no-spec"),
    ],
)
def test_a_nicclusterpolicy_may_ask_for_no_driver(spec: str, enabled: bool, manual: str) -> None:
    """It is valid without one."""
    found = nic_cluster_policy(obj("network/policy", f"spec: {spec}"))
    assert (enabled, manual) == (found.driver.enabled, found.manual)


@pytest.mark.parametrize(
    ("states", "state"),
    [("[{name: state-OFED, state: notReady}, {name: x, state: ready}]", "notReady"), ("[]", "")],
)
def test_the_state_of_a_nicclusterpolicy_is_that_of_its_driver(states: str, state: str) -> None:
    """Other states are of other operands."""
    assert state == nic_cluster_policy(obj("network/policy", f"status: {{appliedStates: {states}}}")).state


@pytest.mark.parametrize(
    ("write", "counts"),
    [
        ({"fieldsV1": {"f:spec": {}}}, True),
        ({}, True),
        ({"fieldsV1": {"f:metadata": {}}}, False),
        ({"fieldsV1": {"f:spec": {}}, "subresource": "status"}, False),
    ],
    ids=["spec", "unknown-fields", "metadata", "status"],
)
def test_when_the_spec_was_written(write: Object, counts: bool) -> None:
    """Only managers of spec fields count, and the last of their writes."""
    writes = [{"manager": "helm", "time": f"2026-01-01T0{hour}:00:00Z", **write} for hour in (9, 8)]
    found = cluster_policy(obj("policy", {"metadata": {"managedFields": writes}}))
    assert (datetime(2026, 1, 1, 9, tzinfo=UTC) if counts else None) == found.changed


@pytest.mark.parametrize(
    ("image", "name", "version"),
    [
        ("registry:5000/driver:580", "registry:5000/driver", "580"),
        ("registry/driver@sha256:1", "registry/driver", "sha256:1"),
        ("registry:5000/driver", "registry:5000/driver", ""),
    ],
)
def test_an_image_may_be_a_whole_reference(image: str, name: str, version: str) -> None:
    """The operator uses it as it is; its tag or digest tells the version."""
    found = cluster_policy(obj("policy", {"spec": {"driver": {"repository": None, "version": None, "image": image}}}))
    assert ("", name, version) == (found.driver.repository, found.driver.image, found.driver.version)
