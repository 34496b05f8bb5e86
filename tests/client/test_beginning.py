"""How a run begins: what it reads before its loop has the run's own time, and ends as the run does."""

from __future__ import annotations

import json
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from hook import cli
from hook.config import Duration, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.errors import RejectedError, UnauthorizedError, UnreachableError
from hook.kube import cache as caches
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, own_deployment, own_job
from hook.objects.drivers import GPU_OPERATOR
from hook.run import lookup
from hook.run.job import EXIT_DEADLINE, Runner
from tests.client.leases import until
from tests.client.server import JSON, Said, Server, serving
from tests.fixtures.cluster import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


FAR_SECONDS: Final = 60.0
"""By when what has a few seconds has ended, however busy the machine is."""
SHORT: Final = Settings(timeout=Duration(seconds=6))
UNAUTHORIZED: Final = Said(401, b"", JSON)
SILENT: Final = Said(200, b"", {**JSON, "content-length": "9"})
UNAVAILABLE: Final = Said(503, b"", JSON)
KINDS: Final[Mapping[str, str]] = {
    "clusterpolicies": "policy", "daemonsets": "daemonset", "nodes": "node",
}  # fmt: skip


def fleet(line: str) -> Said:
    """Answer as a cluster with one node that has nothing to do."""
    if "watch=true" in line:
        return Said(200)
    if line.endswith("/apis/resource.k8s.io"):
        return Said(200, json.dumps({"kind": "APIGroup", "versions": [{"version": "v1"}]}).encode())
    plural = line.split("?", maxsplit=1)[0].rsplit("/", 1)[-1]
    found: list[Any] = cluster().of(KINDS[plural]) if plural in KINDS else []
    page = {"kind": "List", "items": found, "metadata": {"resourceVersion": "1"}}
    return Said(200, json.dumps(page).encode())


def without_slices(said: Said) -> Callable[[str], Said]:
    """Answer the question after the version of ResourceSlices in another way."""
    return lambda line: said if line.endswith("/apis/resource.k8s.io") else fleet(line)


def questions(server: Server) -> int:
    """Count how often the version of ResourceSlices was asked for."""
    return sum(line.endswith("/apis/resource.k8s.io") for line in list(server.asked))


@pytest.fixture
def values(tmp_path: Path) -> dict[str, Any]:
    """Return the values that `run` takes in addition to its settings."""
    message = tmp_path / "message"
    message.touch()
    where = {"service_account_dir": str(tmp_path), "termination_log": str(message)}
    return {"job_name": "post", "job_namespace": "gpu-operator", "log_format": "json", **where}


