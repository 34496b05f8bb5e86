"""How many nodes an upgrade controller takes at once: the numbers of its library, and what eats them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hook.plan.limits import UpgradePolicy, allowed, available, budget
from hook.plan.result import Obstacle, Severity
from tests.fixtures.cluster import labelled, not_ready_since
from tests.fixtures.modes import network
from tests.fixtures.planning import fleet, obstacles, only

if TYPE_CHECKING:
    from tests.fixtures.objects import Object

CORDONED: Object = {"spec": {"unschedulable": True}}
EVERY: Object = {"maxParallelUpgrades": 0, "maxUnavailable": "100%"}


@pytest.mark.parametrize(
    ("limit", "total", "expected"),
    [
        pytest.param("25%", 4, 1, id="exact"),
        pytest.param("25%", 5, 2, id="rounded-up"),
        pytest.param("1%", 3, 1, id="at-least-one"),
        pytest.param("0%", 3, 0, id="none"),
        pytest.param("200%", 3, 6, id="more-than-there-are"),
        pytest.param("7", 3, 7, id="a-number"),
        pytest.param("-1", 3, -1, id="a-negative-number"),
        pytest.param("", 3, 3, id="no-limit"),
        pytest.param("many", 3, None, id="a-word"),
        pytest.param("25 %", 3, None, id="with-a-space"),
        pytest.param("2.5%", 3, None, id="a-fraction"),
    ],
)
def test_a_limit_is_read_as_kubernetes_reads_it(limit: str, total: int, expected: int | None) -> None:
    """A number as it is, a percentage rounded up, and nothing else."""
    assert expected == allowed(limit, total)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # required, in progress, total, lost, parallel, most
        pytest.param((10, 0, 10, 0, 1, 3), 1, id="one-at-a-time"),
        pytest.param((10, 0, 10, 0, 5, 3), 3, id="bounded-by-unavailable"),
        pytest.param((10, 0, 10, 0, 0, 3), 3, id="no-limit-but-unavailable"),
        pytest.param((10, 0, 10, 0, 0, 10), 10, id="everything-at-once"),
        pytest.param((8, 2, 10, 2, 4, 3), 1, id="what-is-under-way-is-unavailable-too"),
        pytest.param((8, 2, 10, 2, 2, 10), 0, id="all-places-taken"),
        pytest.param((8, 3, 10, 3, 2, 10), 0, id="more-than-all-places-taken"),
        pytest.param((10, 0, 10, 3, 5, 3), 0, id="lost-nodes-use-it-up"),
        pytest.param((10, 0, 10, 2, 5, 3), 1, id="lost-nodes-use-some"),
        pytest.param((10, 0, 10, 9, 5, 10), 5, id="lost-nodes-do-not-count-where-all-may-be-unavailable"),
        pytest.param((10, 0, 10, 10, 5, 10), 0, id="but-then-they-are-all"),
        pytest.param((10, 0, 10, 0, 5, 0), 0, id="none-allowed"),
    ],
)
def test_places_are_counted_as_the_library_does(facts: tuple[int, int, int, int, int, int], expected: int) -> None:
    """Row by row what ``GetUpgradesAvailable`` gives."""
    required, in_progress, total, lost, parallel, most = facts
    given = {"required": required, "in_progress": in_progress, "total": total}
    assert expected == available(**given, lost=lost, parallel=parallel, most=most)


def test_no_more_nodes_than_there_are() -> None:
    """Two nodes are two at once, whatever the limits allow."""
    policy = UpgradePolicy(parallel=50, unavailable="100%")
    assert 2 == budget(policy, total=10, waiting=2, lost=(), stuck=()).at_once


@pytest.mark.parametrize(
    ("upgrade", "expected"),
    [
        pytest.param({}, 1, id="defaults"),
        pytest.param({"maxParallelUpgrades": 3}, 2, id="a-quarter-is-two"),
        pytest.param({"maxParallelUpgrades": 3, "maxUnavailable": "50%"}, 3, id="three"),
        pytest.param({"maxParallelUpgrades": 0, "maxUnavailable": 5}, 5, id="a-number"),
        pytest.param(EVERY, 8, id="all"),
    ],
)
def test_a_fleet_of_eight(upgrade: Object, expected: int) -> None:
    """From the objects to the number, with the kind's own defaults."""
    assert expected == only(fleet(8, upgrade)).budget.at_once


def test_a_cordoned_node_goes_first_and_eats_the_limit() -> None:
    """Two of eight may be unavailable, one is: one at once is left, and the cordoned one needs no turn of its own."""
    found = fleet(8, {"maxParallelUpgrades": 2}).change("node", CORDONED, "gpu-3")
    pool = only(found)
    assert (1, ("gpu-3",), 8, 7) == (pool.budget.at_once, pool.budget.lost, len(pool.nodes), pool.turns)
    remedy = obstacles(pool)[Obstacle.NODES_CORDONED].remedy
    assert remedy == "Look: kubectl describe node gpu-3 To fix, if new pods may run there again: kubectl uncordon gpu-3"


