"""To whom a Job hands over, and what people see of a follower."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from hook.config import Rbac, Settings
from hook.errors import PermissionDeniedError
from hook.kube import retry
from hook.objects import names
from hook.objects.decoding import MalformedObjectError
from hook.run import job, lookup
from hook.run.job import LeaseObserver
from hook.run.lookup import Lookup
from hook.run.status import ControllerStatus, LeaseStatus, OpenBreaker, lease_status, list_leases
from tests.client.leases import NAME, NAMESPACE, keeping
from tests.client.server import Said, serving

if TYPE_CHECKING:
    from tests.client.leases import Leases

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EPOCH, OTHER = "0123456789abcdef", "fedcba9876543210"
RECORD = ControllerStatus(
    spec_hashes={"gpu": EPOCH},
    remaining=3,
    eta_seconds=360,
    restarted=7,
    observed_at=NOW,
    last_restart_at=NOW,
    writer="pod-a",
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look whenever it is asked."""
    monkeypatch.setattr(job, "LOOK_SECONDS", 0.0)


def lease(record: ControllerStatus | str | None = RECORD, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Give a follower's Lease."""
    text = record.encode() if isinstance(record, ControllerStatus) else record
    return {
        "kind": "Lease",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "annotations": {names.STATUS_ANNOTATION: text} if text is not None else {},
        },
        "spec": {"holderIdentity": "pod-a", "renewTime": "2026-03-01T11:59:58.000001Z", **spec},
    }


def renewed(kept: Leases, times: int) -> None:
    """Renew it as its holder does."""
    kept.change({"spec": {"renewTime": f"2026-03-01T12:00:{times:02}.000001Z"}})


def test_a_follower_that_renews_while_we_look_and_saw_the_same_takes_over() -> None:
    """Whatever the clocks say: a Lease that a dead one left looks the same on the first look."""
    with keeping() as (kept, server):
        lease_observer = LeaseObserver(server.api, NAMESPACE, NAME)
        assert "no controller has run yet" in lease_observer.readiness({"gpu": EPOCH}).blocker
        kept._keep(lease())
        assert "checking whether controller pod-a still renews" in lease_observer.readiness({"gpu": EPOCH}).blocker
        renewed(kept, 1)
        found = lease_observer.readiness({"gpu": EPOCH})
        assert found.blocker == ""
        assert found.lease is not None
        assert found.lease.status == RECORD
        assert "gpu" in lease_observer.readiness({"gpu": OTHER}).blocker
        assert "does not refresh driver network" in lease_observer.readiness({"gpu": EPOCH, "network": EPOCH}).blocker


def test_a_dead_follower_is_called_so_once_it_was_looked_at_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: the first look tells nothing. A Lease without a holder says it by itself."""
    with keeping() as (kept, server):
        lease_observer = LeaseObserver(server.api, NAMESPACE, NAME)
        kept._keep(lease())
        assert "checking whether" in lease_observer.readiness({"gpu": EPOCH}).blocker
        monkeypatch.setattr(job, "ALIVE_SECONDS", 0.0)
        assert "the last leader was pod-a" in lease_observer.readiness({"gpu": EPOCH}).blocker
        monkeypatch.undo()
        kept.change({"spec": {"holderIdentity": ""}})
        assert "is not renewed" in LeaseObserver(server.api, NAMESPACE, NAME).readiness({"gpu": EPOCH}).blocker


def test_a_follower_that_gave_back_or_fell_silent_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It saw the intent, but nobody serves it now."""
    with keeping() as (kept, server):
        lease_observer = LeaseObserver(server.api, NAMESPACE, NAME)
        kept._keep(lease())
        lease_observer.readiness({})
        renewed(kept, 1)
        assert lease_observer.readiness({"gpu": EPOCH}).blocker == ""
        kept.change({"spec": {"holderIdentity": "", "renewTime": "2026-03-01T12:00:02.000001Z"}})
        assert lease_observer.readiness({"gpu": EPOCH}).blocker
        kept.change({"spec": {"holderIdentity": "pod-b", "renewTime": "2026-03-01T12:00:03.000001Z"}})
        assert "has not read the fleet yet" in lease_observer.readiness({"gpu": EPOCH}).blocker
        own = {names.STATUS_ANNOTATION: replace(RECORD, writer="pod-b").encode()}
        kept.change({"metadata": {"annotations": own}})
        assert lease_observer.readiness({"gpu": EPOCH}).blocker == ""
        monkeypatch.setattr(job, "ALIVE_SECONDS", 0.0)
        assert "the last leader was pod-b" in lease_observer.readiness({"gpu": EPOCH}).blocker


