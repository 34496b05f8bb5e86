"""Replay recordings of the real operator to the core: nothing early, nothing needless, done only when all is done.

The truth of a recording is the last moment at which a driver pod became Ready for good, of the newest
revision of its DaemonSet.
"""

from __future__ import annotations

import json

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from tests.replay import baseline
from tests.replay.replaying import EVERY, INSTALLS, MIGRATIONS, play

starts = pytest.mark.parametrize("delay", [pytest.param(0.0, id="from-T0"), pytest.param(0.2, id="from-helm's-return")])
recordings = pytest.mark.parametrize("name", EVERY)


@starts
@recordings
def test_no_node_is_called_settled_before_its_driver_is_new_and_ready(name: str, delay: float) -> None:
    """From T0 on, a node's plugin is judged only while a Ready driver pod of the last revision holds the node."""
    replay = play(name, delay)
    newest = replay.recording.newest_hash()
    new = [one for one in replay.recording.loads() if one.hash == newest]
    early = [
        (at, node)
        for at, node in replay.settled
        if not any(one.node == node and one.ready <= at < one.ended for one in new)
    ]
    assert [] == early


@starts
@recordings
def test_done_is_never_said_before_the_truth(name: str, delay: float) -> None:
    """Done comes after the last driver pod became Ready for good, whatever policy and labels say before."""
    replay = play(name, delay)
    truth = replay.recording.truth()
    assert [] == [at for at, one in replay.told if one.phase is Phase.DONE and at < truth]


@starts
@recordings
def test_every_recording_ends_done_with_no_plugin_stale(name: str, delay: float) -> None:
    """By the truth of the imagined plugins, not by what the core believes of them."""
    replay = play(name, delay)
    now = replay.told[-1][0]
    stale = [node for node in replay.recording.gpu_nodes if replay.plugins.is_stale(node, now)]
    assert (Phase.DONE, []) == (replay.last.phase, stale)


@starts
@pytest.mark.parametrize("name", MIGRATIONS)
def test_each_plugin_is_restarted_once_within_seconds_of_its_driver(name: str, delay: float) -> None:
    """A migration restarts each plugin exactly once, two seconds after its own driver is ready or sooner."""
    replay = play(name, delay)
    ready = {one.node: one.ready for one in replay.recording.loads() if one.ended == float("inf")}
    late = [(node, at - ready[node]) for at, node in replay.plugins.restarts if at - ready[node] > 2]
    assert (sorted(ready), []) == (sorted(node for _at, node in replay.plugins.restarts), late)


@starts
@pytest.mark.parametrize("name", [*INSTALLS, "v26.3.3-unrelated-change"])
def test_nothing_is_restarted_where_nothing_is_stale(name: str, delay: float) -> None:
    """A plugin that waited for the first driver, or whose driver was not reloaded, is left alone."""
    assert [] == play(name, delay).plugins.restarts


@recordings
def test_an_invisible_operator_does_not_make_done_early(name: str) -> None:
    """Where neither Deployment nor Lease can be found, as under OLM, Done still comes after the truth."""
    replay = play(name, 0.2, operator_seen=False)
    assert (Phase.DONE, True) == (replay.last.phase, replay.told[-1][0] >= replay.recording.truth())


@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_recording_cut_before_its_truth_ends_in_wait(name: str) -> None:
    """While one driver pod is still to come the run waits, whatever else is ready."""
    replay = play(name, 0.2)
    truth = replay.recording.truth()
    assert {Phase.WAIT} == {decision.phase for at, decision in replay.told if at < truth}


def test_manual_upgrades_are_reported_and_hold_nothing_back() -> None:
    """With autoUpgrade off and the default setting, only a node whose driver pod somebody deleted is served."""
    replay = play("v26.3.3-autoupgrade-off", 0.2, settings=Settings())
    states = {one.node: one.reason for one in replay.last.statuses}
    manual = Reason.MANUAL_UPGRADE
    assert {"gpu-0": manual, "gpu-1": Reason.VERIFIED, "gpu-2": manual} == states
    assert (Phase.DONE, ["gpu-1"]) == (replay.last.phase, [node for _at, node in replay.plugins.restarts])


@recordings
def test_a_recording_comes_to_what_it_always_came_to(name: str) -> None:
    """The same restarts at the same moments, and the same end: ``baseline.py`` writes down what a change means."""
    expected = json.loads(baseline.FILE.read_text(encoding="utf-8"))
    assert expected[name] == baseline.outcomes(name)


def test_the_baseline_is_of_these_recordings() -> None:
    """None is forgotten, and none is left that is not replayed any more."""
    assert [*EVERY] == [*json.loads(baseline.FILE.read_text(encoding="utf-8"))]
