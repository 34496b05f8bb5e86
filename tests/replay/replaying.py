"""Replays of recordings of the real operator to the core, with an modelled plugin on each node.

Time is the recording's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from hook.decide.record import Memory
from hook.decide.result import Decision, NodeState
from hook.decide.run import decide
from hook.objects import Snapshot
from hook.settings import OnManualUpgrade, Settings
from tests.replay.objects import Objects
from tests.replay.plugins import Plugins
from tests.replay.recording import Recording, load

MIGRATIONS: Final = ("v26.3.3-chart-bump", "v26.3.3-driver-only", "v26.7.0-chart-bump", "v26.3.3-autoupgrade-off")
EVERY: Final = (*MIGRATIONS, "v26.3.3-fresh-install", "v26.7.0-fresh-install", "v26.3.3-unrelated-change")
HELM_RETURNS: Final = 0.2
"""Seconds after T0."""
STILL: Final = 90
"""Seconds for which the cluster stays as it was recorded last: a plugin comes back, quiet times end."""
EVALUATED: Final = (NodeState.STALE, NodeState.RESTARTING, NodeState.VERIFYING, NodeState.VERIFIED, NodeState.FAILED)
"""States of a node whose driver the core calls settled."""
WAITING: Final = Settings(on_manual_upgrade=OnManualUpgrade.WAIT)
"""An administrator deletes the driver pods by hand where ``autoUpgrade`` is off, and the run waits for it."""


@dataclass
class Replay:
    """What came of a replay."""

    recording: Recording
    plugins: Plugins
    decisions: list[tuple[float, Decision]] = field(default_factory=list)

    @property
    def settled(self) -> Iterator[tuple[float, str]]:
        """Every moment at which the core judged a node's plugin, hence called its driver settled."""
        return (
            (at, one.node) for at, decision in self.decisions for one in decision.statuses if one.state in EVALUATED
        )


@cache
def play(name: str, delay: float, *, settings: Settings = WAITING, operator_seen: bool = True) -> Replay:
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
        replay.decisions.append((now, decision))
        for action in decision.actions:
            replay.plugins.delete(action.node, action.pod.uid, now)
            memory = memory.with_restart(action, recording.moment(now))
        if decision.final:
            break
    return replay


def steps(recording: Recording, first: float) -> list[float]:
    """Decide at every change, as watches wake the program, and every second between and after."""
    ticks = {first + number for number in range(int(recording.end + STILL - first))}
    return sorted({first, *ticks, *(one.at for one in recording.changes if one.at >= first)})


def versions(recording: Recording) -> dict[str, str]:
    """Return the driver version of each revision hash: its DaemonSet's image when the revision came."""
    images = [(one.at, one.view["image"]) for one in recording.changes if one.kind == "ds" and one.view]
    found: dict[str, str] = {}
    for change in recording.changes:
        if change.kind == "rev" and change.view:
            image = next((image for at, image in reversed(images) if at <= change.at), images[0][1])
            found[change.name.rpartition("-")[2]] = image.rpartition(":")[2].partition("-")[0]
    return found


def together(recorded: Snapshot, modelled: Snapshot, *, operator_seen: bool) -> Snapshot:
    """Put the recorded and the modelled objects into one snapshot."""
    return replace(
        recorded,
        daemonsets=recorded.daemonsets + modelled.daemonsets,
        plugin_pods=modelled.plugin_pods,
        slices=modelled.slices,
        deployments=recorded.deployments if operator_seen else (),
        leases=recorded.leases if operator_seen else (),
        malformed=recorded.malformed + modelled.malformed,
    )
