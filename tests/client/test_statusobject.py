"""The status object: what it holds, when it is written, and that it never fails a run.

That the keys of others stay is shown by a real API server (test_real_server.py).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.decide.workloads import Affected, AffectedPod
from hook.run.statusobject import StatusObject, StatusPhase
from hook.settings import Settings
from tests.client.server import Said, refused, serving
from tests.client.shown import Shown
from tests.fixtures.cluster import LATER, cluster
from tests.fixtures.schemas import DOCS, schema

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
PODS: Final = tuple(AffectedPod("team", f"train-{number}", str(number), "gpu-0", LATER, ()) for number in range(11))


class Scene(Shown):
    """An API server that keeps a status object, its writer, and a clock that stands still."""

    writer: StatusObject

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.refuses = 0
        """The next so many writes are refused."""
        self.instead = self._refuse

    def _refuse(self, line: str) -> Said | None:
        assert line == "PATCH /api/v1/namespaces/ns/configmaps/it-status?fieldManager=gpu-operator-post&force=true"
        self.refuses -= 1
        return refused(403) if self.refuses >= 0 else None

    def show(self, decision: Decision, after: float = 0, affected: Affected = UNKNOWN) -> list[dict[str, str]]:
        """Show a decision after some seconds, and return what is written then."""
        self.now += after
        before = len(self.statuses)
        self.writer.show(decision, affected, SNAPSHOT, Settings())
        return self.statuses[before:]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Serve one ConfigMap."""
    scene = Scene()
    monkeypatch.setattr(time, "monotonic", lambda: scene.now)
    monkeypatch.setattr(time, "sleep", lambda seconds: setattr(scene, "now", scene.now + seconds))
    with serving(scene, scene.wrote) as server:
        scene.writer = StatusObject(server.api, "ns", "it-status")
        yield scene


def decision(phase: Phase = Phase.WAIT, message: str = "m") -> Decision:
    """Return a decision about the nodes of `STATES`."""
    reason = Reason.NODES_PENDING
    statuses = [NodeStatus(node, state, reason, "") for node, states in STATES.items() for state in states]
    return Decision(phase, reason, message, tuple(statuses))


def test_it_holds_the_state_as_text(scene: Scene) -> None:
    """A node counts once, with its least advanced plugin."""
    (data,) = scene.show(replace(decision(), statuses=()))
    assert data["progress"] == "0/0", "none is excluded"
    (data,) = scene.show(decision(message="two\nlines"), after=5)
    assert data.pop("updatedAt").endswith("Z")
    assert data == {
        "phase": "Progressing", "reason": "NodesPending", "message": r"two\x0alines",
        "progress": "2/4 (1 excluded)", "total": "5", "verified": "2", "stale": "1", "failed": "1", "excluded": "1",
        "driverVersion": "580.126.20", "operatorChartVersion": "26.3.4", "observedGeneration": "2",
    }  # fmt: skip
    assert scene.written[0][1]["metadata"] == {"name": "it-status", "namespace": "ns"}


@pytest.mark.parametrize(
    ("phase", "shown"),
    [(Phase.DONE, "Succeeded"), (Phase.SKIP, "Skipped"), (Phase.FAIL, "Failed"), (Phase.DEADLINE, "TimedOut")],
)
def test_each_phase_has_its_name(phase: Phase, shown: str, scene: Scene) -> None:
    """A gate that waits for a version does not open where there is nothing to protect. A stopped run has no result."""
    (data,) = scene.show(decision(phase))
    assert (data["phase"], bool(data["driverVersion"])) == (shown, phase is not Phase.SKIP)
    scene.writer.end(decision(phase), UNKNOWN, StatusPhase.UNKNOWN)
    assert scene.statuses[-1]["phase"] == "Unknown"


def test_its_schema_names_what_its_documentation_names() -> None:
    """Its keys, and its phases. That the program writes nothing else shows each write in these tests."""
    table, _gates, _rest = (DOCS / "status-object.md").read_text().partition("## Gates")
    rows = re.findall(r"^\| (`.*?) \| (.*)", table, re.MULTILINE)
    keys = [key for names, _value in rows for key in re.findall("`(.*?)`", names)]
    assert sorted(keys) == sorted(schema("status-object")["properties"])
    phases = schema("status-object")["properties"]["phase"]["enum"]
    assert sorted(phases) == sorted(StatusPhase) == sorted(re.findall("`([A-Z].*?)`", rows[0][1]))


@pytest.mark.parametrize(
    ("affected", "count", "first"),
    [
        (Affected(PODS), "11", ", ".join(f"team/train-{number}" for number in range(10))),
        (Affected(), "0", ""),
        (UNKNOWN, None, None),
    ],
)
def test_it_shows_no_pods_that_are_not_known(
    affected: Affected, count: str | None, first: str | None, scene: Scene
) -> None:
    """It has their number and the first ten names, and neither while they cannot be read."""
    scene.show(decision(), 0, affected)
    scene.writer.end(decision(Phase.DONE), affected)
    for data in scene.statuses:
        assert (data.get("affectedPods"), data.get("firstAffectedPods")) == (count, first)


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
    assert [bool(scene.show(shown, waited)) for waited, shown, _writes in steps] == [writes for *_, writes in steps]


def test_a_refused_write_is_repeated(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A refusal may pass: it is logged once and repeated, and nothing waits, except at the end."""
    scene.refuses = 2
    assert [len(scene.show(decision(), after)) for after in (0, 0, 5, 5)] == [0, 0, 0, 1]  # not at once
    assert [record.levelname for record in caplog.records if "status object" in record.message] == ["WARNING"]
    scene.refuses = 2
    scene.writer.end(decision(Phase.DONE), UNKNOWN, seconds=30)
    assert (scene.statuses[-1]["phase"], scene.statuses[-1]["driverVersion"]) == ("Succeeded", "580.126.20")
