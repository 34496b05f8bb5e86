"""The Job: when a run ends and how, and what only a second read may end."""

# ruff: noqa: B023 - what is defined in a loop is used in the same turn
from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from hook import cli
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.decide.run import margin
from hook.decide.workloads import Affected
from hook.errors import (
    UNAUTHORIZED,
    ApiError,
    HookError,
    LeaseLostError,
    PermissionDeniedError,
    TerminatedError,
    UntrustedError,
)
from hook.kube import retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference
from hook.kube.informer import OutOfSync
from hook.kube.own import Job
from hook.objects.stacks import STACKS, StackName
from hook.run.clock import Clock
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED, Outcome, Runner
from hook.run.report import LOST_SECONDS, next_step
from hook.run.statusobject import StatusObject
from hook.settings import Duration, OnDeadline, Settings
from tests.client.fixtured import Shown
from tests.client.server import PATIENCE, SILENT, Said, Server, bounded, refused, serving, told, until
from tests.fixtures.cluster import LATER, Cluster, cluster, stale

SLICES: Final = "/resourceslices"
JOB: Final = ObjectReference("batch/v1", "Job", "gpu-operator", "post", "uid")
DONE: Final = Decision(Phase.DONE, Reason.NOTHING_STALE, "all is well")
FAIL: Final = Decision(Phase.FAIL, Reason.DRIVER_FAILING, "it crashes")
LATE: Final = Decision(Phase.DEADLINE, Reason.TIME_UP, "the time is up")
WAIT: Final = replace(LATE, phase=Phase.WAIT)
PASSED: Final = Settings().timeout.total_seconds() + 1
"""Age of a Job whose time is up."""


def runner(server: Server, settings: Settings | None = None, ago: float = 0.0) -> Runner:
    """Return a run whose Job started so many seconds ago."""
    asked = settings or Settings()
    cache = Cache(server.api, asked, retry.Patience(PATIENCE))
    own = Job(JOB, LATER - timedelta(seconds=ago))
    return Runner(server.api, cache, asked, EventRecorder(server.api, "run", silent=True), own, clock=Clock(LATER))


def passes(run: Runner, seconds: float = PASSED) -> None:
    """Let time pass for a run."""
    run._clock._origin += timedelta(seconds=seconds)


@contextmanager
def reading(server: Server) -> Iterator[Runner]:
    """Begin a run, and stop it in the end. It has read everything."""
    run = runner(server)
    run._cache.start()
    until(run._loop.observe, "all is read")
    try:
        yield run
    finally:
        run._cache.stop()


def ended(run: Runner) -> Outcome:
    """Run to the end."""
    outcome = run.run()
    run._cache.stop()
    return outcome


def test_a_stale_plugin_is_deleted_as_it_was_read() -> None:
    """Once, this very pod: its UID and its version are preconditions."""
    shown = Shown(stale())
    (pod,) = shown.found.of("plugin-pod")
    deleted: list[dict[str, Any]] = []

    def wrote(line: str, body: bytes) -> Said:
        if "DELETE" in line:
            deleted.append(json.loads(body))
            passes(run)  # which ends it
        return told(kind="Status")

    with serving(shown, wrote) as server:
        run = runner(server)
        assert ended(run).exit_code == EXIT_DEADLINE
    assert deleted[0]["preconditions"] == {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}


@pytest.mark.parametrize(
    ("found", "waits"),
    [pytest.param(cluster(), True, id="done"), pytest.param(stale(), False, id="time up")],
)
def test_the_end_of_a_run_waits_for_claims_to_be_read(
    monkeypatch: pytest.MonkeyPatch, found: Cluster, waits: bool
) -> None:
    """Once, because a report without them is incomplete. A run whose time is up has no time for that."""
    shown, observed = Shown(found), list[bool]()

    def wrote(_line: str, _body: bytes) -> Said:
        passes(run)
        return told(kind="Status")

    def observe(_snapshot: object, *, now: bool = False) -> Affected:
        observed.append(now)
        return Affected()

    with serving(shown, wrote) as server:
        run = runner(server)
        monkeypatch.setattr(run.workloads, "observe", observe)
        ended(run)
    assert (observed[-1], any(observed[:-1])) == (waits, False)