@pytest.mark.parametrize(
    ("record", "why"),
    [
        pytest.param(None, "has not written a status yet", id="none"),
        pytest.param('{"version":2}', "cannot be read", id="of-another-version"),
        pytest.param(ControllerStatus(writer="pod-a"), "has not read the fleet yet", id="just-began"),
        pytest.param(replace(RECORD, writer=""), "has not read the fleet yet", id="of-nobody"),
        pytest.param(
            ControllerStatus(spec_hashes={"gpu": ""}, writer="pod-a"),
            "has not observed this spec",
            id="not-rendered-for-it",
        ),
    ],
)
def test_a_follower_that_does_not_say_the_same_is_waited_for(record: ControllerStatus | str | None, why: str) -> None:
    """It may be about to."""
    with keeping() as (kept, server):
        lease_observer = LeaseObserver(server.api, NAMESPACE, NAME)
        kept._keep(lease(record))
        lease_observer.readiness({})
        renewed(kept, 1)
        assert why in lease_observer.readiness({"gpu": EPOCH}).blocker


def test_a_follower_that_restarts_nothing_takes_nothing_over() -> None:
    """Its breaker may be open until a person closes it; the deployer would hear success. Another stack is served."""
    with keeping() as (kept, server):
        lease_observer = LeaseObserver(server.api, NAMESPACE, NAME)
        opened = {"gpu": OpenBreaker(NOW, "9 of 10 nodes")}
        kept._keep(lease(replace(RECORD, spec_hashes={"gpu": EPOCH, "network": EPOCH}, breakers=opened)))
        lease_observer.readiness({})
        renewed(kept, 1)
        why = lease_observer.readiness({"gpu": EPOCH}).blocker
        assert ("circuit breaker is open" in why, "9 of 10 nodes" in why) == (True, True)
        assert lease_observer.readiness({"network": EPOCH}).blocker == ""


