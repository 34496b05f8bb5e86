"""The loop of a run: what it does with what it decided, what ends it, and what only a second look may end."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, cast

import pytest

from hook.config import Duration, OnDeadline, Settings
from hook.decide.decide import chosen
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, Phase, StalePod
from hook.errors import PermissionDeniedError
from hook.kube import cache, confirm, retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, Job, ObjectReference
from hook.kube.informer import OutOfSync
from hook.kube.requests import NODES, ListOptions
from hook.run import loop
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED, Delegation, LeaseObserver, Readiness, Runner
from hook.run.loop import ReconcileLoop
from hook.run.report import LOST_SECONDS, ProgressReporter
from hook.run.status import ControllerStatus, LeaseStatus
from tests.client.clusters import Shown
from tests.client.leases import until
from tests.client.server import Said, Server, serving
from tests.fixtures.cluster import cluster, stale

JOB: Final = ObjectReference("batch/v1", "Job", "gpu-operator", "post", "uid")
DONE: Final = Decision(Phase.DONE, Reason.NOTHING_STALE, "all is well", stack="gpu")
FAIL: Final = Decision(Phase.FAIL, Reason.DRIVER_FAILING, "it crashes", stack="gpu")
LATE: Final = Decision(Phase.DEADLINE, Reason.TIME_UP, "the time is up", stack="gpu")
DENIED: Final = Said(403, b'{"kind": "Status", "code": 403, "message": "no"}')
DELETING: Final = "metadata: {deletionTimestamp: '2026-01-01T10:59:59Z'}"
POD: Final = StalePod("dra", "p", "uid-p", "7", "ds", because="it is stale", driver_run="run")
DELETE: Final = DeletePod("gpu-0", POD, "gpu")


def runner(server: Server, settings: Settings | None = None, ago: float = 0.0) -> Runner:
    """Return a run whose Job started so many seconds ago, by the server's clock."""
    server.api.list_page(ListOptions(NODES).page())
    asked = settings or Settings()
    cache = Cache(server.api, chosen(asked), asked, retry.starting(60))
    job = Job(JOB, server.api.now() - timedelta(seconds=ago))
    return Runner(server.api, cache, asked, EventRecorder(server.api, "run", silent=True), job)


def writes(server: Server) -> list[str]:
    """Return the requests that change something."""
    return [line for line in list(server.asked) if not line.startswith("GET")]


def test_a_fleet_that_is_well_is_done() -> None:
    """What the other tests stand on: this cluster reads, and confirms, as one with nothing to do."""
    with serving(Shown(cluster())) as server:
        one = runner(server)
        ended = one.run()
        one._cache.stop()
        assert (ended.decision.reason, ended.exit_code, writes(server)) == (Reason.NOTHING_STALE, 0, [])


def test_a_run_continues_once_the_version_of_slices_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop asks again what could not be asked when it began."""
    monkeypatch.setattr(cache, "FIRST_DISCOVERY_SECONDS", 0.0)
    answers = [Said(503), Said(503)]
    with serving(shown := Shown(cluster())) as server:
        one = runner(server, Settings(timeout=Duration(seconds=40)))
        shown.instead = lambda line: answers.pop() if line.endswith("/apis/resource.k8s.io") and answers else None
        ended = one.run()
        one._cache.stop()
    assert (ended.decision.reason, answers) == (Reason.NOTHING_STALE, [])


def test_a_dry_run_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It ends with its first decision, and the log has what a run would do."""
    caplog.set_level("INFO")
    with serving(Shown(stale())) as server:
        one = runner(server, Settings(dry_run=True))
        ended = one.run()
        one._cache.stop()
        assert (ended.decision.phase, ended.exit_code, writes(server)) == (Phase.WAIT, 0, [])
    assert 1 == sum("dry run: would delete pod" in record.message for record in caplog.records)


def test_a_stale_plugin_is_deleted_as_it_was_read() -> None:
    """Once, this very pod: its UID and its version are preconditions."""
    shown = Shown(stale())
    (pod,) = shown.found.of("plugin-pod")
    deleted: list[dict[str, Any]] = []

    def wrote(line: str, body: bytes) -> Said:
        if "DELETE" in line:
            deleted.append(json.loads(body))
        return shown.said({"kind": "Status"})

    with serving(shown, wrote=wrote) as server:
        one = runner(server)
        threading.Thread(target=one.run, daemon=True).start()
        until(lambda: deleted, "the pod is deleted")
        one._cache.stop()
    assert deleted[0]["preconditions"] == {
        "uid": pod["metadata"]["uid"],
        "resourceVersion": pod["metadata"]["resourceVersion"],
    }


