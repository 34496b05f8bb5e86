"""A fleet of fifty: reloaded all at once, and made to look stale all at once by nothing but its times."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.acts import PATIENCE
from tests.e2e.lab import NEW, OLD
from tests.follow.ground import STOPPED
from tests.promises import promised

if TYPE_CHECKING:
    from tests.follow.ground import Field

pytestmark = pytest.mark.e2e

NODES = 50
QUARTER: Final = 13
"""A quarter of fifty, rounded up."""


def test_all_at_once_and_a_quarter_down(field: Field) -> None:
    """Fifty drivers reload together: each plugin once, never more than a quarter of them down, and no breaker opens."""
    one = field.leading("one", "--max-unavailable=25%")
    field.patch_driver(OLD)
    field.await_served(OLD)
    field.assert_clean(sorted(field.nodes))
    with promised():
        assert field.most_down() <= QUARTER
    assert field.most_down() >= 1
    assert one.asked("/readyz")[0] == 200
    assert one.stopped() == STOPPED, one.said


def test_times_that_jump(field: Field) -> None:
    """Most of the fleet looks stale within seconds and nothing was reloaded: nothing is restarted, and it is told.

    The breaker outlives the process that opened it, a person closes it, and then what is really stale is served, also
    by another process to whom that is a crowd at first sight. Where it is let, it closes by itself: no sooner than the
    times are right again, however long a busy machine takes to that.
    """
    jumped, crashed = field.nodes[:30], field.nodes[10:]
    one = field.leading("one", "--breaker-reset=0s")
    field.jump(jumped, 3600)
    field.until(lambda: bool(field.record().breakers), "the breaker opens", PATIENCE)
    field.await_stale(one, len(jumped))
    assert one.asked("/readyz")[0] == 503
    assert one.scrape().alerts() == {"GPUOperatorPostBreakerOpen"}
    one.signal(signal.SIGKILL)
    one.ended()

    # One by one, so that a crowd is left to serve when the next one takes over.
    two = field.follow("two", "--breaker-reset=0s", "--max-unavailable=1")
    field.until(lambda: field.leader().startswith("two"), "another one leads", PATIENCE)
    field.jump(jumped, None)
    field.await_stale(two, 0)
    field.crash(*crashed)
    field.until(lambda: set(field.truth.stale_now()) == set(crashed), "forty are really stale", PATIENCE)
    field.await_stale(two, len(crashed))
    assert two.asked("/readyz")[0] == 503
    assert field.record().breakers
    field.assert_untouched()

    field.close_breaker()
    field.until(
        lambda: bool(field.record().closed) and not field.record().breakers, "it is closed, and noted", PATIENCE
    )
    two.signal(signal.SIGKILL)
    two.ended()
    assert len(field.truth.stale_now()) > QUARTER

    three = field.leading("three", "--breaker-reset=0s", "--breaker-share=25%")
    field.await_served(NEW)
    field.assert_clean(crashed)
    field.until(lambda: not field.record().closed, "that it was closed is forgotten", PATIENCE)
    field.jump(jumped, 3600)
    field.until(lambda: three.asked("/readyz")[0] == 503, "the breaker opens again", PATIENCE)
    field.await_stale(three, len(jumped))
    field.jump(jumped, None)
    field.await_stale(three, 0)
    field.until(lambda: bool(field.record().breakers), "that is noted, too", PATIENCE)
    assert three.stopped() == STOPPED, three.said
    # Only now is it let: a time that ran while times are wrong would end before a slow machine has put them right.
    four = field.leading("four", "--breaker-reset=15s")
    field.until(lambda: not field.record().breakers, "it has closed by itself", PATIENCE)
    field.await_look()
    field.assert_clean(crashed)
    assert four.stopped() == STOPPED, four.said
