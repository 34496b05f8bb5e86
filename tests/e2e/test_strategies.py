"""How plugins are restarted: one by one, a few at a time, or as a rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import NEW, NEW_CHART

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

FOUR = [f"gpu-{number}" for number in range(4)]


def test_rollout(boot: Callable[..., Lab]) -> None:
    """One patch of the DaemonSet, once all nodes are settled, and no deletion by us."""
    lab = boot(3)
    lab.fleet(nodes=3)
    lab.operator(chart=NEW_CHART, driver=NEW)
    done = lab.post(strategy="rollout-restart")
    assert done.code == 0, done.output
    assert lab.writes() == ["patch daemonsets"]
    lab.assert_clean(FOUR[:3])
    first = min(each.t for each in lab.truth.restarts(since=lab.began))
    assert all(each.t < first for each in lab.truth.since(lab.began) if each.event == "driver-ready")
    assert len(lab.events("DaemonSet", "StalePluginRestarted")) == 1


def test_a_bound_on_parallel_restarts(boot: Callable[..., Lab]) -> None:
    """With maxParallelRestarts 1 the next plugin goes only when the one before is back."""
    lab = boot(4)
    lab.stale_fleet(nodes=4)
    done = lab.post(maxParallelRestarts=1)
    assert done.code == 0, done.output
    lab.assert_clean(FOUR)
    story = [each.event for each in lab.truth.since(lab.began) if each.event in ("plugin-deleted", "plugin-ready")]
    assert ["plugin-deleted", "plugin-ready"] * 4 == story
