"""A fleet of twelve: reloaded all at once, and made to look stale all at once by nothing but its times."""

from __future__ import annotations

import signal

from tests.e2e.acts import PATIENCE
from tests.e2e.controller.ground import STOPPED, Field
from tests.e2e.lab import NEW, OLD
from tests.promises import promised

NODES = 12


def test_all_at_once_and_a_quarter_down(field: Field) -> None:
    """Twelve drivers reload together: each plugin once, at most a quarter of them down, and no breaker opens."""
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
    """Most of the fleet looks stale within seconds, but nothing reloaded: nothing is restarted, and it is reported."""
    # The circuit breaker stays open for as long as its process runs, also for plugins that become really stale
    # meanwhile. A new process begins with a closed one and restarts these.
    jumped, crashed = field.nodes[:7], field.nodes[2:]
    one = field.leading("one", "controller.circuitBreaker.reset=0s")
    field.jump(jumped, 3600)
    field.until(lambda: bool(field.record().breakers), "the breaker opens", PATIENCE)
    field.await_stale(one, len(jumped))
    assert one.asked("/readyz")[0] == 503
    field.jump(jumped, None)
    field.await_stale(one, 0)
    field.crash(*crashed)
    field.until(lambda: set(field.truth.stale_now()) == set(crashed), "these are really stale", PATIENCE)
    field.await_stale(one, len(crashed))
    assert one.asked("/readyz")[0] == 503
    assert field.record().breakers
    field.assert_untouched()
    one.signal(signal.SIGKILL)
    one.ended()

    two = field.leading("two", "controller.circuitBreaker.threshold=25%", "controller.circuitBreaker.reset=0s")
    field.await_refreshed(NEW)
    field.assert_clean(sorted(crashed))
    assert not field.record().breakers
    two.assert_ends(STOPPED)
