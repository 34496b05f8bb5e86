"""Informers: what a watch brings, when everything is listed again, and what is known while nothing can be read.

The server here is scripted, for faults that a real one does not produce on demand (test_real_server.py has the others).
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from hook.errors import ApiError, PermissionDeniedError
from hook.kube import client, retry
from hook.kube import informer as informers
from hook.kube.informer import Informer, ListWatch
from hook.kube.resources import NODES, RESOURCE_SLICES, Resource
from hook.kube.retry import CONTROLLER, Patience
from hook.objects import Malformed, read_node
from tests.client.server import JOB, PATIENCE, SILENT, Said, Server, bounded, events, listed, refused, serving, until
from tests.fixtures.objects import obj

STATE: Final = "nvidia.com/gpu-driver-upgrade-state"
CUT: Final = Said(200, b'{"type": "ADDED", "obj')
"""A watch that breaks in the middle of an event."""
WAITS: Final = SILENT
"""A watch that is open until the test ends."""


def node(name: str, version: str, state: str = "upgrade-done") -> dict[str, Any]:
    """Return a node at a version."""
    return obj("node", {"metadata": {"name": name, "resourceVersion": version, "labels": {STATE: state}}})


TWO: Final = listed(node("a", "1"), node("b", "2"), version="10")


@dataclass
class Script:
    """Answers lists, and watches, with one answer after the other; then with the last one again."""

    lists: list[Said] = field(default_factory=lambda: [TWO])
    watches: list[Said] = field(default_factory=lambda: [WAITS])
    queries: list[dict[str, str]] = field(default_factory=list)
    """What the watches asked for."""

    def __call__(self, line: str) -> Said:
        """Answer."""
        query = {key: values[0] for key, values in parse_qs(urlsplit(line.split(" ")[1]).query).items()}
        answers = self.lists
        if "watch" in query:
            self.queries.append(query)
            answers = self.watches
        return answers.pop(0) if len(answers) > 1 else answers[0]

    @property
    def versions(self) -> list[str]:
        """Return from which versions was watched."""
        return [query["resourceVersion"] for query in self.queries]


@contextmanager
def following(
    script: Script | Callable[[str], Said],
    patience: Patience = JOB,
    resource: Resource = NODES,
    changed: Callable[[Any, Any], None] = lambda _before, _after: None,
) -> Iterator[tuple[Informer, Server]]:
    """Follow the nodes of a server."""
    with serving(script) as server:
        informer = Informer(server.api, ListWatch(resource, read_node), patience, changed)
        informer.start()
        try:
            yield informer, server
        finally:
            informer.stop()


def names(informer: Informer) -> dict[str, str]:
    """Return the upgrade state of each node that is known, and "malformed" for what is not readable."""
    views = informer.views()
    return {view.name: "malformed" if isinstance(view, Malformed) else view.labels[STATE] for view in views}


def test_each_event_does_what_it_says() -> None:
    """A bookmark says from where to continue. A malformed object is there, and named."""
    odd = {**node("d", "14"), "spec": {"taints": 7}}
    changes = events(
        ("DELETED", node("a", "11")),
        ("ADDED", node("c", "12")),
        ("MODIFIED", node("b", "13", "drain-required")),
        ("ADDED", odd),
    )
    mark = events(("BOOKMARK", {"kind": "Node", "metadata": {"resourceVersion": "77"}}))
    script = Script(watches=[changes, mark, events(("BOOKMARK", {"metadata": {}})), WAITS])
    with following(script) as (informer, server):
        until(lambda: len(script.queries) >= 4, "four watches")
        assert names(informer) == {"b": "drain-required", "c": "upgrade-done", "d": "malformed"}
        assert script.versions == ["10", "14", "77", "77"]
        assert server.count("limit") == 1
        seconds = [int(query["timeoutSeconds"]) - informers.WATCH_SECONDS for query in script.queries]
        assert all(0 <= more < informers.WATCH_SPREAD_SECONDS for more in seconds), seconds


def test_each_change_is_reported_with_the_view_before() -> None:
    """A change that alters no view is none, and a second list reports only what differs."""
    heard: list[tuple[str, str]] = []

    def changed(before: Any, after: Any) -> None:  # noqa: ANN401 - views
        if before is not None or after is not None:
            heard.append(tuple("" if view is None else view.labels[STATE] for view in (before, after)))  # type: ignore[arg-type]

    same = events(("MODIFIED", node("a", "11")), ("MODIFIED", node("a", "12", "x")), ("DELETED", node("a", "13", "x")))
    again = listed(node("b", "20", "y"), version="20")
    script = Script([TWO, again], [same, events(("ERROR", {"kind": "Status", "code": 410})), WAITS])
    with following(script, changed=changed):
        until(lambda: script.versions[-1:] == ["20"], "it was listed again")
        done = "upgrade-done"
        assert heard == [("", done), ("", done), (done, "x"), ("x", ""), (done, "y")]


@pytest.mark.parametrize(
    "broken",
    [
        *(events(("ADDED", node("c", "12")), ("ERROR", {"kind": "Status", "code": code})) for code in (410, 401, 403)),
        refused(410),
        refused(404),
    ],
)
def test_a_watch_that_is_refused_lists_again(broken: Said) -> None:
    """What it missed is not known."""
    script = Script(watches=[broken, WAITS])
    with following(script) as (informer, server):
        until(lambda: len(script.queries) >= 2, "the next watch")
        assert names(informer).keys() == {"a", "b"}
        assert (script.versions, server.count("limit")) == (["10", "10"], 2)
        until(lambda: informer.out_of_sync is None, "it is in sync")


@pytest.mark.parametrize("broken", [CUT, Said(), Said(503), refused(429), refused(401), refused(403)])
def test_a_watch_that_broke_or_is_throttled_is_continued(broken: Said) -> None:
    """From its last version, without a list. Until it is open again, the cache counts as out of sync."""
    opened = threading.Event()
    answers = iter([events(("ADDED", node("c", "12"))), broken])

    def answer(line: str) -> Said:
        if "watch" not in line:
            return TWO
        if (said := next(answers, None)) is None:
            opened.wait(PATIENCE)
        return said or WAITS

    with following(answer) as (informer, server):
        until(lambda: server.count("watch") >= 3 and informer.out_of_sync, "it is out of sync")
        assert "nodes" in str(informer.out_of_sync)
        opened.set()
        until(lambda: informer.out_of_sync is None, "it is in sync")
        assert names(informer).keys() == {"a", "b", "c"}
        assert server.count("limit") == 1
        assert server.count("resourceVersion=12") == 2


@pytest.mark.parametrize("said", [Said(), Said(503), refused(429), refused(401), refused(403)])
def test_a_list_that_fails_leaves_the_cache_out_of_sync(said: Said) -> None:
    """From its first failure on, and until it succeeds."""
    script, up = Script(), threading.Event()
    with following(lambda line: script(line) if up.is_set() else said, CONTROLLER) as (informer, _server):
        until(lambda: informer.out_of_sync, "it is out of sync")
        assert not informer.synced
        up.set()
        until(lambda: informer.synced and informer.out_of_sync is None, "it is in sync")


def test_an_outage_is_as_old_as_its_first_failure() -> None:
    """Each further failure gives the reason, not the time. After a gap, everything is read again."""
    down = threading.Event()

    def answer(line: str) -> Said:
        return Said(503) if down.is_set() else events() if "watch" in line else TWO

    with following(answer) as (informer, server):
        until(lambda: server.count("watch"), "it watches")
        down.set()
        until(lambda: informer.out_of_sync, "it is out of sync")
        first, asked = informer.out_of_sync, len(server.asked)
        until(lambda: len(server.asked) > asked + 2, "it tries again")
        assert first is not None
        assert informer.out_of_sync is not None
        assert informer.out_of_sync.last_synced == first.last_synced


def test_after_a_long_gap_everything_is_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch does not report when it has caught up. Until a list does, the cache is out of sync."""
    monkeypatch.setattr(informers, "LONGEST_GAP_SECONDS", 0.0)
    script = Script([TWO, listed(node("c", "30"), version="30")], [Said(), WAITS])
    with following(script) as (informer, _server):
        until(lambda: script.versions[-1:] == ["30"], "it was listed again")
        assert names(informer).keys() == {"c"}