def test_cordoned_nodes_can_stop_the_rest() -> None:
    """As measured: the cordoned one migrates, and the others never do."""
    pool = only(fleet(4).change("node", CORDONED, "gpu-0"))
    assert (0, None, None) == (pool.budget.at_once, pool.turns, pool.window)
    stopped = obstacles(pool)[Obstacle.LIMIT_USED_UP]
    assert (Severity.BLOCKS, ("gpu-0",)) == (stopped.severity, stopped.nodes)


def test_where_all_are_cordoned_one_turn_is_enough() -> None:
    """No place is needed by any of them."""
    pool = only(fleet(3).change("node", CORDONED))
    assert (1, 120) == (pool.turns, pool.window.typical if pool.window else None)


@pytest.mark.parametrize(
    ("state", "lost", "to_come"),
    [
        pytest.param("upgrade-required", ("gpu-0",), (), id="it-has-not-begun"),
        pytest.param("cordon-required", (), ("gpu-0",), id="it-is-being-cordoned"),
        pytest.param("uncordon-required", (), ("gpu-0",), id="it-is-about-to-be-uncordoned"),
        pytest.param("some-new-state", (), ("gpu-0",), id="unknown-states-are-under-way"),
    ],
)
def test_a_node_that_the_upgrade_itself_cordoned_is_not_lost(
    state: str, lost: tuple[str, ...], to_come: tuple[str, ...]
) -> None:
    """It will be available again; one that waits for its turn was cordoned by somebody else."""
    pool = only(fleet(8).change("node", {**labelled(state=state), **CORDONED}, "gpu-0"))
    assert lost == pool.budget.lost
    under_way = obstacles(pool).get(Obstacle.UPGRADE_UNDER_WAY)
    assert to_come == (under_way.nodes if under_way else ())


def test_a_failed_node_keeps_its_place() -> None:
    """One at a time, and that place is taken: nobody else's turn comes. It is not upgraded itself, either."""
    found = fleet(8, EVERY | {"maxParallelUpgrades": 1})
    pool = only(found.change("node", labelled("gpu-5", state="upgrade-failed"), "gpu-5"))
    assert (0, ("gpu-5",), 7) == (pool.budget.at_once, pool.budget.stuck, len(pool.nodes))
    seen = obstacles(pool)
    assert seen[Obstacle.LIMIT_USED_UP].nodes == ("gpu-5",)
    look, _, fix = seen[Obstacle.UPGRADE_FAILED].remedy.partition(" To fix, ")
    assert look.endswith("involvedObject.name=gpu-5")
    assert "kubectl drain gpu-5" in fix.partition("): ")[0]
    assert fix.endswith("kubectl label node gpu-5 nvidia.com/gpu-driver-upgrade-state=upgrade-required --overwrite")


def test_a_failed_node_leaves_the_other_places() -> None:
    """Three places, one taken."""
    found = fleet(8, EVERY | {"maxParallelUpgrades": 3})
    assert 2 == only(found.change("node", labelled("gpu-5", state="upgrade-failed"), "gpu-5")).budget.at_once


@pytest.mark.parametrize("seconds", [pytest.param(3590, id="a-blip"), pytest.param(0, id="for-an-hour")])
def test_a_node_that_is_not_ready_counts_as_unavailable(seconds: int) -> None:
    """From the first moment, although a blip is waited for by a run."""
    pool = only(fleet(4).change("node", not_ready_since(seconds), "gpu-1"))
    assert (0, ("gpu-1",)) == (pool.budget.at_once, pool.budget.lost)
    assert obstacles(pool)[Obstacle.NODES_NOT_READY].nodes == ("gpu-1",)


@pytest.mark.parametrize("limit", [pytest.param("a few", id="words"), pytest.param("7", id="a-number-in-quotes")])
def test_a_limit_that_is_none_stops_the_controller(limit: str) -> None:
    """A text must be a percentage."""
    pool = only(fleet(4, {"maxUnavailable": limit}))
    assert (0, None) == (pool.budget.at_once, pool.budget.allowed)
    assert limit in obstacles(pool)[Obstacle.LIMIT_INVALID].message


def test_a_limit_of_no_node_at_all_lets_none_begin() -> None:
    """Nothing is unavailable, and nothing may be."""
    pool = only(fleet(4, {"maxUnavailable": 0}))
    assert (0, 0, ()) == (pool.budget.at_once, pool.budget.allowed, obstacles(pool)[Obstacle.LIMIT_USED_UP].nodes)


def test_without_a_limit_all_may_still_be_lost() -> None:
    """The network operator's has none, and then every node counts."""
    pool = only(network("a", "b").change("node", not_ready_since(3590)))
    assert (0, ("a", "b")) == (pool.budget.at_once, obstacles(pool)[Obstacle.LIMIT_USED_UP].nodes)
