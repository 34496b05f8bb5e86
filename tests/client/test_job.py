"""The Job: when a run ends and how, and what only a second read may end."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

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
from hook.kube.informer import LASTING_SECONDS, OutOfSync
from hook.objects.stacks import STACKS, StackName
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED, Outcome
from hook.run.report import next_step
from hook.run.statusobject import StatusObject
from hook.settings import Duration, OnDeadline, Settings
from tests.client.runs import DONE, FAIL, LATE, PASSED, ended, passes, reading, runner
from tests.client.server import PATIENCE, SILENT, Said, bounded, refused, serving, told, until
from tests.client.shown import Shown
from tests.fixtures.cluster import LATER, Cluster, cluster, stale

WAIT: Final = replace(LATE, phase=Phase.WAIT)


def test_a_stale_plugin_is_deleted_as_it_was_read() -> None:
    """Once, this very pod: its UID and its version are preconditions."""
    shown = Shown(stale())
    (pod,) = shown.found.of("plugin-pod")
    shown.instead = lambda line: passes(run) if "DELETE" in line else None  # which ends it
    with serving(shown, shown.wrote) as server:
        run = runner(server)
        assert ended(run).exit_code == EXIT_DEADLINE
    deleted = [body["preconditions"] for line, body in shown.written if "DELETE" in line]
    assert deleted == [{key: pod["metadata"][key] for key in ("uid", "resourceVersion")}]


@pytest.mark.parametrize(
    ("found", "waits"), [pytest.param(cluster(), True, id="done"), pytest.param(stale(), False, id="time up")]
)
def test_the_end_of_a_run_waits_for_claims_to_be_read(
    monkeypatch: pytest.MonkeyPatch, found: Cluster, waits: bool
) -> None:
    """Once, because a report without them is incomplete. A run whose time is up has no time for that."""
    observed: list[bool] = []

    def observe(_snapshot: object, *, now: bool = False) -> Affected:
        observed.append(now)
        return Affected()

    with serving(shown := Shown(found), shown.wrote) as server:
        shown.instead = lambda line: passes(run) if "DELETE" in line else None
        run = runner(server)
        monkeypatch.setattr(run.workloads, "observe", observe)
        ended(run)
    assert (observed[-1], any(observed[:-1])) == (waits, False)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (Settings(), EXIT_DEADLINE),
        (Settings(on_deadline=OnDeadline.REPORT), 0),
        (Settings(stack=StackName.NETWORK), EXIT_DEADLINE),
    ],
)
def test_the_time_counts_from_the_jobs_start(settings: Settings, code: int) -> None:
    """All its tries share one deadline: a pod that starts when that has passed reads nothing and ends."""
    with serving(Shown(cluster())) as server:
        run = runner(server, settings, ago=settings.timeout.total_seconds())
        outcome = ended(run)
        assert (outcome.decision.reason, outcome.exit_code, server.asked) == (Reason.TIME_UP, code, [])
    assert STACKS[settings.stack].upgrade.state in next_step(outcome.decision, STACKS[settings.stack])
    assert run._deadline == LATER - margin(settings)


@pytest.mark.parametrize(("part", "said"), [("", Said(503)), ("", SILENT), ("/resourceslices", refused(401))])
def test_the_program_ends_at_its_deadline_whatever_it_cannot_read(
    part: str, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Job, or a kind of object: refused credentials are tried again for some time, but not beyond the deadline.

    Its result is in the message and, if that can be written, in the status object.
    """
    monkeypatch.setattr(cli, "ignore_signals", lambda: None)
    message, shown = tmp_path / "message", Shown(cluster())
    message.touch()
    shown.instead = lambda line: said if part in line else None
    values = {
        "service_account_dir": str(tmp_path),
        "release_namespace": "gpu-operator",
        "release_name": "post",
        "job_name": "" if part else "post",
        "status_name": "post-status",
        "termination_log": str(message),
        "log_format": "json",
    }
    with serving(shown) as server:
        assert cli._run(server.api, Settings(timeout=Duration(seconds=2)), values) == EXIT_DEADLINE
        assert server.count("PATCH /api/v1/namespaces/gpu-operator/configmaps/post-status")
    shown_at_last = json.loads(message.read_text())
    assert (shown_at_last["phase"], shown_at_last["reason"]) == (Phase.DEADLINE, Reason.TIME_UP)


def test_an_end_that_could_not_be_confirmed_in_time_is_a_deadline() -> None:
    """Nothing is read any more, and the message names both."""
    with serving(Shown(cluster())) as server:
        run = runner(server, ago=PASSED)
        for decision in (DONE, FAIL):
            found = run._confirmed(decision)
            assert (found.phase, found.reason) == (Phase.DEADLINE, Reason.TIME_UP)
            assert decision.message in found.message
        assert run._confirmed(LATE) is LATE
        assert server.asked == []


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


