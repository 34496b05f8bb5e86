"""Limits of an upgrade controller: what a policy says, what it means, and limits that nothing reads."""

from __future__ import annotations

import json
from typing import Final

from ctl.plan.limits import Removal, UpgradePolicy, allowed, available, drain_selectors, upgrade_policy
from hook.objects import policies
from hook.objects.decoding import Json, Reader
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR, Stack
from hook.objects.policies import Policy
from tests.fixtures.cluster import cluster
from tests.fixtures.objects import Object, obj
from tests.fixtures.planning import fleet, only

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
MISPLACED: Final = "driver.rollingUpdate.maxUnavailable=5"


def of_object(
    found: Json, read: Reader[Policy] = policies.cluster_policy, stack: Stack = GPU_OPERATOR
) -> UpgradePolicy:
    """Return the limits in an object."""
    return upgrade_policy(read(found), stack)


def of(upgrade: Object | None, **spec: Object) -> UpgradePolicy:
    """Return the limits in a ClusterPolicy with an upgrade policy."""
    return of_object(obj("policy", {"spec": {"driver": {"upgradePolicy": upgrade}, **spec}}))


def nested(levels: int) -> str:
    """Write an object in an object, and so on, with a limit at the bottom."""
    return '{"spec":' + '{"a":' * levels + '{"maxUnavailable":5}' + "}" * levels + "}"


# What a policy says.


def test_everything_is_read() -> None:
    """Each field has the place and the name of the real kind."""
    upgrade = {
        "maxParallelUpgrades": 0,
        "maxUnavailable": 3,
        "waitForCompletion": {"podSelector": "app=job", "timeoutSeconds": 600},
        "podDeletion": {"force": True, "deleteEmptyDir": True},
        "drain": {"enable": True, "deleteEmptyDir": True, "podSelector": "app=web"},
    }
    drain = Removal(delete_empty_dir=True, selector="app=web,nvidia.com/gpu-driver-upgrade-drain.skip!=true")
    assert UpgradePolicy(0, "3", "app=job", 600, Removal(force=True, delete_empty_dir=True), drain) == of(upgrade)
    assert of({"drain": {"enable": True, "podSelector": 7}}).drain == Removal(selector=GPU_OPERATOR.upgrade.drains)
    found = cluster("gpu-0").change("policy", "spec: {driver: {upgradePolicy: {drain: {enable: true}}}}")
    assert drain_selectors(found.seen(), GPU_OPERATOR) == {GPU_OPERATOR.upgrade.drains}
    assert drain_selectors(cluster("gpu-0").seen(), GPU_OPERATOR) == set()


def test_each_kind_has_its_own_place_and_defaults() -> None:
    """The network operator knows no limit of unavailable nodes."""
    sevens: Object = {"upgradePolicy": {"maxParallelUpgrades": 7}}
    for name, read, stack, spec, unavailable in (
        ("policy", policies.cluster_policy, GPU_OPERATOR, {"driver": sevens}, "25%"),
        ("pool/policy", policies.nvidia_driver, GPU_OPERATOR, sevens, "25%"),
        ("network/policy", policies.nic_cluster_policy, NETWORK_OPERATOR, {"ofedDriver": sevens}, ""),
    ):
        found = of_object(obj(name, {"spec": spec}), read, stack)
        assert (7, unavailable) == (found.parallel, found.unavailable), name
    absent = of_object(obj("pool/policy"), policies.nvidia_driver)
    assert (1, "25%") == (absent.parallel, absent.unavailable)


def test_odd_values_make_no_policy_malformed() -> None:
    """A run must continue where the operator does."""
    for upgrade, expected in (
        ({"maxParallelUpgrades": "3"}, (1, "25%")),
        ({"maxParallelUpgrades": True}, (1, "25%")),
        ({"maxUnavailable": "3"}, (1, '"3"')),
        ({"podDeletion": [], "drain": "on", "waitForCompletion": 7}, (1, "25%")),
    ):
        found = of(upgrade)
        assert expected == (found.parallel, found.unavailable), upgrade


