"""The own Deployment, and whether the own Job starts another pod, which continues with what this one leaves."""

from __future__ import annotations

from typing import Any, Final

import pytest

from hook.kube import own, retry
from hook.kube.events import ObjectReference
from hook.kube.own import Job, job_again, own_deployment, own_job
from tests.client.runs import JOB
from tests.client.server import SILENT, Said, bounded, refused, serving, told
from tests.fixtures.objects import merged

HOUR: Final = 3600.0
ENDS: Final = ("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget")
"""Conditions of a Job that starts no other pod."""


def job(**more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a Job that may be tried three times again."""
    usual = {"metadata": {"name": "post", "uid": "u"}, "spec": {"backoffLimit": 3}}
    return dict(merged(usual, more))


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    """Return the status of a Job with a condition."""
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


def failed(count: int, limit: int = 3) -> dict[str, Any]:
    """Return a Job of which so many pods have failed."""
    return job(spec={"backoffLimit": limit}, status={"failed": count})


@pytest.mark.parametrize(
    ("found", "left", "expected"),
    [
        pytest.param(job(), HOUR, True, id="first pod"),
        pytest.param(failed(2), HOUR, True, id="last but one"),
        pytest.param(failed(3), HOUR, False, id="last pod"),
        pytest.param(job(), 70.5, True, id="time for a pause and a pod"),
        pytest.param(job(), 70.0, False, id="no time"),
        pytest.param(failed(2), 100.0, False, id="no time after a longer pause"),
        pytest.param(failed(99, 100), 660.5, True, id="time after the longest pause"),
        pytest.param(failed(99, 100), 660.0, False, id="no time after the longest pause"),
        pytest.param(job(metadata={"deletionTimestamp": "2026-01-01T10:00:00Z"}), HOUR, False, id="deleted"),
        pytest.param(job(spec={"suspend": True}), HOUR, False, id="suspended"),
        *(pytest.param(job(**condition(kind)), HOUR, False, id=kind) for kind in ENDS),
        pytest.param(job(**condition("Failed", "False")), HOUR, True, id="has not failed"),
    ],
)
def test_whether_another_pod_follows(found: dict[str, Any], left: float, expected: bool) -> None:
    """If this one fails so many seconds before the deadline of the Job."""
    with serving(told(**found)) as server:
        known = own_job(server.api, "gpu-operator", "post", retry.Patience(0), 60)
    assert known is not None
    assert known.retries(left) is expected


def test_the_own_deployment_is_what_events_are_about() -> None:
    """With its UID: ``kubectl describe`` finds Events by it."""
    with serving(told(**job())) as server:
        found = own_deployment(server.api, "gpu-operator", "post")
    assert found == ObjectReference("apps/v1", "Deployment", "gpu-operator", "post", "u")


BEFORE: Final = Job(JOB, None, backoff_limit=3)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(told(**failed(3)), False, id="changed"),
        pytest.param(refused(404), None, id="gone"),
        pytest.param(Said(503), True, id="no result"),
        pytest.param(SILENT, True, id="no answer"),
        pytest.param(told(metadata={"name": "post", "uid": 5}), True, id="malformed"),
    ],
)
def test_the_own_job_is_read_once_more(said: Said, expected: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be read is as it was."""
    monkeypatch.setattr(own, "AGAIN_SECONDS", 0.5)
    with serving(said) as server, bounded():
        found = job_again(server.api, BEFORE)
        assert server.asked == ["GET /apis/batch/v1/namespaces/gpu-operator/jobs/post"]
    assert (found and found.retries(HOUR)) is expected
    assert found is None or str(found.reference) == str(JOB)
