"""Which nodes share an upgrade policy, which of them reload, and stacks without anything to plan."""

from __future__ import annotations

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.plan.plan import make_plan
from hook.plan.result import Obstacle
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since
from tests.fixtures.modes import Pool, network, pooled
from tests.fixtures.objects import Object, obj
from tests.fixtures.planning import NOBODY, fleet, obstacles, only, planned

A, B = Pool("a", ("gpu-a",)), Pool("b", ("gpu-b", "gpu-c"))
EVERY: Object = {"autoUpgrade": True, "maxParallelUpgrades": 0, "maxUnavailable": "100%"}


def own(found: Cluster, name: str, upgrade: Object) -> Cluster:
    """Give a pool's object an upgrade policy."""
    return found.change("pool", {"spec": {"upgradePolicy": upgrade}}, name)


def owner(name: str) -> Object:
    """Give a patch of a node that belongs to an NVIDIADriver by its label."""
    return {"metadata": {"labels": {"nvidia.com/gpu-operator.driver.owner": name}}}


def by_pool(found: Cluster) -> dict[str, tuple[str, ...]]:
    """Give the nodes of each pool."""
    return {pool.name: pool.nodes for pool in planned(found).pools}


def test_a_pool_with_an_upgrade_policy_stands_by_itself() -> None:
    """Each object's own limits; the window is the longest pool's, because they go on side by side."""
    found = own(pooled(A, B), "b", EVERY)
    made = planned(found)
    assert {"NVIDIADriver a": ("gpu-a",), "NVIDIADriver b": ("gpu-b", "gpu-c")} == by_pool(found)
    assert [(1, 1), (2, 1)] == [(pool.budget.at_once, pool.turns) for pool in made.pools]
    assert 120 == (made.window.slow if made.window else None)


def test_the_label_of_newer_operators_tells_it_too() -> None:
    """From 26.7 on each object has limits of its own, its defaults where it states none."""
    found = pooled(A, B).change("node", owner("a"), "gpu-a").change("node", owner("b"), "gpu-b")
    assert {"NVIDIADriver a", "NVIDIADriver b"} == by_pool(found).keys()


def test_before_that_all_share_the_policys_limits() -> None:
    """Up to 26.3 the ClusterPolicy's, over the nodes of every pool."""
    assert {"ClusterPolicy cluster-policy": ("gpu-a", "gpu-b", "gpu-c")} == by_pool(pooled(A, B))


def test_a_node_whose_driver_pod_is_gone_belongs_where_its_label_says() -> None:
    """Its driver is about to come back."""
    found = own(pooled(A, B), "a", EVERY).drop("driver-pod", "driver-gpu-b").change("node", owner("b"), "gpu-b")
    assert ("gpu-b", "gpu-c") == by_pool(found)["NVIDIADriver b"]


def test_nodes_without_an_object_are_told_apart() -> None:
    """Nobody upgrades them."""
    found = own(pooled(A, B), "a", EVERY).drop("driver-pod", "driver-gpu-b")
    stray = next(pool for pool in planned(found).pools if pool.nodes == ("gpu-b",))
    assert (None, True) == (stray.turns, Obstacle.AUTO_UPGRADE_OFF in obstacles(stray))


def test_a_driver_pod_whose_daemonset_was_replaced_tells_no_object() -> None:
    """Its node belongs where its label says, and without one to nobody."""
    found = own(pooled(A, B), "a", EVERY).drop("daemonset", "nvidia-gpu-driver-b").change("node", owner("b"), "gpu-b")
    assert {"NVIDIADriver a": ("gpu-a",), "NVIDIADriver b": ("gpu-b",), "no NVIDIADriver": ("gpu-c",)} == by_pool(found)


def test_a_pool_of_which_every_node_is_left_alone_is_done_at_once() -> None:
    """It has no turns, and no figures to be unsure of."""
    found = own(pooled(A, B), "a", EVERY).change("node", labelled("gpu-a", skip="true"), "gpu-a")
    empty = planned(found).pools[0]
    assert ((), 0, [Obstacle.NODES_LEFT_ALONE]) == (empty.nodes, empty.turns, list(obstacles(empty)))


