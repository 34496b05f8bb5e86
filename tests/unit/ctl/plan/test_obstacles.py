"""What blocks an upgrade or slows it: limits, nodes, pods, and settings in the wrong place."""

from __future__ import annotations

from typing import Final

import pytest

from ctl.plan.eviction import Pods, Workload
from ctl.plan.plan import Options
from ctl.plan.result import Obstacle, Severity
from hook.objects.stacks import GPU_OPERATOR, NETWORK_OPERATOR
from tests.fixtures.cluster import Cluster, labelled, not_ready_since
from tests.fixtures.modes import network
from tests.fixtures.objects import Object
from tests.fixtures.planning import CORDONED, EVERY, OLD, fleet, obstacles, only

SILENT: Final = not_ready_since(3590)


def failed(found: Cluster, *nodes: str) -> Cluster:
    """Let the upgrade of some nodes have failed."""
    for name in nodes:
        found.change("node", labelled(name, state="upgrade-failed"), name)
    return found


def upgraded_network(*nodes: str) -> Cluster:
    """Return a network stack whose driver pods are upgraded automatically."""
    return network(*nodes).change("policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: true}}}")


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(fleet(4, {"autoUpgrade": False, "waitForCompletion": {"podSelector": "a=b"}}), id="manual"),
        pytest.param(
            fleet(4, {"maxUnavailable": "100%"})
            .change("node", CORDONED, "gpu-1")
            .change("node", not_ready_since(0), "gpu-2")
            .drop("driver-pod", "driver-gpu-3"),
            id="nodes",
        ),
    ],
)
def test_what_blocks_is_listed_first(found: Cluster) -> None:
    """Users read the first line. A fleet in order has only notes, which make the figures less certain."""
    order = [one.severity for one in only(found).obstacles]
    assert sorted(order, key=[*Severity].index) == order
    assert {Severity.BLOCKS, Severity.SLOWS, Severity.NOTE} == set(order)
    assert {Severity.NOTE} == {one.severity for one in only(fleet(4)).obstacles}


TWO: Final[Object] = {"maxParallelUpgrades": 2}
ALL: Final[Object] = {"maxUnavailable": "100%"}
MOVING: Final[Object] = {**labelled("gpu-1", state="drain-required"), **CORDONED}


@pytest.mark.parametrize(
    ("found", "at_once", "lost", "stuck", "turns"),
    [
        pytest.param(fleet(8, TWO).change("node", CORDONED, "gpu-3"), 1, ("gpu-3",), (), 7, id="one of two cordoned"),
        pytest.param(fleet(4).change("node", CORDONED, "gpu-0"), 0, ("gpu-0",), (), None, id="the only one cordoned"),
        pytest.param(fleet(2).change("node", CORDONED), 0, ("gpu-0", "gpu-1"), (), 1, id="all are cordoned"),
        pytest.param(fleet(4).change("node", SILENT, "gpu-1"), 0, ("gpu-1",), (), None, id="silent for a moment"),
        pytest.param(fleet(4).change("node", not_ready_since(0), "gpu-1"), 0, ("gpu-1",), (), None, id="away for long"),
        pytest.param(fleet(3, ALL).change("node", CORDONED, "gpu-1"), 1, ("gpu-1",), (), 2, id="cordoned before"),
        pytest.param(fleet(3, ALL).change("node", MOVING, "gpu-1"), 1, (), (), 3, id="cordoned by the upgrade"),
        pytest.param(failed(fleet(8, EVERY | {"maxParallelUpgrades": 1}), "gpu-5"), 0, (), ("gpu-5",), None,
                     id="a failed one keeps its place"),
        pytest.param(failed(fleet(8, EVERY | {"maxParallelUpgrades": 3}), "gpu-5"), 2, (), ("gpu-5",), 4,
                     id="there is another place"),
        pytest.param(fleet(4, {"maxUnavailable": 0}), 0, (), (), None, id="none is allowed"),
        pytest.param(network("a", "b").change("node", SILENT), 0, ("a", "b"), (), None, id="no limit, all are lost"),
    ],
)  # fmt: skip
def test_nodes_that_are_away_use_up_the_limits(
    found: Cluster, at_once: int, lost: tuple[str, ...], stuck: tuple[str, ...], turns: int | None
) -> None:
    """Cordoned and silent nodes use up maxUnavailable, failed ones a place; a cordoned one needs no place itself."""
    pool = only(found)
    budget = pool.budget
    assert (at_once, lost, stuck, turns) == (budget.at_once, budget.lost, budget.stuck, pool.turns)
    used = obstacles(pool).get(Obstacle.LIMIT_USED_UP)
    assert (at_once == 0) is (used is not None)
    assert used is None or (Severity.BLOCKS, lost or stuck) == (used.severity, used.nodes)


