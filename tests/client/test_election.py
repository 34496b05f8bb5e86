"""Leader election: the Lease is held for certain, or nothing is written."""

# ruff: noqa: B023 - what is defined in a loop is used in the same turn
from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from hook.errors import ConflictError, LeaseLostError, RejectedError
from hook.kube import election
from hook.kube.election import JITTER_FACTOR, LeaderElectionConfig, LeaderElector
from hook.kube.requests import LEASES, delete_pod
from hook.objects import names
from tests.client.leases import NAME, NAMESPACE, PATH, held, keeping
from tests.client.server import HTML, PATIENCE, SILENT, Said, bounded, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hook.kube.requests import Request
    from tests.client.leases import Leases
    from tests.client.server import Server

CONFIG = LeaderElectionConfig(NAMESPACE, NAME, "a")
DELETE = delete_pod("dra", "a", "uid", "7")
LATER = "2099-01-01T00:00:00.000000Z"


class Clock:
    """A monotonic clock that advances while an elector sleeps, and when a test advances it."""

    def __init__(self) -> None:
        """Begin anywhere."""
        self.now = 1000.0
        self.pauses: list[float] = []
        self.on_pause: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.pauses.append(seconds)
        assert len(self.pauses) < 100, "it does not end"
        self.now += seconds
        self.on_pause()


class Scene:
    """One API server, one clock, and electors that are driven step by step."""

    def __init__(self, kept: Leases, server: Server) -> None:
        """Begin without a Lease."""
        self.kept, self.server, self.clock = kept, server, Clock()
        self.tries: list[str] = []

    def elector(self, identity: str = "a") -> LeaderElector:
        """Return an elector that has tried nothing yet."""
        config = replace(CONFIG, identity=identity)
        return LeaderElector(self.server.api, config, self.tries.append, self.clock, self.clock.sleep)

    def leader(self) -> LeaderElector:
        """Return an elector that has just acquired the Lease."""
        elector = self.elector()
        assert elector._try()
        assert elector.leading
        return elector

    @property
    def spec(self) -> dict[str, Any]:
        """Return what the Lease shows now."""
        assert self.kept.lease is not None
        return dict(self.kept.lease["spec"])


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Serve one Lease."""
    with keeping() as (kept, server):
        yield Scene(kept, server)


def test_a_lease_is_created_and_renewed(scene: Scene) -> None:
    """It has the label by which it is found. A renewal changes nothing that is not its own."""
    elector = scene.leader()
    first = scene.spec
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("a", 15, 0)
    assert scene.kept.lease is not None
    assert scene.kept.lease["metadata"]["labels"] == names.OWN_LABELS
    scene.kept.change({"metadata": {"annotations": {"of": "others"}}, "spec": {"strategy": "new"}})
    assert elector._try()
    assert scene.spec == {**first, "strategy": "new", "renewTime": scene.spec["renewTime"]}
    assert scene.spec["renewTime"] > first["renewTime"]
    assert scene.kept.annotation("of") == "others"


def test_the_times_are_the_api_servers(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of the Lease know that clock, too: a node whose own is wrong makes no leader look dead."""
    ahead = timedelta(hours=1)
    monkeypatch.setattr(scene.server.api, "now", lambda: datetime.now(UTC) + ahead)
    scene.leader()
    for stamp in (scene.spec["acquireTime"], scene.spec["renewTime"]):
        assert abs(datetime.fromisoformat(stamp) - datetime.now(UTC) - ahead) < timedelta(minutes=10)


