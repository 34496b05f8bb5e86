"""Policies of every kind: what they ask for, and at what pace; and limits where nothing reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from hook.objects import policies
from hook.objects.policies import Policy, UpgradePolicy
from tests.fixtures.objects import Object, obj

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.objects.decoding import Json

DEFAULTS = UpgradePolicy(stated=True, parallel=1, unavailable="25%")


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
        upgrade=UpgradePolicy(stated=True, parallel=1, unavailable="25%"),
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


def of(upgrade: Object | None, **spec: Object) -> UpgradePolicy:
    """Read a ClusterPolicy with an upgrade policy."""
    return policies.cluster_policy(obj("policy", {"spec": {"driver": {"upgradePolicy": upgrade}, **spec}})).upgrade


def test_everything_is_read() -> None:
    """As the real kind has it."""
    upgrade = {
        "maxParallelUpgrades": 0,
        "maxUnavailable": 3,
        "waitForCompletion": {"podSelector": "app=job", "timeoutSeconds": 600},
        "podDeletion": {"force": True, "deleteEmptyDir": True},
        "drain": {"enable": True},
    }
    assert UpgradePolicy(True, 0, "3", "app=job", 600, True, True, True) == of(upgrade)


@pytest.mark.parametrize(
    ("name", "read", "path", "expected"),
    [
        pytest.param("policy", policies.cluster_policy, ("driver", "upgradePolicy"), "25%", id="ClusterPolicy"),
        pytest.param("pool/policy", policies.nvidia_driver, ("upgradePolicy",), "25%", id="NVIDIADriver"),
        pytest.param("network/policy", policies.nic_cluster_policy, ("ofedDriver", "upgradePolicy"), "",
                     id="NicClusterPolicy"),
    ],
)  # fmt: skip
def test_each_kind_has_its_own_place(
    name: str, read: Callable[[Json], Policy], path: tuple[str, ...], expected: str
) -> None:
    """The network operator knows no limit of unavailable nodes."""
    patch: Object = {"maxParallelUpgrades": 7}
    for key in reversed(path):
        patch = {key: patch}
    found = read(obj(name, {"spec": patch})).upgrade
    assert (True, 7, expected) == (found.stated, found.parallel, found.unavailable)


def test_an_absent_policy_has_the_kinds_defaults() -> None:
    """One node at a time, a quarter of them."""
    found = policies.nvidia_driver(obj("pool/policy")).upgrade
    assert (False, 1, "25%") == (found.stated, found.parallel, found.unavailable)


@pytest.mark.parametrize(
    ("upgrade", "expected"),
    [
        pytest.param({"maxParallelUpgrades": "3"}, (1, "25%"), id="text"),
        pytest.param({"maxParallelUpgrades": True}, (1, "25%"), id="true"),
        pytest.param({"maxUnavailable": "3"}, (1, '"3"'), id="a-number-in-quotes-is-none"),
        pytest.param({"maxUnavailable": True}, (1, ""), id="no-limit-at-all"),
        pytest.param({"podDeletion": [], "drain": "on", "waitForCompletion": 7}, (1, "25%"), id="other-shapes"),
    ],
)
def test_odd_values_make_no_policy_unreadable(upgrade: Object, expected: tuple[int, str]) -> None:
    """A run must go on where the operator does."""
    found = of(upgrade)
    assert expected == (found.parallel, found.unavailable)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (), id="nothing"),
        pytest.param({"daemonsets": {"rollingUpdate": {"maxUnavailable": "1"}}}, (), id="the-charts-own-default"),
        pytest.param({"daemonsets": {"rollingUpdate": {"maxUnavailable": "20%"}}},
                     ("daemonsets.rollingUpdate.maxUnavailable=20%",), id="of-other-operands"),
        pytest.param({"driver": {"rollingUpdate": {"maxUnavailable": 5}}},
                     ("driver.rollingUpdate.maxUnavailable=5",), id="in-the-driver"),
        pytest.param({"driver": {"maxParallelUpgrades": 5}}, ("driver.maxParallelUpgrades=5",), id="a-level-too-high"),
        pytest.param({"driver": {"upgradePolicy": {"maxParallelUpgrade": 5}}},
                     ("driver.upgradePolicy.maxParallelUpgrade=5",), id="misspelt"),
        pytest.param({"driver": {"upgradePolicy": {"maxUnavailable": "50%"}}}, (), id="in-its-place"),
        pytest.param({"driver": {"upgradePolicy": {"drain": {"maxUnavailable": {}}}}}, (), id="no-value"),
    ],
)  # fmt: skip
def test_limits_in_the_wrong_place_are_found(spec: Object, expected: tuple[str, ...]) -> None:
    """Wherever they are, but where they are read."""
    assert expected == policies.cluster_policy(obj("policy", {"spec": spec})).upgrade.elsewhere


@pytest.mark.parametrize(
    ("applied", "expected"),
    [
        pytest.param(json.dumps({"spec": {"driver": {"rollingUpdate": {"maxUnavailable": 5}}}}),
                     ("driver.rollingUpdate.maxUnavailable=5",), id="dropped-by-the-api-server"),
        pytest.param("{", (), id="no-json"),
        pytest.param("[]", (), id="no-object"),
        pytest.param(json.dumps({"spec": []}), (), id="no-spec"),
    ],
)  # fmt: skip
def test_what_the_api_server_dropped_is_found_where_kubectl_kept_it(applied: str, expected: tuple[str, ...]) -> None:
    """Unknown fields are pruned; ``kubectl apply`` remembers what it was given."""
    key = "kubectl.kubernetes.io/last-applied-configuration"
    found = policies.cluster_policy(obj("policy", {"metadata": {"annotations": {key: applied}}})).upgrade
    assert expected == found.elsewhere


def nested(levels: int) -> str:
    """Write an object in an object, and so on, with a limit at the bottom."""
    return '{"spec":' + '{"a":' * levels + '{"maxUnavailable":5}' + "}" * levels + "}"


@pytest.mark.parametrize("levels", [50, 100_000], ids=["deep", "bottomless"])
def test_a_limit_that_nobody_could_find_is_not_looked_for(levels: int) -> None:
    """What strangers nest must not end a run."""
    key = "kubectl.kubernetes.io/last-applied-configuration"
    found = policies.cluster_policy(obj("policy", {"metadata": {"annotations": {key: nested(levels)}}})).upgrade
    assert () == found.elsewhere


def test_what_strangers_wrote_is_short_and_plain() -> None:
    """It is kept for as long as the policy, and shown to people."""
    spec: Object = {f"maxParallel\x1b{number}": "é" + "x" * 5000 for number in range(500)}
    found = of({"maxUnavailable": "\x07" * 5000, "maxParallelUpgrades": 10**30}, driver2=spec)
    told = (*found.elsewhere, found.unavailable)
    assert all(one.isprintable() and one.isascii() and len(one) < 1000 for one in told)
    assert (8, 1) == (len(found.elsewhere), found.parallel)
    assert "(out of range)" == of({"maxUnavailable": 10**30}).unavailable


def test_the_network_operators_policy_has_no_such_limit() -> None:
    """Its kind knows no ``maxUnavailable``: whoever wrote it gets no protection from it."""
    patch = {"spec": {"ofedDriver": {"upgradePolicy": {"maxUnavailable": "50%"}}}}
    found = policies.nic_cluster_policy(obj("network/policy", patch)).upgrade
    assert ("ofedDriver.upgradePolicy.maxUnavailable=50%",) == found.elsewhere