@pytest.mark.parametrize("settings", [Settings(), Settings(on_deadline=OnDeadline.REPORT)])
def test_the_time_counts_from_the_jobs_start(settings: Settings) -> None:
    """All its tries share one deadline: a pod that starts when that has passed reads nothing and ends."""
    with serving(Shown(cluster())) as server:
        one = runner(server, settings, ago=settings.timeout.total_seconds())
        ended = one.run()
        one._cache.stop()
        assert ended.decision.reason is Reason.TIME_UP
        assert ended.exit_code == (0 if settings.on_deadline is OnDeadline.REPORT else EXIT_DEADLINE)
        assert one._deadline == one._started + settings.timeout - settings.margin
        assert abs(one._cache.end - time.monotonic() - one._left) < 30  # its questions know the same end


@pytest.mark.parametrize("missing", ["clusterpolicies", "/nodes"])
def test_a_cluster_that_cannot_be_read_ends_with_the_time(missing: str) -> None:
    """Before the first list, and after it: the loop looks at its deadline while it waits."""
    with serving(shown := Shown(cluster())) as server:
        one = runner(server, ago=Settings().timeout.total_seconds() + 1)
        one._cache._policy = retry.starting(5)
        shown.instead = lambda line: Said(503) if missing in line else None
        if missing == "/nodes":
            one._cache.watch_policies()
            until(lambda: one._cache.synced, "the intent is read")
            one._cache.watch_fleet()
            assert one._reconcile().reason is Reason.TIME_UP
        else:
            assert one.run().decision.reason is Reason.TIME_UP
        one._cache.stop()


def test_an_end_that_could_not_be_confirmed_in_time_is_a_deadline() -> None:
    """Nothing is read any more, and the sentence names both."""
    with serving(Shown(cluster())) as server:
        one = runner(server, ago=Settings().timeout.total_seconds())
        before = len(server.asked)
        for decision in (DONE, FAIL):
            found = one._confirmed(decision)
            assert found is not None
            assert (found.phase, found.reason) == (Phase.DEADLINE, Reason.TIME_UP)
            assert decision.message in found.message
        assert one._confirmed(LATE) is LATE
        assert len(server.asked) == before


def test_an_end_is_believed_if_a_second_read_agrees() -> None:
    """The one that is given is the second one; one that differs is none, and is not asked for again at once."""
    with serving(Shown(cluster())) as server:
        one = runner(server)
        one._cache.watch_policies()
        one._cache.watch_fleet()
        until(one._loop.observe, "all is read")
        assert one._confirmed(FAIL) is None
        asked = len(server.asked)
        assert one._confirmed(DONE) is None  # it was just asked
        assert len(server.asked) == asked
        one._confirm_after = 0.0
        found = one._confirmed(DONE)
        one._cache.stop()
    assert found is not None
    assert (found.phase, found.message != DONE.message) == (Phase.DONE, True)


def test_a_second_read_that_fails_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage passes; a permission that is gone does not, and ends the run."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, unauthorized=0, denied=0))
    with serving(shown := Shown(cluster())) as server:
        one = runner(server)
        one._cache.watch_policies()
        until(lambda: one._cache.synced, "all is read")
        one._cache.stop()
        shown.instead = lambda _line: Said(503)
        assert one._confirmed(DONE) is None
        shown.instead = lambda _line: DENIED
        one._confirm_after = 0.0
        with pytest.raises(PermissionDeniedError):
            one._confirmed(DONE)


@pytest.mark.parametrize(
    ("decision", "seconds", "named"),
    [
        pytest.param(LATE, LOST_SECONDS + 1, True, id="blind-for-long"),
        pytest.param(LATE, LOST_SECONDS - 2, False, id="blind-for-a-moment"),
        pytest.param(LATE, None, False, id="not-blind"),
        pytest.param(FAIL, LOST_SECONDS + 1, False, id="another-end"),
    ],
)
def test_what_was_not_seen_is_named_where_the_time_ran_out(
    decision: Decision, seconds: float | None, *, named: bool
) -> None:
    """It is the cause if it lasted; watches break off now and then, and are back at once."""
    with serving(Shown(cluster())) as server:
        one = runner(server)
        one._cache.watch_policies()
        until(lambda: one._cache.synced, "all is read")
        one._cache.stop()
        informers = list(one._cache._informers.values())
        until(lambda: not any(each._thread.is_alive() for each in informers), "no watch continues")
        for number, each in enumerate(informers):
            lost = seconds is not None and number == 0
            each.out_of_sync = OutOfSync("nodes", time.monotonic() - (seconds or 0), "it hangs") if lost else None
        found = one._with_cause(decision)
    assert (found.cause is Reason.API_UNREACHABLE, "it hangs" in found.message) == (named, named)
    if not named:
        assert found is decision


