"""A run that is killed at any of its writes: the next one continues, as the Job's next pod does.

Killed before a write is passed on, it never happened; killed after the answer, nothing remembers it. Either way no
plugin is restarted twice, and nothing is called done that is not.
"""

from __future__ import annotations

import signal
from functools import partial

from tests.e2e.acts import PATIENCE, Told
from tests.e2e.faults.cluster.doorway import Doorway, Moment, Stop
from tests.e2e.faults.cluster.ground import Ground

NODES = 2
BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
DELETE = "delete pods"


def _killed(ground: Ground, door: Doorway, stop: Stop, *args: str) -> None:
    """Run until a request is made, and kill the run there."""

    def stops(now: Stop) -> bool:
        if now == stop:
            hook.signal(signal.SIGKILL)
        return now == stop

    door.stops = stops
    hook = ground.begin(*args, kubeconfig=door.through())
    told = hook.told()
    assert told.code == -signal.SIGKILL, f"it ended before {stop}:\n{told.said}"
    door.stops = lambda _stop: False


def _finished(ground: Ground, *args: str) -> Told:
    done = ground.begin(*args).told()
    assert done.code == 0, done.said
    return done


def test_at_each_delete(ground: Ground, door: Doorway) -> None:
    """What was deleted stays the only restart of its node, whether or not the run lived to hear of it."""
    ground.spoil()
    for moment, restarted in ((BEFORE, 0), (AFTER, 1), (BEFORE, 1), (AFTER, 2)):
        _killed(ground, door, (DELETE, moment))
        seen = partial(lambda plugins: len(ground.restarts()) >= plugins, restarted)
        ground.until(seen, "the deletion is seen", PATIENCE)
        assert len(ground.restarts()) == restarted
    assert _finished(ground).phase == ("Done", "NothingStale", 0)
    ground.assert_clean(ground.nodes)
