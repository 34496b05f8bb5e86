"""Which parallelism would be done in time, and what a run needs; asked before anybody changes a thing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.config import Settings
from hook.plan.plan import Options, run_seconds
from tests.fixtures.cluster import Cluster, labelled
from tests.fixtures.modes import network
from tests.fixtures.planning import fleet, gpus, only, planned

if TYPE_CHECKING:
    from hook.plan.result import Target
    from tests.fixtures.objects import Object

TWENTY_AT_ONCE: Object = {"maxParallelUpgrades": 20, "maxUnavailable": "100%"}


def answer(found: Cluster, minutes: float) -> Target:
    """Ask for a window."""
    given = only(found, Options(timedelta(minutes=minutes), ())).target
    assert given is not None
    return given


@pytest.mark.parametrize(
    ("minutes", "at_once"),
    [
        pytest.param(2, 20, id="one-turn"),
        pytest.param(3.9, 20, id="not-quite-two-turns"),
        pytest.param(4, 10, id="two-turns"),
        pytest.param(14, 3, id="seven-turns-of-three"),
        pytest.param(20, 2, id="ten-turns"),
        pytest.param(39, 2, id="nearly-twenty"),
        pytest.param(40, 1, id="twenty-turns"),
        pytest.param(6000, 1, id="all-day"),
    ],
)
def test_the_fewest_nodes_at_once_that_do_are_found(minutes: float, at_once: int) -> None:
    """Twenty nodes, two minutes a step; and one fewer would not do."""
    found = fleet(20)
    given = answer(found, minutes)
    assert (at_once, at_once, at_once) == (given.at_once, given.parallel, given.unavailable)
    set_so = fleet(20, {"maxParallelUpgrades": given.parallel, "maxUnavailable": given.unavailable})
    assert in_time(set_so, minutes)
    assert at_once == 1 or not in_time(
        fleet(20, {"maxParallelUpgrades": at_once - 1, "maxUnavailable": "100%"}), minutes
    )


def in_time(found: Cluster, minutes: float) -> bool:
    """Whether a fleet's own window fits."""
    window = only(found).window
    return window is not None and window.slow <= minutes * 60


def test_less_than_one_step_is_impossible() -> None:
    """Whatever the parallelism."""
    assert (None, None) == (answer(fleet(20), 1).at_once, answer(fleet(20), 1).parallel)


def test_where_people_rotate_no_limit_helps() -> None:
    """That is a reason of its own."""
    given = answer(fleet(20, {"autoUpgrade": False}), 60)
    assert (None, True) == (given.at_once, "autoUpgrade" in given.reason)


def test_limits_that_do_are_left_alone() -> None:
    """Nothing is to be changed."""
    assert (1, False) == ((given := answer(fleet(20, TWENTY_AT_ONCE), 60)).at_once, given.change)
    assert answer(fleet(20), 30).change


def test_lost_and_failed_nodes_are_added_to_the_limits() -> None:
    """A failed node keeps a place, and is cordoned; both eat what is asked for."""
    found = fleet(12, TWENTY_AT_ONCE).change("node", labelled("gpu-0", state="upgrade-failed"), "gpu-0")
    found.change("node", {"spec": {"unschedulable": True}}, "gpu-0")
    found.change("node", {"spec": {"unschedulable": True}}, "gpu-1")
    given = answer(found, 4)
    assert (5, 6, 7) == (given.at_once, given.parallel, given.unavailable)


def test_nodes_that_are_all_cordoned_are_done_in_one_turn() -> None:
    """Nothing is to be set."""
    given = answer(fleet(3).change("node", {"spec": {"unschedulable": True}}), 2)
    assert (0, False) == (given.at_once, given.change)


def test_the_price_is_told() -> None:
    """GPUs that would be away at the worst moment."""
    found = fleet(4).change("node", gpus(8)).change("node", gpus(2), "gpu-0")
    assert 16 == answer(found, 4).gpus


def test_the_network_operator_has_one_limit() -> None:
    """It knows no ``maxUnavailable``."""
    assert (3, None) == ((given := answer(network("a", "b", "c"), 2)).parallel, given.unavailable)


def test_a_run_gets_time_beside_the_reloads() -> None:
    """For the operator's start, its quiet, a reluctant policy, and the last plugin."""
    made = planned(fleet(10))
    settings = Settings()
    times = (settings.advanced.operator_quiet, settings.advanced.policy_grace, settings.plugin_timeout)
    beside = 60 + sum(one.total_seconds() for one in times)
    assert made.window is not None
    assert 1200 + beside == run_seconds(made.window, settings)
