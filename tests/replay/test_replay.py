"""Replays of the real operator: nothing early, nothing needless, success only when all is done.

The truth of a recording is the last moment at which a driver pod became Ready for good, of the newest
revision of its DaemonSet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from tests.replay import baseline
from tests.replay.baseline import HELM_RETURNS
from tests.replay.replaying import EVERY, MIGRATIONS, play

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.replay.replaying import Replay

recordings = pytest.mark.parametrize("name", EVERY)


def replays(name: str) -> Iterator[tuple[str, Replay]]:
    """Yield the replays of a recording, also where neither Deployment nor Lease is found, as under OLM."""
    yield "from T0", play(name, 0.0)
    yield "from helm's return", play(name, HELM_RETURNS)
    yield "operator not found", play(name, HELM_RETURNS, operator_seen=False)


@recordings
def test_no_node_is_settled_before_its_driver_is_new_and_ready(name: str) -> None:
    """A node's plugin is evaluated only while a Ready driver pod of the last revision holds the node."""
    for start, replay in replays(name):
        newest = replay.recording.newest_hash()
        new = [one for one in replay.recording.loads() if one.hash == newest]
        early = [
            (at, node)
            for at, node in replay.settled
            if not any(one.node == node and one.ready <= at < one.ended for one in new)
        ]
        assert [] == early, start


@recordings
def test_success_comes_after_the_truth_with_no_plugin_stale(name: str) -> None:
    """By the truth of the modelled plugins, whatever policy and labels say before. A migration waits until then."""
    for start, replay in replays(name):
        now, last = replay.decisions[-1]
        stale = [node for node in replay.recording.gpu_nodes if replay.plugins.is_stale(node, now)]
        assert (Phase.DONE, []) == (last.phase, stale), start
        before = {one.phase for at, one in replay.decisions if at < replay.recording.truth()}
        assert before == {Phase.WAIT} if name in MIGRATIONS else Phase.DONE not in before, start


@recordings
def test_each_plugin_is_restarted_once_within_seconds_of_its_driver(name: str) -> None:
    """A migration restarts each plugin two seconds after its own driver is ready or sooner; anything else none."""
    for start, replay in replays(name):
        restarts = replay.plugins.restarts
        ready = {one.node: one.ready for one in replay.recording.loads() if one.ended == float("inf")}
        assert (sorted(ready) if name in MIGRATIONS else []) == sorted(node for _at, node in restarts), start
        assert [] == [(node, at) for at, node in restarts if at - ready[node] > 2], start


def test_manual_upgrades_are_reported_and_hold_nothing_back() -> None:
    """By default, only a node whose driver pod an administrator deleted is refreshed if autoUpgrade is off."""
    replay = play("v26.3.3-autoupgrade-off", HELM_RETURNS, settings=Settings())
    last, manual = replay.decisions[-1][1], Reason.MANUAL_UPGRADE
    states = {one.node: one.reason for one in last.statuses}
    assert {"gpu-0": manual, "gpu-1": Reason.VERIFIED, "gpu-2": manual} == states
    assert (Phase.DONE, ["gpu-1"]) == (last.phase, [node for _at, node in replay.plugins.restarts])


@recordings
def test_a_recording_has_the_same_result_as_before(name: str) -> None:
    """The same restarts at the same moments, and the same end, for just these recordings."""
    expected = json.loads(baseline.FILE.read_text(encoding="utf-8"))
    assert [*EVERY] == [*expected]
    assert expected[name] == baseline.outcomes(name)