def test_a_wall_clock_that_steps_during_a_failed_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One failed renewal loses no Lease, whatever was set: there are ten seconds of tries."""
    for step in (11.0, 3600.0, -3600.0):
        with keeping() as (kept, server):
            scene = Scene(kept, server)
            wall, began, leading = [0.0], scene.clock.now, list[bool]()
            monkeypatch.setattr(time, "time", lambda: scene.clock.now + wall[0])
            elector = scene.elector()

            def fail(line: str) -> Said | None:
                if "PATCH" not in line or wall[0]:
                    return None
                wall[0] = step
                return Said(500)

            def look() -> None:
                leading.append(elector.leading)
                if scene.clock.now - began >= 30:
                    elector._over.set()

            kept.instead, scene.clock.on_pause = fail, look
            elector.run()
            assert (leading, scene.clock.pauses) == ([True] * 15, [2] * 15), step
            assert [trouble for trouble in scene.tries if trouble] == ["the API server answered 500: HTTP 500"], step


def test_a_leader_that_cannot_renew_for_ten_seconds() -> None:
    """It tries every two seconds; then its fence stops each write, and the election ends."""
    for name, said in (("errors", Said(500)), ("cut off", Said()), ("credentials gone", refused(401))):
        with keeping() as (kept, server):
            scene = Scene(kept, server)
            elector, began = scene.elector(), scene.clock.now
            server.api.before_write = elector.fence
            passed: list[float] = []

            def write() -> None:
                kept.instead = lambda line: said if PATH in line else None
                passed.append(scene.clock.now - began)
                lost = pytest.raises(LeaseLostError, match="was not renewed in time: ")
                with nullcontext() if passed[-1] < 10 else lost:
                    server.api.send(DELETE)

            scene.clock.on_pause = write
            elector.run()
            assert passed == [2, 4, 6, 8, 10], name
            assert (server.count("DELETE"), elector.ended) == (4, True), name


def test_no_request_outlasts_the_lease(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs leaves time for another one, and is given up with the Lease."""
    send, bounds = scene.server.api.send, list[float]()

    def bounded(request: Request, seconds: float) -> dict[str, Any]:
        bounds.append(seconds)
        return send(request, seconds)

    monkeypatch.setattr(scene.server.api, "send", bounded)
    elector = scene.leader()
    assert bounds == [5, 5]
    scene.kept.instead = lambda _line: Said(500)
    for age, bound in ((4.0, 5.0), (8.0, 2.0), (11.0, 5.0)):
        scene.clock.now = elector._renewed_at + age
        assert not elector._try()
        assert bounds.pop() == bound


def test_a_renewal_counts_from_when_it_was_sent(scene: Scene) -> None:
    """A standby counts from when it sees it, which is later. From the answer, a slow server would let two lead."""
    elector = scene.leader()

    def slowly(line: str) -> None:
        scene.clock.now += 4 if "PATCH" in line else 0

    scene.kept.instead = slowly
    assert elector._try()
    assert elector.remaining == 15 - 4
    scene.clock.now += 6
    assert not elector.leading


def test_a_process_that_was_suspended_writes_nothing(scene: Scene) -> None:
    """Not even to its Lease: another replica may have taken it, acted, and gone."""
    elector, asked = scene.elector(), list[int]()

    def suspend() -> None:
        scene.clock.now += 60
        asked.append(len(scene.server.asked))

    scene.clock.on_pause = suspend
    elector.run()
    assert (asked, elector.ended) == ([len(scene.server.asked)], True)
    with pytest.raises(LeaseLostError):
        elector.fence(DELETE)


def test_a_standby_waits_for_the_whole_term(scene: Scene) -> None:
    """It counts on its own clock from each change that it saw, and by the term that the holder has set."""
    scene.leader()
    scene.kept.change({"spec": {"leaseDurationSeconds": 20, "renewTime": "2000-01-01T00:00:00.000000Z"}})
    standby = scene.elector("b")
    assert not standby._try()
    scene.clock.now += 19
    scene.kept.change({"spec": {"renewTime": LATER}})
    assert not standby._try()
    scene.clock.now += 19
    scene.kept.change({"metadata": {"annotations": {"of": "others"}}})
    assert not standby._try()
    with pytest.raises(LeaseLostError, match="held by a"):
        standby.fence(DELETE)
    scene.clock.now += 1
    assert standby._try()
    assert (scene.kept.holder, standby.leading, scene.spec["leaseTransitions"]) == ("b", True, 1)
    assert scene.spec["acquireTime"] == scene.spec["renewTime"] != LATER
    assert set(scene.tries) == {""}


