"""What blocks an upgrade or slows it: limits, nodes, pods, and settings in the wrong place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR
from hook.plan.eviction import Pods, Workload
from hook.plan.plan import Options
from hook.plan.result import Obstacle, Severity
from tests.fixtures.cluster import labelled, not_ready_since
from tests.fixtures.modes import network
from tests.fixtures.planning import CORDONED, EVERY, OLD, fleet, limited, obstacles, only

if TYPE_CHECKING:
    from tests.fixtures.cluster import Cluster
    from tests.fixtures.objects import Object


def failed(found: Cluster, *nodes: str) -> Cluster:
    """Let the upgrade of some nodes have failed."""
    for name in nodes:
        found.change("node", labelled(name, state="upgrade-failed"), name)
    return found


# Nodes and limits.


def test_a_fleet_in_order_has_nothing_in_its_way() -> None:
    """What is noted then makes the figures less sure, no more."""
    assert {Severity.NOTE} == {one.severity for one in only(fleet(4)).obstacles}


def test_what_blocks_is_listed_first() -> None:
    """Users read the first line, whichever part of the cluster it is about."""
    manual = limited(fleet(4), {"autoUpgrade": False, "waitForCompletion": {"podSelector": "a=b"}})
    found = fleet(4, {"maxUnavailable": "100%"}).change("policy", "spec: {driver: {maxParallelUpgrades: 4}}")
    found.change("node", CORDONED, "gpu-1").change("node", not_ready_since(0), "gpu-2")
    for each in (manual, found.drop("driver-pod", "driver-gpu-3")):
        order = [one.severity for one in only(each).obstacles]
        assert sorted(order, key=[*Severity].index) == order
        assert order[0] is Severity.BLOCKS
    assert set(Severity) == set(order)


def test_a_cordoned_node_goes_first_and_uses_up_the_limit() -> None:
    """Two of eight may be unavailable, one is: one at once is left, and the cordoned one needs no turn of its own."""
    pool = only(fleet(8, {"maxParallelUpgrades": 2}).change("node", CORDONED, "gpu-3"))
    assert (1, ("gpu-3",), 8, 7) == (pool.budget.at_once, pool.budget.lost, len(pool.nodes), pool.turns)
    remedy = obstacles(pool)[Obstacle.NODES_CORDONED].remedy
    assert remedy == "Look: kubectl describe node gpu-3 To fix, if new pods may run there again: kubectl uncordon gpu-3"


def test_cordoned_nodes_can_stop_the_rest() -> None:
    """As measured: the cordoned one is upgraded, and the others never are. If all are cordoned, one turn is enough."""
    pool = only(fleet(4).change("node", CORDONED, "gpu-0"))
    assert (0, None, None) == (pool.budget.at_once, pool.turns, pool.window)
    stopped = obstacles(pool)[Obstacle.LIMIT_USED_UP]
    assert (Severity.BLOCKS, ("gpu-0",)) == (stopped.severity, stopped.nodes)
    pool = only(fleet(3).change("node", CORDONED))
    assert (1, 120) == (pool.turns, pool.window.typical if pool.window else None)


def test_a_cordoned_node_is_one_that_nothing_else_is_wrong_with() -> None:
    """To uncordon a failed node, or one that is lost, changes nothing."""
    found = fleet(5, {"maxUnavailable": "100%"}).change("node", CORDONED, "gpu-1").change("node", CORDONED, "gpu-2")
    failed(found, "gpu-2").change("node", not_ready_since(3500), "gpu-3")
    assert ("gpu-1",) == obstacles(only(found))[Obstacle.NODES_CORDONED].nodes


def test_a_node_that_the_upgrade_itself_cordoned_is_not_lost() -> None:
    """It will be available again; one that waits for its turn was cordoned by an administrator."""
    for state, lost, to_come in (
        ("upgrade-required", ("gpu-0",), ()),
        ("cordon-required", (), ("gpu-0",)),
        ("uncordon-required", (), ("gpu-0",)),
        ("some-new-state", (), ("gpu-0",)),
    ):
        pool = only(fleet(8).change("node", {**labelled(state=state), **CORDONED}, "gpu-0"))
        under_way = obstacles(pool).get(Obstacle.UPGRADE_UNDER_WAY)
        assert (lost, to_come) == (pool.budget.lost, under_way.nodes if under_way else ()), state


def test_only_a_node_that_was_cordoned_before_needs_no_turn() -> None:
    """Neither one that the upgrade itself cordoned, nor one that is not Ready."""
    for patch, turns in (
        (CORDONED, 2),
        (not_ready_since(3500), 3),
        ({**labelled("gpu-1", state="drain-required"), **CORDONED}, 3),
    ):
        found = fleet(3, {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}).change("node", patch, "gpu-1")
        assert turns == only(found).turns, patch


def test_a_failed_node_keeps_its_place() -> None:
    """One at a time, and that place is taken: no other node's turn comes. It is not upgraded itself, either."""
    pool = only(failed(fleet(8, EVERY | {"maxParallelUpgrades": 1}), "gpu-5"))
    assert (0, ("gpu-5",), 7) == (pool.budget.at_once, pool.budget.stuck, len(pool.nodes))
    assert obstacles(pool)[Obstacle.LIMIT_USED_UP].nodes == ("gpu-5",)
    assert 2 == only(failed(fleet(8, EVERY | {"maxParallelUpgrades": 3}), "gpu-5")).budget.at_once


