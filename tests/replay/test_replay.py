"""Replays of the real operator: nothing early, nothing needless, success only when all is done.

The truth of a recording is the last moment at which a driver pod became Ready for good, of the newest
revision of its DaemonSet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.settings import Settings
from tests.replay.replaying import EVERY, HELM_RETURNS, MIGRATIONS, Replay, play

LABELS_SECONDS: Final = 105.0
"""Upgrade labels trail by up to 100 s."""


def replays(name: str) -> Iterator[tuple[str, Replay]]:
    """Yield the replays of a recording, also where neither Deployment nor Lease is found, as under OLM."""
    yield "from T0", play(name, 0.0)
    yield "from helm's return", play(name, HELM_RETURNS)
    yield "operator not found", play(name, HELM_RETURNS, operator_seen=False)


@pytest.mark.parametrize("name", EVERY)
def test_a_recording_is_followed_by_its_truth(name: str) -> None:
    """A plugin is evaluated only while a Ready driver pod of the last revision holds its node."""
    # Success comes after the truth, within the time that labels and quiet times take, and leaves no plugin stale. A
    # migration restarts each plugin once, two seconds after its own driver is ready or sooner; anything else none.
    for start, replay in replays(name):
        recording, restarts = replay.recording, replay.plugins.restarts
        new = [one for one in recording.loads() if one.hash == recording.newest_hash()]
        early = [
            (at, node)
            for at, node in replay.settled
            if not any(one.node == node and one.ready <= at < one.ended for one in new)
        ]
        assert [] == early, start
        now, last = replay.decisions[-1]
        stale = [node for node in recording.gpu_nodes if replay.plugins.is_stale(node, now)]
        assert (Phase.DONE, []) == (last.phase, stale), start
        before = {one.phase for at, one in replay.decisions if at < recording.truth()}
        assert before == {Phase.WAIT} if name in MIGRATIONS else Phase.DONE not in before, start
        assert now - max(recording.truth(), recording.t0) < LABELS_SECONDS, start
        ready = {one.node: one.ready for one in recording.loads() if one.ended == float("inf")}
        assert (sorted(ready) if name in MIGRATIONS else []) == sorted(node for _at, node in restarts), start
        assert [] == [(node, at) for at, node in restarts if at - ready[node] > 2], start


def test_manual_upgrades_are_reported_and_hold_nothing_back() -> None:
    """By default, only a node whose driver pod an administrator deleted is refreshed if autoUpgrade is off."""
    replay = play("v26.3.3-autoupgrade-off", HELM_RETURNS, settings=Settings())
    last, manual = replay.decisions[-1][1], Reason.MANUAL_UPGRADE
    states = {one.node: one.reason for one in last.statuses}
    assert {"gpu-0": manual, "gpu-1": Reason.VERIFIED, "gpu-2": manual} == states
    assert (Phase.DONE, ["gpu-1"]) == (last.phase, [node for _at, node in replay.plugins.restarts])
