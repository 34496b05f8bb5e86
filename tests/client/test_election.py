"""Leader election: the Lease is held for certain, or nothing is written. Time passes only where a test lets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest

from hook.errors import LeaseLostError
from hook.kube import election
from hook.kube.election import LeaderElectionConfig, LeaderElector
from hook.kube.resources import CONFIG_MAPS, EVENTS, LEASES, PODS
from tests.client.server import PATIENCE, SILENT, Said, Server, bounded, refused
from tests.client.shown import NAME, NAMESPACE, Shown, held, keeping

CONFIG: Final = LeaderElectionConfig(NAMESPACE, NAME, "a")
LATER: Final = "2099-01-01T00:00:00.000000Z"


class Scene:
    """One API server, one clock that advances while an elector sleeps, and electors that are driven step by step."""

    def __init__(self, shown: Shown, server: Server) -> None:
        self.shown, self.server, self.now = shown, server, 1000.0
        self.tries: list[str] = []
        self.pauses: list[float] = []
        self.on_pause: Callable[[], object] = lambda: None

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Let the time pass at once."""
        self.pauses.append(seconds)
        assert len(self.pauses) < 100, "it does not end"
        self.now += seconds
        self.on_pause()

    def on(self, part: str, act: Callable[[], Said | None]) -> None:
        """Do something before each request with this in its line, or answer it so."""
        self.shown.instead = lambda line: act() if part in line else None

    def elector(self, identity: str = "a") -> LeaderElector:
        """Return an elector that has tried nothing yet."""
        config = replace(CONFIG, identity=identity)
        return LeaderElector(self.server.api, config, self.tries.append, lambda: self.now, self.sleep)

    def leader(self) -> LeaderElector:
        """Return an elector that has just acquired the Lease."""
        elector = self.elector()
        assert elector._try()
        assert elector.leading
        return elector

    @property
    def spec(self) -> dict[str, Any]:
        """Return what the Lease shows now."""
        assert self.shown.lease is not None
        return dict(self.shown.lease["spec"])


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Serve one Lease."""
    with keeping() as (shown, server):
        yield Scene(shown, server)


@pytest.mark.parametrize("step", [11.0, 3600.0, -3600.0])
def test_a_wall_clock_that_steps_during_a_failed_renewal(
    step: float, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failed renewal loses no Lease, whatever was set: there are ten seconds of tries."""
    wall, leading = list[float](), list[bool]()
    clocks = SimpleNamespace(monotonic=lambda: scene.now, time=lambda: scene.now + sum(wall))
    monkeypatch.setattr(election, "time", clocks)
    elector = LeaderElector(scene.server.api, CONFIG, scene.tries.append, sleep=scene.sleep)

    def look() -> None:
        leading.append(elector.leading)
        if len(leading) == 15:
            elector._over.set()

    def fail() -> Said | None:
        wall.append(0 if wall else step)
        return Said(500) if len(wall) == 1 else None

    scene.on("PATCH", fail)
    scene.on_pause = look
    elector.run()
    assert (leading, scene.pauses) == ([True] * 15, [2] * 15)
    assert [trouble for trouble in scene.tries if trouble] == ["the API server answered 500: HTTP 500"]


@pytest.mark.parametrize("said", [Said(500), Said(), refused(401)])
def test_a_leader_that_cannot_renew_for_ten_seconds(said: Said, scene: Scene) -> None:
    """It tries every two seconds. Then its fence stops each write, and the election ends."""
    elector, written = scene.elector(), list[float]()
    scene.server.api.fence = elector.fence

    def write() -> None:
        scene.on("/leases", lambda: said)
        scene.server.api.send("delete", PODS.select("dra"), "a", {})
        written.append(scene.now - 1000)

    scene.on_pause = write
    with pytest.raises(LeaseLostError, match="was not renewed in time: "):
        elector.run()
    assert (written, scene.now, elector.ended) == ([2, 4, 6, 8], 1010, True)
    assert scene.server.count("DELETE") == 4


@pytest.mark.parametrize("resource", [PODS, EVENTS, CONFIG_MAPS])
def test_the_fence_is_for_every_write(resource: Any, scene: Scene) -> None:  # noqa: ANN401 - a resource
    """Deletions, Events and the status object. Only writes to the Lease pass, because they name its version."""
    elector = scene.elector()
    with pytest.raises(LeaseLostError, match=r"was not renewed in time$"):
        elector.fence(resource)
    elector.fence(LEASES.select(NAMESPACE))
    assert elector._try()
    elector.fence(resource)


