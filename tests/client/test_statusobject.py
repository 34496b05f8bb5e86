"""The status object: what it holds, when it is written, and that it never fails a run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.run.statusobject import StatusObject, StatusPhase
from tests.client.server import Said, refused, serving
from tests.fixtures.cluster import cluster

SNAPSHOT: Final = cluster("gpu-0").seen()
STATES: Final = {
    "a": [NodeState.VERIFIED],
    "b": [NodeState.VERIFIED, NodeState.STALE],
    "c": [NodeState.EXCLUDED],
    "d": [NodeState.FAILED],
    "e": [NodeState.VERIFIED, NodeState.EXCLUDED],
}
"""By node: the states of its plugins."""


@dataclass
class ConfigMap:
    """A ConfigMap as an API server keeps it: each field manager owns the keys that it applied last."""

    managers: dict[str, dict[str, str]] = field(default_factory=lambda: {"helm": {"trigger": "t1"}})
    refuses: int = 0
    """The next so many writes are refused."""
    writes: list[str] = field(default_factory=list)
    """Field manager of each write."""

    @property
    def data(self) -> dict[str, str]:
        """Return all keys."""
        return {key: value for owned in self.managers.values() for key, value in owned.items()}

    def write(self, line: str, body: bytes) -> Said:
        """Answer a server-side apply."""
        url, sent = urlsplit(line.split()[1]), json.loads(body)
        query = parse_qs(url.query)
        assert (url.path, query["force"]) == ("/api/v1/namespaces/ns/configmaps/it-status", ["true"])
        assert (sent["kind"], sent["metadata"]) == ("ConfigMap", {"name": "it-status", "namespace": "ns"})
        if self.refuses:
            self.refuses -= 1
            return refused(403)
        (manager,) = query["fieldManager"]
        self.writes.append(manager)
        self.managers[manager] = sent["data"]
        found = {"kind": "ConfigMap", "data": self.data}
        return Said(200, json.dumps(found).encode())


@dataclass
class Scene:
    """A status object, its writer, and a clock."""

    there: ConfigMap
    writer: StatusObject
    clock: list[float]

    def show(self, decision: Decision, after: float = 0, *, heartbeat: bool = False) -> dict[str, str]:
        """Show a decision after some seconds, and return what is there then."""
        self.clock[0] += after
        self.writer.show(decision, SNAPSHOT, Settings(), heartbeat=heartbeat)
        return self.there.data


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Serve one ConfigMap, with a clock that stands still."""
    there, clock = ConfigMap(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with serving(lambda _line: Said(404), wrote=there.write) as server:
        yield Scene(there, StatusObject(server.api, "ns", "it-status", "job/it", server.api.began), clock)


def decision(phase: Phase = Phase.WAIT, reason: Reason = Reason.NODES_PENDING, message: str = "m") -> Decision:
    """Return a decision about the nodes of `STATES`."""
    statuses = [NodeStatus(node, state, reason, "") for node, states in STATES.items() for state in states]
    return Decision(phase, reason, message, tuple(statuses))


def test_it_holds_the_state_as_text(scene: Scene) -> None:
    """A node counts once, with its least advanced plugin."""
    data = scene.show(decision(message="two\nlines"))
    times = {key: data.pop(key) for key in ("startedAt", "updatedAt")}
    assert all(value.endswith("Z") for value in times.values()), times
    assert data == {
        "trigger": "t1", "phase": "Progressing", "reason": "NodesPending", "message": r"two\x0alines",
        "progress": "2/4 (1 excluded)", "total": "5", "verified": "2", "stale": "1", "failed": "1", "excluded": "1",
        "driverVersion": "580.126.20", "operatorChartVersion": "26.3.4", "observedGeneration": "2", "writer": "job/it",
    }  # fmt: skip
    names = {Phase.DONE: "Succeeded", Phase.SKIP: "Skipped", Phase.FAIL: "Failed", Phase.DEADLINE: "TimedOut"}
    for phase, name in names.items():
        assert scene.show(decision(phase), 5)["phase"] == name
    scene.writer.end(decision(), StatusPhase.UNKNOWN)
    assert scene.there.data["phase"] == "Unknown"


def test_it_is_written_when_something_changed_and_not_too_often(scene: Scene) -> None:
    """Once per change of phase, otherwise after five seconds; a controller also after thirty without a change."""
    steps = [
        (0, decision(), False, True),
        (0, decision(message="other"), False, False),  # within five seconds
        (0, decision(Phase.FAIL), False, True),  # another phase
        (5, decision(Phase.FAIL), False, False),  # nothing changed
        (0, decision(Phase.FAIL, message="other"), False, True),
        (29, decision(Phase.FAIL, message="other"), True, False),
        (1, decision(Phase.FAIL, message="other"), False, False),
        (0, decision(Phase.FAIL, message="other"), True, True),
    ]
    for number, (waited, shown, heartbeat, writes) in enumerate(steps):
        before = len(scene.there.writes)
        scene.show(shown, waited, heartbeat=heartbeat)
        assert (len(scene.there.writes) > before) is writes, number


def test_a_refused_write_is_repeated(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """What other field managers own stays. A refusal may pass: it is logged once and repeated, and nothing waits."""
    scene.there.refuses = 2
    for after in (0, 0, 5):  # not at once
        assert "phase" not in scene.show(decision(), after)
    assert [record.levelname for record in caplog.records if "status object" in record.message] == ["WARNING"]
    shown = scene.show(decision(), 5)
    assert (shown["phase"], shown["trigger"]) == ("Progressing", "t1")
    scene.there.refuses = 2
    scene.writer.end(decision(Phase.DONE), seconds=30)
    assert (scene.there.data["phase"], scene.there.data["driverVersion"]) == ("Succeeded", "580.126.20")