def test_a_standby_jitters(scene: Scene) -> None:
    """Several replicas that start together do not ask together; each asks again within five seconds."""
    scene.leader()
    standby = scene.elector("b")
    scene.clock.on_pause = lambda: standby._over.set() if len(scene.clock.pauses) == 20 else scene.kept.change(
        {"spec": {"renewTime": str(scene.clock.now)}}
    )  # fmt: skip
    standby.run()
    assert len(set(scene.clock.pauses)) > 1
    assert all(2 <= pause <= 2 * (1 + JITTER_FACTOR) for pause in scene.clock.pauses)


def test_of_two_that_take_it_at_once_one_leads() -> None:
    """The version decides, or the name, and the second learns of the first with its next try."""
    for verb in ("POST", "PATCH"):
        with keeping() as (kept, server):
            scene = Scene(kept, server)
            if verb == "PATCH":
                kept._keep({"kind": "Lease", "metadata": {}, "spec": {}})
            elector, other = scene.elector("a"), scene.elector("b")
            before = [verb]

            def overtake(line: str) -> None:
                if before and line.startswith(before[0]):
                    before.clear()
                    assert other._try()

            kept.instead = overtake
            assert not elector._try()
            assert (elector.leading, other.leading, elector.trouble) == (False, True, "no"), verb
            assert not elector._try()
            assert (elector.holder, elector.trouble) == ("b", ""), verb


def test_a_leader_that_was_replaced_stops(scene: Scene) -> None:
    """It does not ask for ten seconds whether that was meant, and does not release what another one holds."""
    elector = scene.elector()
    scene.clock.on_pause = partial(scene.kept.change, {"spec": {"holderIdentity": "b", "renewTime": LATER}})
    elector.run()
    assert (elector.ended, scene.kept.holder, scene.clock.pauses) == (True, "b", [2, 2])
    with pytest.raises(LeaseLostError, match="held by b"):
        elector.check()


def test_a_lease_that_was_deleted_is_created_again(scene: Scene) -> None:
    """The leader still leads: no other replica has seen a free Lease."""
    elector = scene.leader()
    scene.kept.lease = None
    assert elector._try()
    assert (scene.kept.holder, elector.leading) == ("a", True)


def test_a_renewal_whose_answer_was_lost(scene: Scene) -> None:
    """It does not count, and the next one names the version that it left."""
    elector = scene.leader()
    scene.clock.now += 2

    def lose(line: str) -> Said | None:
        if "PATCH" in line:
            scene.kept.change({"spec": {"renewTime": LATER}})
            return Said()
        return None

    scene.kept.instead = lose
    assert not elector._try()
    assert (elector.remaining, elector.leading) == (13, True)
    scene.kept.instead = lambda _line: None
    assert elector._try()
    assert (elector.remaining, scene.spec["leaseTransitions"]) == (15, 0)


def test_only_a_lease_that_is_missing_is_created(scene: Scene) -> None:
    """After any other answer it reports why, and tries again."""
    elector = scene.elector()
    for said in (
        Said(404, b"<html>no backend</html>", HTML),
        refused(403),
        Said(200, b'{"kind": "Lease", "spec": {"holderIdentity": 7}}'),
        Said(200, b'{"kind": "Lease"}'),
    ):
        scene.tries.clear()
        scene.kept.instead = lambda line: said if "GET" in line else None
        assert not elector._try(), said
        assert (scene.server.count("POST"), scene.server.count("PATCH"), elector.ended) == (0, 0, False), said
        assert elector.trouble, said
        assert scene.tries == [elector.trouble], said
    scene.kept.instead = lambda _line: None
    assert elector._try()
    assert elector.trouble == ""


def test_a_refusal_is_an_answer(scene: Scene) -> None:
    """A new process would be refused as well; only silence, or an error of the server, may be cured by one."""
    elector = scene.elector()
    for said in (refused(403), refused(401), refused(429), Said(500), Said()):
        scene.kept.instead = lambda _line: said
        scene.clock.now += 1
        assert not elector._try()
        assert (elector.answered == scene.clock.now) is (0 < said.status < 500), said


