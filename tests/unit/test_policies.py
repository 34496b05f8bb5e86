"""Policies of every kind: the driver that they ask for, and their status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hook.objects import policies
from hook.objects.policies import Policy
from tests.fixtures.objects import Object, obj


def test_a_policy_is_read() -> None:
    """Intent, status and the operator's namespace."""
    expected = Policy(
        kind="ClusterPolicy",
        name="cluster-policy",
        uid="policy-uid",
        created=datetime(2025, 6, 1, 8, tzinfo=UTC),
        generation=2,
        state="ready",
        namespace="gpu-operator",
        driver_enabled=True,
        repository="nvcr.io/nvidia",
        image="driver",
        version="580.126.20",
        precompiled=False,
        chart="gpu-operator-v26.3.4",
        manual="",
        halted="",
        pooled=False,
        ready_since=None,
        rdma=False,
        eviction_label="",
        changed=None,
        spec=obj("policy")["spec"],
        last_applied="",
    )
    assert expected == policies.cluster_policy(obj("policy"))


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param("spec: {driver: {enabled: null}}", (True, False, True), id="enabled-by-default"),
        pytest.param("spec: {driver: {enabled: false}}", (False, False, True), id="disabled"),
        pytest.param("spec: {driver: {usePrecompiled: true}}", (True, True, True), id="precompiled"),
        pytest.param("spec: {driver: {upgradePolicy: null}}", (True, False, False), id="manual-by-default"),
        pytest.param("spec: {driver: {upgradePolicy: {autoUpgrade: false}}}", (True, False, False), id="manual"),
        pytest.param("spec: {sandboxWorkloads: {enabled: true}}", (True, False, False), id="sandbox-workloads"),
        pytest.param("spec: {sandboxWorkloads: {enabled: false}}", (True, False, True), id="no-sandbox-workloads"),
    ],
)
def test_a_policys_switches_have_the_operators_defaults(patch: str, expected: tuple[bool, bool, bool]) -> None:
    """What the operator assumes where the field is absent."""
    policy = policies.cluster_policy(obj("policy", patch))
    assert expected == (policy.driver_enabled, policy.precompiled, not policy.manual)


def test_a_policy_that_was_never_reconciled_has_no_state() -> None:
    """No status is not ready."""
    policy = policies.cluster_policy(obj("policy", "status: null"))
    assert ("", "") == (policy.state, policy.namespace)


@pytest.mark.parametrize(
    ("write", "counts"),
    [
        pytest.param({"fieldsV1": {"f:spec": {}}}, True, id="spec"),
        pytest.param({}, True, id="what-is-not-told"),
        pytest.param({"fieldsV1": {"f:metadata": {}}}, False, id="metadata"),
        pytest.param({"fieldsV1": {"f:spec": {}}, "subresource": "status"}, False, id="status"),
    ],
)
def test_when_the_spec_was_written(write: Object, *, counts: bool) -> None:
    """By managers of spec fields alone, the last of them."""
    writes = [{"manager": "helm", "time": f"2026-01-01T0{hour}:00:00Z", **write} for hour in (9, 8)]
    expected = datetime(2026, 1, 1, 9, tzinfo=UTC) if counts else None
    assert expected == policies.cluster_policy(obj("policy", {"metadata": {"managedFields": writes}})).changed