def test_after_silence_everything_is_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that outlives its time without a byte was cut off somewhere. What it missed is not asked of it."""
    monkeypatch.setattr(informers, "WATCH_SECONDS", 0)
    monkeypatch.setattr(informers, "WATCH_SPREAD_SECONDS", 1)
    monkeypatch.setattr(client, "WATCH_SLACK_SECONDS", 0.1)
    script = Script([TWO, listed(node("c", "30"), version="30")], [SILENT])
    with following(script) as (informer, _server):
        until(lambda: names(informer).keys() == {"c"}, "it was listed again")


@pytest.mark.parametrize("patience", [JOB, CONTROLLER])
def test_a_list_that_expires_begins_again(patience: Patience) -> None:
    """However often, also before anything was read: pages of two lists are not consistent. It ends no process."""
    first = listed(node("a", "1"), version="10", **{"continue": "more"})
    rest = listed(node("b", "2"), version="10")
    script = Script([*[first, refused(410)] * 4, first, rest])
    with following(script, patience) as (informer, server):
        until(lambda: informer.synced, "it is listed")
        assert (set(names(informer)), informer.problem) == ({"a", "b"}, None)
        assert server.count("continue=more") == 5


def test_a_page_that_broke_off_is_read_again() -> None:
    """Only that page, and also a compressed one, or one whose items are no objects."""
    first = listed(node("a", "1"), version="10", **{"continue": "more"})
    packed = listed(node("b", "2"), version="10")
    packed = Said(200, gzip.compress(packed.body), {**packed.headers, "content-encoding": "gzip"})
    broken = Said(200, b'{"items": [')
    odd = Said(200, b'{"items": [7], "metadata": {"resourceVersion": "10"}}')
    with following(Script([first, broken, odd, Said(), packed])) as (informer, server):
        until(lambda: informer.synced, "it is listed")
        assert names(informer).keys() == {"a", "b"}
        assert (server.count("limit"), server.count("continue=more")) == (5, 4)


def test_the_newest_version_that_the_server_has_is_read() -> None:
    """An upgrade of Kubernetes removes old versions and brings new ones."""
    served = ["v1beta1"]

    def answer(line: str) -> Said:
        if f"/{served[0]}/" not in line:
            return refused(404)
        return events() if "watch=true" in line else listed(version="10")

    with following(answer, resource=RESOURCE_SLICES) as (informer, server):
        until(lambda: informer.synced, "it is listed")
        assert not informer.absent
        until(lambda: server.count("v1beta1/resourceslices?watch"), "it is watched")
        served[0] = "v1"
        until(lambda: server.count("/v1/resourceslices?watch"), "the next version is watched")
        assert not informer.absent


def pauses(script: Script, count: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Follow a script, and return the first so many pauses of the informer, of which none is waited for."""
    found: list[float] = []
    with serving(script) as server:
        informer = Informer(server.api, ListWatch(NODES, read_node), CONTROLLER)

        def sleep(seconds: float) -> None:
            found.append(seconds)
            if len(found) == count:
                raise informers._StoppedError

        monkeypatch.setattr(informer, "_sleep", sleep)
        informer.start()
        informer._thread.join(PATIENCE)
    return found