def test_failed_nodes_are_named_only_where_they_use_up_the_limit() -> None:
    """Where they do not, or no such bound is set, the other limit is what leaves no place."""
    for parallel, count, named in ((1, 1, True), (2, 1, False), (0, 1, False), (2, 2, True)):
        found = failed(fleet(4, {"maxParallelUpgrades": parallel, "maxUnavailable": 0}), *("gpu-0", "gpu-1")[:count])
        message = obstacles(only(found))[Obstacle.LIMIT_USED_UP].message
        assert named is ("failed nodes hold" in message), (parallel, count)


def test_a_failed_upgrade_comes_with_the_stacks_own_remedy() -> None:
    """It names the first failed node, or the parts of a command that cannot be known."""
    look, _, fix = obstacles(only(failed(fleet(3), "gpu-1", "gpu-2")))[Obstacle.UPGRADE_FAILED].remedy.partition(
        " To fix, "
    )
    assert look.endswith("involvedObject.name=gpu-1")
    assert "kubectl drain gpu-1" in fix.partition("): ")[0]
    assert fix.endswith("kubectl label node gpu-1 nvidia.com/gpu-driver-upgrade-state=upgrade-required --overwrite")
    label = {"metadata": {"labels": {"nvidia.com/ofed-driver-upgrade-state": "upgrade-failed"}}}
    remedy = obstacles(only(upgraded_network("a", "b").change("node", label, "a")))[Obstacle.UPGRADE_FAILED].remedy
    assert remedy.endswith("kubectl -n NAMESPACE delete pod NAME")


def upgraded_network(*nodes: str) -> Cluster:
    """Return a network stack whose driver pods are upgraded automatically."""
    return network(*nodes).change("policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: true}}}")


def test_a_node_that_is_not_ready_counts_as_unavailable() -> None:
    """From the first moment, although a run waits for it at first."""
    for seconds in (3590, 0):
        pool = only(fleet(4).change("node", not_ready_since(seconds), "gpu-1"))
        assert (0, ("gpu-1",)) == (pool.budget.at_once, pool.budget.lost), seconds
        assert obstacles(pool)[Obstacle.NODES_NOT_READY].nodes == ("gpu-1",), seconds


def test_a_limit_that_is_none_stops_the_controller() -> None:
    """A text must be a percentage."""
    for limit in ("a few", "7"):
        pool = only(fleet(4, {"maxUnavailable": limit}))
        assert (0, None) == (pool.budget.at_once, pool.budget.allowed), limit
        assert limit in obstacles(pool)[Obstacle.LIMIT_INVALID].message


def test_a_limit_of_no_node_at_all_lets_none_begin() -> None:
    """No node is unavailable, and none may be. Without a limit, all may still be lost."""
    pool = only(fleet(4, {"maxUnavailable": 0}))
    assert (0, 0, ()) == (pool.budget.at_once, pool.budget.allowed, obstacles(pool)[Obstacle.LIMIT_USED_UP].nodes)
    pool = only(network("a", "b").change("node", not_ready_since(3590)))
    assert (0, ("a", "b")) == (pool.budget.at_once, obstacles(pool)[Obstacle.LIMIT_USED_UP].nodes)


def test_a_node_with_an_outdated_driver_is_still_to_come() -> None:
    """Also before its label shows it."""
    found = fleet(3).change("driver-pod", OLD, "driver-gpu-1")
    assert ("gpu-1",) == obstacles(only(found))[Obstacle.UPGRADE_UNDER_WAY].nodes


def test_a_missing_driver_pod_stops_everything() -> None:
    """The upgrade controller refuses to look at a fleet that is not complete."""
    for desired, blocked in ((2, False), (3, True), (1, True)):
        status = {"status": {"desiredNumberScheduled": desired}}
        found = obstacles(only(fleet(2).change("daemonset", status, "nvidia-driver-daemonset")))
        assert blocked is (Obstacle.DRIVER_PODS_MISSING in found), desired


def test_a_limit_in_the_wrong_place_is_reported_where_it_is_missed() -> None:
    """With the place where it belongs."""
    for upgrade, reported in (({}, True), ({"maxParallelUpgrades": 4}, False)):
        misplaced = fleet(4, upgrade).change("policy", "spec: {driver: {rollingUpdate: {maxUnavailable: 50%}}}")
        seen = obstacles(only(misplaced)).get(Obstacle.LIMIT_ELSEWHERE)
        assert reported is (seen is not None), upgrade
        assert seen is None or "driver.rollingUpdate.maxUnavailable=50%" in seen.message
        assert seen is None or "ClusterPolicy cluster-policy driver.upgradePolicy" in seen.remedy