def ended(server: Server, settings: Settings, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run to the end; return the exit code."""
    monkeypatch.setattr(cli, "ignore_signals", lambda: None)
    began = time.monotonic()
    code = cli._run(server.api, settings, values)
    assert time.monotonic() - began < FAR_SECONDS
    return code


def test_a_job_that_cannot_be_read_does_not_put_off_the_end(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials that are refused are worth two minutes, but not more than the run has; all its time counts."""
    asked: list[tuple[float, str]] = []

    def answer(line: str) -> Said:
        asked.append((time.monotonic(), line))
        return UNAUTHORIZED

    with serving(answer) as server:
        assert ended(server, SHORT, values, monkeypatch) == EXIT_DEADLINE
        assert server.count("jobs/post") > 1
    assert asked[-1][0] - asked[0][0] < FAR_SECONDS / 2


@pytest.mark.parametrize("said", [UNAUTHORIZED, UNAVAILABLE, SILENT, Said(403, b'{"kind": "Status", "code": 403}')])
def test_reading_the_own_job_has_the_time_of_the_run(said: Said) -> None:
    """Whatever kinds of trouble follow one another."""
    over = threading.Event()
    with serving(lambda _line: said, over) as server:
        began = time.monotonic()
        try:
            assert own_job(server.api, "gpu-operator", "post", retry.starting(60), 1.0) is None
        except UnreachableError:
            assert said in (UNAVAILABLE, SILENT)
        took = time.monotonic() - began
        over.set()
    assert took < 12  # a missing permission has 15 s, a server out of reach has a minute, refused credentials two


def test_no_patience_is_no_trouble_with_credentials() -> None:
    """A run that waits for no server asks once, and believes the answer."""
    job = {"kind": "Job", "metadata": {"uid": "u"}, "status": {"startTime": "2026-01-01T10:00:00Z"}}
    with serving(lambda _line: Said(200, json.dumps(job).encode())) as server:
        found = own_job(server.api, "gpu-operator", "post", retry.starting(0), 60)
        assert found is not None
        assert (found.reference.uid, found.started.hour) == ("u", 10)
    with serving(lambda _line: UNAVAILABLE) as server, pytest.raises(UnreachableError):
        own_job(server.api, "gpu-operator", "post", retry.starting(0), 60)
    assert len(server.asked) == 1


def test_the_time_before_the_job_could_be_read_counts() -> None:
    """From when this process connected: the time of the Job continues meanwhile."""
    with serving(fleet) as server:
        cache = Cache(server.api, [], SHORT, retry.starting(1))
        runner = Runner(server.api, cache, SHORT, EventRecorder(server.api, "", silent=True), None)
        assert runner._started == server.api.began
        until(lambda: server.api.now() > server.api.began, "time passes")
        assert runner._started == server.api.began


@pytest.mark.parametrize("said", [UNAUTHORIZED, UNAVAILABLE, SILENT], ids=["refused", "unavailable", "silent"])
def test_asking_for_the_version_of_slices_ends_with_the_run(
    said: Said, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop looks at its deadline between two tries, and the end is a deadline."""
    over = threading.Event()
    with serving(without_slices(said), over) as server:
        assert ended(server, SHORT, {**values, "job_name": ""}, monkeypatch) == EXIT_DEADLINE
        assert questions(server) >= 1
        over.set()
    told = json.loads(Path(values["termination_log"]).read_text())
    assert (told["phase"], told["reason"]) == (Phase.DEADLINE, Reason.TIME_UP)


def test_slices_are_read_once_their_version_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Trouble that passes ends nothing: until then nothing is judged, and one line says why."""
    monkeypatch.setattr(caches, "FIRST_DISCOVERY_SECONDS", 0.0)
    up = threading.Event()
    down = without_slices(UNAVAILABLE)
    with serving(lambda line: fleet(line) if up.is_set() else down(line)) as server:
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(FAR_SECONDS))
        cache.watch_policies()
        for _time in range(3):
            cache.watch_fleet()
        assert questions(server) == 3
        assert [logging.WARNING] == [one.levelno for one in caplog.records if "ResourceSlices" in one.message]
        until(lambda: server.count("/nodes?") and server.count("/leases?"), "the rest is read")
        assert not cache.synced
        up.set()

        def known() -> bool:
            cache.watch_fleet()
            return cache._discovered

        until(known, "the version is known")
        asked = questions(server)
        cache.watch_fleet()
        assert questions(server) == asked
        until(lambda: cache.synced, "slices are read")
        assert cache.snapshot()["gpu"].slices == ()
        cache.stop()


@pytest.mark.parametrize(
    ("said", "patience", "kind"),
    [
        pytest.param(UNAVAILABLE, retry.starting(0), UnreachableError, id="no-patience"),
        pytest.param(UNAUTHORIZED, retry.interactive(0), UnauthorizedError, id="none-for-credentials"),
        pytest.param(Said(400, b'{"kind": "Status", "code": 400}'), retry.starting(60), RejectedError, id="refused"),
    ],
)
def test_what_is_worth_no_other_try_ends_a_run(said: Said, patience: retry.RetryPolicy, kind: type[Exception]) -> None:
    """By its own error, and not by the deadline."""
    with serving(without_slices(said)) as server:
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), patience)
        with pytest.raises(kind):
            cache.watch_fleet()
        cache.stop()


def test_a_server_that_asks_for_time_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as it says."""
    monkeypatch.setattr(caches, "FIRST_DISCOVERY_SECONDS", 0.0)
    with serving(without_slices(Said(429, b"", {**JSON, "retry-after": "60"}))) as server:
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.starting(FAR_SECONDS))
        for _time in range(3):
            cache.watch_fleet()
        cache.stop()
        assert questions(server) == 1


def test_status_asks_again_for_the_version_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is away for a moment is no cluster without slices."""
    monkeypatch.setattr(caches, "FIRST_DISCOVERY_SECONDS", 0.0)
    answers = [UNAVAILABLE, UNAVAILABLE]
    with serving(lambda line: answers.pop() if line.endswith("resource.k8s.io") and answers else fleet(line)) as server:
        assert lookup.read_once(server.api, Settings())["gpu"].slices == ()


def test_an_own_deployment_that_cannot_be_read_is_given_up_soon() -> None:
    """Errors of all kinds in turn, and an answer that trickles, have the same few seconds."""
    answers = [UNAUTHORIZED, UNAVAILABLE, Said(403, b'{"kind": "Status", "code": 403}')] * 99
    with serving(lambda _line: answers.pop()) as server:
        began = time.monotonic()
        assert own_deployment(server.api, "gpu-operator", "post") is None
        assert time.monotonic() - began < FAR_SECONDS / 2
    assert 1 < len(server.asked)
