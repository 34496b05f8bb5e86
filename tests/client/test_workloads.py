"""Affected workloads: what is read for them, what a run reports of them, and that it never depends on them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest

from hook.config import AffectedWorkloads, Settings
from hook.decide.reasons import Reason
from hook.decide.result import Decision, Phase
from hook.decide.state import Memory
from hook.decide.workloads import Affected, AffectedPod, Exposure, Refresh
from hook.kube import requests, retry
from hook.kube import workloads as informers
from hook.kube.cache import Cache
from hook.kube.workloads import WorkloadCache
from hook.run import lookup, workloads
from hook.run.lookup import Lease, Lookup
from hook.run.statusobject import StatusObject
from hook.run.workloads import WorkloadObserver, as_json, as_lines, status_keys, stored_refreshes
from tests.client.fixtured import Shown
from tests.client.server import PATIENCE, Said, listed, refused, serving, until
from tests.client.test_job import ended, runner
from tests.client.test_statusobject import ConfigMap
from tests.fixtures import workloads as objects
from tests.fixtures.cluster import LATER, cluster
from tests.fixtures.objects import Object, R, at
from tests.unit.decide.test_workloads import restarted

CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
POD: Final = AffectedPod("team", "train", "train-uid", "gpu-0", Exposure.WHILE_STALE, at(5), ("train-gpu",))
RUN: Final = "driver-gpu-0-uid/1/0"


def held() -> list[Object]:
    """Return a pod from before the upgrade, with its claim, and a healthy one."""
    old, new = objects.claim_pod("old", started=-100), objects.claim_pod("new", started=R + 60)
    return [objects.claim("old-gpu", "old"), old, objects.claim("new-gpu", "new"), new]


def test_a_run_reports_the_pods_that_it_does_not_repair() -> None:
    """In its table, and by an Event on the pod; the Job neither fails nor waits. What cannot be read is named."""
    broken = objects.claim_pod("broken", started=5, patch={"status": {"startTime": "soon"}})
    with serving(Shown(cluster(), lambda: [*held(), broken])) as server:
        run = runner(server)
        outcome = ended(run)
        assert outcome.exit_code == 0
        assert [(str(pod), pod.exposure) for pod in run.workloads.affected.pods] == [
            ("team/old", Exposure.BEFORE_UPGRADE)
        ]
        for text in (as_lines(run.workloads.affected)[-1], as_json(run.workloads.affected)["problem"]):
            assert "Pod team/broken cannot be read: " in text
        run.workloads.shutdown(PATIENCE)
        assert [line for line in server.writes if "events" in line] == ["POST /api/v1/namespaces/team/events"]


def test_pods_are_listed_only_if_there_are_claims() -> None:
    """A cluster without claims of the drivers does not pay for a list of all its pods."""
    for more, expected in ((list, 0), (held, 1)):
        with serving(Shown(cluster(), more)) as server:
            cache = lookup.read_cache(server.api, Settings(), workloads=True)
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
        assert as_lines(affected) == []
        assert (as_json(affected)["affected"], as_json(affected)["problem"]) == (None, affected.unknown)


def test_a_missing_permission_is_named_once_and_tried_again_rarely(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in a controller, whose other informers retry without end. What ended is started again."""
    monkeypatch.setattr(retry, "JOB", retry.RetryPolicy(unreachable=PATIENCE, denied=0.0))
    with serving(shown := Shown(cluster(), held)) as server:
        shown.instead = lambda line: refused(403) if CLAIMS in line else None
        cache = WorkloadCache(server.api, ["gpu.nvidia.com"], retry.CONTROLLER)
        for _turn in range(2):
            cache.watch(requests.RESOURCE_SLICES, discovered=True)
            until(lambda: "permission missing" in cache.problem, "the informer ends")
        for _turn in range(3):
            cache.watch(requests.RESOURCE_SLICES, discovered=True)
        assert server.count(CLAIMS) == 1
        (logged,) = caplog.messages
        assert "permission missing: list resourceclaims.resource.k8s.io in the whole cluster" in logged
        monkeypatch.setattr(informers, "AGAIN_SECONDS", 0.0)
        shown.instead = lambda _line: None
        cache.watch(requests.RESOURCE_SLICES, discovered=True)
        monkeypatch.undo()

        def known() -> bool:
            cache.watch(requests.RESOURCE_SLICES, discovered=True)
            return not cache.problem

        until(known, "it is started again")
        assert len(cache.holders()) == 2
        cache.stop()


