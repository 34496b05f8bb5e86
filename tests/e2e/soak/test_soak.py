"""The soak in its short form: it holds our hook to the promises, and finds what another one breaks."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.soak import plan
from devcluster.soak.following import FollowerSoak
from devcluster.soak.judge import FOLLOWER_MEBIBYTES, JOB_MEBIBYTES
from devcluster.soak.plan import Before, Cycle, Fault, Upgrade
from devcluster.soak.soak import LONG, Commands, Soak
from devcluster.soak.stage import Stage
from tests.promises import promised

if TYPE_CHECKING:
    from tests.pool import Pool

NODES = 4
FOLLOWED = [
    Cycle(0, Upgrade.DRIVER),
    Cycle(1, Upgrade.DRIVER, Fault.KILL, after=3.0, nodes=(1,)),
    Cycle(2, Upgrade.CHART, Fault.SILENCE, after=2.0, before=Before.CRASH, nodes=(0, 2)),
    Cycle(3, Upgrade.DRIVER, Fault.BROKEN_DRIVER, nodes=(3,)),
]
CYCLES = 5
SEED = 29
"""Drivers that cannot start, a silent API server, a run that is told to stop."""
SCRIPT = Path(__file__).with_name("the_usual_script.py")


@pytest.fixture
def stage(pool: Pool) -> Stage:
    """Return a small fleet that is up and fresh."""
    stage = Stage(pool.take(NODES), NODES)
    stage.install(150)
    return stage


def test_a_short_soak_breaks_no_promise_and_a_script_does(stage: Stage) -> None:
    """Five cycles of upgrades and faults, four more with a controller instead; then what people run, which breaks some.

    The script believes the policy, whatever it says by then: it restarts plugins onto the old driver and says that all
    is well, or waits in vain and fails. Either way it leaves every plugin stale.
    """
    soaked = Soak(stage, SEED).run(plan.draw(CYCLES, NODES, SEED))
    report = soaked.report(time.time())
    with promised():
        assert [] == report["broken"], [run.said for run in soaked.runs if run.said]
    assert report["runs"] >= CYCLES
    assert report["restarts"] >= NODES
    assert "0" in report["exitCodes"]
    assert 0 < report["memoryPeakMiB"] <= JOB_MEBIBYTES

    followed = FollowerSoak(stage, SEED).run(FOLLOWED).report(time.time())
    with promised():
        assert [] == followed["broken"]
    assert (followed["runs"], followed["exitCodes"]) == (len(FOLLOWED), {"0": len(FOLLOWED)})
    assert followed["restarts"] >= NODES * len(FOLLOWED)
    assert "-9" in followed["followerExitCodes"]
    assert 0 < followed["memoryPeakMiB"] <= FOLLOWER_MEBIBYTES

    kubectl = str(stage.cluster.binary("kubectl"))
    script = Commands((sys.executable, str(SCRIPT), kubectl), LONG, takes_timeout=False, impatient=())
    # However busy the machine is, the script is over before the first driver is new: real ones take minutes.
    stage.hold_drivers(range(NODES))
    broken = Soak(stage, SEED, script).run([Cycle(0, Upgrade.CHART)]).broken()
    assert broken
    stage.mend_drivers(range(NODES))
    stage.until(lambda: not stage.behind(), "the drivers are reloaded, long after the script", 150)
    assert len(stage.stale()) == NODES