@pytest.mark.parametrize(("parallel", "count", "named"), [(1, 1, True), (2, 1, False), (0, 1, False), (2, 2, True)])
def test_failed_nodes_are_named_where_they_hold_every_place(parallel: int, count: int, named: bool) -> None:
    """Where they use up maxParallelUpgrades, to repair or uncordon others does not help."""
    found = failed(fleet(4, {"maxParallelUpgrades": parallel, "maxUnavailable": 0}), *("gpu-0", "gpu-1")[:count])
    assert named is ("failed nodes hold" in obstacles(only(found))[Obstacle.LIMIT_USED_UP].message)


@pytest.mark.parametrize(
    ("obstacle", "node", "remedy"),
    [
        (Obstacle.NODES_CORDONED, "gpu-1", "kubectl uncordon gpu-1"),
        (Obstacle.UPGRADE_FAILED, "gpu-2", "label node gpu-2 nvidia.com/gpu-driver-upgrade-state=upgrade-required"),
        (Obstacle.NODES_NOT_READY, "gpu-3", "kubectl describe node gpu-3"),
    ],
)
def test_each_node_is_reported_for_what_is_wrong_with_it(obstacle: Obstacle, node: str, remedy: str) -> None:
    """To uncordon a failed node, or one that is lost, changes nothing. The remedy names the first one."""
    found = fleet(5, {"maxUnavailable": "100%"}).change("node", CORDONED, "gpu-1").change("node", CORDONED, "gpu-2")
    seen = obstacles(only(failed(found, "gpu-2").change("node", SILENT, "gpu-3")))
    assert ((node,), True) == (seen[obstacle].nodes, remedy in seen[obstacle].remedy)


@pytest.mark.parametrize(
    ("state", "lost", "to_come"),
    [
        ("upgrade-required", ("gpu-0",), ()),
        ("cordon-required", (), ("gpu-0",)),
        ("uncordon-required", (), ("gpu-0",)),
        ("some-new-state", (), ("gpu-0",)),
    ],
)
def test_a_cordoned_node_is_lost_unless_the_upgrade_cordoned_it(
    state: str, lost: tuple[str] | tuple[()], to_come: tuple[()] | tuple[str]
) -> None:
    """Then it is still to come."""
    pool = only(fleet(8).change("node", {**labelled(state=state), **CORDONED}, "gpu-0"))
    under_way = obstacles(pool).get(Obstacle.UPGRADE_UNDER_WAY)
    assert (lost, to_come) == (pool.budget.lost, under_way.nodes if under_way else ())


def test_an_outdated_driver_is_to_come_before_a_label_shows_it() -> None:
    """The upgrade controller looks every two minutes."""
    outdated = fleet(3).change("driver-pod", OLD, "driver-gpu-1")
    assert ("gpu-1",) == obstacles(only(outdated))[Obstacle.UPGRADE_UNDER_WAY].nodes, "before its label shows it"


WAITS: Final[Object] = {"podSelector": "app=job", "timeoutSeconds": 600}


def desired(pods: int) -> Cluster:
    """Return a fleet of two nodes whose driver DaemonSet wants so many pods."""
    return fleet(2).change("daemonset", {"status": {"desiredNumberScheduled": pods}}, "nvidia-driver-daemonset")


