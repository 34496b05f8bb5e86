"""Policies: the driver that they ask for, and their status."""

from __future__ import annotations

from datetime import UTC, datetime

from hook.objects import policies
from hook.objects.policies import Policy
from tests.fixtures.objects import obj


def test_a_policy_is_read() -> None:
    """It has a desired spec, a status and the operator's namespace."""
    expected = Policy(
        kind="ClusterPolicy", name="cluster-policy", uid="policy-uid", created=datetime(2025, 6, 1, 8, tzinfo=UTC),
        generation=2, state="ready", namespace="gpu-operator", driver_enabled=True, repository="nvcr.io/nvidia",
        image="driver", version="580.126.20", precompiled=False, chart="gpu-operator-v26.3.4", manual="", halted="",
        pooled=False, ready_since=None, rdma=False, eviction_label="", changed=None, spec=obj("policy")["spec"],
        last_applied="",
    )  # fmt: skip
    assert expected == policies.cluster_policy(obj("policy"))


def test_a_policys_switches_have_the_operators_defaults() -> None:
    """An absent field means what the operator assumes."""
    for patch, enabled, precompiled, automatic in (
        ("driver: {enabled: null}", True, False, True),
        ("driver: {enabled: false}", False, False, True),
        ("driver: {usePrecompiled: true}", True, True, True),
        ("driver: {upgradePolicy: null}", True, False, False),
        ("driver: {upgradePolicy: {autoUpgrade: false}}", True, False, False),
        ("sandboxWorkloads: {enabled: true}", True, False, False),
        ("sandboxWorkloads: {enabled: false}", True, False, True),
    ):
        policy = policies.cluster_policy(obj("policy", f"spec: {{{patch}}}"))
        assert (enabled, precompiled, automatic) == (policy.driver_enabled, policy.precompiled, not policy.manual), (
            patch
        )


def test_a_policy_that_was_never_reconciled_has_no_state() -> None:
    """No status is not ready."""
    policy = policies.cluster_policy(obj("policy", "status: null"))
    assert ("", "") == (policy.state, policy.namespace)


def test_when_the_spec_was_written() -> None:
    """Only managers of spec fields count, and the last of their writes."""
    written = datetime(2026, 1, 1, 9, tzinfo=UTC)
    for write, expected in (
        ({"fieldsV1": {"f:spec": {}}}, written),
        ({}, written),
        ({"fieldsV1": {"f:metadata": {}}}, None),
        ({"fieldsV1": {"f:spec": {}}, "subresource": "status"}, None),
    ):
        writes = [{"manager": "helm", "time": f"2026-01-01T0{hour}:00:00Z", **write} for hour in (9, 8)]
        found = policies.cluster_policy(obj("policy", {"metadata": {"managedFields": writes}}))
        assert expected == found.changed, write


def test_an_image_may_be_a_whole_reference() -> None:
    """The operator uses it as it is; its tag or digest tells the version."""
    for image, name, version in (
        ("registry:5000/driver:580", "registry:5000/driver", "580"),
        ("registry/driver@sha256:1", "registry/driver", "sha256:1"),
        ("registry:5000/driver", "registry:5000/driver", ""),
    ):
        driver = {"repository": None, "version": None, "image": image}
        policy = policies.cluster_policy(obj("policy", {"spec": {"driver": driver}}))
        assert ("", name, version) == (policy.repository, policy.image, policy.version), image
