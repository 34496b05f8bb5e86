"""Who of several followers acts: the Lease is held for sure, or nothing is written."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes.leaderelection.leaderelectionrecord import LeaderElectionRecord

from hook.cluster import lease as leases
from hook.cluster.lease import Lease
from hook.cluster.leaselock import Lock, Terms
from hook.cluster.requests import delete_pod
from hook.core import names
from hook.errors import ConflictError, LeaseLostError
from tests.shell.leases import NAME, NAMESPACE, PATH, keeping, until
from tests.shell.server import HTML, JSON, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.shell.server import Server

DELETE = delete_pod("dra", "a", "uid", "7")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold on to it, and give it back, on a busy machine, too: what expires in these tests does so on purpose."""
    for name, seconds in (("LEASE_SECONDS", 900), ("RENEW_SECONDS", 600), ("RELEASE_SECONDS", 30.0)):
        monkeypatch.setattr(leases, name, seconds)


def candidate(server: Server, identity: str) -> Lease:
    """Begin to try for the Lease."""
    lease = Lease(server.api, Terms(NAMESPACE, NAME, identity))
    lease.start()
    return lease


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lose it in the real time."""
    for name, seconds in (("LEASE_SECONDS", 15), ("RENEW_SECONDS", 10), ("RETRY_SECONDS", 1)):
        monkeypatch.setattr(leases, name, seconds)
    return iter(())


def test_it_is_made_and_renewed() -> None:
    """With the label by which it is found; whoever reads it sees one acquisition and ever new renewals."""
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        assert kept.lease is not None
        first = dict(kept.lease["spec"])
        assert ("a", 900) == (first["holderIdentity"], first["leaseDurationSeconds"])
        assert kept.lease["metadata"]["labels"] == names.OWN_LABELS
        kept.change({"metadata": {"annotations": {"of": "somebody"}}, "spec": {"leaseTransitions": 3}})
        until(lambda: kept.lease and kept.lease["spec"]["renewTime"] != first["renewTime"], "it is renewed")
        now = kept.lease["spec"]
        assert (first["acquireTime"], 3) == (now["acquireTime"], now["leaseTransitions"])
        assert kept.said("of") == "somebody"
        lease.release()


def test_its_times_are_the_api_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads it knows that clock, too: a node whose own is wrong makes no leader look dead."""
    with keeping() as (kept, server):
        ahead = timedelta(hours=1)
        monkeypatch.setattr(server.api, "now", lambda: datetime.now(UTC) + ahead)
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        assert kept.lease is not None
        first = dict(kept.lease["spec"])
        until(lambda: kept.lease and kept.lease["spec"]["renewTime"] != first["renewTime"], "it is renewed")
        now = kept.lease["spec"]
        assert first["acquireTime"] == now["acquireTime"]
        lease.release()
        times = [first["acquireTime"], first["renewTime"], now["renewTime"], kept.lease["spec"]["renewTime"]]
        for told in map(datetime.fromisoformat, times):
            assert abs(told - datetime.now(UTC) - ahead) < timedelta(minutes=10)
        assert sorted(times) == times


def test_one_leads_and_the_other_takes_over_what_is_given_back() -> None:
    """At once, and not after the Lease would have expired."""
    with keeping() as (kept, server):
        first = candidate(server, "a")
        until(lambda: first.leading, "the first one leads")
        second = candidate(server, "b")
        until(lambda: second.holder == "a", "the second one has looked")
        assert not second.leading
        with pytest.raises(LeaseLostError):
            second.permit(DELETE)
        first.release()
        assert (kept.holder, first.leading) == ("", False)
        # Nobody waits a quarter of an hour here: by then it would have expired.
        until(lambda: second.leading, "the second one leads")
        second.release()


@pytest.mark.usefixtures("real")
def test_who_is_gone_is_followed_by_another() -> None:
    """A follower that was killed gives nothing back."""
    with keeping() as (kept, server):
        dead = candidate(server, "dead")
        until(lambda: dead.leading, "it leads")
        dead._lock.closed = True  # as if it were gone: it renews nothing any more
        heir = candidate(server, "heir")
        until(lambda: heir.leading, "the other one leads")
        assert kept.holder == "heir"
        assert not dead.leading
        heir.release()


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize("said", [pytest.param(Said(500), id="errors"), pytest.param(Said(), id="cut-off"),
                                  pytest.param(Said(401, b"", JSON), id="credentials-gone")])  # fmt: skip
def test_nothing_is_written_by_who_cannot_renew(said: Said) -> None:
    """Before each single write the last renewal counts, and not what the leader believes; then it gives up."""
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        server.api.before_write = lease.permit
        until(lambda: lease.leading, "it leads")
        server.api.send(DELETE)
        assert server.count("DELETE") == 1
        kept.instead = lambda line: said if PATH in line else None
        until(lambda: not lease.leading, "it leads no more")
        with pytest.raises(LeaseLostError):
            server.api.send(DELETE)
        assert server.count("DELETE") == 1
        until(lambda: lease.ended, "it gives up")


