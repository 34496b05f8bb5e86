"""An end is believed once the watches have provably caught up; where that cannot be proven, everything is listed."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from hook.cluster import catchup, retry
from hook.cluster.catchup import at_least
from hook.cluster.observer import Observer
from hook.core.stacks import GPU_OPERATOR
from hook.errors import UnreachableError
from hook.settings import Settings
from tests.fixtures.objects import obj
from tests.shell.server import JSON, Said, serving
from tests.shell.test_losing_contact import PATIENCE, told, until

LISTED: Final = "100"
"""Where the first lists end, and the watches begin."""


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        pytest.param("7", "7", True, id="the-same"),
        pytest.param("10", "9", True, id="by-number-not-by-letter"),
        pytest.param("9", "10", False, id="older"),
        pytest.param("18446744073709551617", "18446744073709551616", True, id="beyond-64-bits"),
        pytest.param("", "9", False, id="none"),
        pytest.param("9", "", False, id="nothing-wanted"),
        pytest.param("0", "0", False, id="zero-is-no-version"),
        pytest.param("010", "9", False, id="no-number-begins-with-zero"),
        pytest.param("a7", "a6", False, id="letters-are-not-ordered"),
        pytest.param("11\n", "10", False, id="not-to-the-last-letter"),
    ],
)
def test_versions_compare_as_numbers(version: str, wanted: str, *, expected: bool) -> None:
    """As the API says they do; a version that is none proves nothing."""
    assert at_least(version, wanted) is expected


@dataclass
class Cluster:
    """A policy, as an API server shows it to lists and to watches; no object of any other kind."""

    policy: dict[str, Any] = field(default_factory=lambda: obj("policy"))
    """What is there now."""
    listed: str = LISTED
    """The version at which the first lists end."""
    newest: str = "120"
    """The version that a consistent read tells."""
    events: tuple[dict[str, Any], ...] = ()
    """What a new watch sends."""
    watched: threading.Event = field(default_factory=threading.Event)

    def answer(self, line: str) -> Said:
        """Answer a request."""
        ours = "clusterpolicies" in line
        if "watch" not in line:
            version = self.newest if self.watched.is_set() else self.listed
            return told(items=[self.policy] if ours else [], metadata={"resourceVersion": version})
        if not self.watched.is_set():
            return Said(200)
        sent = (*(self.events if ours else ()), *((bookmark(self.newest),) if not ours else ()))
        return Said(200, b"".join(json.dumps(one).encode() + b"\n" for one in sent))


def bookmark(version: str) -> dict[str, Any]:
    """Say that everything up to a version was sent."""
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}


def changed(kind: str, version: str, **metadata: object) -> dict[str, Any]:
    """Say that something became of the policy."""
    found = obj("policy")
    return {
        "type": kind,
        "object": {**found, "metadata": {**found["metadata"], **metadata, "resourceVersion": version}},
    }


def confirmed(cluster: Cluster) -> tuple[list[tuple[str, int]], int]:
    """Read a second time: gives the policies that are seen then, and how often they were listed in full for it."""
    with serving(cluster.answer) as server:
        observer = Observer(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        observer.look_at_intent()
        until(lambda: observer.synced and server.count("watch") >= 2)
        before = sum("clusterpolicies?limit=50" in one for one in server.asked)
        cluster.watched.set()
        seen = observer.read_again(PATIENCE)[GPU_OPERATOR.name]
        observer.stop()
        lists = sum("clusterpolicies?limit=50" in one for one in server.asked) - before
    assert seen.unreadable == ()  # a bookmark is no object
    return [(one.name, one.generation) for one in seen.policies or ()], lists


NAME: Final = str(obj("policy")["metadata"]["name"])
GENERATION: Final = int(obj("policy")["metadata"]["generation"])


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param((bookmark("120"),), [(NAME, GENERATION)], id="nothing-happened"),
        pytest.param((bookmark("110"), bookmark("121")), [(NAME, GENERATION)], id="the-second-bookmark-is-new-enough"),
        pytest.param(
            (changed("MODIFIED", "115", generation=77), bookmark("120")), [(NAME, 77)], id="what-a-watch-missed"
        ),
        pytest.param((changed("DELETED", "119"), bookmark("120")), [], id="what-is-gone"),
        pytest.param(
            (changed("DELETED", "118"), changed("ADDED", "119", generation=1), bookmark("120")),
            [(NAME, 1)],
            id="gone-and-back",
        ),
    ],
)
def test_a_watch_that_caught_up_is_no_list(events: tuple[dict[str, Any], ...], expected: list[tuple[str, int]]) -> None:
    """The server's bookmark says that everything up to the version of a consistent read was sent."""
    assert confirmed(Cluster(events=events)) == (expected, 0)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((), id="no-bookmark"),
        pytest.param((bookmark("119"),), id="a-bookmark-of-before"),
        pytest.param((bookmark(""),), id="a-bookmark-of-nothing"),
        pytest.param((bookmark("abc"),), id="no-number"),
        pytest.param((changed("MODIFIED", "121", generation=77),), id="no-bookmark-after-an-event"),
        pytest.param(({"type": "ERROR", "object": {"code": 410, "message": "too old"}},), id="the-past-is-forgotten"),
        pytest.param(
            (changed("MODIFIED", "115", generation=77), {"type": "ERROR", "object": {"code": 500}}), id="an-error"
        ),
        pytest.param(
            ({"type": "ERROR", "object": {"code": 410, "message": "too old"}}, bookmark("120")),
            id="a-bookmark-after-an-error",
        ),
    ],
)
def test_what_proves_nothing_is_listed(monkeypatch: pytest.MonkeyPatch, events: tuple[dict[str, Any], ...]) -> None:
    """Then what counts is what the list says, and nothing that a watch said on the way."""
    monkeypatch.setattr(catchup, "SPANS", (1, 1))
    cluster = Cluster(events=events)
    cluster.policy["metadata"] = {**cluster.policy["metadata"], "generation": 99}
    assert confirmed(cluster) == ([(NAME, 99)], 1)


