"""Rules of planning an upgrade: what blocks it, which nodes count for what, and how long is left."""

from __future__ import annotations

from datetime import timedelta

from hook.config import Duration, Settings
from hook.decide.decide import decide_all, indexed
from hook.objects import wire
from hook.plan import limits, pools, timing
from hook.plan.plan import Options
from hook.plan.result import GpuHours, Obstacle, Reloads, Severity, Spread, Step
from hook.plan.timing import about
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, stale
from tests.fixtures.modes import Pool, network, pooled
from tests.fixtures.objects import Object, driver_pod, finished, merged, obj, plugin_pod, stamp
from tests.fixtures.planning import fleet, limited, obstacles, only, planned

OLD: Object = {"metadata": {"labels": {"controller-revision-hash": "old"}}}
CORDONED: Object = {"spec": {"unschedulable": True}}
NETWORK_FAILED: Object = {"metadata": {"labels": {"nvidia.com/ofed-driver-upgrade-state": "upgrade-failed"}}}
OWNED: Object = {"metadata": {"labels": {"nvidia.com/gpu-operator.driver.owner": "default"}}}


# What is in the way.


def test_a_fleet_in_order_has_nothing_in_its_way() -> None:
    """What is noted then makes the figures less sure, no more."""
    assert {Severity.NOTE} == {one.severity for one in only(fleet(4)).obstacles}


def test_what_blocks_is_listed_first() -> None:
    """Whichever part of the cluster it is about."""
    found = fleet(4, {"maxUnavailable": "100%"}).change("policy", "spec: {driver: {maxParallelUpgrades: 4}}")
    found.change("node", CORDONED, "gpu-1").change("node", not_ready_since(0), "gpu-2").drop(
        "driver-pod", "driver-gpu-3"
    )
    order = [one.severity for one in only(found).obstacles]
    assert sorted(order, key=list(Severity).index) == order
    assert set(Severity) == set(order)


def test_places_are_held_by_failed_nodes_only_where_those_fill_them() -> None:
    """Where they do not, or no such bound is set, the other limit is what leaves no place."""
    for parallel, failed, named in ((1, 1, True), (2, 1, False), (0, 1, False), (2, 2, True)):
        found = fleet(4, {"maxParallelUpgrades": parallel, "maxUnavailable": 0})
        for number in range(failed):
            found.change("node", labelled(f"gpu-{number}", state="upgrade-failed"), f"gpu-{number}")
        message = obstacles(only(found))[Obstacle.LIMIT_USED_UP].message
        assert named is ("failed nodes hold" in message), (parallel, failed)


def test_a_cordoned_node_is_one_that_nothing_else_is_wrong_with() -> None:
    """To uncordon a failed node, or one that is lost, changes nothing."""
    found = fleet(5, {"maxUnavailable": "100%"}).change("node", CORDONED, "gpu-1").change("node", CORDONED, "gpu-2")
    found.change("node", labelled("gpu-2", state="upgrade-failed"), "gpu-2")
    found.change("node", not_ready_since(3500), "gpu-3")
    assert ("gpu-1",) == obstacles(only(found))[Obstacle.NODES_CORDONED].nodes


def test_a_failed_upgrade_comes_with_the_stacks_own_remedy() -> None:
    """It names the first failed node, or the parts of a command that cannot be known."""
    found = fleet(3)
    for name in ("gpu-1", "gpu-2"):
        found.change("node", labelled(name, state="upgrade-failed"), name)
    nic = limited_network("a", "b").change("node", NETWORK_FAILED, "a")
    remedies = [obstacles(only(one))[Obstacle.UPGRADE_FAILED].remedy for one in (found, nic)]
    assert "kubectl label node gpu-1 " in remedies[0]
    assert remedies[1].endswith("kubectl -n NAMESPACE delete pod NAME")


def limited_network(*nodes: str) -> Cluster:
    """Return a network stack whose driver pods are rotated."""
    return network(*nodes).change("policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: true}}}")


def test_a_stack_that_evicts_no_pods_misses_none() -> None:
    """Its upgrade controller looks at none, so there was nothing to read."""
    unread = Options(workloads=None, unread="forbidden")
    assert Obstacle.PODS_NOT_READ in obstacles(only(fleet(2), unread))
    assert Obstacle.PODS_NOT_READ not in obstacles(only(limited_network("a"), unread))


# Which nodes count for what.


def test_a_share_is_of_the_nodes_with_a_driver_pod() -> None:
    """The upgrade controller knows no others; a share of all of them is all of them."""
    found = fleet(4).drop("driver-pod", "driver-gpu-3")
    assert 3 == only(found).budget.total
    assert (101, 51) == (limits.allowed("100%", 101), limits.allowed("50%", 101))


def test_only_a_node_that_was_cordoned_before_needs_no_place() -> None:
    """Neither one that the upgrade itself cordoned, nor one that is not Ready."""
    limits = {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}
    assert 2 == only(fleet(3, limits).change("node", CORDONED, "gpu-1")).turns
    assert 3 == only(fleet(3, limits).change("node", not_ready_since(3500), "gpu-1")).turns
    moving = fleet(3, limits).change("node", merged(CORDONED, labelled("gpu-1", state="drain-required")), "gpu-1")
    assert 3 == only(moving).turns


def test_a_node_with_an_outdated_driver_is_still_to_come() -> None:
    """Also before its label shows it."""
    found = fleet(3).change("driver-pod", OLD, "driver-gpu-1")
    assert ("gpu-1",) == obstacles(only(found))[Obstacle.UPGRADE_UNDER_WAY].nodes


