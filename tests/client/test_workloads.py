"""Affected workloads: what is read for them, what a run reports of them, and that it never depends on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from hook.decide.workloads import Affected, AffectedPod
from hook.kube import informer
from hook.kube.events import ObjectReference
from hook.kube.workloads import WorkloadCache
from hook.objects.stacks import GPU_OPERATOR, StackName
from hook.run import status, workloads
from hook.run.controller import StateReporter
from hook.run.report import ProgressReporter
from hook.run.workloads import WorkloadObserver, as_json, as_lines
from hook.settings import AffectedWorkloads, Settings
from tests.client.runs import ended, runner
from tests.client.server import refused, serving, until
from tests.client.shown import Shown
from tests.fixtures import workloads as objects
from tests.fixtures.cluster import cluster
from tests.fixtures.objects import Object, R, at, stamp
from tests.fixtures.statuses import Recorder, state

CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
POD: Final = AffectedPod("team", "train", "train-uid", "gpu-0", at(5), ("train-gpu",))


def held() -> list[Object]:
    """Return a pod from before the upgrade, with its claim, and a healthy one."""
    old, new = objects.claim_pod("old", started=-100), objects.claim_pod("new", started=R + 60)
    return [objects.claim("old-gpu", "old"), old, objects.claim("new-gpu", "new"), new]


def test_a_run_reports_the_pods_that_it_does_not_repair() -> None:
    """In two warnings; it neither fails nor waits. What cannot be read is named."""
    broken = objects.claim_pod("broken", started=5, patch={"status": {"startTime": "soon"}})
    with serving(Shown(cluster(), lambda: [*held(), broken])) as server:
        run = runner(server)
        outcome = ended(run)
        assert outcome.exit_code == 0
        affected = run.workloads.affected
        assert list(map(str, affected.pods)) == ["team/old"]
        pods, unread = workloads.summary(affected)
        assert pods.startswith("1 pod may hold files of an old driver: team/old on gpu-0.")
        for text in (unread, as_json(affected)["problem"]):
            assert "Pod team/broken cannot be read: " in text


def test_pods_are_listed_only_if_there_are_claims() -> None:
    """A cluster without claims of the drivers does not pay for a list of all its pods."""
    for more, expected in ((list, 0), (held, 1)):
        with serving(Shown(cluster(), more)) as server:
            cache = status.read_cache(server.api, Settings(), workloads=True)
            assert cache.workloads.problem == ""
            assert len(cache.workloads.holders()) == 2 * expected
            cache.stop()
            assert bool(server.count("status.phase")) is bool(expected)
            assert server.count(CLAIMS)


def test_a_run_ends_well_where_claims_cannot_be_read() -> None:
    """The report says why the pods are not known, and metrics show nothing instead of 0."""
    with serving(shown := Shown(cluster(), held)) as server:
        shown.instead = lambda line: refused(403) if CLAIMS in line else None
        run = runner(server)
        assert ended(run).exit_code == 0
        affected = run.workloads.affected
        assert (affected.pods, "resourceclaims" in affected.unknown) == ((), True)
        assert as_lines(affected) == workloads.summary(affected) == []
        assert (as_json(affected)["affected"], as_json(affected)["problem"]) == (None, affected.unknown)


def test_a_missing_permission_is_named_once_and_may_be_added(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims are read as soon as they may be. A watch that breaks for a moment is not worth a warning."""
    words = 'resourceclaims is forbidden: User "it" cannot list resource "resourceclaims" at the cluster scope'
    with serving(shown := Shown(cluster(), held)) as server:
        shown.instead = lambda line: refused(403, words) if CLAIMS in line else None
        cache = WorkloadCache(server.api, ["gpu.nvidia.com"])
        cache.watch()
        assert cache.pending
        until(lambda: "permission missing" in cache.problem, "the claims cannot be listed")
        monkeypatch.setattr(informer, "LASTING_SECONDS", 900.0)
        cache.watch()
        assert caplog.messages == []
        monkeypatch.setattr(informer, "LASTING_SECONDS", 0.0)
        for _turn in range(3):
            cache.watch()
        assert not cache.pending
        (logged,) = caplog.messages
        assert "permission missing: list resourceclaims.resource.k8s.io in the whole cluster" in logged
        shown.instead = lambda _line: None

        def known() -> bool:
            cache.watch()
            return not cache.problem

        until(known, "it is tried again")
        assert len(cache.holders()) == 2
        shown.instead = lambda line: refused(403, words) if CLAIMS in line else None

        def named_again() -> bool:
            cache.watch()
            return len(caplog.messages) == 2

        until(named_again, "the next refusal is named, too")
        cache.stop()


