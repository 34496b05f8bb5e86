"""What months bring: kinds that come and go, permissions that are gone for a while, and nothing that piles up."""

from __future__ import annotations

import json
import logging
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from hook.config import Settings
from hook.decide import decide
from hook.decide.reasons import Reason
from hook.decide.result import Decision, DeletePod, NodeState, NodeStatus, Phase, RolloutRestart, StalePod
from hook.decide.state import Breaker, Memory
from hook.errors import PermissionDeniedError, UnauthorizedError, UnreachableError
from hook.kube import cache as caches
from hook.kube import events, retry
from hook.kube.cache import Cache
from hook.kube.events import EventRecorder, ObjectReference, Target
from hook.objects import names
from hook.objects.drivers import GPU_OPERATOR
from hook.run import controller, status
from hook.run.controller import Identity, Leader, StateReporter
from hook.run.loop import Restarter
from hook.run.metrics import Telemetry
from hook.run.report import ProgressReporter
from hook.run.status import ControllerState, ControllerStatus, OpenBreaker, StatusWriter
from tests.client.leases import NAMESPACE, held, keeping, until
from tests.client.server import Said, serving
from tests.fixtures.cluster import LATER, cluster
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import Pool, pooled
from tests.fixtures.objects import obj

if TYPE_CHECKING:
    from hook.decide.decide import Snapshots
    from tests.fixtures.objects import Object

FOLLOW = FOLLOWING
OWNER = ObjectReference("apps/v1", "Deployment", NAMESPACE, "post", "uid")
STALE = StalePod("dra", "a", "uid-a", "7", "ds", because="it is stale", driver_run="run")
DELETE = DeletePod("gpu-0", STALE, "gpu")
ROLLOUT = RolloutRestart("dra", "plugin", "ds", LATER, (("gpu-0", STALE),), "gpu")
DENIED = Said(403, b'{"kind": "Status", "code": 403, "message": "no"}')


def test_a_follower_waits_for_ever_for_what_may_pass() -> None:
    """From the first moment on, and also once it has seen the cluster; a Job's run does not."""
    errors = (UnreachableError("no"), UnauthorizedError("no"), PermissionDeniedError("list", "nodes", ""))
    assert {retry.FOREVER} == {retry.synced(retry.CONTROLLER).seconds(error) for error in errors}
    assert retry.synced(retry.starting(60)) is retry.JOB


BOTH: Final = pytest.mark.parametrize("patience", [retry.CONTROLLER, retry.starting(60.0)], ids=["for-ever", "one-run"])
"""A cache is the same for a run that ends and for months."""


@BOTH
def test_slices_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, patience: retry.RetryPolicy
) -> None:
    """An answer that fails is none, and is said once; where an upgrade takes a version away, the next is followed."""
    monkeypatch.setattr(caches, "DISCOVERY_SECONDS", 0.0)
    monkeypatch.setattr(caches, "FIRST_DISCOVERY_SECONDS", 0.0)
    with keeping() as (kept, server):
        cache = Cache(server.api, [GPU_OPERATOR], FOLLOW, patience)
        cache.watch_policies()
        kept.instead = lambda line: Said(503) if line.endswith("resource.k8s.io") else None
        for _time in range(3):
            cache.watch_fleet()
        assert [logging.WARNING] == [one.levelno for one in caplog.records if "ResourceSlices" in one.message]
        until(lambda: server.count("/nodes?") and server.count("/leases?"), "the rest is read")
        assert not cache.synced
        kept.served = {"v1beta1"}
        kept.instead = lambda line: Said(404, b'{"kind": "Status"}') if "/v1/resourceslices" in line else None
        cache.watch_fleet()
        until(lambda: cache.synced and server.count("v1beta1/resourceslices"), "slices are read")
        assert cache.snapshot()["gpu"].slices == ()
        kept.served = {"v1"}
        kept.instead = lambda line: Said(404, b'{"kind": "Status"}') if "v1beta1" in line else None

        def moved() -> int:
            cache.watch_plugins()
            return server.count("/v1/resourceslices")

        until(moved, "the next version is read")
        until(lambda: cache.synced and cache.snapshot()["gpu"].slices == (), "it is shown")
        cache.stop()