def test_no_request_outlasts_the_lease(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs leaves time for another one, and is given up with the Lease."""
    send, bounds = scene.server.api.send, list[float]()

    def noted(*request: Any) -> dict[str, Any]:  # noqa: ANN401 - as the client has them
        bounds.append(request[-1])
        return send(*request)

    monkeypatch.setattr(scene.server.api, "send", noted)
    elector = scene.leader()
    assert bounds == [5, 5]
    scene.on("", lambda: Said(500))
    for age, bound in ((4.0, 5.0), (8.0, 2.0), (11.0, 5.0)):
        scene.now = elector._renewed_at + age
        assert not elector._try()
        assert bounds.pop() == bound


def test_a_renewal_counts_from_when_it_was_sent(scene: Scene) -> None:
    """A standby counts from when it sees it, which is later. From the answer, a slow server would let two lead."""
    elector = scene.leader()
    scene.on("PATCH", lambda: scene.advance(4))
    assert elector._try()
    assert elector.remaining == 15 - 4
    scene.advance(6)
    assert not elector.leading


def test_a_process_that_was_suspended_writes_nothing(scene: Scene) -> None:
    """Not even to its Lease: another replica may have taken it, acted, and gone."""
    elector = scene.elector()

    def suspend() -> None:
        scene.advance(60)
        scene.server.asked.clear()

    scene.on_pause = suspend
    elector.run()
    assert (scene.server.asked, elector.ended) == ([], True)


def test_a_standby_waits_for_the_whole_term(scene: Scene) -> None:
    """It counts on its own clock from each renewal that it saw, and by the term that the holder has set."""
    scene.leader()
    scene.shown.change(leaseDurationSeconds=20, renewTime="2000-01-01T00:00:00.000000Z")
    standby = scene.elector("b")
    assert not standby._try()
    scene.advance(19)
    scene.shown.change(renewTime=LATER)
    assert not standby._try()
    scene.advance(19)
    scene.shown.change(strategy="of others")
    assert not standby._try()
    with pytest.raises(LeaseLostError, match="held by a"):
        standby.check()
    scene.advance(1)
    assert standby._try()
    assert (scene.shown.holder, standby.leading, scene.spec["leaseTransitions"]) == ("b", True, 1)
    assert scene.spec["acquireTime"] == scene.spec["renewTime"] != LATER


@pytest.mark.parametrize("verb", ["POST", "PATCH"])
def test_of_two_that_take_it_at_once_one_leads(verb: str, scene: Scene) -> None:
    """The version decides, or the name, and the second learns of the first with its next try."""
    if verb == "PATCH":
        scene.shown.keep({"kind": "Lease", "metadata": {}, "spec": {}})
    elector, other = scene.elector("a"), scene.elector("b")

    def overtake() -> None:
        scene.on("", lambda: None)
        assert other._try()

    scene.on(verb, overtake)
    assert not elector._try()
    assert (elector.leading, other.leading, str(elector.trouble)) == (False, True, "no")
    assert not elector._try()
    assert (elector.holder, elector.trouble) == ("b", None)


def test_a_lease_without_a_version_is_not_written(scene: Scene) -> None:
    """A patch without a precondition could take the Lease from another replica."""
    scene.on("GET", lambda: Said(200, b'{"kind": "Lease", "metadata": {}, "spec": {}}'))
    elector = scene.elector()
    assert not elector._try()
    assert (elector.leading, scene.server.writes) == (False, [])


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release the Lease on a busy machine, too."""
    monkeypatch.setattr(election, "RELEASE_SECONDS", PATIENCE)


@pytest.mark.usefixtures("patient")
def test_a_released_lease_is_taken_at_once(scene: Scene) -> None:
    """Nothing is acquired or renewed any more by the one that released it, whatever was on its way."""
    elector, times = held(scene.server), [LATER]
    scene.on("PATCH", lambda: scene.shown.change(renewTime=times.pop()) if times else None)
    elector.release()
    assert (scene.spec["holderIdentity"], scene.spec["leaseDurationSeconds"]) == ("", 1)
    assert (elector.leading, elector._try(), scene.shown.holder, times) == (False, False, "", [])
    assert scene.elector("b")._try()
    elector.release()
    assert scene.shown.holder == "b"


@pytest.mark.usefixtures("patient")
def test_a_lease_that_was_taken_without_an_answer_is_released(scene: Scene) -> None:
    """The replica that took it does not know that, and asks."""
    elector = scene.elector()

    def take() -> Said:
        scene.shown.keep({"metadata": {}, "spec": {"holderIdentity": "a"}})
        return Said(500)

    scene.on("POST", take)
    assert not elector._try()
    elector.release()
    assert scene.shown.holder == ""


def test_standbys_do_not_ask_in_step(scene: Scene) -> None:
    """A standby asks every two seconds, and a bit later each time."""
    scene.leader()
    standby = scene.elector("b")
    scene.on_pause = lambda: (
        scene.shown.change(renewTime=f"{scene.now}") if len(scene.pauses) < 9 else standby.release()
    )
    standby.run()
    assert 2 < min(scene.pauses) < max(scene.pauses) < 2 * (1 + election.JITTER_FACTOR)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("case", ["taken meanwhile", "another's", "not renewed"])
def test_what_may_be_anothers_is_not_released(case: str, scene: Scene) -> None:
    """Whether it is known, or found out now. Nor is what was not renewed: a write may be on its way."""
    elector = scene.leader()
    if case == "taken meanwhile":
        scene.shown.change(holderIdentity="b")
    elif case == "another's":
        elector = scene.elector("c")
        assert not elector._try()
    else:
        scene.on_pause = lambda: scene.advance(10)
        elector.run()
    holder = scene.shown.holder
    scene.server.asked.clear()
    elector.release()
    assert (scene.shown.holder, scene.server.writes, elector.ended) == (holder, [], True)


@pytest.mark.parametrize("verb", ["GET", "PATCH"])
def test_a_release_does_not_wait_for_a_silent_server(verb: str, scene: Scene) -> None:
    """The kubelet waits for the process to exit, and the Lease expires anyway."""
    elector = held(scene.server)
    scene.on(verb, lambda: SILENT)
    with bounded():
        elector.release()
    assert not elector.leading
