"""A fleet of twelve: reloaded all at once, and made to look younger by nothing but its times."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.e2e.acts import PATIENCE
from tests.e2e.controller.controllers import STOPPED, ControllerLab
from tests.e2e.lab import NEW, OLD
from tests.promises import promised

NODES = 12


def test_all_at_once_and_a_quarter_down(lab: ControllerLab) -> None:
    """Twelve drivers reload together: each plugin once, at most a quarter of them down."""
    one = lab.leading("one", "controller.maxUnavailable=25%")
    lab.patch_driver(OLD)
    lab.await_refreshed(OLD)
    lab.assert_clean(sorted(lab.nodes))
    with promised():
        assert lab.most_down() <= NODES // 4
    assert lab.most_down() >= 1
    assert one.asked("/readyz")[0] == 200
    one.assert_ends(STOPPED)


def test_times_that_jump(lab: ControllerLab) -> None:
    """Most drivers look younger, but nothing reloaded: nothing is restarted. What crashes later is, once."""
    jumped, crashed = lab.nodes[:7], lab.nodes[2:]
    one = lab.leading("one")
    lab.until(lambda: one.scrape().value("nodes") == NODES, "the controller has seen all nodes", PATIENCE)
    lab.jump(jumped, 3600)
    lab.until(lambda: _look_younger(lab) == set(jumped), "their times have moved", PATIENCE)
    seen = time.time()
    lab.until(
        lambda: one.scrape().value("last_reconcile_timestamp_seconds") > seen, "the controller has seen that", PATIENCE
    )
    lab.await_none_stale(one)
    lab.assert_untouched()
    # By their times, the plugins of nodes that jumped and crashed start too early again and again.
    lab.crash(*crashed)
    lab.until(lambda: set(lab.truth.stale_now()) == set(crashed), "these are really stale", PATIENCE)
    lab.await_refreshed(NEW)
    lab.await_none_stale(one)
    lab.assert_clean(sorted(crashed))
    one.assert_ends(STOPPED)


def _look_younger(lab: ControllerLab) -> set[str]:
    """Return the nodes whose driver pods show a time in the future."""
    now = datetime.now(UTC).isoformat()
    pods = lab.cluster.list("/api/v1/pods", labelSelector="app.kubernetes.io/component=nvidia-driver")
    starts = {
        pod["spec"]["nodeName"]: [each["state"]["running"]["startedAt"] for each in pod["status"]["containerStatuses"]]
        for pod in pods
    }
    return {node for node, moments in starts.items() if max(moments) > now}
