"""The status object: what it holds, when it is written, and that it never fails a run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.decide.workloads import Affected, AffectedPod
from hook.run.statusobject import StatusObject, StatusPhase
from hook.settings import Settings
from tests.client.server import Said, refused, serving
from tests.fixtures.cluster import LATER, cluster
from tests.fixtures.schemas import DOCS, conforms, schema

SNAPSHOT: Final = cluster("gpu-0").seen()
STATES: Final = {
    "a": [NodeState.VERIFIED],
    "b": [NodeState.VERIFIED, NodeState.STALE],
    "c": [NodeState.EXCLUDED],
    "d": [NodeState.FAILED],
    "e": [NodeState.VERIFIED, NodeState.EXCLUDED],
}
"""By node: the states of its plugins."""
UNKNOWN: Final = Affected(unknown="no permission")


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
        self.managers[manager] = conforms("status-object", sent["data"])
        found = {"kind": "ConfigMap", "data": self.data}
        return Said(200, json.dumps(found).encode())


@dataclass
class Scene:
    """A status object, its writer, and a clock."""

    there: ConfigMap
    writer: StatusObject
    clock: list[float]

    def show(self, decision: Decision, after: float = 0, affected: Affected = UNKNOWN) -> dict[str, str]:
        """Show a decision after some seconds, and return what is there then."""
        self.clock[0] += after
        self.writer.show(decision, affected, SNAPSHOT, Settings())
        return self.there.data


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Serve one ConfigMap, with a clock that stands still."""
    there, clock = ConfigMap(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    with serving(lambda _line: Said(404), wrote=there.write) as server:
        yield Scene(there, StatusObject(server.api, "ns", "it-status"), clock)


def decision(phase: Phase = Phase.WAIT, reason: Reason = Reason.NODES_PENDING, message: str = "m") -> Decision:
    """Return a decision about the nodes of `STATES`."""
    statuses = [NodeStatus(node, state, reason, "") for node, states in STATES.items() for state in states]
    return Decision(phase, reason, message, tuple(statuses))


def test_it_holds_the_state_as_text(scene: Scene) -> None:
    """A node counts once, with its least advanced plugin. All is of one field manager, which is not the chart's."""
    data = scene.show(decision(message="two\nlines"))
    assert data.pop("updatedAt").endswith("Z")
    assert data == {
        "trigger": "t1", "phase": "Progressing", "reason": "NodesPending", "message": r"two\x0alines",
        "progress": "2/4 (1 excluded)", "total": "5", "verified": "2", "stale": "1", "failed": "1", "excluded": "1",
        "driverVersion": "580.126.20", "operatorChartVersion": "26.3.4", "observedGeneration": "2",
    }  # fmt: skip
    assert set(scene.there.managers) == {"helm", "gpu-operator-post"}
    names = {Phase.DONE: "Succeeded", Phase.SKIP: "Skipped", Phase.FAIL: "Failed", Phase.DEADLINE: "TimedOut"}
    for phase, name in names.items():
        data = scene.show(decision(phase), 5)
        # A gate that waits for a version does not open where there is nothing to protect.
        assert (data["phase"], bool(data["driverVersion"])) == (name, phase is not Phase.SKIP)
    scene.writer.end(decision(), UNKNOWN, StatusPhase.UNKNOWN)
    assert scene.there.data["phase"] == "Unknown"


def test_its_schema_names_what_its_documentation_names() -> None:
    """Its keys, and its phases. That the program writes nothing else shows each write in these tests."""
    table, _gates, _rest = (DOCS / "status-object.md").read_text().partition("## Gates")
    rows = re.findall(r"^\| (`.*?) \| (.*)", table, re.MULTILINE)
    keys = [key for names, _value in rows for key in re.findall("`(.*?)`", names)]
    assert sorted(keys) == sorted(schema("status-object")["properties"])
    phases = schema("status-object")["properties"]["phase"]["enum"]
    assert sorted(phases) == sorted(StatusPhase) == sorted(re.findall("`([A-Z].*?)`", rows[0][1]))


def test_it_shows_no_pods_that_are_not_known(scene: Scene) -> None:
    """It has their number and the first ten names, and neither once they cannot be read any more."""
    pods = [AffectedPod("team", f"train-{number}", str(number), "gpu-0", LATER, ()) for number in range(11)]
    first = ", ".join(f"team/train-{number}" for number in range(10))
    for affected, expected in (
        (Affected(tuple(pods)), ("11", first)),
        (Affected(), ("0", "")),
        (UNKNOWN, (None, None)),
    ):
        data = scene.show(decision(), 5, affected)
        assert (data.get("affectedPods"), data.get("firstAffectedPods")) == expected
        scene.writer.end(decision(Phase.DONE), affected)
        assert scene.there.data.get("affectedPods") == expected[0]


def test_it_is_written_when_something_changed_and_not_too_often(scene: Scene) -> None:
    """Once per change of phase, otherwise after five seconds, and after thirty without a change."""
    steps = [
        (0, decision(), True),
        (4.9, decision(message="other"), False),  # within five seconds
        (0, decision(Phase.FAIL), True),  # another phase
        (5, decision(Phase.FAIL), False),  # nothing changed
        (0, decision(Phase.FAIL, message="other"), True),
        (29, decision(Phase.FAIL, message="other"), False),
        (1, decision(Phase.FAIL, message="other"), True),
    ]
    for number, (waited, shown, writes) in enumerate(steps):
        before = len(scene.there.writes)
        scene.show(shown, waited)
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
    scene.writer.end(decision(Phase.DONE), UNKNOWN, seconds=30)
    assert (scene.there.data["phase"], scene.there.data["driverVersion"]) == ("Succeeded", "580.126.20")