@pytest.mark.usefixtures("real")
def test_a_server_that_is_silent_renews_nothing() -> None:
    """A request that hangs must not keep a leader in its belief."""
    over = threading.Event()
    with keeping(over) as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        kept.instead = lambda line: Said(200, b"", {**JSON, "content-length": "9"}) if PATH in line else None
        until(lambda: not lease.leading, "it leads no more")
        with pytest.raises(LeaseLostError):
            lease.check()
        over.set()


def test_who_was_replaced_stops() -> None:
    """Somebody took the Lease: whoever had it does not ask for ten seconds whether that was meant."""
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        kept.change({"spec": {"holderIdentity": "b", "renewTime": "2099-01-01T00:00:00.000000Z"}})
        with pytest.raises(LeaseLostError, match="held by b"):
            lease.annotate({names.FOLLOWING_ANNOTATION: "{}"})
        assert kept.said(names.FOLLOWING_ANNOTATION) == ""
        assert not lease.leading
        lease.release()
        assert kept.holder == "b"


def test_a_clock_that_is_set_makes_no_lease_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library reads the wall clock; one that jumps by an hour must not make two of us lead."""
    with keeping() as (kept, server):
        first = candidate(server, "a")
        until(lambda: first.leading, "it leads")
        second = candidate(server, "b")
        until(lambda: second.holder == "a", "the second one has looked")
        true = time.time
        monkeypatch.setattr(time, "time", lambda: true() + 3600)
        tries = server.count("GET")
        until(lambda: server.count("GET") > tries + 4, "both have tried since")
        assert (kept.holder, first.leading, second.leading) == ("a", True, False)
        monkeypatch.undo()
        first.release()
        second.release()


def test_giving_back_does_not_wait_for_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops us waits for our end, and the Lease expires anyway."""
    monkeypatch.setattr(leases, "RELEASE_SECONDS", 1.0)
    over = threading.Event()
    with keeping(over) as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        kept.instead = lambda line: Said(200, b"", {**JSON, "content-length": "9"}) if "PATCH" in line else None
        began = time.monotonic()
        lease.release()
        assert time.monotonic() - began < 30  # a request to a silent server takes a minute
        assert not lease.leading
        over.set()


def test_what_one_thread_read_is_no_leave_for_the_other_to_write() -> None:
    """One renews and one annotates; each writes over what it has judged itself, and never over a successor."""
    with keeping() as (kept, server):
        lock = Lock(server.api, Terms(NAMESPACE, NAME, "a"), leases.REQUEST_SECONDS)
        assert not lock.get(NAME, NAMESPACE)[0]
        now = str(datetime.now())  # noqa: DTZ005 - as the library has it
        mine = LeaderElectionRecord("a", "15", now, now)  # type: ignore[no-untyped-call]
        assert lock.create(name=NAME, namespace=NAMESPACE, election_record=mine)
        assert lock.get(NAME, NAMESPACE)[0]
        kept.change({"spec": {"holderIdentity": "b"}})
        with pytest.raises(LeaseLostError):
            lock.refresh()  # as an annotation does that met a conflict
        assert not lock.update(NAME, NAMESPACE, mine)
        assert kept.holder == "b"
        assert lock.get(NAME, NAMESPACE)[0]
        with pytest.raises(ConflictError):
            lock.patch({"annotations": {names.FOLLOWING_ANNOTATION: "{}"}})
        assert kept.said(names.FOLLOWING_ANNOTATION) == ""


def test_what_is_annotated_meets_a_renewal() -> None:
    """Both write the same object: the record is written all the same, and the Lease is kept."""
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        kept.change({"metadata": {"annotations": {"another": "now"}}})
        lease.annotate({names.FOLLOWING_ANNOTATION: "{}"})
        assert ("{}", "now") == (kept.said(names.FOLLOWING_ANNOTATION), kept.said("another"))
        ours = {names.FOLLOWING_ANNOTATION: "{}"}
        until(lambda: lease.annotations == ours, "the last answer is taken, whichever thread has it")
        assert kept.lease is not None
        before = kept.lease["spec"]["renewTime"]
        until(lambda: kept.lease and kept.lease["spec"]["renewTime"] != before, "it is renewed")
        assert lease.leading
        lease.release()


