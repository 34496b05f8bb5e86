"""The soak in its short form: it holds our hook to the promises, and finds what breaks one."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from devcluster.journal import encode
from devcluster.soak import plan
from devcluster.soak.controlled import ControllerSoak
from devcluster.soak.jobs import JobSoak
from devcluster.soak.judge import CONTROLLER_MEBIBYTES, GROWTH_MEBIBYTES, JOB_MEBIBYTES, Run, Soaked
from devcluster.soak.plan import Before, Cycle, Fault, Upgrade
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
    """Four cycles of upgrades and faults, and three with a controller."""
    stage = Stage(pool.take(NODES), NODES)
    stage.install(150)
    soaked = JobSoak(stage, SEED).run(plan.draw(CYCLES, NODES, SEED))
    report = soaked.report(time.time())
    with promised():
        assert [] == report["broken"], [run.said for run in soaked.runs if run.said]
    assert report["runs"] >= CYCLES
    assert report["restarts"] >= NODES
    assert "0" in report["exitCodes"]
    assert 0 < report["memoryPeakMiB"] <= JOB_MEBIBYTES

    controlled = ControllerSoak(stage, SEED).run(CONTROLLED).report(time.time())
    with promised():
        assert [] == controlled["broken"]
    assert (controlled["runs"], controlled["exitCodes"]) == (len(CONTROLLED), {"0": len(CONTROLLED)})
    assert controlled["restarts"] >= NODES * len(CONTROLLED)
    assert "-9" in controlled["controllerExitCodes"]
    assert 0 < controlled["memoryPeakMiB"] <= CONTROLLER_MEBIBYTES


NODE = "gpu-0"
GOOD: dict[str, Any] = dict.fromkeys(("stale", "driver_ready", "driver_current"), True)
FINE = Run(0, 100.0, 130.0, 0, (0,))


def journal(deleted_at: float = 110.0, **how: Any) -> Truth:  # noqa: ANN401 - the journal's own
    """Return a reload at 105, and the deletion of the plugin that it made stale."""
    plugin = {"stack": "gpu", "pod": "plugin", "uid": "u", "daemonset": "ds", "namespace": "ns"}
    lines = [
        encode("driver-loaded", NODE, 50, stack="gpu", load=1, version="1"),
        encode("plugin-started", NODE, 60, load=1, **plugin),
        encode("driver-unloaded", NODE, 104),
        encode("driver-loaded", NODE, 105, stack="gpu", load=2, version="2"),
        encode("plugin-deleted", NODE, deleted_at, **plugin, **{**GOOD, **how}),
        encode("plugin-gone", NODE, deleted_at + 1, **plugin),
        encode("plugin-started", NODE, deleted_at + 2, load=2, **{**plugin, "uid": "v"}),
    ]
    return Truth.of(lines)


def soaked(truth: Truth | None = None, **facts: Any) -> Soaked:  # noqa: ANN401 - a soak's own
    """Return a soak of one node."""
    about: dict[str, Any] = {"nodes": 1, "seed": 1, "cycles": ("driver",), "runs": (FINE,), "since": 100.0,
                             "daemonset": "ds", "peak": 50.0}  # fmt: skip
    return Soaked(**{**about, "truth": truth or journal(), **facts})


BROKEN = {
    "early-not-ready": (soaked(journal(driver_ready=False)), "restarted early"),
    "needless": (soaked(journal(stale=False)), "restarted needlessly"),
    "exit-code": (soaked(runs=(replace(FINE, code=1),)), "ended with 1, not 0"),
    "stale-at-done": (soaked(runs=(replace(FINE, stale=(NODE,)),)), "succeeded with stale plugins on gpu-0"),
    "done-too-soon": (soaked(runs=(replace(FINE, behind=(NODE,)),)), "succeeded before the driver was ready on gpu-0"),
    "stale-at-the-end": (soaked(left_stale=(NODE,)), "stale at the end: gpu-0"),
    "a-controller-ended": (soaked(wrong="it ended by itself"), "it ended by itself"),
    "it-grows": (soaked(growth=GROWTH_MEBIBYTES + 1), "grew by"),
    "it-is-large": (soaked(peak=JOB_MEBIBYTES + 1), "its limit is 128"),
    "a-controller-is-large": (soaked(peak=193.0, limit=CONTROLLER_MEBIBYTES), "its limit is 192"),
    "its-memory-was-not-seen": (soaked(peak=0.0), "memory was not seen"),
}
KEPT = {
    "plain": soaked(),
    "before-it-began": soaked(journal(deleted_at=99.0, stale=False)),
    "early-in-a-race": soaked(journal(driver_current=False), upsets=(108.0,)),
    "a-failure-that-was-expected": soaked(runs=(replace(FINE, code=124, expected=(124, 3), stale=(NODE,)),)),
}


def test_each_broken_promise_is_found_and_no_other() -> None:
    """One, and by its name; none where it was expected, lies before, or could not be known."""
    for name, (found, word) in BROKEN.items():
        (told,) = found.broken()
        assert word in told, name
        assert found.report(200.0)["broken"] == [told], name
    for name, found in KEPT.items():
        assert found.broken() == [], name
