"""Plan upgrades that were recorded on the real operator, and compare with how long they took.

The recordings' policies state no limits, so the kind's defaults hold: one node at a time. Their pods do not tell when
unloading began, and carry whole seconds, as everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from ctl.plan.plan import Options, make_plan
from ctl.plan.result import Obstacle, PoolPlan
from hook.settings import Settings
from tests.replay.objects import Objects
from tests.replay.recording import Recording, load

UPGRADES: Final = ("v26.3.3-chart-bump", "v26.3.3-driver-only", "v26.7.0-chart-bump")
NEAR: Final = 0.03
"""A plan is whole steps; the operator's start and the last node's labels come on top: one part in a hundred here."""


def planned(recording: Recording, until: float) -> PoolPlan:
    """Plan with what a recording shows up to a moment."""
    objects = Objects(recording)
    for change in recording.changes:
        if change.at <= until:
            objects.apply(change)
    seen = replace(objects.seen(until), slices=())
    (pool,) = make_plan(seen, Settings(), recording.moment(until), Options()).pools
    return pool


def took(recording: Recording) -> float:
    """Return the seconds from the change of the policy until the last node's label was quiet for good."""
    labelled = [
        one.at for one in recording.changes if one.kind == "node" and one.view and one.view["present"] == "true"
    ]
    return max(labelled) - recording.t0


def test_the_window_planned_is_the_one_that_it_took() -> None:
    """Before an upgrade the plan knows an installation's reloads and the usual pace; after it both are measured."""
    for name in UPGRADES:
        recording = load(name)
        pool = planned(recording, recording.t0 - 0.001)
        assert Obstacle.STEP_IS_ASSUMED in [one.obstacle for one in pool.obstacles], name
        assert pool.window is not None, name
        assert took(recording) == pytest.approx(pool.window.typical, rel=NEAR), name
        pool, nodes = planned(recording, recording.end), len(recording.gpu_nodes)
        assert pool.reload is not None, name
        assert (nodes, nodes - 1) == (pool.reload.samples, pool.step.measured), name
        assert pool.window is not None, name
        assert took(recording) == pytest.approx(pool.window.typical, rel=NEAR), name


def test_a_plan_in_the_middle_of_an_upgrade() -> None:
    """It names the nodes that are still to come; a node under way does not use up the limit."""
    recording = load(UPGRADES[0])
    pool = planned(recording, recording.t0 + took(recording) / 2)
    (under_way,) = [one for one in pool.obstacles if one.obstacle is Obstacle.UPGRADE_UNDER_WAY]
    assert 0 < len(under_way.nodes) < len(pool.nodes)
    assert pool.budget.at_once == 1