def test_watches_that_bring_nothing_become_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends each watch at once is not flooded. One that was useful ends the bad time."""
    useful = events(("BOOKMARK", {"metadata": {"resourceVersion": "11"}}))
    monkeypatch.setattr(retry, "LONGEST_WAIT_SECONDS", 10.0)
    found = pauses(Script(watches=[*[events()] * 15, useful, events(), events()]), 17, monkeypatch)
    soon = informers.NEXT_WATCH_SECONDS
    assert (found[0], found[15], found[16]) == (soon, soon, soon)
    assert all(10 <= pause <= 10.1 for pause in found[13:15])
    assert sorted(found[:8]) == found[:8]


def test_a_watch_that_must_wait_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's Retry-After counts also for watches."""
    assert pauses(Script(watches=[refused(429, **{"retry-after": "7"})]), 1, monkeypatch) == [7.0]


@pytest.mark.parametrize("said", [Said(503), Said(), refused(403)])
def test_an_informer_that_is_stopped_tries_nothing_again(said: Said) -> None:
    """A kind that is needed no more is let go of also while it cannot be read, however endless the patience."""
    with following(lambda _line: said, CONTROLLER) as (informer, server):
        until(lambda: server.count("/nodes") > 1, "it tries again")
        informer.stop()
        informer._thread.join(PATIENCE)
        assert (informer._thread.is_alive(), informer.problem) == (False, None)


NONE: Final = Patience(0.0, 0.0)


@pytest.mark.parametrize(
    ("part", "said", "patience"),
    [
        pytest.param("limit", Said(503), NONE, id="unreachable"),
        pytest.param("limit", refused(403), NONE, id="lists not allowed"),
        pytest.param("limit", refused(400), CONTROLLER, id="selector that the server rejects"),
        pytest.param("watch", refused(401), NONE, id="watches not authorized"),
        pytest.param("watch", refused(403), NONE, id="watches not allowed"),
    ],
)
def test_what_ends_an_informer_is_known(part: str, said: Said, patience: Patience) -> None:
    """The time for retries is over, or no retry helps. A role may allow lists alone."""
    with following(lambda line: said if part in line else TWO, patience) as (informer, server):
        until(lambda: informer.problem, "it ends")
        assert informer.problem is not None
        assert informer.problem.status == said.status
        assert isinstance(informer.problem, PermissionDeniedError) is (said.status == 403)
        assert server.count("limit") == 1


def test_an_outage_after_the_first_list_ends_nothing() -> None:
    """A Job that has read everything once outlasts the API server's absence, although it would not have begun in it."""
    back = threading.Event()

    def answer(line: str) -> Said:
        if back.is_set():
            return WAITS if "watch" in line else TWO
        return refused(410) if "watch" in line else Said(503) if server.count("watch") else TWO

    with following(answer, Patience(0.0)) as (informer, server):
        until(lambda: server.count("limit") > 4, "it lists again and again")
        assert informer.problem is None
        back.set()
        until(lambda: informer.out_of_sync is None, "it is in sync")


# The second read.


@pytest.mark.parametrize("said", [SILENT, Said(503), refused(403)])
def test_a_second_read_ends_in_its_time(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises what prevented it, and does not outlast the run's deadline."""
    monkeypatch.setattr(retry, "WRITE", CONTROLLER)
    with following(Script([TWO, said])) as (informer, _server), bounded():
        until(lambda: informer.synced, "it is listed")
        with pytest.raises(ApiError):
            informer.read_again(time.monotonic() + 0.3)