# Pods.


PLUGIN: Final = "dra-driver-nvidia-gpu-kubelet-plugin"


def workload(controller: str = "Job", *, node: str = "gpu-0") -> Workload:
    """Return a pod that uses a GPU, as read."""
    return Workload("ml", "train", node, controller, local_data=False)


def test_gpu_pods_that_would_not_be_evicted_are_found() -> None:
    """One of them fails its node, or has it drained."""
    drain: Object = {"drain": {"enable": True}}
    for name, one, upgrade, severity in (
        ("evictable", workload(), {}, None),
        ("without a controller", workload(""), {}, Severity.BLOCKS),
        ("without one, by force", workload(""), {"podDeletion": {"force": True}}, None),
        ("then the node is drained", workload(""), drain, Severity.SLOWS),
        ("on a node of no pool", workload("", node="elsewhere"), {}, None),
    ):
        found = obstacles(only(fleet(2, upgrade), Options(pods=Pods([one])))).get(Obstacle.PODS_NOT_EVICTABLE)
        assert severity == (found.severity if found else None), name
        assert found is None or (("gpu-0",), True) == (found.nodes, "ml/train" in found.message), name


def test_pods_that_would_not_be_drained_are_found() -> None:
    """The network operator drains each node; the GPU operator one whose GPU pods could not be evicted."""
    web = Workload("web", "cache", "gpu-0", "", local_data=False)
    enabled: Object = {"drain": {"enable": True}}
    gpus, nics = (
        fleet(2, enabled),
        upgraded_network("gpu-0").change("policy", {"spec": {"ofedDriver": {"upgradePolicy": enabled}}}),
    )
    by_gpus, by_nics = GPU_OPERATOR.upgrade.drains, NETWORK_OPERATOR.upgrade.drains
    for name, found, pods, expected in (
        ("GPU pods go", gpus, Pods([workload()], {by_gpus: [web]}), ()),
        ("they stay", gpus, Pods([workload("")], {by_gpus: [web]}), ("gpu-0",)),
        ("on another node", gpus, Pods([workload("", node="gpu-1")], {by_gpus: [web]}), ()),
        ("no drain", fleet(2), Pods([workload("")], {by_gpus: [web]}), ()),
        ("network", nics, Pods(drained={by_nics: [web]}), ("gpu-0",)),
    ):
        seen = obstacles(only(found, Options(pods=pods))).get(Obstacle.PODS_NOT_DRAINABLE)
        assert expected == (seen.nodes if seen else ()), name
        assert seen is None or "web/cache has no controller (drain.force is off)" in seen.message, name


def test_a_plugin_that_keeps_the_driver_open_is_found() -> None:
    """By its feature gates, unless the driver manager evicts it."""
    selecting: Object = {"nodeSelector": {"nvidia.com/gpu.deploy.client": "true"}}
    for gates, spec, reported in (
        ("DynamicMIG=true,", {}, True),
        ("A=true,NVMLDeviceHealthCheck=True", {}, True),
        ("DynamicMIG=", {}, False),
        ("DynamicMIG=true", selecting, False),
    ):
        env = [{"name": "NODE_NAME", "valueFrom": {}}, {"name": "FEATURE_GATES", "value": gates}, "odd"]
        template = {"spec": {"containers": [{"name": "gpus", "env": env}], **spec}}
        found = fleet(2).change("daemonset", {"spec": {"template": template}}, PLUGIN)
        seen = obstacles(only(found)).get(Obstacle.PLUGIN_HOLDS_DRIVER)
        assert reported is (seen is not None), (gates, spec)


def test_pods_that_were_not_read_are_not_taken_for_none() -> None:
    """The reason is passed on. Pods that were read are evaluated even if their budgets were not."""
    unread = obstacles(only(fleet(2), Options(pods=Pods(unread="permission missing"))))
    assert "permission missing" in unread[Obstacle.PODS_NOT_READ].message
    half = obstacles(only(fleet(2), Options(pods=Pods([workload("")], unread="permission missing"))))
    assert {Obstacle.PODS_NOT_READ, Obstacle.PODS_NOT_EVICTABLE} <= half.keys()


def test_a_stack_that_evicts_no_pods_misses_none() -> None:
    """The network operator drains, or does nothing: there was nothing to read."""
    for found in (network(), upgraded_network("a")):
        seen = obstacles(only(found, Options(pods=Pods(unread="forbidden"))))
        assert not {Obstacle.PODS_NOT_READ, Obstacle.PODS_NOT_EVICTABLE} & seen.keys()


def test_waiting_for_jobs_is_reported() -> None:
    """Nobody knows how long they take."""
    for seconds, words in ((0, "without a time limit"), (600, "up to 600 s")):
        waits = {"waitForCompletion": {"podSelector": "app=job", "timeoutSeconds": seconds}}
        message = obstacles(only(fleet(2, waits)))[Obstacle.WAITS_FOR_PODS].message
        assert ("app=job" in message, words in message) == (True, True), seconds