def test_limits_in_the_wrong_place_are_found() -> None:
    """Wherever they are, but where they are read."""
    for spec, expected in (
        ({}, ()),
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": "1"}}}, ()),  # the chart's own default
        ({"daemonsets": {"rollingUpdate": {"maxUnavailable": 2}}}, ("daemonsets.rollingUpdate.maxUnavailable=2",)),
        ({"driver": {"rollingUpdate": {"maxUnavailable": 5}}}, (MISPLACED,)),
        ({"driver": {"maxParallelUpgrades": 5}}, ("driver.maxParallelUpgrades=5",)),
        ({"driver": {"upgradePolicy": {"maxParallelUpgrade": 5}}}, ("driver.upgradePolicy.maxParallelUpgrade=5",)),
        ({"driver": {"upgradePolicy": {"drain": {"maxUnavailable": {}}}}}, ()),
    ):  # fmt: skip
        assert expected == of_object(obj("policy", {"spec": spec})).misplaced, spec
    network = obj("network/policy", "spec: {ofedDriver: {upgradePolicy: {maxUnavailable: 50%}}}")
    found = of_object(network, policies.nic_cluster_policy, NETWORK_OPERATOR)
    assert ("ofedDriver.upgradePolicy.maxUnavailable=50%",) == found.misplaced
    # Unknown fields are pruned; ``kubectl apply`` keeps what it was given. Too deep a limit is not looked for.
    kept = json.dumps({"spec": {"driver": {"rollingUpdate": {"maxUnavailable": 5}}}})
    for applied, expected in ((kept, (MISPLACED,)), ("{", ()), ("[]", ()), (nested(50), ()), (nested(100_000), ())):
        found = of_object(obj("policy", {"metadata": {"annotations": {LAST_APPLIED: applied}}}))
        assert expected == found.misplaced, applied[:40]


def test_what_strangers_wrote_is_short_and_plain() -> None:
    """It is kept for as long as the policy, and shown to users."""
    spec: Object = {f"maxParallel\x1b{number}": "é" + "x" * 5000 for number in range(500)}
    found = of({"maxUnavailable": "\x07" * 5000, "maxParallelUpgrades": 10**30}, driver2=spec)
    shown = (*found.misplaced, found.unavailable)
    assert all(one.isprintable() and one.isascii() and len(one) < 1000 for one in shown)
    assert (8, 1) == (len(found.misplaced), found.parallel)
    assert "(out of range)" == of({"maxUnavailable": 10**30}).unavailable


# What it means.


def test_a_limit_is_read_as_kubernetes_reads_it() -> None:
    """A number as it is, a percentage rounded up, and nothing else."""
    for limit, total, expected in (
        ("25%", 4, 1), ("25%", 5, 2), ("1%", 3, 1), ("0%", 3, 0), ("200%", 3, 6), ("7", 3, 7), ("-1", 3, -1),
        ("", 3, 3), ("many", 3, None), ("25 %", 3, None), ("2.5%", 3, None), ("100%", 101, 101), ("50%", 101, 51),
    ):  # fmt: skip
        assert expected == allowed(limit, total), (limit, total)


def test_available_nodes_are_counted_as_the_library_does() -> None:
    """Row by row what ``GetUpgradesAvailable`` gives."""
    for required, in_progress, total, lost, parallel, most, expected, why in (
        (10, 0, 10, 0, 1, 3, 1, "one at a time"),
        (10, 0, 10, 0, 5, 3, 3, "bounded by maxUnavailable"),
        (10, 0, 10, 0, 0, 3, 3, "no limit but maxUnavailable"),
        (10, 0, 10, 0, 0, 10, 10, "everything at once"),
        (8, 2, 10, 2, 4, 3, 1, "nodes in progress are unavailable too"),
        (8, 2, 10, 2, 2, 10, 0, "as many in progress as allowed"),
        (8, 3, 10, 3, 2, 10, 0, "more in progress than allowed"),
        (10, 0, 10, 3, 5, 3, 0, "lost nodes use it up"),
        (10, 0, 10, 2, 5, 3, 1, "lost nodes use some"),
        (10, 0, 10, 9, 5, 10, 5, "lost nodes do not count where all may be unavailable"),
        (10, 0, 10, 10, 5, 10, 0, "but they do if all are lost"),
        (10, 0, 10, 0, 5, 0, 0, "none allowed"),
    ):
        given = {"required": required, "in_progress": in_progress, "total": total}
        assert expected == available(**given, lost=lost, parallel=parallel, most=most), why


def test_a_fleet_of_eight() -> None:
    """From the objects to the number, with the kind's own defaults."""
    for upgrade, expected in (
        ({}, 1),
        ({"maxParallelUpgrades": 3}, 2),
        ({"maxParallelUpgrades": 3, "maxUnavailable": "50%"}, 3),
        ({"maxParallelUpgrades": 0, "maxUnavailable": 5}, 5),
        ({"maxParallelUpgrades": 0, "maxUnavailable": "100%"}, 8),
        ({"maxParallelUpgrades": 50, "maxUnavailable": "100%"}, 8),
    ):
        assert expected == only(fleet(8, upgrade)).budget.at_once, upgrade
    assert 3 == only(fleet(4).drop("driver-pod", "driver-gpu-3")).budget.total, "nodes with a driver pod"