def test_a_lease_that_was_made_by_hand_is_taken(scene: Scene) -> None:
    """By an administrator, or a chart: at once, or when its term is over."""
    for spec, term in (
        ({}, 0),
        ({"holderIdentity": "", "leaseDurationSeconds": 1}, 0),
        ({"holderIdentity": "x"}, 0),
        ({"holderIdentity": "x", "renewTime": "soon", "leaseDurationSeconds": 9}, 9),
        ({"holderIdentity": "x", "renewTime": "0001-01-01T00:00:00Z", "leaseDurationSeconds": 9}, 9),
    ):
        scene.kept._keep({"kind": "Lease", "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        elector = scene.elector()
        assert elector._try() is not bool(term), spec
        scene.clock.now += term
        assert elector._try(), spec
        assert scene.kept.holder == "a", spec
        scene.kept.lease = None


def test_the_fence(scene: Scene) -> None:
    """Each of three facts alone holds every write back, but for those to the Lease itself."""
    for age, holder, over, leading in (
        (9.0, "a", False, True),
        (10.0, "a", False, False),
        (1.0, "b", False, False),
        (1.0, "", False, False),
        (1.0, "a", True, False),
    ):
        scene.kept.lease = None
        elector = scene.leader()
        scene.clock.now += age
        elector.holder = holder
        if over:
            elector._over.set()
        assert elector.leading is leading, (age, holder, over)
        elector.fence(replace(DELETE, resource=LEASES))
        with nullcontext() if leading else pytest.raises(LeaseLostError):
            elector.fence(DELETE)


def test_annotations_meet_others(scene: Scene) -> None:
    """They leave there what others have written, and the Lease is kept."""
    elector = scene.leader()
    scene.kept.change({"metadata": {"annotations": {"of": "others"}, "labels": None}})
    elector.annotate({names.STATUS_ANNOTATION: "{}"})
    assert scene.kept.lease is not None
    assert scene.kept.lease["metadata"]["annotations"] == {names.STATUS_ANNOTATION: "{}", "of": "others"}
    assert scene.kept.lease["metadata"]["labels"] == names.OWN_LABELS
    assert elector._try()


def test_renewals_that_come_in_between_again_and_again() -> None:
    """On a busy machine several do before one annotation is written. Each try goes by what is there then."""
    for conflicts in range(election.ANNOTATE_TRIES + 1):
        with keeping() as (kept, server):
            elector = Scene(kept, server).leader()
            times = [f"2099-01-01T00:00:{number:02}.000000Z" for number in range(conflicts)]

            def renew(line: str) -> None:
                if "PATCH" in line and times:
                    kept.change({"spec": {"renewTime": times.pop()}})

            kept.instead = renew
            written = conflicts < election.ANNOTATE_TRIES
            with nullcontext() if written else pytest.raises(ConflictError):
                elector.annotate({names.STATUS_ANNOTATION: "{}"})
            assert ((kept.annotation(names.STATUS_ANNOTATION) == "{}"), times) == (written, []), conflicts


def test_conflicts_end_with_the_renew_deadline(scene: Scene) -> None:
    """The caller tries again later; its loop has more to do."""
    elector = scene.leader()

    def conflict(line: str) -> Said | None:
        if "PATCH" not in line:
            return None
        scene.clock.now += 5
        elector._renewed_at = scene.clock.now  # by the other thread
        return Said(409, b'{"kind": "Status"}')

    scene.kept.instead = conflict
    with pytest.raises(ConflictError):
        elector.annotate({names.STATUS_ANNOTATION: "{}"})
    assert scene.server.count("PATCH") == 2


def test_what_is_lost_between_two_tries_is_not_annotated(scene: Scene) -> None:
    """The new leader annotates it now."""
    elector = scene.leader()
    changes = [{"renewTime": LATER}, {"holderIdentity": "b"}]

    def change(line: str) -> None:
        if "PATCH" in line and changes:
            scene.kept.change({"spec": changes.pop(0)})

    scene.kept.instead = change
    with pytest.raises(LeaseLostError, match="held by b"):
        elector.annotate({names.STATUS_ANNOTATION: "{}"})
    assert (scene.kept.annotation(names.STATUS_ANNOTATION), scene.server.count("PATCH")) == ("", 2)


def test_nothing_is_annotated_without_the_lease(scene: Scene) -> None:
    """Also where no other replica has taken it yet, and where it expires while it is read."""
    elector = scene.leader()
    scene.kept.instead = lambda _line: setattr(scene.clock, "now", scene.clock.now + 11)
    for asked in (1, 0):
        before = len(scene.server.asked)
        with pytest.raises(LeaseLostError):
            elector.annotate({names.STATUS_ANNOTATION: "{}"})
        assert len(scene.server.asked) - before == asked
    assert scene.server.count("PATCH") == 0


def test_a_malformed_lease_is_not_annotated(scene: Scene) -> None:
    """The caller handles it as every other error of the cluster."""
    elector = scene.leader()
    scene.kept.change({"spec": {"leaseTransitions": "7"}})
    with pytest.raises(RejectedError, match="cannot be read"):
        elector.annotate({names.STATUS_ANNOTATION: "{}"})


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release the Lease on a busy machine, too."""
    monkeypatch.setattr(election, "RELEASE_SECONDS", 60.0)


def test_a_standby_is_woken_at_once(scene: Scene) -> None:
    """When it leads, or when it was released without the Lease, and not at its next look, without end here."""
    leading, released = LeaderElector(scene.server.api, CONFIG, scene.tries.append), scene.elector()
    for elector, act in ((leading, leading.start), (released, released.release)):
        threading.Timer(0.05, act).start()
        elector.await_lease(PATIENCE)
        assert elector._acquired.is_set()
    assert (leading.leading, released.leading) == (True, False)


@pytest.mark.usefixtures("patient")
def test_a_released_lease_is_taken_at_once() -> None:
    """Nothing is acquired or renewed any more by the one that released it, whatever was on its way."""
    for renewals in (0, 1):
        with keeping() as (kept, server):
            scene, elector, times = Scene(kept, server), held(server), [LATER] * renewals

            def renew(line: str) -> None:
                if "PATCH" in line and times:
                    kept.change({"spec": {"renewTime": times.pop()}})

            kept.instead = renew
            elector.release()
            assert (scene.spec["holderIdentity"], scene.spec["leaseDurationSeconds"]) == ("", 1)
            assert scene.spec["acquireTime"] == scene.spec["renewTime"]
            assert (elector.leading, elector._try(), kept.holder, times) == (False, False, "", [])
            assert scene.elector("b")._try()
            elector.release()
            assert kept.holder == "b", renewals


@pytest.mark.usefixtures("patient")
def test_what_another_one_holds_is_not_released(scene: Scene) -> None:
    """Whether it was known before, or is found out now."""
    elector = held(scene.server)
    scene.kept.change({"spec": {"holderIdentity": "b"}})
    elector.release()
    assert scene.kept.holder == "b"
    standby = scene.elector("c")
    assert not standby._try()
    scene.server.asked.clear()
    standby.release()
    assert (scene.server.asked, standby.ended) == ([], True)


def test_a_lease_that_was_not_renewed_is_not_released(scene: Scene) -> None:
    """It expires, because a write that passed the fence may still be on its way."""
    elector = scene.elector()
    scene.clock.on_pause = lambda: setattr(scene.clock, "now", scene.clock.now + 10)
    elector.run()
    scene.server.asked.clear()
    elector.release()
    assert (scene.kept.holder, scene.server.asked) == ("a", [])


def test_a_release_does_not_wait_for_a_silent_server() -> None:
    """The kubelet waits for the process to exit, and the Lease expires anyway."""
    for verb in ("GET", "PATCH"):
        with keeping() as (kept, server):
            elector = held(server)
            kept.instead = lambda line: SILENT if verb in line else None
            with bounded():
                elector.release()
            assert not elector.leading