def test_gpus_that_are_not_known_count_as_none() -> None:
    """Neither at the worst moment nor over the whole upgrade."""
    found = only(fleet(2, {"maxParallelUpgrades": 0, "maxUnavailable": "100%"}).drop("slice"))
    assert (0, GpuHours(0, 0)) == (found.capacity.at_once, found.capacity.hours)
    assert 8 == pools.worst({"a": 8}, ["a", "b"], 2)


def test_a_pool_that_decides_for_itself_and_says_nothing_is_upgraded() -> None:
    """The policy's own word is for operators that know no pools' upgrade policies."""
    found = limited(pooled(), {"autoUpgrade": False})
    assert Obstacle.AUTO_UPGRADE_OFF in obstacles(only(found))
    assert Obstacle.AUTO_UPGRADE_OFF not in obstacles(only(found.change("node", OWNED)))


def test_pools_that_a_policy_does_not_use_split_nothing() -> None:
    """Their objects, and the labels on nodes, stay behind when the mode is turned off."""
    found = fleet(2).change("node", OWNED).put("pool", obj("pool/policy"))
    assert ["ClusterPolicy cluster-policy"] == [one.name for one in planned(found).pools]


def test_a_pool_without_nodes_to_upgrade_waits_for_no_person() -> None:
    """All of its nodes are excluded, so that it rotates none by hand either."""
    found = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",)))
    found.change("pool", "spec: {upgradePolicy: {autoUpgrade: false}}", "a")
    found.change("node", labelled("gpu-a", skip="true"), "gpu-a")
    told = {one.name: obstacles(one) for one in planned(found).pools}
    assert not any(Obstacle.AUTO_UPGRADE_OFF in one for one in told.values())


def test_limits_that_are_just_enough_need_no_change() -> None:
    """As many at once as are asked for."""
    for parallel, change in ((2, False), (1, True)):
        found = fleet(4, {"maxParallelUpgrades": parallel, "maxUnavailable": "100%"})
        target = only(found, Options(timedelta(minutes=4), ())).target
        assert target is not None
        assert (2, change) == (target.at_once, target.change)


def test_a_selector_that_asks_for_absence_holds_where_the_key_is_absent() -> None:
    """And an absent key has no value, not an empty one."""
    for operator, there, absent in (("DoesNotExist", False, True), ("Exists", True, False), ("In", True, False)):
        wanted = wire.Selector.Requirement("team", operator, ["", "x"])
        assert (there, absent) == (wanted.met_by({"team": "x"}), wanted.met_by({})), operator


# How long things take.


def test_a_step_is_a_whole_reload_where_pods_tell_it() -> None:
    """From the beginning of the unloading, not from the start of the new driver."""
    told = Reloads(loading=Spread(100, 100, 3), whole=Spread(130, 130, 3))
    assert Step(240, 240) == timing.step(told, None)


def test_the_unloading_begins_with_the_first_init_container() -> None:
    """The others come after it."""
    spans = {"k8s-driver-manager": (-50, -30), "mesh": (-30, -2)}
    statuses = [
        merged(finished(name, end), {"state": {"terminated": {"startedAt": stamp(start)}}})
        for name, (start, end) in spans.items()
    ]
    found = fleet(1).put("driver-pod", merged(driver_pod("gpu-0"), {"status": {"initContainerStatuses": statuses}}))
    assert Spread(120, 120, 1) == only(found).reloads.whole


def test_reloads_during_a_longer_one_are_one_turn() -> None:
    """One that ends sooner than another does not end the turn."""
    spans = ((0, 300), (10, 80), (100, 170), (400, 470), (520, 590))
    found = fleet(len(spans)).change("revision", {"metadata": {"creationTimestamp": stamp(-3600)}})
    pods = (driver_pod(f"gpu-{n}", started=began, ready=ready) for n, (began, ready) in enumerate(spans))
    assert Spread(120, 400, 2) == only(found.put("driver-pod", *pods)).step.measured


def left(found: Cluster, settings: Settings | None = None) -> int | None:
    """Return the seconds that a cluster still takes."""
    asked = settings or Settings()
    return about(indexed({"gpu": found.seen()}, asked), found.decide(asked)[0], asked, LATER)


def test_one_node_that_needs_a_person_leaves_the_time_unknown() -> None:
    """However many others are on their way, and however many places there are."""
    found = cluster("a", "b").change("driver-pod", OLD, "driver-a").put("plugin-pod", plugin_pod("b", ready=None))
    assert None is left(found, Settings(plugin_timeout=Duration()))
    failed = cluster("a", "b").change("driver-pod", OLD).change("node", labelled("a", state="upgrade-failed"), "a")
    assert None is left(limited(failed, {"maxParallelUpgrades": 2, "maxUnavailable": "100%"}))


def test_an_excluded_node_does_not_make_the_time_unknown() -> None:
    """Nothing is waited for there, also where its upgrade failed."""
    found = cluster("a", "b").change("driver-pod", OLD, "driver-a")
    found.change("node", labelled("b", skip="true", state="upgrade-failed"), "b")
    assert 160 == left(limited(found, {"maxParallelUpgrades": 2, "maxUnavailable": "100%"}))


def test_a_last_turn_that_is_not_full_takes_as_long_as_the_others() -> None:
    """Five plugins, two at a time."""
    assert 120 == left(stale(*"abcde"), Settings(max_parallel_restarts=2))


def test_each_stack_reloads_its_own_nodes_alone() -> None:
    """A node that waits for its GPU driver does not wait for another driver that is rotated by hand."""
    settings = Settings(drivers=("gpu", "network"))
    manual = network("a").change("policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: false}}}")
    seen = {"gpu": cluster("a").change("driver-pod", OLD).seen(), "network": manual.seen()}
    decision, _memories = decide_all(seen, {}, settings, LATER)
    assert 160 == about(indexed(seen, settings), decision, settings, LATER)