@pytest.mark.parametrize("conflicts", range(leases.ANNOTATE_TRIES + 1))
def test_renewals_that_come_in_between_again_and_again(monkeypatch: pytest.MonkeyPatch, conflicts: int) -> None:
    """On a busy machine several do before one annotation is written. Each try goes by what is there then."""
    monkeypatch.setattr(leases, "RETRY_SECONDS", 300)  # no renewal but the first one and those of this test
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease._lock._ours == "2", "it leads and has renewed once")
        times = [f"2099-01-01T00:00:{number:02}.000000Z" for number in range(conflicts)]

        def renewed(line: str) -> None:
            if "PATCH" in line and times:
                kept.change({"spec": {"renewTime": times.pop()}})

        kept.instead = renewed
        expected = pytest.raises(ConflictError) if conflicts == leases.ANNOTATE_TRIES else nullcontext()
        with expected:
            lease.annotate({names.FOLLOWING_ANNOTATION: "{}"})
        assert (kept.said(names.FOLLOWING_ANNOTATION) == "{}") is (conflicts < leases.ANNOTATE_TRIES)
        assert times == []
        lease.release()


def test_what_is_lost_between_two_tries_is_not_annotated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new leader annotates it now."""
    monkeypatch.setattr(leases, "RETRY_SECONDS", 300)
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease._lock._ours == "2", "it leads and has renewed once")
        taken = [{"renewTime": "2099-01-01T00:00:00.000000Z"}, {"holderIdentity": "b"}]

        def changed(line: str) -> None:
            if "PATCH" in line and taken:
                kept.change({"spec": taken.pop(0)})

        kept.instead = changed
        with pytest.raises(LeaseLostError, match="held by b"):
            lease.annotate({names.FOLLOWING_ANNOTATION: "{}"})
        assert (kept.said(names.FOLLOWING_ANNOTATION), server.count("PATCH")) == ("", 3)


def test_who_annotates_faster_than_we_write_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few conflicts are everyday life, more are for the caller to try again."""
    with keeping() as (kept, server):
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        before = kept.instead
        monkeypatch.setattr(kept, "instead", lambda line: Said(409, b'{"kind": "Status"}') if "PATCH" in line else None)
        with pytest.raises(ConflictError):
            lease.annotate({names.FOLLOWING_ANNOTATION: "{}"})
        kept.instead = before
        lease.release()


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(Said(404, b"<html>no backend</html>", HTML), id="page-of-a-load-balancer"),
        pytest.param(Said(403, b'{"kind": "Status", "code": 403}'), id="not-allowed"),
        pytest.param(Said(200, b'{"kind": "Lease", "spec": {"holderIdentity": 7}}'), id="no-lease"),
        pytest.param(Said(200, b'{"kind": "Lease"}'), id="no-version"),
    ],
)
def test_only_a_lease_that_is_not_there_is_made(said: Said) -> None:
    """Whatever else is answered, it stands by, says why, and tries again."""
    with keeping() as (kept, server):
        tries: list[str] = []
        kept.instead = lambda line: said if "GET" in line else None
        lease = Lease(server.api, Terms(NAMESPACE, NAME, "a"), tries.append)
        lease.start()
        until(lambda: len(tries) > 1, "it tried twice")
        assert tries[-1]
        assert (server.count("POST"), server.count("PATCH"), lease.leading, lease.ended) == (0, 0, False, False)
        kept.instead = lambda _line: None
        until(lambda: lease.leading, "it leads once that has passed")
        lease.release()


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        pytest.param(Said(403, b'{"kind": "Status", "code": 403}'), True, id="not-allowed"),
        pytest.param(Said(401, b"", JSON), True, id="credentials-gone"),
        pytest.param(Said(429, b"", JSON), True, id="too-many-requests"),
        pytest.param(Said(500), False, id="errors"),
        pytest.param(Said(), False, id="cut-off"),
    ],
)
def test_a_refusal_is_an_answer(said: Said, *, answers: bool) -> None:
    """A new process would be refused as well; only silence, or an error of the server, may be cured by one."""
    with keeping() as (kept, server):
        kept.instead = lambda _line: said
        lock = Lock(server.api, Terms(NAMESPACE, NAME, "a"), leases.REQUEST_SECONDS)
        began = lock.answered
        found, _why = lock.get(NAME, NAMESPACE)
        assert (found, lock.answered > began) == (False, answers)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"holderIdentity": "", "leaseDurationSeconds": 1}, id="given-back"),
        pytest.param({"holderIdentity": "x", "renewTime": "soon", "acquireTime": "soon", "leaseDurationSeconds": 9},
                     id="no-time"),
        pytest.param({"holderIdentity": "x", "renewTime": "0001-01-01T00:00:00Z", "leaseDurationSeconds": 9},
                     id="out-of-range"),
    ],
)  # fmt: skip
def test_a_lease_that_nobody_filled_in_is_taken(spec: dict[str, Any]) -> None:
    """An administrator may make it, or a chart."""
    with keeping() as (kept, server):
        kept._keep({"kind": "Lease", "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        lease = candidate(server, "a")
        until(lambda: lease.leading, "it leads")
        assert kept.holder == "a"
        lease.release()
