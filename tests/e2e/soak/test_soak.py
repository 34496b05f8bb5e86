"""The soak in its short form: it holds the program to the promises, and finds what breaks one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from devcluster.journal import encode
from devcluster.soak.judge import CONTROLLER_MEBIBYTES, GROWTH_MEBIBYTES, JOB_MEBIBYTES, Life, Run, Soaked
from devcluster.soak.plan import Before, Cycle, Fault, Upgrade, draw
from devcluster.soak.soak import ControllerSoak, JobSoak
from devcluster.soak.stage import Stage
from devcluster.truth import Truth
from tests.pool import Pool
from tests.promises import promised

NODES = 4
CONTROLLED = [
    Cycle(0, Upgrade.DRIVER, Fault.KILL, after=3.0, nodes=(1,)),
    Cycle(1, Upgrade.CHART, Fault.SILENCE, after=2.0, before=Before.CRASH, nodes=(0, 2)),
    Cycle(2, Upgrade.DRIVER, Fault.BROKEN_DRIVER, nodes=(3,)),
]
CYCLES = 4
SEED = 29
"""Drivers that cannot start, a run that is killed, a silent API server."""


@pytest.mark.nightly
def test_a_short_soak_breaks_no_promise(pool: Pool) -> None:
    """Four cycles of upgrades and faults with Jobs, and three with a controller."""
    stage = Stage(pool.take(NODES), NODES)
    stage.install(150)
    jobs = JobSoak(stage).run(draw(CYCLES, NODES, SEED))
    report = jobs.report(time.time())
    with promised():
        assert report["broken"] == []
    assert len(jobs.runs) >= CYCLES
    assert report["restarts"] >= NODES
    assert report["exitCodes"]["0"] > 0
    assert 0 < report["memoryPeakMiB"] <= JOB_MEBIBYTES

    controlled = ControllerSoak(stage).run(CONTROLLED)
    report = controlled.report(time.time())
    with promised():
        assert report["broken"] == []
    assert report["exitCodes"] == {"0": len(CONTROLLED)}
    assert report["restarts"] >= NODES * len(CONTROLLED)
    assert len(controlled.lives) > 1
    assert 0 < report["memoryPeakMiB"] <= CONTROLLER_MEBIBYTES


NODE = "gpu-0"
GOOD: dict[str, Any] = dict.fromkeys(("stale", "driver_ready", "driver_current"), True)
FINE = Run(0, 0, (0,))


def journal(deleted_at: float = 110.0, *, left: bool = False, **how: Any) -> Truth:  # noqa: ANN401 - the journal's own
    """Return a reload at 105, and the deletion of the plugin that it made stale; with `left`, that is not replaced."""
    plugin = {"stack": "gpu", "pod": "plugin", "uid": "u", "daemonset": "ds", "namespace": "ns"}
    lines = [
        encode("driver-loaded", NODE, 50, stack="gpu", load=1, version="1"),
        encode("plugin-started", NODE, 60, load=1, **plugin),
        encode("driver-unloaded", NODE, 104),
        encode("driver-loaded", NODE, 105, stack="gpu", load=2, version="2"),
    ]
    if not left:
        lines += [
            encode("plugin-deleted", NODE, deleted_at, **plugin, **{**GOOD, **how}),
            encode("plugin-gone", NODE, deleted_at + 1, **plugin),
            encode("plugin-started", NODE, deleted_at + 2, load=2, **{**plugin, "uid": "v"}),
        ]
    return Truth.of(lines)


def soaked(truth: Truth | None = None, **facts: Any) -> Soaked:  # noqa: ANN401 - a soak's own
    """Return a soak of one node."""
    about: dict[str, Any] = {"runs": [FINE], "lives": [Life(JOB_MEBIBYTES, 50.0)]}
    return Soaked("ds", 100.0, truth or journal(), **{**about, **facts})


BROKEN = {
    "early, not ready": (soaked(journal(driver_ready=False)), "restarted early"),
    "needless": (soaked(journal(stale=False)), "restarted needlessly"),
    "exit code": (soaked(runs=[replace(FINE, code=1, log="why")]), "ended with 1, not 0: why"),
    "stale at done": (soaked(runs=[replace(FINE, stale=(NODE,))]), "succeeded with stale plugins on gpu-0"),
    "done too soon": (soaked(runs=[replace(FINE, behind=(NODE,))]), "succeeded before the driver was ready on gpu-0"),
    "stale at the end": (soaked(journal(left=True)), "stale at the end: gpu-0"),
    "a controller ended": (soaked(wrong=["it ended by itself"]), "it ended by itself"),
    "it grows": (soaked(lives=[Life(CONTROLLER_MEBIBYTES, 60.0, GROWTH_MEBIBYTES + 1)]), "grew by"),
    "it is large": (soaked(lives=[Life(JOB_MEBIBYTES, JOB_MEBIBYTES + 1)]), "its limit is 128"),
    "a controller is large": (soaked(lives=[Life(CONTROLLER_MEBIBYTES, 193.0)]), "its limit is 192"),
    "its memory was not seen": (soaked(lives=[Life(JOB_MEBIBYTES, 0.0)]), "memory of no process was seen"),
}


@pytest.mark.parametrize(("found", "word"), BROKEN.values(), ids=BROKEN)
def test_each_broken_promise_is_found(found: Soaked, word: str) -> None:
    """It is the only one, and its line names it."""
    (told,) = found.broken()
    assert word in told
    assert found.report(200.0)["broken"] == [told]


KEPT = {
    "plain": soaked(),
    "before it began": soaked(journal(deleted_at=99.0, stale=False)),
    "early in a race": soaked(journal(driver_current=False), upsets=[108.0]),
    "a failure that was expected": soaked(runs=[replace(FINE, code=124, expected=(124, 3), stale=(NODE,))]),
    "grown a little": soaked(lives=[Life(CONTROLLER_MEBIBYTES, 60.0, GROWTH_MEBIBYTES)]),
}


@pytest.mark.parametrize("found", KEPT.values(), ids=KEPT)
def test_no_other_promise_counts_as_broken(found: Soaked) -> None:
    """What was expected, lies before the soak, or could not be known breaks none."""
    assert found.broken() == []
