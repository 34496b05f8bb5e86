"""Deletions that are refused: whether by admission or for a missing permission is asked once, and within the time."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from hook.errors import PermissionDeniedError
from hook.kube import retry
from hook.run import loop
from hook.run.loop import SIDE_BY_SIDE, Restarter
from tests.client.server import JSON, Said, serving
from tests.client.test_side_by_side import GRANTED, refused, stale

if TYPE_CHECKING:
    from collections.abc import Callable

    from hook.decide.result import DeletePod
    from hook.kube.requests import Request


WAVE: Final = 1 + SIDE_BY_SIDE
"""The first alone, which is granted, and the others together."""
FAR_SECONDS: Final = 40.0
"""By when what is bounded by a second or a few has ended, however busy the machine is."""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no permission to come back, and cut no wave short."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, denied=0))
    monkeypatch.setattr(loop, "ACT_SECONDS", FAR_SECONDS)


def reviewed(*, allowed: bool) -> Said:
    """Answer a SelfSubjectAccessReview."""
    return Said(200, json.dumps({"kind": "SelfSubjectAccessReview", "status": {"allowed": allowed}}).encode())


def admission(review: Said, asked: list[dict[str, str]]) -> Callable[[str, bytes], Said]:
    """Refuse every pod but the first one; keep what is asked about permissions."""

    def wrote(line: str, body: bytes) -> Said:
        if "POST" in line:
            asked.append(json.loads(body)["spec"]["resourceAttributes"])
            return review
        return GRANTED if "/p0" in line else refused(403)

    return wrote


def elsewhere(action: DeletePod) -> DeletePod:
    """Put its pod into another namespace."""
    return replace(action, pod=replace(action.pod, namespace="monitoring"))


def test_a_wave_that_admission_refuses_costs_one_question() -> None:
    """Eight answers side by side, then one pod after the other: RBAC allows the deletion of each or of none."""
    asked: list[dict[str, str]] = []
    with serving(lambda _line: GRANTED, wrote=admission(reviewed(allowed=True), asked)) as server:
        results = list(Restarter(server.api).act(stale(WAVE + 3), 60))
    assert [False] + [True] * (SIDE_BY_SIDE + 3) == [bool(one.refused) for one in results]
    assert [("delete", "", "pods", "dra", "")] == [
        tuple(one[key] for key in ("verb", "group", "resource", "namespace", "name")) for one in asked
    ]


def test_each_namespace_is_a_question_of_its_own() -> None:
    """A Role may be missing in one of them."""
    asked: list[dict[str, str]] = []
    wave = [*stale(3), *map(elsewhere, stale(WAVE)[3:])]
    with serving(lambda _line: GRANTED, wrote=admission(reviewed(allowed=True), asked)) as server:
        results = list(Restarter(server.api).act(wave, 60))
    assert SIDE_BY_SIDE == sum(bool(one.refused) for one in results)
    assert ["dra", "monitoring"] == sorted(one["namespace"] for one in asked)


def test_an_answer_about_permissions_is_good_for_one_decision() -> None:
    """A permission that is taken away meanwhile would look like admission's refusal, which is for good."""
    asked: list[dict[str, str]] = []
    with serving(lambda _line: GRANTED, wrote=admission(reviewed(allowed=True), asked)) as server:
        restarter = Restarter(server.api)
        for _time in range(3):
            (result,) = restarter.act(stale(2)[1:], 60)
            assert result.refused
    assert 3 == len(asked)


@pytest.mark.parametrize("left", [2.0, 0.0])
def test_a_question_that_is_not_answered_does_not_outlast_the_time(left: float) -> None:
    """The Job's deadline, or the Lease's end: after it others act. Each refusal is tried again from a new look."""
    over, asked = threading.Event(), list[dict[str, str]]()
    silent = Said(200, b"", {**JSON, "content-length": "9"})
    with serving(lambda _line: GRANTED, over, admission(silent, asked)) as server:
        restarter = Restarter(server.api)
        (result,) = restarter.act(stale(1), 60)  # is granted, so that the others go side by side
        restarter._width = SIDE_BY_SIDE
        began = time.monotonic()
        results = list(restarter.act(stale(WAVE + 3)[1:], left))
        took = time.monotonic() - began
        over.set()
    assert (result.note != "", len(asked)) == (True, 1)
    assert took < FAR_SECONDS
    assert [True] * SIDE_BY_SIDE == [bool(one.trouble) and not one.refused for one in results]


def test_a_question_has_a_few_seconds_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's loop shows that it lives."""
    granted: list[float] = []

    def allows(_request: Request, seconds: float) -> bool:
        granted.append(seconds)
        return True

    with serving(lambda _line: GRANTED, wrote=admission(reviewed(allowed=True), [])) as server:
        monkeypatch.setattr(server.api, "allows", allows)
        list(Restarter(server.api).act(stale(2)[1:], 3600))
        list(Restarter(server.api).act(stale(2)[1:], 3))
    assert granted[0] == loop.RIGHTS_SECONDS
    assert granted[1] <= 3


def test_a_permission_that_lapses_has_its_time_for_the_whole_wave() -> None:
    """Every refusal of the wave was one without patience: none of them ends the run, and the next one may."""
    asked: list[dict[str, str]] = []
    with serving(lambda _line: GRANTED, wrote=admission(reviewed(allowed=False), asked)) as server:
        restarter = Restarter(server.api)
        restarter._patience = replace(retry.WRITE, denied=0.0)  # as after a refusal by admission
        results = list(restarter.act(stale(WAVE + 3), 60))
        assert (WAVE, len(asked)) == (len(results), 1)
        assert all(one.trouble and not one.refused for one in results[1:])
        with pytest.raises(PermissionDeniedError):
            list(restarter.act(stale(WAVE), 60))
