"""What a run remembers of the restarts that it asked for."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from kubernetes import client

from hook.config import Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, RolloutRestart, StalePod
from hook.errors import PermissionDeniedError, UnreachableError
from hook.kube import requests, retry
from hook.kube.cache import Cache
from hook.kube.client import Api
from hook.kube.connection import by_library
from hook.kube.events import EventRecorder
from hook.run.loop import ReconcileLoop
from hook.run.report import ProgressReporter, RestartResult
from tests.fixtures.cluster import LATER

if TYPE_CHECKING:
    from hook.decide.result import Action


def _pod(driver_run: str) -> StalePod:
    return StalePod("ns", "exporter", "pod", "1", "exporter-ds", "it is older", driver_run)


def _delete(stack: str, *also: Action) -> DeletePod:
    return DeletePod("x", _pod(f"{stack}-run"), stack, also)


def _rollout(stack: str, *also: Action) -> RolloutRestart:
    return RolloutRestart("ns", "exporter", "exporter-ds", LATER, (("x", _pod(f"{stack}-run")),), stack, also)


def _rounds(*stacks: str) -> ReconcileLoop:
    """Give rounds that have begun to look at nothing."""
    api, settings = Api(by_library(client.Configuration())), Settings(drivers=stacks)
    cache = Cache(api, [], settings, retry.WRITE)
    return ReconcileLoop(api, cache, settings, ProgressReporter(EventRecorder(api, "", silent=True), None), LATER)


@pytest.mark.parametrize(
    "action",
    [
        pytest.param(_delete("gpu", _delete("network")), id="pod"),
        pytest.param(_rollout("gpu", _rollout("network")), id="rollout"),
    ],
)
def test_each_stack_remembers_its_own_drivers_run(action: Action) -> None:
    """One restart serves both; noted with one only, the other would ask for it again."""
    rounds = _rounds("gpu", "network")
    rounds.remember(RestartResult(action))
    assert {"gpu": ["gpu-run"], "network": ["network-run"]} == {
        stack: [asked.driver_run for asked in memory.restarts.values()] for stack, memory in rounds.memories.items()
    }


def test_each_stack_remembers_why_a_restart_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again; if the time is up before, the report says why."""
    rounds = _rounds("gpu", "network")
    action = _delete("gpu", _delete("network"))
    monkeypatch.setattr(rounds.restarter, "_patience", retry.RetryPolicy(unreachable=0))
    monkeypatch.setattr(rounds._api, "send", _unreachable)
    rounds.act(Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=(action,)), 60)
    troubles = [memory.troubles for memory in rounds.memories.values()]
    assert [{"pod": "nobody answers"}] * 2 == troubles
    assert rounds.restarter.restarted == 0


def _unreachable(*_: object) -> None:
    raise UnreachableError("nobody answers")


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        pytest.param({"status": {"allowed": True}}, True, id="admission-refuses-it"),
        pytest.param({"status": {"allowed": False}}, False, id="rbac-forbids-it"),
        pytest.param({"status": None}, False, id="nobody-knows"),
    ],
)
def test_only_what_rbac_allows_is_refused_for_this_pod_alone(
    answer: dict[str, object], monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """A missing permission is the same for every pod, and ends the run; a webhook may let the next one go."""
    rounds = _rounds("gpu")

    def send(request: requests.Request, *_: object) -> dict[str, object]:
        if request.verb == "delete":
            raise PermissionDeniedError("delete", "pods", "ns", "the webhook says no")
        return answer

    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, denied=0))
    monkeypatch.setattr(rounds.restarter, "_patience", retry.WRITE)
    monkeypatch.setattr(rounds._api, "send", send)
    decision = Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=(_delete("gpu"),))
    with nullcontext() if refused else pytest.raises(PermissionDeniedError):
        rounds.act(decision, 60)
    asked = rounds.memories["gpu"].restarts.values()
    assert ["the webhook says no" in one.refused for one in asked] == [True] * refused


def test_a_right_that_lapses_after_a_refusal_has_its_time_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Admission's refusals are not waited for twice; a missing permission is, and so is whoever cannot tell which."""
    rounds = _rounds("gpu")
    answers: list[dict[str, object] | None] = [{"status": {"allowed": True}}, None, {"status": {"allowed": False}}]

    def send(request: requests.Request, *_: object) -> dict[str, object]:
        if request.verb == "delete":
            raise PermissionDeniedError("delete", "pods", "ns", "no")
        if (answer := answers.pop(0)) is None:
            raise UnreachableError("nobody answers")
        return answer

    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, denied=0))
    monkeypatch.setattr(rounds.restarter, "_patience", retry.WRITE)
    monkeypatch.setattr(rounds._api, "send", send)
    decision = Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=(_delete("gpu"),))
    for _time in range(3):
        rounds.act(decision, 60)
    assert answers == []
    assert len(rounds.memories["gpu"].restarts) == 1
    assert rounds.restarter._patience is retry.WRITE
    answers.append({"status": {"allowed": False}})
    with pytest.raises(PermissionDeniedError):
        rounds.act(decision, 60)


def test_a_stack_that_did_not_ask_remembers_nothing() -> None:
    """Its own count of restarts, and what it says in the end, stay its own."""
    rounds = _rounds("gpu", "network")
    rounds.remember(RestartResult(_delete("network"), refused="no"))
    assert [0, 1] == [len(memory.restarts) for memory in rounds.memories.values()]
    assert ["no"] == [asked.refused for asked in rounds.memories["network"].restarts.values()]
