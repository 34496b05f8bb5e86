"""A run that is killed at any of its writes: the next one continues, as the Job's next pod does.

Killed before a write is passed on, it never happened; killed after the answer, nothing remembers it. Either way no
plugin is restarted twice, and nothing is called done that is not.
"""

from __future__ import annotations

import signal
from functools import partial

from tests.e2e.acts import PATIENCE, Told
from tests.e2e.faults.cluster.resting import RestingLab
from tests.e2e.faults.cluster.stopping import Moment, Stop, StoppingProxy

NODES = 2
BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
DELETE = "delete pods"


def _killed(lab: RestingLab, stopping: StoppingProxy, stop: Stop, *args: str) -> None:
    """Run until a request is made, and kill the run there."""

    def stops(now: Stop) -> bool:
        if now == stop:
            hook.signal(signal.SIGKILL)
        return now == stop

    stopping.stops = stops
    hook = lab.begin(*args, kubeconfig=stopping.through())
    told = hook.told()
    assert told.code == -signal.SIGKILL, f"it ended before {stop}:\n{told.said}"
    stopping.stops = lambda _stop: False


def _finished(lab: RestingLab, *args: str) -> Told:
    done = lab.begin(*args).told()
    assert done.code == 0, done.said
    return done


def test_at_each_delete(lab: RestingLab, stopping: StoppingProxy) -> None:
    """What was deleted stays the only restart of its node, whether or not the run lived to hear of it."""
    lab.make_stale()
    for moment, restarted in ((BEFORE, 0), (AFTER, 1), (BEFORE, 1), (AFTER, 2)):
        _killed(lab, stopping, (DELETE, moment))
        seen = partial(lambda plugins: len(lab.restarts()) >= plugins, restarted)
        lab.until(seen, "the deletion is seen", PATIENCE)
        assert len(lab.restarts()) == restarted
    assert _finished(lab).phase == ("Done", "NothingStale", 0)
    lab.assert_clean(lab.nodes)