def test_the_longest_loss_of_contact_counts() -> None:
    """One kind that was lost a moment ago does not hide another one."""
    with serving(Shown(cluster())) as server:
        one = runner(server)
        one._cache.watch_policies()
        until(lambda: one._cache.synced, "all is read")
        one._cache.stop()
        informers = list(one._cache._informers.values())
        until(lambda: not any(each._thread.is_alive() for each in informers), "no watch continues")
        for number, each in enumerate(informers):
            each.out_of_sync = OutOfSync(f"kind {number}", time.monotonic() - 10 * number, "it hangs")
        lost = one._cache.out_of_sync
        assert lost is not None
        assert lost.plural == f"kind {len(informers) - 1}"


@pytest.mark.parametrize(
    ("decision", "settings", "code"),
    [
        pytest.param(DONE, Settings(), 0, id="done"),
        pytest.param(FAIL, Settings(), EXIT_FAILED, id="failed"),
        pytest.param(LATE, Settings(), EXIT_DEADLINE, id="late"),
        pytest.param(LATE, Settings(dry_run=True), EXIT_DEADLINE, id="late-and-dry"),
        pytest.param(FAIL, Settings(dry_run=True), EXIT_FAILED, id="failed-and-dry"),
        pytest.param(replace(LATE, phase=Phase.WAIT), Settings(dry_run=True), 0, id="waiting-and-dry"),
        pytest.param(replace(LATE, phase=Phase.WAIT), Settings(), EXIT_FAILED, id="waiting"),
    ],
)
def test_exit_codes(decision: Decision, settings: Settings, code: int) -> None:
    """As documented."""
    with serving(Shown(cluster())) as server:
        assert runner(server, settings)._exit_code(decision) == code


def rounds(server: Server) -> tuple[ReconcileLoop, Cache]:
    """Return rounds at their beginning."""
    settings = Settings()
    cache = Cache(server.api, chosen(settings), settings, retry.starting(60))
    reporter = ProgressReporter(EventRecorder(server.api, "run", silent=True), None)
    return ReconcileLoop(server.api, cache, settings, reporter, server.api.now()), cache


def test_a_deletion_without_an_answer_is_ours_once_its_pod_ends() -> None:
    """A pod that is being deleted counts as gone at once; a live one does not."""
    found = stale()
    (action,) = found.decide()[0].actions
    with serving(lambda line: Said() if "DELETE" in line else Said(200, b'{"kind": "Status"}')) as server:
        one, _cache = rounds(server)
        one.act(Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=(action,)), 60)
        one.decide({"gpu": found.seen()})
        assert one.restarter.restarted == 0
        one.decide({"gpu": found.change("plugin-pod", DELETING).seen()})
        assert one.restarter.restarted == 1
        one.decide({"gpu": found.drop("plugin-pod").seen()})
        assert one.restarter.restarted == 1


def test_what_is_long_past_shows_no_deletion_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """While contact is lost, a pod that is shown may be gone: its deletion stays one whose answer was lost."""
    monkeypatch.setattr(loop, "ASK_AGAIN", timedelta(0))
    found = stale()
    (action,) = found.decide()[0].actions
    lost: list[OutOfSync | None] = [None, OutOfSync("pods", time.monotonic(), "it hangs")]
    with serving(lambda _line: Said()) as server:
        for gone_for in lost:
            one, cache = rounds(server)
            one.act(Decision(Phase.WAIT, Reason.NODES_PENDING, "", actions=(action,)), 60)
            monkeypatch.setattr(type(cache), "out_of_sync", gone_for)
            one.decide({"gpu": found.seen()})
            one.decide({"gpu": stale().drop("plugin-pod").seen()})
            assert one.restarter.restarted == (0 if gone_for is None else 1)
            monkeypatch.undo()
            monkeypatch.setattr(loop, "ASK_AGAIN", timedelta(0))