def test_the_time_counts_from_the_jobs_start() -> None:
    """All its tries share one deadline: a pod that starts when that has passed reads nothing and ends."""
    for settings, code in (
        (Settings(), EXIT_DEADLINE),
        (Settings(on_deadline=OnDeadline.REPORT), 0),
        (Settings(stack=StackName.NETWORK), EXIT_DEADLINE),
    ):
        with serving(Shown(cluster())) as server:
            run = runner(server, settings, ago=settings.timeout.total_seconds())
            outcome = ended(run)
            assert (outcome.decision.reason, outcome.exit_code) == (Reason.TIME_UP, code)
            assert STACKS[settings.stack].upgrade.state in next_step(outcome.decision, STACKS[settings.stack]), settings
            assert run._deadline == LATER - margin(settings)
    for job in (None, Job(JOB, None), Job(JOB, LATER + timedelta(hours=1))):  # from when this process began
        with serving(Shown(cluster())) as server:
            cache = Cache(server.api, Settings(), retry.Patience(1))
            recorder = EventRecorder(server.api, "", silent=True)
            run = Runner(server.api, cache, Settings(), recorder, job, clock=Clock(LATER))
            assert run._deadline == LATER + Settings().timeout - margin(Settings())


def test_the_program_ends_at_its_deadline_whatever_it_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Job, or a kind of object: refused credentials are tried again for some time, but not beyond the deadline."""
    monkeypatch.setattr(cli, "ignore_signals", lambda: None)
    values = {"service_account_dir": str(tmp_path), "release_namespace": "gpu-operator", "log_format": "json"}
    values |= {"status_name": "", "release_name": "post"}
    for part, said in (*product(("",), (refused(401), Said(503), SILENT)), (SLICES, refused(401))):
        message = tmp_path / "message"
        message.touch()
        shown = Shown(cluster())
        shown.instead = lambda line: said if part in line else None
        mine = {**values, "termination_log": str(message), "job_name": "" if part else "post"}
        with serving(shown) as server:
            settings = Settings(timeout=Duration(seconds=2))
            assert cli._run(server.api, settings, mine) == EXIT_DEADLINE, (part, said)
        told = json.loads(message.read_text())
        assert (told["phase"], told["reason"]) == (Phase.DEADLINE, Reason.TIME_UP), (part, said)


def test_an_end_that_could_not_be_confirmed_in_time_is_a_deadline() -> None:
    """Nothing is read any more, and the message names both."""
    with serving(Shown(cluster())) as server:
        run = runner(server, ago=PASSED)
        before = len(server.asked)
        for decision in (DONE, FAIL):
            found = run._confirmed(decision)
            assert (found.phase, found.reason) == (Phase.DEADLINE, Reason.TIME_UP)
            assert decision.message in found.message
        assert run._confirmed(LATE) is LATE
        assert len(server.asked) == before


def test_an_end_is_believed_if_a_second_read_agrees() -> None:
    """The second decision is returned; one that differs is no end, and is not read again at once."""
    with serving(Shown(cluster())) as server, reading(server) as run:
        assert run._confirmed(FAIL) == replace(FAIL, phase=Phase.WAIT)
        asked = server.count("limit=")
        assert run._confirmed(DONE) == replace(DONE, phase=Phase.WAIT)  # it was just read
        assert server.count("limit=") == asked
        run._confirm_after = 0.0
        found = run._confirmed(DONE)
    assert (found.phase, found.message != DONE.message) == (Phase.DONE, True)


def test_a_missing_permission_for_the_second_read_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the deadline: an administrator has to restore it. What may pass is tried again."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(0, 0))
    with serving(shown := Shown(cluster())) as server, reading(server) as run:
        shown.instead = lambda _line: Said(503)
        assert run._confirmed(DONE).phase is Phase.WAIT
        shown.instead = lambda line: refused(403) if "/nodes?" in line else None
        run._confirm_after = 0.0
        with pytest.raises(PermissionDeniedError, match="permission missing: list nodes"):
            run._confirmed(DONE)


def test_a_second_read_ends_at_the_deadline() -> None:
    """A server that hangs does not hold up the report, and a success that no second read confirmed is none."""
    settings = Settings()
    with serving(shown := Shown(cluster())) as server, reading(server) as run:
        passes(run, (settings.timeout - margin(settings)).total_seconds() - 2)
        shown.instead = lambda line: None if "watch=" in line else SILENT
        with bounded():
            assert run._confirmed(DONE).phase is Phase.WAIT
        until(lambda: run._left <= 0, "the time is up")
        assert run._confirmed(DONE).phase is Phase.DEADLINE


def test_an_end_that_is_not_confirmed_opens_no_gate() -> None:
    """The status object shows no success that only the watches saw."""
    shown, phases = Shown(cluster()), list[str]()
    lists = {"confirmed": False}

    def wrote(_line: str, body: bytes) -> Said:
        phases.append(json.loads(body)["data"]["phase"])
        return told(kind="ConfigMap")

    def second(line: str) -> Said | None:
        if "/nodes?" not in line or "watch=" in line or lists["confirmed"]:
            return None
        return None if not phases else refused(503)

    with serving(shown, wrote) as server, reading(server) as run:
        run._status_object = StatusObject(server.api, "ns", "it-status")
        run._confirm_after = time.monotonic() + 0.5
        shown.instead = second
        with ThreadPoolExecutor() as pool:
            outcome = pool.submit(run.run)
            until(lambda: phases, "the first state is written")
            lists["confirmed"] = True
            run.show_end(outcome.result(PATIENCE))
    assert phases == ["Progressing", "Succeeded"]


def test_a_run_that_is_out_of_time_still_shows_its_result() -> None:
    """One write has its time after the deadline. There is no time to repeat it."""
    for answer in (told(kind="ConfigMap"), Said(503)):
        bodies: list[bytes] = []

        def wrote(_line: str, body: bytes) -> Said:
            bodies.append(body)
            return answer

        with serving(Shown(cluster()), wrote=wrote) as server, bounded():
            run = runner(server, ago=10 * PASSED)
            run._status_object = StatusObject(server.api, "ns", "it-status")
            run.show_end(Outcome(LATE, EXIT_DEADLINE))
        assert ["TimedOut"] == [json.loads(body)["data"]["phase"] for body in bodies]


@pytest.mark.parametrize(
    ("decision", "seconds", "cause"),
    [
        pytest.param(LATE, LOST_SECONDS + 1, Reason.API_UNREACHABLE, id="time up in an outage"),
        pytest.param(LATE, LOST_SECONDS - 1, None, id="time up while a watch is opened again"),
        pytest.param(LATE, None, None, id="time up"),
        pytest.param(FAIL, LOST_SECONDS + 1, None, id="failed before"),
    ],
)
def test_a_run_names_the_outage_that_took_its_time(
    monkeypatch: pytest.MonkeyPatch, decision: Decision, seconds: float | None, cause: Reason | None
) -> None:
    """In its message, with what could not be read. The advice is about the outage then."""
    lost = None if seconds is None else OutOfSync("pods", time.monotonic() - seconds, "refused")
    with serving(Shown(cluster())) as server:
        run = runner(server)
        monkeypatch.setattr(run, "_late", lambda: decision)
        monkeypatch.setattr(Cache, "out_of_sync", lost)
        found = run.run().decision
    assert (found.cause, "cannot read pods" in found.message) == (cause, cause is not None)


def test_exit_codes() -> None:
    """As documented."""
    dry = Settings(dry_run=True)
    with serving(Shown(cluster())) as server:
        for decision, settings, code in (
            (DONE, Settings(), 0),
            (FAIL, Settings(), EXIT_FAILED),
            (LATE, Settings(), EXIT_DEADLINE),
            (LATE, dry, EXIT_DEADLINE),
            (FAIL, dry, EXIT_FAILED),
            (WAIT, dry, 0),
            (WAIT, Settings(), EXIT_FAILED),
        ):
            assert runner(server, settings)._exit_code(decision) == code, (decision.phase, settings.dry_run)


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (PermissionDeniedError("list", "pods", ""), Reason.PERMISSION_MISSING, EXIT_FAILED),
        (ApiError(UNAUTHORIZED, "no"), Reason.UNAUTHORIZED, EXIT_FAILED),
        (ApiError(503, "no"), Reason.API_UNREACHABLE, cli.EXIT_OTHER),
        (UntrustedError("no"), Reason.CERTIFICATE_REFUSED, cli.EXIT_OTHER),
        (LeaseLostError("no"), Reason.LEASE_LOST, cli.EXIT_OTHER),
        (TerminatedError(15), Reason.TERMINATED, 143),
    ],
)
def test_an_error_has_its_reason_and_exit_code(error: HookError | TerminatedError, reason: Reason, code: int) -> None:
    """As documented: the Job tries again after 1 and 143, and not after 3."""
    ended = cli._outcome_of(error, None)
    assert (ended.decision.phase, ended.decision.reason, ended.exit_code) == (Phase.FAIL, reason, code)