def test_what_is_known_of_slices_outlives_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any answer a run has only the patience to begin; after one, it continues with that answer."""
    monkeypatch.setattr(caches, "DISCOVERY_SECONDS", 0.0)
    monkeypatch.setattr(caches, "FIRST_DISCOVERY_SECONDS", 0.0)
    monkeypatch.setattr(retry, "JOB", retry.RetryPolicy(unreachable=0.0, denied=0.0))
    with keeping() as (kept, server):
        kept.served = set()
        cache = Cache(server.api, [GPU_OPERATOR], Settings(), retry.RetryPolicy(unreachable=60.0, denied=0.0))
        cache.watch_policies()
        kept.instead = lambda line: DENIED if line.endswith("resource.k8s.io") else None
        with pytest.raises(PermissionDeniedError):
            cache.watch_fleet()
        kept.instead = lambda _line: None
        cache.watch_fleet()
        until(lambda: cache.synced, "all is read")
        kept.instead = lambda line: DENIED if line.endswith("resource.k8s.io") else None
        asked = server.count("GET /apis/resource.k8s.io")
        for _time in range(3):
            cache.watch_plugins()
        assert server.count("GET /apis/resource.k8s.io") == asked + 3
        cache.stop()


def _listed(*objects: Object) -> Said:
    return Said(200, json.dumps({"kind": "List", "items": objects, "metadata": {"resourceVersion": "1"}}).encode())


@BOTH
def test_what_a_policy_left_behind_is_forgotten(patience: retry.RetryPolicy) -> None:
    """Pools mean nothing once the policy decides by itself again: a Job that begins then knows of none."""
    before = pooled(Pool("one", ("a",)))
    policy = before.of("policy")
    with keeping() as (kept, server):

        def instead(line: str) -> Said | None:
            if "watch=true" in line:
                return Said(410, b'{"kind": "Status", "code": 410}')
            if "nvidiadrivers" in line:
                return _listed(*before.of("pool"))
            return _listed(*policy) if "clusterpolicies" in line else None

        kept.instead = instead
        cache = Cache(server.api, [GPU_OPERATOR], FOLLOW, patience)
        cache.watch_policies()
        cache.watch_fleet()

        def pools() -> list[str] | None:
            if cache.synced:
                cache.watch_plugins()
            return [one.name for one in cache.snapshot()["gpu"].pools] if cache.synced else None

        until(lambda: pools() == ["one"], "the policy leaves drivers to a pool")
        policy = cluster("a").of("policy")
        until(lambda: pools() == [], "it decides by itself again")
        cache.stop()


def _plugin(name: str) -> tuple[Object, Object]:
    """Return a DaemonSet that looks like a plugin, with a selector of its own, and a pod of it."""
    labels = {f"{name}-component": "kubelet-plugin"}
    selector: Object = {"metadata": {"name": name, "uid": name}, "spec": {"selector": {"matchLabels": labels}}}
    daemonset = obj("plugin-daemonset", selector)
    daemonset["spec"]["selector"]["matchLabels"] = labels
    owner = [{"kind": "DaemonSet", "uid": name, "controller": True}]
    return daemonset, obj("plugin-pod", {"metadata": {"name": f"{name}-0", "uid": name, "ownerReferences": owner}})


@BOTH
def test_pods_of_a_daemonset_that_is_gone_are_let_go_after_a_while(
    monkeypatch: pytest.MonkeyPatch, patience: retry.RetryPolicy
) -> None:
    """Not at once, because releases are reinstalled; nor what looks like a plugin under a name of its own."""
    there = {name: _plugin(name) for name in ("dra-driver-nvidia-gpu-kubelet-plugin", "mine")}

    def instead(line: str) -> Said | None:
        if "watch=true" in line:
            return Said(410, b'{"kind": "Status", "code": 410}')
        if "/daemonsets?" in line:
            return _listed(*(daemonset for daemonset, _pod in there.values()))
        of = [name for name in ("dra-driver-nvidia-gpu-kubelet-plugin", "mine") if f"{name}-component" in line]
        return _listed(_plugin(of[0])[1]) if of else None

    with keeping() as (kept, server):
        kept.instead = instead
        cache = Cache(server.api, [GPU_OPERATOR], FOLLOW, patience)
        cache.watch_policies()
        cache.watch_fleet()

        def pods() -> list[str] | None:
            if cache.synced:
                cache.watch_plugins()
            return sorted(one.name for one in cache.snapshot()["gpu"].plugin_pods) if cache.synced else None

        both = ["dra-driver-nvidia-gpu-kubelet-plugin-0", "mine-0"]
        until(lambda: pods() == both, "the pods of both are read")
        mine = next(one for one in cache._informers if "mine" in one.options.labels)
        informer = cache._informers[mine]
        del there["dra-driver-nvidia-gpu-kubelet-plugin"]
        seen = server.count("/daemonsets?")
        until(lambda: server.count("/daemonsets?") > seen + 2, "the DaemonSet is seen to be gone")
        assert pods() in (both, None)
        monkeypatch.setattr(caches, "UNUSED_SECONDS", 0.0)
        until(lambda: pods() == ["mine-0"], "its pods are let go")
        cache.watch_plugins()
        assert informer is cache._informers[mine]
        cache.stop()


def test_a_cluster_that_never_rests_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is nothing to protect a look costs nothing, and others change their DaemonSets all day."""
    monkeypatch.setattr(controller, "LONGEST_PAUSE_SECONDS", 3600.0)
    looks: list[object] = []

    def looked(seen: Snapshots, settings: Settings) -> Decision | None:
        looks.append(seen)
        return decide.early_skip(seen, settings)

    monkeypatch.setattr(controller, "early_skip", looked)
    with keeping() as (_kept, server):
        lease = held(server)
        one = Leader(server.api, FOLLOW, Identity(lease.config), lease, Telemetry(server.api.counters))
        one.cache.watch_policies()
        until(lambda: one.cache.synced, "all is read")
        threading.Thread(target=one._await_something_to_protect, daemon=True).start()
        until(lambda: looks, "it looks")
        for _time in range(40):
            one.cache._note_change()
            time.sleep(0.05)
        assert len(looks) == 1
        one.cache.stop()
        lease.release()