def test_the_moment_of_a_refresh_is_recorded_while_the_pods_are_not_known() -> None:
    """Nothing shows it later, so the status object keeps it for the next process."""
    found, memory = restarted()
    with serving(Said(404)) as server:
        cache = Cache(server.api, [], Settings(), retry.JOB)
        affected, refreshes = workloads.evaluate(cache, Settings(), {"gpu": found.seen()}, {"gpu": memory}, {})
    assert affected.unknown
    assert list(refreshes) == ["gpu-0"]
    assert stored_refreshes(status_keys(affected, refreshes)["refreshTimes"]) == refreshes


def test_the_status_object_shows_no_pods_that_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither after a minute without a view of them, nor at the end of a run, nor after the report is turned off."""
    shown, pods, off = {"affectedPods", "possiblyAffectedPods", "firstAffectedPods"}, ConfigMap(), {"refreshTimes"}
    monkeypatch.setattr(workloads, "EVALUATE_SECONDS", 0.0)
    monkeypatch.setattr(workloads, "AWAIT_SECONDS", 0.0)
    with serving(Shown(cluster(), held), wrote=pods.write) as server:
        cache = lookup.read_cache(server.api, Settings(), workloads=True)
        written = StatusObject(server.api, "ns", "it-status", "job/it", at(0))
        snapshots, memories = cache.snapshot(), {"gpu": Memory(started=LATER)}
        written.show(Decision(Phase.DONE, Reason.NOTHING_STALE, ""), snapshots, Settings())
        observer = WorkloadObserver(server.api, cache, Settings(), written, silent=True)
        before = pods.data.keys()
        for unknown_seconds, now, keys in ((60.0, False, shown | off), (60.0, True, off), (-1.0, False, off)):
            monkeypatch.setattr(WorkloadCache, "problem", "")
            observer.observe(snapshots, memories, now=True)
            assert pods.data.keys() - before == shown | off
            monkeypatch.setattr(WorkloadCache, "problem", "no permission")
            monkeypatch.setattr(workloads, "UNKNOWN_SECONDS", unknown_seconds)
            until(lambda: observer.observe(snapshots, memories).unknown, "it is due")
            observer.observe(snapshots, memories, now=now)
            assert pods.data.keys() - before == keys
        disabled = Settings(affected_workloads=AffectedWorkloads(enabled=False))
        WorkloadObserver(server.api, cache, disabled, written, silent=True).observe(snapshots, memories)
        assert pods.data.keys() == before
        cache.stop()


def test_settings_that_read_no_workloads() -> None:
    """It is turned off, or no driver prepares claims: no request, and the reason."""
    with serving(Shown(cluster(), held)) as server:
        run = runner(server, Settings(affected_workloads=AffectedWorkloads(enabled=False)))
        assert ended(run).exit_code == 0
        assert "affectedWorkloads.enabled" in run.workloads.affected.unknown
        assert server.count("resourceclaims") == 0
    assert "drivers" in workloads.why_not(Settings(drivers=("network",)))


def test_the_status_object_keeps_what_the_next_process_needs() -> None:
    """Refreshes of nodes with affected pods alone; a text that is not valid is ignored."""
    known = {"gpu-0": Refresh(RUN, at(9), at(8)), "gpu-1": Refresh(RUN, at(9)), "gpu-2": Refresh(RUN, at(9))}
    possible = replace(POD, name="maybe", node="gpu-1", exposure=Exposure.POSSIBLE)
    keys = status_keys(Affected((POD, possible)), known)
    assert (keys["affectedPods"], keys["possiblyAffectedPods"]) == ("1", "1")
    assert [pod["name"] for pod in json.loads(keys["firstAffectedPods"])] == ["train", "maybe"]
    assert stored_refreshes(keys["refreshTimes"]) == {"gpu-0": known["gpu-0"], "gpu-1": known["gpu-1"]}
    for text in ("", "no", "[]", '{"a": 1}', '{"a": {"run": "r", "by": "soon"}}'):
        assert stored_refreshes(text) == {}, text
    many = [replace(POD, name=f"train-{number}", node=f"gpu-{number}") for number in range(150)]
    keys = status_keys(Affected(tuple(many)), {pod.node: known["gpu-0"] for pod in many})
    assert len(json.loads(keys["firstAffectedPods"])) == 10
    assert len(json.loads(keys["refreshTimes"])) == 100
    newer = {"gpu-2": Refresh("later", at(20)), "gpu-3": Refresh(RUN, at(2))}
    theirs = {"gpu-0": Refresh("another", at(1)), **newer}
    assert workloads.with_better(known, theirs) == {**known, **newer}


def test_refreshes_are_read_from_the_controllers_object_or_from_those_of_jobs() -> None:
    """A Lease that is not renewed does not count. Without the permission nothing is known, and `status` continues."""
    text = status_keys(Affected((POD,)), {"gpu-0": Refresh(RUN, at(9))})["refreshTimes"]
    stored = {"kind": "ConfigMap", "metadata": {"name": "post-status"}, "data": {"refreshTimes": text}}
    lease = Lease("gpu-operator", "post", "pod-a", at(0))
    for said, seconds in ((Said(200, json.dumps(stored).encode()), 2), (listed(stored), 600)):
        with serving(said) as server:
            alive = Lookup(at(seconds), lease).alive
            assert workloads.read_refreshes(server.api, alive) == {"gpu-0": Refresh(RUN, at(9))}
            assert server.count("post-status" if alive else "gpu-operator-post%2Fobject%3Dstatus") == 1
    with serving(refused(403)) as server:
        assert workloads.read_refreshes(server.api, lease) == {}


def test_table_and_json_are_bounded() -> None:
    """The counts are of all pods; a large fleet gets no endless table and no endless line of JSON."""
    lines = as_lines(Affected((POD, replace(POD, name="maybe", exposure=Exposure.POSSIBLE))))
    assert "1 pods may hold files of an old driver, 1 possibly" in lines[0]
    assert "prepared while the plugin was stale" in lines[2]
    claims = tuple(f"claim-{number}" for number in range(12))
    many = Affected(tuple(replace(POD, name=f"train-{number}", claims=claims) for number in range(150)))
    lines = as_lines(many)
    assert (len(lines), lines[-1]) == (53, "(100 more pods)")
    assert lines[2].endswith("claim-9 and 2 more")
    whole = as_json(many)
    assert (whole["affected"], len(whole["pods"]), len(whole["pods"][0]["claims"])) == (150, 100, 10)


def test_events_are_bounded_and_not_repeated() -> None:
    """At most 100 pods have one at a time, each one for a driver run, also if the node is not evaluated meanwhile."""
    with serving(Said(200, b'{"kind": "Event"}')) as server:
        cache = Cache(server.api, [], Settings(), retry.JOB)
        observer = WorkloadObserver(server.api, cache, Settings(), None, silent=False)
        pods = [replace(POD, name=f"train-{number}", uid=f"uid-{number}") for number in range(120)]
        for found in (pods, [], pods, pods[110:], pods, [replace(pods[0], driver_run="next")]):
            observer._record(found)
        observer.shutdown(PATIENCE)
        assert len(server.writes) == 111


def test_nothing_is_written_before_the_object_is_known() -> None:
    """A controller that starts must not replace the refreshes that its predecessor or a Job has stored."""
    keys = status_keys(Affected((POD,)), {"gpu-0": Refresh(RUN, at(9))})
    answer = json.dumps({"kind": "ConfigMap", "data": {"phase": "Succeeded", **keys}}).encode()
    with serving(Said(200, answer)) as server:
        written = StatusObject(server.api, "ns", "it-status", "controller/a", at(0))
        written.note_workloads(keys)
        assert server.writes == []
        written.show(Decision(Phase.DONE, Reason.NOTHING_STALE, ""), {"gpu": cluster().seen()}, Settings())
        written.note_workloads(keys)
        assert len(server.writes) == 1
        written.note_workloads({**keys, "affectedPods": "0"})
        assert len(server.writes) == 2
