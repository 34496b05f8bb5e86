"""Limits of an upgrade controller: what a policy says, and fields that look like limits but that nothing reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hook.objects import policies
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR
from hook.plan.limits import UpgradePolicy, upgrade_policy
from tests.fixtures.objects import Object, obj

if TYPE_CHECKING:
    from hook.objects.decoding import Json, Reader
    from hook.objects.drivers import Stack
    from hook.objects.policies import Policy


def of_object(
    found: Json, read: Reader[Policy] = policies.cluster_policy, stack: Stack = GPU_OPERATOR
) -> UpgradePolicy:
    """Return the limits in an object."""
    return upgrade_policy(read(found), stack)


def of(upgrade: Object | None, **spec: Object) -> UpgradePolicy:
    """Return the limits in a ClusterPolicy with an upgrade policy."""
    return of_object(obj("policy", {"spec": {"driver": {"upgradePolicy": upgrade}, **spec}}))


def test_everything_is_read() -> None:
    """As the real kind has it."""
    upgrade = {
        "maxParallelUpgrades": 0,
        "maxUnavailable": 3,
        "waitForCompletion": {"podSelector": "app=job", "timeoutSeconds": 600},
        "podDeletion": {"force": True, "deleteEmptyDir": True},
        "drain": {"enable": True},
    }
    assert UpgradePolicy(0, "3", "app=job", 600, True, True, True) == of(upgrade)


@pytest.mark.parametrize(
    ("name", "read", "stack", "path", "expected"),
    [
        pytest.param("policy", policies.cluster_policy, GPU_OPERATOR, ("driver", "upgradePolicy"), "25%",
                     id="ClusterPolicy"),
        pytest.param("pool/policy", policies.nvidia_driver, GPU_OPERATOR, ("upgradePolicy",), "25%", id="NVIDIADriver"),
        pytest.param("network/policy", policies.nic_cluster_policy, NETWORK_OPERATOR, ("ofedDriver", "upgradePolicy"),
                     "", id="NicClusterPolicy"),
    ],
)  # fmt: skip
def test_each_kind_has_its_own_place(
    name: str, read: Reader[Policy], stack: Stack, path: tuple[str, ...], expected: str
) -> None:
    """The network operator knows no limit of unavailable nodes."""
    patch: Object = {"maxParallelUpgrades": 7}
    for key in reversed(path):
        patch = {key: patch}
    found = of_object(obj(name, {"spec": patch}), read, stack)
    assert (7, expected) == (found.parallel, found.unavailable)


def test_an_absent_policy_has_the_kinds_defaults() -> None:
    """One node at a time, a quarter of them."""
    found = of_object(obj("pool/policy"), policies.nvidia_driver)
    assert (1, "25%") == (found.parallel, found.unavailable)


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
    assert expected == of_object(obj("policy", {"spec": spec})).misplaced


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
    found = of_object(obj("policy", {"metadata": {"annotations": {key: applied}}}))
    assert expected == found.misplaced


def nested(levels: int) -> str:
    """Write an object in an object, and so on, with a limit at the bottom."""
    return '{"spec":' + '{"a":' * levels + '{"maxUnavailable":5}' + "}" * levels + "}"


@pytest.mark.parametrize("levels", [50, 100_000], ids=["deep", "bottomless"])
def test_a_limit_that_nobody_could_find_is_not_looked_for(levels: int) -> None:
    """What strangers nest must not end a run."""
    key = "kubectl.kubernetes.io/last-applied-configuration"
    found = of_object(obj("policy", {"metadata": {"annotations": {key: nested(levels)}}}))
    assert () == found.misplaced


def test_what_strangers_wrote_is_short_and_plain() -> None:
    """It is kept for as long as the policy, and shown to people."""
    spec: Object = {f"maxParallel\x1b{number}": "é" + "x" * 5000 for number in range(500)}
    found = of({"maxUnavailable": "\x07" * 5000, "maxParallelUpgrades": 10**30}, driver2=spec)
    told = (*found.misplaced, found.unavailable)
    assert all(one.isprintable() and one.isascii() and len(one) < 1000 for one in told)
    assert (8, 1) == (len(found.misplaced), found.parallel)
    assert "(out of range)" == of({"maxUnavailable": 10**30}).unavailable


def test_the_network_operators_policy_has_no_such_limit() -> None:
    """Its kind knows no ``maxUnavailable``: whoever wrote it gets no protection from it."""
    patch = {"spec": {"ofedDriver": {"upgradePolicy": {"maxUnavailable": "50%"}}}}
    found = of_object(obj("network/policy", patch), policies.nic_cluster_policy, NETWORK_OPERATOR)
    assert ("ofedDriver.upgradePolicy.maxUnavailable=50%",) == found.misplaced