NO_NODES: Final = 'nodes is forbidden: User "it" cannot list resource "nodes" at the cluster scope'


@pytest.mark.parametrize(
    ("said", "words"), [(refused(403, NO_NODES), "permission missing: list nodes"), (refused(401), "answered 401")]
)
def test_an_account_that_is_refused_for_the_second_read_ends_a_run(
    said: Said, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the deadline: an administrator has to act. What may pass is tried again."""
    monkeypatch.setattr(retry, "WRITE", retry.Patience(0, 0))
    with serving(shown := Shown(cluster())) as server, reading(server) as run:
        shown.instead = lambda _line: Said(503)
        assert run._confirmed(DONE).phase is Phase.WAIT
        shown.instead = lambda line: said if "/nodes?" in line else None
        run._confirm_after = 0.0
        with pytest.raises(ApiError, match=words):
            run._confirmed(DONE)


def test_a_second_read_ends_at_the_deadline() -> None:
    """A server that hangs does not hold up the report, and a success that no second read confirmed is none."""
    with serving(shown := Shown(cluster())) as server, reading(server) as run:
        passes(run, (run._deadline - run._clock.now()).total_seconds() - 0.5)
        shown.instead = lambda line: None if "watch=" in line else SILENT
        with bounded():
            assert run._confirmed(DONE).phase is not Phase.DONE
        passes(run, 1)
        assert run._confirmed(DONE).phase is Phase.DEADLINE


def test_an_end_that_is_not_confirmed_opens_no_gate() -> None:
    """The status object shows no success that only the watches saw."""
    with serving(shown := Shown(cluster()), shown.wrote) as server, reading(server) as run:
        run._status_object = StatusObject(server.api, "ns", "it-status")
        run._confirm_after = float("inf")
        with ThreadPoolExecutor() as pool:
            outcome = pool.submit(run.run)
            until(lambda: shown.statuses, "the first state is written")
            run._confirm_after = 0.0
            run.show_end(outcome.result(PATIENCE))
    assert [each["phase"] for each in shown.statuses] == ["Progressing", "Succeeded"]


@pytest.mark.parametrize(
    ("ago", "writes"),
    [
        pytest.param((Settings().timeout - margin(Settings())).total_seconds(), 2, id="time for the report is left"),
        pytest.param(10 * PASSED, 1, id="none is left to repeat it"),
    ],
)
def test_a_run_that_is_out_of_time_still_shows_its_result(ago: float, writes: int) -> None:
    """One write has its time in any case, also if the server is busy."""
    phases: list[str] = []

    def wrote(_line: str, body: bytes) -> Said:
        phases.append(json.loads(body)["data"]["phase"])
        return told(kind="ConfigMap") if len(phases) > 1 else Said(503)

    with serving(Shown(cluster()), wrote=wrote) as server, bounded():
        run = runner(server, ago=ago)
        run._status_object = StatusObject(server.api, "ns", "it-status")
        run.show_end(Outcome(LATE, EXIT_DEADLINE))
    assert phases == ["TimedOut"] * writes


@pytest.mark.parametrize(
    ("decision", "seconds", "cause"),
    [
        pytest.param(LATE, LASTING_SECONDS + 1, Reason.API_UNREACHABLE, id="time up in an outage"),
        pytest.param(LATE, LASTING_SECONDS - 1, None, id="time up while a watch is opened again"),
        pytest.param(LATE, None, None, id="time up"),
        pytest.param(FAIL, LASTING_SECONDS + 1, None, id="failed before"),
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


DRY: Final = Settings(dry_run=True)


@pytest.mark.parametrize(
    ("decision", "settings", "code"),
    [
        (DONE, Settings(), 0),
        (FAIL, Settings(), EXIT_FAILED),
        (LATE, Settings(), EXIT_DEADLINE),
        (LATE, DRY, EXIT_DEADLINE),
        (FAIL, DRY, EXIT_FAILED),
        (WAIT, DRY, 0),
        (WAIT, Settings(), EXIT_FAILED),
    ],
)
def test_exit_codes(decision: Decision, settings: Settings, code: int) -> None:
    """As documented."""
    with serving(Shown(cluster())) as server:
        assert runner(server, settings)._exit_code(decision) == code


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
    outcome = cli._outcome_of(error, None)
    assert (outcome.decision.phase, outcome.decision.reason, outcome.exit_code) == (Phase.FAIL, reason, code)