def test_an_outage_at_the_beginning_is_not_outlived_by_looking() -> None:
    """Only what was read once makes a run wait for an API server without end."""
    with serving(lambda _line: Said(503)) as server:
        one, cache = rounds(server)
        before = cache._policy
        cache.watch_policies()
        assert one.observe() is None
        assert cache._policy is before
        cache.stop()


def test_nothing_is_decided_before_what_came_into_sight_is_read() -> None:
    """The pods of a plugin that is seen for the first time are not listed yet: they would look missing."""
    blocker = threading.Event()
    with serving(shown := Shown(cluster())) as server:

        def held(line: str) -> None:
            if "/pods?" in line and "driver" not in line.partition("?")[2]:
                blocker.wait(60)

        shown.instead = held
        one, cache = rounds(server)
        cache.watch_policies()
        cache.watch_fleet()
        until(lambda: cache.synced, "what is known to matter is read")
        assert one.observe() is None
        blocker.set()
        found = None
        end = time.monotonic() + 60
        while found is None and time.monotonic() < end:
            found = one.observe()
            cache.wait(0.1)
        cache.stop()
    assert found is not None
    assert len(found["gpu"].plugin_pods) == 1


class Observed:
    """Stands for the observer of a controller's Lease, whose own tests are elsewhere."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    def readiness(self, _wanted: object) -> Readiness:
        """Return what is known of it."""
        return self._readiness


def delegating(server: Server, readiness: Readiness) -> tuple[Runner, Delegation]:
    """Return a run that delegates to a controller."""
    one = runner(server)
    observer = cast("LeaseObserver", Observed(readiness))
    one._delegation = Delegation(one._cache, one._settings, one._loop, observer)
    return one, one._delegation


def test_a_job_in_delegate_mode_restarts_nothing() -> None:
    """Its account may not, and the controller does."""
    with serving(Shown(stale())) as server:
        one = runner(server, Settings(timeout=Duration(seconds=10)))
        observer = LeaseObserver(server.api, "gpu-operator", "post")
        ended = one.run(observer)
        one._cache.stop()
        assert (ended.exit_code, writes(server)) == (EXIT_DEADLINE, [])


def test_a_job_that_waits_for_the_controller_alone_reports_that() -> None:
    """At its deadline; else the cause is another one."""
    with serving(Shown(stale())) as server:
        one, delegation = delegating(server, Readiness("no controller"))
        delegation._blocker = "no controller"
        late = one._final(LATE, {})
        assert late is not None
        assert (late.cause, "no controller" in late.message) == (Reason.CONTROLLER_MISSING, True)
        delegation._blocker = ""
        assert one._final(LATE, {}) is LATE


LED: Final = LeaseStatus(
    "gpu-operator", "post", "pod-a", status=ControllerStatus(remaining=3, eta_seconds=360, writer="pod-a")
)


@pytest.mark.parametrize(
    "readiness",
    [Readiness("", LED), Readiness("not observed", LED), Readiness("none"), Readiness("", LeaseStatus("a", "b"))],
)
def test_a_job_hands_over_to_a_controller_that_saw_the_same(
    readiness: Readiness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a second read shows the same intent: a watch may be behind what was applied a moment ago."""
    monkeypatch.setattr(confirm, "DELIVERY_SECONDS", 0.0)
    with serving(shown := Shown(stale())) as server:
        one, delegation = delegating(server, readiness)
        one._cache.watch_policies()
        one._cache.watch_fleet()
        until(one._loop.observe, "all is read")
        seen_first = one._loop.observe()
        assert seen_first is not None
        decision = one._loop.decide(seen_first)
        assert decision.actions
        found = one._final(decision, seen_first)
        if readiness.blocker or readiness.lease is None or readiness.lease.status is None:
            assert (found, delegation._blocker) == (None, readiness.blocker)
        else:
            assert found is not None
            assert (found.phase, found.reason, found.actions) == (Phase.DONE, Reason.DELEGATED, ())
            assert ("pod-a" in found.message, "3 nodes" in found.message, "6m" in found.message) == (True, True, True)
        # Now the policy changes, and no watch shows it.
        shown.instead = lambda line: Said(200) if "watch=true" in line else None
        shown.found = stale().change("policy", "metadata: {generation: 99, resourceVersion: '1001'}")
        shown.version = 1001
        assert one._final(decision, seen_first) is None
        one._cache.stop()
        assert writes(server) == []
