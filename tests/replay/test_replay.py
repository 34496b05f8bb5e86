"""Replay recordings of the real operator to the core, with an imagined plugin on each node.

The truth of a recording is the last moment at which a driver pod became Ready for good, of the newest
revision of its DaemonSet. Time is the recording's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest

from hook.core.decide import decide
from hook.core.memory import Memory
from hook.core.reasons import Reason
from hook.core.verdicts import Decision, DeletePod, NodeState, Verdict
from hook.settings import Settings, WhenManual
from tests.replay.objects import Objects
from tests.replay.plugins import Plugins
from tests.replay.recording import Recording, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hook.core.views import Snapshot

MIGRATIONS: Final = ("v26.3.3-chart-bump", "v26.3.3-driver-only", "v26.7.0-chart-bump", "v26.3.3-autoupgrade-off")
INSTALLS: Final = ("v26.3.3-fresh-install", "v26.7.0-fresh-install")
EVERY: Final = (*MIGRATIONS, *INSTALLS, "v26.3.3-unrelated-change")
STILL: Final = 90
"""Seconds for which the cluster stays as it was recorded last: a plugin comes back, quiet times end."""
JUDGED: Final = (NodeState.STALE, NodeState.RESTARTING, NodeState.VERIFYING, NodeState.VERIFIED, NodeState.FAILED)
"""States of a node whose driver the core calls settled."""
WAITING_FOR_A_PERSON: Final = Settings(when_manual=WhenManual.WAIT)
"""Somebody deletes the driver pods by hand where ``autoUpgrade`` is off, and the run is told to wait for it."""

starts = pytest.mark.parametrize("delay", [pytest.param(0.0, id="from-T0"), pytest.param(0.2, id="from-helm's-return")])
recordings = pytest.mark.parametrize("name", EVERY)


@dataclass
class Replay:
    """What came of a replay."""

    recording: Recording
    plugins: Plugins
    told: list[tuple[float, Decision]] = field(default_factory=list)

    @property
    def last(self) -> Decision:
        """The last decision."""
        return self.told[-1][1]

    @property
    def settled(self) -> Iterator[tuple[float, str]]:
        """Every moment at which the core judged a node's plugin, hence called its driver settled."""
        return ((at, one.node) for at, decision in self.told for one in decision.judgements if one.state in JUDGED)


@cache
def play(name: str, delay: float, *, settings: Settings = WAITING_FOR_A_PERSON, operator_seen: bool = True) -> Replay:
    """Feed a recording to the core from a moment after T0, until it says the last word or the recording ends."""
    recording = load(name)
    replay = Replay(recording, Plugins(recording, versions(recording)))
    objects = Objects(recording)
    memory = Memory(started=recording.moment(recording.t0 + delay))
    pending = list(recording.changes)
    for now in steps(recording, recording.t0 + delay):
        while pending and pending[0].at <= now:
            objects.apply(pending.pop(0))
        replay.plugins.move_to(now)
        seen = together(objects.seen(now), replay.plugins.seen(now), operator_seen=operator_seen)
        decision, memory = decide(seen, memory, settings, recording.moment(now))
        replay.told.append((now, decision))
        for action in decision.actions:
            assert isinstance(action, DeletePod)
            replay.plugins.delete(action.node, action.pod.uid, now)
            memory = memory.asked(action.node, action.pod, recording.moment(now))
        if decision.final:
            break
    return replay


def steps(recording: Recording, first: float) -> list[float]:
    """Decide at every change, as watches wake the program, and every second between and after."""
    ticks = {first + number for number in range(int(recording.end + STILL - first))}
    return sorted({first, *ticks, *(one.at for one in recording.changes if one.at >= first)})


def versions(recording: Recording) -> dict[str, str]:
    """Give the driver version of each revision hash: its DaemonSet's image when the revision came."""
    images = [(one.at, one.view["image"]) for one in recording.changes if one.kind == "ds" and one.view]
    found: dict[str, str] = {}
    for change in recording.changes:
        if change.kind == "rev" and change.view:
            image = next((image for at, image in reversed(images) if at <= change.at), images[0][1])
            found[change.name.rpartition("-")[2]] = image.rpartition(":")[2].partition("-")[0]
    return found


def together(recorded: Snapshot, imagined: Snapshot, *, operator_seen: bool) -> Snapshot:
    """Put the recorded and the imagined objects into one snapshot."""
    return replace(
        recorded,
        daemonsets=recorded.daemonsets + imagined.daemonsets,
        consumer_pods=imagined.consumer_pods,
        slices=imagined.slices,
        deployments=recorded.deployments if operator_seen else (),
        leases=recorded.leases if operator_seen else (),
        unreadable=recorded.unreadable + imagined.unreadable,
    )


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
    assert [] == [at for at, one in replay.told if one.verdict is Verdict.DONE and at < truth]


@starts
@recordings
def test_every_recording_ends_done_with_no_plugin_stale(name: str, delay: float) -> None:
    """By the truth of the imagined plugins, not by what the core believes of them."""
    replay = play(name, delay)
    now = replay.told[-1][0]
    stale = [node for node in replay.recording.gpu_nodes if replay.plugins.is_stale(node, now)]
    assert (Verdict.DONE, []) == (replay.last.verdict, stale)


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
    assert (Verdict.DONE, True) == (replay.last.verdict, replay.told[-1][0] >= replay.recording.truth())


@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_recording_cut_before_its_truth_ends_in_wait(name: str) -> None:
    """While one driver pod is still to come the run waits, whatever else is ready."""
    replay = play(name, 0.2)
    truth = replay.recording.truth()
    assert {Verdict.WAIT} == {decision.verdict for at, decision in replay.told if at < truth}


def test_manual_upgrades_are_reported_and_hold_nothing_back() -> None:
    """With autoUpgrade off and the default setting, only a node whose driver pod somebody deleted is served."""
    replay = play("v26.3.3-autoupgrade-off", 0.2, settings=Settings())
    states = {one.node: one.reason for one in replay.last.judgements}
    manual = Reason.MANUAL_UPGRADE
    assert {"gpu-0": manual, "gpu-1": Reason.VERIFIED, "gpu-2": manual} == states
    assert (Verdict.DONE, ["gpu-1"]) == (replay.last.verdict, [node for _at, node in replay.plugins.restarts])