def test_what_is_not_known_any_more_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pods are evaluated again after some seconds, or at once at the end of a run."""
    monkeypatch.setattr(workloads, "AWAIT_SECONDS", 0.0)
    with serving(Shown(cluster(), held)) as server:
        cache = status.read_cache(server.api, Settings(), workloads=True)
        snapshot, observer = cache.snapshot(), WorkloadObserver(cache, Settings())
        assert observer.affected.unknown
        assert list(map(str, observer.observe(snapshot).pods)) == ["team/old"]
        monkeypatch.setattr(WorkloadCache, "problem", "no permission")
        assert not observer.observe(snapshot).unknown
        assert observer.observe(snapshot, now=True).unknown == "no permission"
        monkeypatch.setattr(WorkloadCache, "problem", "")
        observer._next = 0.0
        assert list(map(str, observer.observe(snapshot).pods)) == ["team/old"]
        cache.stop()


def test_settings_that_read_no_workloads() -> None:
    """It is turned off, or nothing prepares claims: no request, and the reason."""
    with serving(Shown(cluster(), held)) as server:
        run = runner(server, Settings(affected_workloads=AffectedWorkloads(enabled=False)))
        assert ended(run).exit_code == 0
        assert "affectedWorkloads.enabled" in run.workloads.affected.unknown
        assert server.count("resourceclaims") == 0
    assert "network" in workloads.why_not(Settings(stack=StackName.NETWORK))


def test_table_and_json_are_bounded() -> None:
    """The count is of all pods; a large fleet gets no endless table and no endless line of JSON."""
    lines = as_lines(Affected((POD,)))
    assert "1 pod may hold files of an old driver" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["POD", "team/train"]
    assert as_json(Affected((POD,)))["pods"] == [
        {"namespace": "team", "name": "train", "uid": "train-uid", "node": "gpu-0", "startedAt": stamp(5),
         "claims": ["train-gpu"]}
    ]  # fmt: skip
    claims = tuple(f"claim-{number}" for number in range(12))
    many = Affected(tuple(replace(POD, name=f"train-{number}", claims=claims) for number in range(150)))
    lines = as_lines(many)
    assert (len(lines), lines[-1]) == (53, "(100 more pods)")
    assert lines[2].endswith("claim-9 and 2 more")
    whole = as_json(many)
    assert (whole["affected"], len(whole["pods"]), len(whole["pods"][0]["claims"])) == (150, 100, 10)
    (line,) = workloads.summary(many)
    assert "train-9 on gpu-0 and 140 more." in line
    assert workloads.note(Affected()) == ""


def test_a_controller_reports_affected_pods_when_there_is_one_more(caplog: pytest.LogCaptureFixture) -> None:
    """In one Event on its Deployment. A pod that ended, or that cannot be read for a moment, is no reason."""
    recorder = Recorder()
    owner = ObjectReference("apps/v1", "Deployment", "gpu-operator", "post-controller", "deployment-uid")
    reporter = StateReporter(ProgressReporter(recorder, owner), GPU_OPERATOR)
    first, second = (replace(POD, name=name, uid=name) for name in ("first", "second"))
    for affected, reported in (
        (Affected(), 0),
        (Affected((first,)), 1),
        (Affected((first,)), 1),
        (Affected((first, second)), 2),
        (Affected((second,)), 2),
        (Affected(unknown="no permission"), 2),
        (Affected((second,)), 2),
        (Affected((first, second)), 3),
    ):
        reporter.report(replace(state(), affected=affected), [])
        assert recorder.heard == [("Deployment", "AffectedWorkloads", "", True)] * reported
    assert [line.partition(" ")[0] for line in caplog.messages if "old driver" in line] == ["1", "2", "2"]