def test_a_missing_permission_to_restart_ends_no_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is trouble that another try may mend, but not the next second; a Job's run ends for it."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, denied=0))
    with serving(lambda _line: DENIED) as server:
        for action in (DELETE, ROLLOUT):
            restarter = Restarter(server.api, lasting=True)
            (result,) = restarter.act([action], 60)
            assert (bool(result.trouble), result.note, result.refused) == (True, "", "")
            asked = len(server.asked)
            assert list(restarter.act([action], 60)) == []
            assert len(server.asked) == asked
            with pytest.raises(PermissionDeniedError):
                list(Restarter(server.api).act([action], 60))


def test_the_record_is_written_when_somebody_may_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new intent at once; what else changes now and then; that it looked again rarely."""
    for name, seconds in (("RETRY_SECONDS", 0.0), ("WRITE_SECONDS", 3600.0), ("UNCHANGED_SECONDS", 7200.0)):
        monkeypatch.setattr(status, name, seconds)
    with keeping() as (kept, server):
        record = StatusWriter(held(server))
        first = ControllerStatus(spec_hashes={"gpu": "0123456789abcdef"}, observed_at=LATER)
        assert record.write(first)
        assert ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION)) == first
        more = ControllerStatus(spec_hashes=first.spec_hashes, remaining=3, observed_at=LATER)
        assert not record.write(more)
        assert ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION)) == first
        other = ControllerStatus(spec_hashes={"gpu": "fedcba9876543210"}, remaining=3)
        assert record.write(other)
        assert ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION)) == other
        looked = ControllerStatus(spec_hashes=other.spec_hashes, remaining=3, observed_at=LATER, eta_seconds=7)
        assert record.write(looked)
        assert ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION)) == other
        monkeypatch.setattr(status, "UNCHANGED_SECONDS", 0.0)
        assert record.write(looked)
        assert ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION)) == looked


def test_a_record_that_cannot_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serving goes on meanwhile."""
    monkeypatch.setattr(status, "RETRY_SECONDS", 0.0)
    with keeping() as (kept, server):
        record = StatusWriter(held(server))
        kept.instead = lambda line: Said(500) if "PATCH" in line else None
        assert not record.write(ControllerStatus())
        kept.instead = lambda _line: None
        assert record.write(ControllerStatus())