def test_a_lease_that_cannot_be_read_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage passes; a missing permission is said at once, because nobody grants it by waiting."""
    monkeypatch.setattr(retry, "WRITE", retry.RetryPolicy(unreachable=0, denied=0))
    with keeping() as (kept, server):
        lease_observer = LeaseObserver(server.api, NAMESPACE, NAME)
        kept.instead = lambda _line: Said(503)
        assert "cannot be read" in lease_observer.readiness({}).blocker
        kept.instead = lambda _line: Said(200, b'{"kind": "Lease", "metadata": 7}')
        assert "cannot be read" in lease_observer.readiness({}).blocker
        kept.instead = lambda _line: Said(403, b'{"kind": "Status", "code": 403}')
        with pytest.raises(PermissionDeniedError):
            lease_observer.readiness({})


def test_status_says_whether_a_follower_is_alive() -> None:
    """Who holds the Lease, when it was renewed and acted, and how much is left."""
    led = lease_status(lease())
    alive, dead = Lookup(NOW, led), Lookup(NOW + timedelta(minutes=5), led)
    assert ["alive (pod-a)" in lookup.as_lines(alive)[0], "NOT ALIVE" in lookup.as_lines(dead)[0]] == [True, True]
    assert "last renewed 2s ago" in lookup.as_lines(alive)[0]
    told = lookup.as_lines(dead)[1]
    assert ("last restart 5m ago" in told, "3 nodes remaining, about 6m" in told) == (True, True)
    found = lookup.as_json(alive)
    assert found is not None
    assert (True, "pod-a", "2026-03-01T12:00:00Z", 3, 360, 7, {}) == tuple(
        found[key] for key in ("alive", "holder", "lastRestartAt", "remaining", "etaSeconds", "restarted", "breakers")
    )
    assert lookup.as_json(dead) == {**found, "alive": False}


def test_status_takes_nobody_for_a_predecessor() -> None:
    """Who took over a moment ago has restarted nothing; what was found, and by whom, is shown as that."""
    seen = Lookup(NOW, lease_status(lease(holderIdentity="pod-b")))
    told = lookup.as_lines(seen)[1]
    assert ("pod-a" in told, "7 plugins" in told) == (True, False)
    found = lookup.as_json(seen)
    assert found is not None
    assert (found["holder"], found["writer"]) == ("pod-b", "pod-a")
    assert "7 plugins" in lookup.as_lines(Lookup(NOW, lease_status(lease(holderIdentity=""))))[1]


def test_status_says_where_it_looked_for_a_follower() -> None:
    """Where only some namespaces may be read, its Lease need not be in them: that none was found says little."""

    def leases(line: str) -> Said:
        found = [] if "/namespaces/dra/" in line else [lease()]
        page = {"kind": "LeaseList", "items": found, "metadata": {"resourceVersion": "1"}}
        return Said(200, json.dumps(page).encode())

    with serving(leases) as server:
        assert NAME in lookup.as_lines(lookup.find_controller(server.api, Settings()))[0]
        somewhere = lookup.find_controller(server.api, Settings(rbac=Rbac(namespaces=("dra",))))
    assert ["no controller was found in dra; its Lease may be in another namespace"] == lookup.as_lines(somewhere)
    found = lookup.as_json(somewhere)
    assert found is not None
    assert found["alive"] is None


def test_status_says_that_a_breaker_is_open() -> None:
    """With what was seen, in the table and for programs."""
    seen = Lookup(NOW, lease_status(lease(replace(RECORD, breakers={"gpu": OpenBreaker(NOW, "9 of 10 nodes")}))))
    assert "9 of 10 nodes" in lookup.as_lines(seen)[-1]
    found = lookup.as_json(seen)
    assert found is not None
    assert found["breakers"] == {"gpu": {"openedAt": "2026-03-01T12:00:00Z", "message": "9 of 10 nodes"}}


@pytest.mark.parametrize(("record", "holder"), [(None, "pod-a"), ("[]", ""), ("{" * 9000, "a\x1b[2J")])
def test_status_shows_what_cannot_be_understood(record: str | None, holder: str) -> None:
    """Whoever may write a Lease may write anything there; no terminal obeys it."""
    seen = Lookup(NOW, lease_status(lease(record, holderIdentity=holder)))
    shown = lookup.as_lines(seen)
    assert len(shown) == 2
    assert "\x1b" not in "".join(shown)
    found = lookup.as_json(seen)
    assert found is not None
    assert (found["alive"], bool(found["problem"])) == (bool(holder), True)


def test_without_a_follower_status_says_nothing() -> None:
    """Most clusters have none."""
    assert ([], None) == ([line for line in lookup.as_lines(Lookup(NOW)) if line], lookup.as_json(Lookup(NOW)))


def test_of_several_followers_the_one_of_these_stacks_is_shown() -> None:
    """A release a stack is possible; the most recently renewed one speaks."""
    leases = [
        lease(ControllerStatus(spec_hashes={"network": EPOCH}), renewTime="2026-03-01T12:00:09.000000Z"),
        lease(RECORD, holderIdentity="old", renewTime="2026-03-01T11:00:00.000000Z"),
        lease(RECORD, holderIdentity="new"),
        {"kind": "Lease", "metadata": {"name": 7}},
    ]
    page = json.dumps({"kind": "LeaseList", "items": leases, "metadata": {"resourceVersion": "1"}}).encode()
    with serving(lambda _line: Said(200, page)) as server:
        seen = lookup.find_controller(server.api, Settings())
        assert seen.lease is not None
        assert seen.lease.holder == "new"
        assert len(list_leases(server.api, ("a", "b"), 30)) == 8
        assert server.count("labelSelector=app.kubernetes.io%2Fname%3Dgpu-operator-post") == 3


def test_not_being_allowed_to_look_is_no_failure() -> None:
    """The nodes are what status is asked for."""
    with serving(lambda _line: Said(403, b'{"kind": "Status", "code": 403}')) as server:
        seen = lookup.find_controller(server.api, Settings())
        assert "permission missing" in lookup.as_lines(seen)[0]
        found = lookup.as_json(seen)
        assert found is not None
        assert found["alive"] is None


def test_what_is_no_lease_is_refused() -> None:
    """A record without a name belongs to nobody."""
    with pytest.raises(MalformedObjectError):
        lease_status({"metadata": {}})
    assert not LeaseStatus("a", "b").alive(NOW)
