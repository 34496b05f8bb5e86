"""A plan as a whole: what is planned, the answer about a window, timeouts, and the remaining time."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import pytest

from ctl.plan.plan import Options, remaining_seconds
from ctl.plan.result import Obstacle, Target, Timeouts
from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.settings import Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled
from tests.fixtures.modes import network
from tests.fixtures.objects import Object, obj
from tests.fixtures.planning import CORDONED, EVERY, OLD, fleet, gpus, obstacles, only, planned

OWNER: Final = {"kind": "GPUCluster", "uid": "u", "controller": True}
MANAGED: Final = {"metadata": {"name": "nvidia-dra-driver-kubelet-plugin", "ownerReferences": [OWNER]}}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (cluster().drop("policy"), Reason.NO_POLICY),
        (cluster().change("policy", "spec: {driver: {enabled: false}}"), Reason.DRIVER_DISABLED),
        (cluster().drop("policy").only("daemonset", obj("plugin-daemonset", MANAGED)), Reason.OPERATOR_MANAGED),
        (cluster().change("policy", "spec: {driver: null}"), Reason.MALFORMED_OBJECT),
        (cluster().drop("policy").change("node", {"metadata": {"labels": 7}}), Reason.NO_POLICY),
        (cluster().drop("node").drop("driver-pod").drop("plugin-pod"), Reason.NO_ELIGIBLE_NODE),
    ],
)
def test_where_there_is_nothing_to_plan_the_reason_is_given(found: Cluster, reason: Reason) -> None:
    """By the reasons that a run gives, too."""
    made = planned(found)
    assert ((), reason, None) == (made.pools, made.nothing and made.nothing.reason, made.window)


def test_what_makes_no_difference() -> None:
    """Without a plugin the upgrade takes as long. A malformed object does not count, and is named."""
    pool = only(fleet(2).drop("daemonset", "dra-driver-nvidia-gpu-kubelet-plugin").drop("plugin-pod"))
    assert ([Obstacle.STEP_IS_ASSUMED], 2) == (list(obstacles(pool)), len(pool.nodes))
    pool = only(fleet(2).change("node", {"metadata": {"labels": "none"}}, "gpu-1"))
    assert "gpu-1" in obstacles(pool)[Obstacle.MALFORMED_OBJECT].message


def answer(found: Cluster, minutes: float) -> Target:
    """Ask for a window."""
    given = only(found, Options(timedelta(minutes=minutes))).target
    assert given is not None
    return given


def in_time(found: Cluster, minutes: float) -> bool:
    """Return whether a fleet's own window fits."""
    window = only(found).window
    return window is not None and window.slow <= minutes * 60


@pytest.mark.parametrize(
    ("minutes", "at_once"), [(2, 20), (3.9, 20), (4, 10), (14, 3), (20, 2), (39, 2), (40, 1), (6000, 1)]
)
def test_the_fewest_nodes_at_once_that_are_in_time_are_found(minutes: float, at_once: int) -> None:
    """Twenty nodes, two minutes a step; and one fewer would not be in time."""
    given = answer(fleet(20), minutes)
    assert (at_once, at_once, at_once) == (given.at_once, given.parallel, given.unavailable)
    assert in_time(fleet(20, {"maxParallelUpgrades": given.parallel, "maxUnavailable": given.unavailable}), minutes)
    fewer = {"maxParallelUpgrades": at_once - 1, "maxUnavailable": "100%"}
    assert at_once == 1 or not in_time(fleet(20, fewer), minutes)


@pytest.mark.parametrize(
    ("found", "minutes", "at_once", "change"),
    [
        pytest.param(fleet(20, EVERY), 60, 1, False, id="more than enough"),
        pytest.param(fleet(20), 30, 2, True, id="not enough"),
        pytest.param(fleet(4, {"maxParallelUpgrades": 2, "maxUnavailable": "100%"}), 4, 2, False, id="just enough"),
        pytest.param(fleet(3).change("node", CORDONED), 2, 0, False, id="all are cordoned, and done in one turn"),
        pytest.param(fleet(20), 1, None, False, id="less than one step"),
        pytest.param(fleet(20, {"autoUpgrade": False}), 60, None, False, id="no automatic upgrade"),
    ],
)
def test_limits_that_are_enough_need_no_change(
    found: Cluster, minutes: float, at_once: int | None, change: bool
) -> None:
    """Where no number of nodes is enough, there is no answer but the reason."""
    given = answer(found, minutes)
    assert (at_once, change) == (given.at_once, given.change)
    assert ("no parallelism is enough" in given.reason) is (at_once is None)


def test_lost_and_failed_nodes_are_added_to_the_limits() -> None:
    """A failed node keeps a place, and is cordoned; both add to what is asked for."""
    found = fleet(12, {"maxParallelUpgrades": 20, "maxUnavailable": "100%"})
    found.change("node", labelled("gpu-0", state="upgrade-failed"), "gpu-0")
    found.change("node", CORDONED, "gpu-0").change("node", CORDONED, "gpu-1")
    given = answer(found, 4)
    assert (5, 6, 7) == (given.at_once, given.parallel, given.unavailable)
    # The price is GPUs that would be away at the worst moment. The network operator has no ``maxUnavailable``.
    assert answer(fleet(4).change("node", gpus(8)).change("node", gpus(2), "gpu-0"), 4).away == 16
    assert (3, None) == ((given := answer(network("a", "b", "c"), 2)).parallel, given.unavailable)


@pytest.mark.parametrize(("nodes", "minutes"), [(6, 25), (8, 25), (9, 30), (100, 210)])
def test_timeouts_follow_the_window(nodes: int, minutes: int) -> None:
    """120 s per node and 495 s in addition, in steps of 5 m; 25 m at least; 2 m more for the deployment tool."""
    assert Timeouts(minutes * 60, minutes * 60 + 120) == planned(fleet(nodes)).timeouts


def outdated(*nodes: int, upgrade: Object | None = None) -> Cluster:
    """Return a fleet of six in which the driver pods of these nodes are still to be replaced."""
    found = fleet(6, upgrade)
    for node in nodes:
        found.change("driver-pod", OLD, f"driver-gpu-{node}")
    return found


FAILED: Final[Object] = labelled("gpu-1", state="upgrade-failed")


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        pytest.param(outdated(), None, id="no upgrade"),
        pytest.param(outdated(0, 1, 2), 360, id="one after another"),
        pytest.param(outdated(0, 1, 2, upgrade={"maxParallelUpgrades": 2, "maxUnavailable": 2}), 240, id="two at once"),
        pytest.param(outdated(0, upgrade={"maxUnavailable": 0}), None, id="none at once"),
        pytest.param(outdated(0, upgrade={"autoUpgrade": False}), None, id="by hand"),
        pytest.param(outdated(0, upgrade=EVERY).change("node", FAILED, "gpu-1"), None, id="a failed node"),
        pytest.param(outdated(0).drop("policy"), None, id="no policy"),
    ],
)  # fmt: skip
def test_the_remaining_time_is_that_of_the_nodes_to_come(found: Cluster, seconds: float | None) -> None:
    """It is unknown where the upgrade ends only by a manual action."""
    assert seconds == remaining_seconds(index(found.seen(), Settings()), LATER)
