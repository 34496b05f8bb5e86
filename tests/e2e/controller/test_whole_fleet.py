"""A fleet of twelve: reloaded all at once, and made to look younger by nothing but its times."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.e2e.acts import PATIENCE
from tests.e2e.controller.ground import STOPPED, Field
from tests.e2e.lab import NEW, OLD
from tests.promises import promised

NODES = 12


def test_all_at_once_and_a_quarter_down(field: Field) -> None:
    """Twelve drivers reload together: each plugin once, at most a quarter of them down."""
    one = field.leading("one", "controller.maxUnavailable=25%")
    field.patch_driver(OLD)
    field.await_refreshed(OLD)
    field.assert_clean(sorted(field.nodes))
    with promised():
        assert field.most_down() <= NODES // 4
    assert field.most_down() >= 1
    assert one.asked("/readyz")[0] == 200
    one.assert_ends(STOPPED)


def test_times_that_jump(field: Field) -> None:
    """Most drivers look younger, but nothing reloaded: nothing is restarted. What crashes later is, once."""
    jumped, crashed = field.nodes[:7], field.nodes[2:]
    one = field.leading("one")
    field.until(lambda: one.scrape().value("nodes") == NODES, "the controller has seen all nodes", PATIENCE)
    field.jump(jumped, 3600)
    field.until(lambda: _look_younger(field) == set(jumped), "their times have moved", PATIENCE)
    seen = time.time()
    field.until(
        lambda: one.scrape().value("last_reconcile_timestamp_seconds") > seen, "the controller has seen that", PATIENCE
    )
    field.await_none_stale(one)
    field.assert_untouched()
    # By their times, the plugins of nodes that jumped and crashed start too early again and again.
    field.crash(*crashed)
    field.until(lambda: set(field.truth.stale_now()) == set(crashed), "these are really stale", PATIENCE)
    field.await_refreshed(NEW)
    field.await_none_stale(one)
    field.assert_clean(sorted(crashed))
    one.assert_ends(STOPPED)


def _look_younger(field: Field) -> set[str]:
    """Return the nodes whose driver pods show a time in the future."""
    now = datetime.now(UTC).isoformat()
    pods = field.cluster.list("/api/v1/pods", labelSelector="app.kubernetes.io/component=nvidia-driver")
    starts = {
        pod["spec"]["nodeName"]: [each["state"]["running"]["startedAt"] for each in pod["status"]["containerStatuses"]]
        for pod in pods
    }
    return {node for node, moments in starts.items() if max(moments) > now}