def test_one_pool_that_never_ends_makes_the_whole_endless() -> None:
    """A release that waits for all of them would not end, either."""
    made = planned(own(own(pooled(A, B), "a", {"autoUpgrade": False}), "b", EVERY))
    assert [None, 1] == [pool.turns for pool in made.pools]
    assert (None, None) == (made.window, made.timeouts)


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        pytest.param(labelled("gpu-1", skip="true"), Reason.NODE_SKIPPED, id="skipped"),
        pytest.param(labelled("gpu-1", deploy_driver="pre-installed"), Reason.HOST_DRIVER, id="hosts-driver"),
        pytest.param(not_ready_since(0), Reason.NODE_NOT_READY, id="lost"),
        pytest.param(labelled("gpu-1", state="upgrade-failed"), Reason.UPGRADE_FAILED, id="failed"),
    ],
)
def test_nodes_that_will_not_reload_are_named(patch: Object, reason: Reason) -> None:
    """By the same judgement as a run's, and the failed one by the upgrade controller's."""
    pool = only(fleet(3).change("node", patch, "gpu-1"))
    assert (("gpu-0", "gpu-2"), [("gpu-1", reason)]) == (
        pool.nodes,
        [(one.node, one.reason) for one in pool.excluded],
    )
    assert obstacles(pool)[Obstacle.NODES_LEFT_ALONE].nodes == ("gpu-1",)


def test_where_people_rotate_every_node_waits_for_one() -> None:
    """Also a node whose driver pod is outdated already: it is no more left alone than the others."""
    found = fleet(2, {"autoUpgrade": False})
    found.change("driver-pod", {"metadata": {"labels": {"controller-revision-hash": "old"}}}, "driver-gpu-1")
    pool = only(found)
    assert (("gpu-0", "gpu-1"), (), None) == (pool.nodes, pool.excluded, pool.turns)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(cluster().drop("policy"), Reason.NO_POLICY, id="no-policy"),
        pytest.param(cluster().unserved("policy"), Reason.NO_POLICY, id="no-such-kind"),
        pytest.param(cluster().change("policy", "spec: {driver: {enabled: false}}"), Reason.DRIVER_DISABLED,
                     id="hosts-bring-drivers"),
        pytest.param(cluster().drop("policy").only("daemonset", obj("plugin-daemonset", {
            "metadata": {"name": "nvidia-dra-driver-kubelet-plugin",
                         "ownerReferences": [{"kind": "GPUCluster", "uid": "u", "controller": True}]}})),
                     Reason.OPERATOR_MANAGED, id="gpu-cluster"),
        pytest.param(cluster().change("policy", "spec: {driver: null}"), Reason.MALFORMED_OBJECT,
                     id="malformed-policy"),
        pytest.param(cluster().drop("policy").change("node", {"metadata": {"labels": 7}}), Reason.NO_POLICY,
                     id="no-policy-and-an-unreadable-node"),
        pytest.param(cluster().change("node", labelled(deploy_driver="false")), Reason.NO_ELIGIBLE_NODE,
                     id="no-node-with-a-driver"),
        pytest.param(cluster().drop("node").drop("driver-pod").drop("plugin-pod"), Reason.NO_ELIGIBLE_NODE,
                     id="no-node-at-all"),
    ],
)  # fmt: skip
def test_where_there_is_nothing_to_plan_the_reason_is_given(found: Cluster, reason: Reason) -> None:
    """In words that a run uses, too."""
    made = planned(found)
    assert ((), [("gpu", reason)], None) == (
        made.pools,
        [(one.stack, one.reason) for one in made.nothing],
        made.window,
    )


def test_a_plugin_that_is_not_installed_yet_does_not_matter() -> None:
    """The upgrade takes as long without it; that nothing turns stale is said."""
    pool = only(fleet(2).drop("daemonset", "dra-driver-nvidia-gpu-kubelet-plugin").drop("plugin-pod"))
    assert (2, True) == (len(pool.nodes), Obstacle.NO_PLUGIN in obstacles(pool))


def test_both_stacks_are_planned_side_by_side() -> None:
    """Each by its own policy; the longer one is the window, and a stack with nothing to plan holds nothing up."""
    seen = {"gpu": fleet(3).seen(), "network": network("a", "b").seen()}
    both = Settings(drivers=("gpu", "network"))
    made = make_plan(seen, both, LATER, NOBODY)
    assert [("gpu", 3), ("network", 2)] == [(pool.stack, pool.turns) for pool in made.pools]
    assert 360 == (made.window.slow if made.window else None)
    without = make_plan(seen | {"network": network().drop("policy").seen()}, both, LATER, NOBODY)
    assert ([("network", Reason.NO_POLICY)], made.window) == (
        [(one.stack, one.reason) for one in without.nothing],
        without.window,
    )


def test_an_object_that_cannot_be_read_is_told() -> None:
    """It does not count, and the plan may be wrong by it."""
    pool = only(fleet(2).change("node", {"metadata": {"labels": "none"}}, "gpu-1"))
    assert "gpu-1" in obstacles(pool)[Obstacle.MALFORMED_OBJECT].message