@pytest.mark.parametrize(
    ("found", "obstacle", "words"),
    [
        (fleet(4, {"maxUnavailable": "a few"}), Obstacle.LIMIT_USED_UP, 'maxUnavailable "a few" allows 0 of 4'),
        (fleet(4, {"maxUnavailable": "7"}), Obstacle.LIMIT_USED_UP, '"7"'),
        (desired(2), Obstacle.DRIVER_PODS_MISSING, ""),
        (desired(3), Obstacle.DRIVER_PODS_MISSING, "wants 3 pods and has 2"),
        (desired(1), Obstacle.DRIVER_PODS_MISSING, "wants 1 pods and has 2"),
        (fleet(2, {"waitForCompletion": WAITS}), Obstacle.WAITS_FOR_PODS, "(up to 600 s) until pods with app="),
        (fleet(2, {"waitForCompletion": {**WAITS, "timeoutSeconds": 0}}), Obstacle.WAITS_FOR_PODS, "without a time"),
    ],
)
def test_settings_that_stop_or_slow_the_controller_are_reported(found: Cluster, obstacle: Obstacle, words: str) -> None:
    """A limit that is none, driver pods that are missing or too many, and jobs."""
    seen = obstacles(only(found)).get(obstacle)
    assert (bool(words), True) == (seen is not None, seen is None or words in seen.message)


# Pods.


def workload(controller: str = "Job", *, node: str = "gpu-0") -> Workload:
    """Return a pod that uses a GPU, as read."""
    return Workload("ml", "train", controller, local_data=False, node=node)


DRAIN: Object = {"drain": {"enable": True}}


@pytest.mark.parametrize(
    ("one", "upgrade", "severity"),
    [
        pytest.param(workload(), {}, None, id="evictable"),
        pytest.param(workload(""), {}, Severity.BLOCKS, id="without a controller"),
        pytest.param(workload(""), {"podDeletion": {"force": True}}, None, id="without one, by force"),
        pytest.param(workload(""), DRAIN, Severity.SLOWS, id="then the node is drained"),
        pytest.param(workload("", node="elsewhere"), {}, None, id="on a node of no pool"),
    ],
)
def test_gpu_pods_that_would_not_be_evicted_are_found(
    one: Workload, upgrade: dict[str, dict[str, bool]] | Object, severity: Severity | None
) -> None:
    """One of them fails its node, or has it drained."""
    found = obstacles(only(fleet(2, upgrade), Options(pods=Pods([one])))).get(Obstacle.PODS_NOT_EVICTABLE)
    assert severity == (found.severity if found else None)
    drained = found is not None and "the node is drained instead" in found.message
    assert drained is (severity is Severity.SLOWS)
    assert found is None or (("gpu-0",), True) == (found.nodes, "ml/train" in found.message)


def test_pods_that_would_not_be_drained_are_found() -> None:
    """The network operator drains each node; the GPU operator one whose GPU pods could not be evicted."""
    web = Workload("web", "cache", "", local_data=False, node="gpu-0")
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


READ = [workload("")]


@pytest.mark.parametrize(
    ("found", "pods", "expected"),
    [
        (fleet(2), Pods(unread="forbidden"), {Obstacle.PODS_NOT_READ}),
        (fleet(2), Pods(READ, unread="forbidden"), {Obstacle.PODS_NOT_READ, Obstacle.PODS_NOT_EVICTABLE}),
        (network(), Pods(unread="forbidden"), set()),
        (upgraded_network("a"), Pods(unread="forbidden"), set()),
    ],
)
def test_pods_that_were_not_read_are_not_taken_for_none(found: Cluster, pods: Pods, expected: set[Obstacle]) -> None:
    """The reason is passed on, and pods that were read count. A stack that evicts and drains nothing misses none."""
    seen = obstacles(only(found, Options(pods=pods)))
    assert expected == {Obstacle.PODS_NOT_READ, Obstacle.PODS_NOT_EVICTABLE} & seen.keys()
    assert not expected or "forbidden" in seen[Obstacle.PODS_NOT_READ].message