def test_what_opened_or_closed_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Job that delegates to the controller waits while a breaker is open."""
    for name, seconds in (("RETRY_SECONDS", 0.0), ("WRITE_SECONDS", 3600.0), ("UNCHANGED_SECONDS", 7200.0)):
        monkeypatch.setattr(status, name, seconds)
    with keeping() as (kept, server):
        record = StatusWriter(held(server))
        opened = ControllerStatus(breakers={"gpu": OpenBreaker(LATER, "9 of 10")})
        for one in (ControllerStatus(), opened, ControllerStatus()):
            assert record.write(one)
            assert ControllerStatus.decode(kept.said(names.STATUS_ANNOTATION)) == one


def test_who_is_blind_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It acknowledges no spec that it cannot see to."""
    with keeping() as (kept, server):
        lease = held(server)
        one = Leader(server.api, FOLLOW, Identity(lease.config), lease, Telemetry(server.api.counters))
        one.cache.watch_policies()
        one.cache.watch_fleet()
        until(lambda: one.cache.synced, "all is read")
        fleets, done = decide.indexed(one.cache.snapshot(), FOLLOW), _decision(Phase.DONE, Reason.NOTHING_STALE)
        assert (one._state(done, fleets).spec_hashes, one._state(done, fleets).eta) == ({"gpu": ""}, 0)
        kept.instead = lambda line: DENIED if "watch=true" in line else None
        until(lambda: one.cache.out_of_sync, "it is blind")
        assert one._state(done, fleets).spec_hashes == {"gpu": ""}
        monkeypatch.setattr(controller, "UNREADY_SECONDS", 0.0)
        until(lambda: not one._state(done, fleets).spec_hashes, "it is blind for long")
        one.cache.stop()
        lease.release()


class Ear(EventRecorder):
    """Keeps what events would say."""

    def __init__(self) -> None:
        """Begin without any."""
        self.heard: list[tuple[str, str, bool]] = []

    def event(self, target: Target, reason: str, _note: str, *, about: str = "", warning: bool = False) -> None:
        """Note it."""
        assert about == ""
        assert isinstance(target, ObjectReference)
        self.heard.append((target.kind, str(reason), warning))


def _decision(phase: Phase, reason: Reason, *nodes: str) -> Decision:
    judged = tuple(NodeStatus(node, NodeState.VERIFIED, Reason.VERIFIED, "ok", stack="gpu") for node in nodes)
    return Decision(phase, reason, "so it is", statuses=judged, stack="gpu")


def _state(decision: Decision, restarted: int = 0, breaker: Breaker | None = None) -> ControllerState:
    memory = Memory(started=LATER, breaker=breaker or Breaker())
    return ControllerState(decision, {"gpu": memory}, LATER, restarted=restarted)


def test_each_change_is_reported_once() -> None:
    """What opens and closes, what fails, and what was refreshed; nothing of a fleet at rest."""
    ear = Ear()
    reporter = StateReporter(ProgressReporter(ear, OWNER))
    daemonset = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "ds")
    for _time in range(3):
        reporter.report(_state(_decision(Phase.DONE, Reason.NOTHING_STALE)), [daemonset])
    assert ear.heard == []
    for _time in range(3):
        failed = _decision(Phase.FAIL, Reason.UPGRADE_FAILED)
        reporter.report(_state(failed, breaker=Breaker(LATER, "9 of 10")), [daemonset])
    assert ear.heard == [
        ("Deployment", "BreakerOpen", True), ("DaemonSet", "BreakerOpen", True), ("Deployment", "UpgradeFailed", True)
    ]  # fmt: skip
    ear.heard.clear()
    for _time in range(3):
        reporter.report(_state(_decision(Phase.DONE, Reason.REFRESHED), 2), [daemonset])
    assert ear.heard == [
        ("Deployment", "BreakerClosed", False), ("DaemonSet", "BreakerClosed", False),
        ("Deployment", "Refreshed", False), ("DaemonSet", "Refreshed", False),
    ]  # fmt: skip


def test_nodes_that_are_gone_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """Nodes come and go under new names for months; one that comes back is reported again."""
    progress = ProgressReporter(Ear(), None)
    reporter = StateReporter(progress)
    with caplog.at_level(logging.INFO):
        for number in range(50):
            reporter.report(_state(_decision(Phase.DONE, Reason.NOTHING_STALE, f"node-{number}")), [])
        assert len(progress._reported) == 1
        reporter.report(_state(_decision(Phase.DONE, Reason.NOTHING_STALE, "node-0")), [])
    assert 2 == sum("node node-0: " in record.message for record in caplog.records)


def test_counts_of_events_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each restart is a fact of its own, and a follower sees many."""
    monkeypatch.setattr(events, "COUNTS_LIMIT", 3)
    with serving(lambda _line: Said(201, b'{"kind": "Event"}')) as server:
        recorder = EventRecorder(server.api, "run", silent=False)
        for about in ("a", "b", "c", "d", "a", "a"):
            recorder.event(OWNER, "Restarted", "note", about=about)
        until(lambda: server.count("PATCH") == 1 and server.count("POST") == 5, "all are written")
        until(lambda: len(recorder._counts) == 3, "the last answer is taken, and the oldest counts are gone")