def test_the_second_watch_goes_on_where_the_first_one_ended() -> None:
    """The first one was too short for a bookmark; what is wanted stays what it was, however much happens meanwhile."""
    cluster = Cluster()
    rest = [
        (changed("MODIFIED", "119", generation=78), bookmark("121")),
        (changed("MODIFIED", "115", generation=77), bookmark("")),
    ]
    asked: list[str] = []

    def answer(line: str) -> Said:
        if cluster.watched.is_set() and "clusterpolicies" in line and "watch" in line:
            asked.append(line)
            cluster.events = rest.pop()
            cluster.newest = "140"  # something else happens meanwhile
        return cluster.answer(line)

    with serving(answer) as server:
        observer = Observer(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        observer.look_at_intent()
        until(lambda: observer.synced and server.count("watch") >= 2)
        observer.stop()
        until(lambda: not any(one._thread.is_alive() for one in observer._reflectors.values()))
        cluster.watched.set()
        before = server.count("clusterpolicies?limit=50")
        seen = observer.read_again(PATIENCE)[GPU_OPERATOR.name]
        assert server.count("clusterpolicies?limit=50") == before
    assert [78] == [one.generation for one in seen.policies or ()]
    assert ["resourceVersion=100&" in asked[0], "resourceVersion=115&" in asked[1]] == [True, True]


def test_a_kind_that_vanished_is_absent_from_a_second_read() -> None:
    """A CRD that was deleted: none is not the same as an empty list."""
    cluster = Cluster()
    gone = Said(404, b'{"kind": "Status", "code": 404}')

    def answer(line: str) -> Said:
        return gone if cluster.watched.is_set() and "clusterpolicies" in line else cluster.answer(line)

    with serving(answer) as server:
        observer = Observer(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        observer.look_at_intent()
        until(lambda: observer.synced and server.count("watch") >= 2)
        observer.stop()
        cluster.watched.set()
        seen = observer.read_again(PATIENCE)[GPU_OPERATOR.name]
    assert (seen.policies, seen.daemonsets) == (None, ())


def test_where_nothing_happened_since_no_watch_is_needed() -> None:
    """A watch brings no bookmark of the version that it began at."""
    assert confirmed(Cluster(newest=LISTED)) == ([(NAME, GENERATION)], 0)


@pytest.mark.parametrize("events", [(), (bookmark("90"),), (bookmark("100"),)])
def test_a_cluster_that_was_set_back_is_listed(events: tuple[dict[str, Any], ...]) -> None:
    """Restored from a backup, or another one behind the same address: what was seen there proves nothing."""
    cluster = Cluster(newest="90", events=events)
    cluster.policy["metadata"] = {**cluster.policy["metadata"], "generation": 99}
    assert confirmed(cluster) == ([(NAME, 99)], 1)


def test_versions_that_are_no_numbers_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that two of them are the same: what was not promised is not built upon."""
    monkeypatch.setattr(catchup, "SPANS", (1, 1))
    assert confirmed(Cluster(newest="v120", events=(bookmark("v120"),)))[1] == 1
    assert confirmed(Cluster(listed="v120", newest="v120"))[1] == 1


def test_silent_watches_do_not_outlast_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that opens every watch and then says nothing must not carry a run beyond its deadline."""
    monkeypatch.setattr(catchup, "SLACK_SECONDS", 0.2)
    monkeypatch.setattr(catchup, "SPANS", (1, 30))
    monkeypatch.setattr("hook.cluster.reflector.WATCH_SECONDS", 30)
    over = threading.Event()
    silent = Said(200, b"", {**JSON, "content-length": "9"})

    def answer(line: str) -> Said:
        if "watch" in line:
            return silent
        version = "120" if "limit=1&" in f"{line}&" else LISTED
        return told(items=[], metadata={"resourceVersion": version})

    with serving(answer, linger=over) as server:
        observer = Observer(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        observer.look_at_intent()
        until(lambda: observer.synced and server.count("watch") >= 2)
        began = time.monotonic()
        with pytest.raises(UnreachableError):
            observer.read_again(0.5)
        assert time.monotonic() - began < 20  # with all that was agreed on it were 66
        observer.stop()
        over.set()


def test_a_server_that_asked_to_wait_with_a_watch_sees_no_other() -> None:
    """Whoever cannot open a watch does not prove anything by one; everything is listed."""
    cluster = Cluster()

    def answer(line: str) -> Said:
        return Said(429, b"too many", headers={"retry-after": "60"}) if "watch" in line else cluster.answer(line)

    with serving(answer) as server:
        observer = Observer(server.api, [GPU_OPERATOR], Settings(), retry.starting(PATIENCE))
        observer.look_at_intent()
        # Each kind's own watch has been refused.
        until(lambda: observer.synced and all(one.contact.lost for one in observer._reflectors.values()))
        before = server.count("watch")
        cluster.watched.set()
        seen = observer.read_again(PATIENCE)[GPU_OPERATOR.name]
        observer.stop()
        assert before == server.count("watch")
    assert [NAME] == [one.name for one in seen.policies or ()]
