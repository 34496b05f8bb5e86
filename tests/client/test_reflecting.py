"""A watch changes what is known, one event at a time; a bookmark changes nothing but where to go on."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final

from hook.kube import informer as informers
from hook.kube.informer import Informer
from hook.kube.listing import ListWatch
from hook.kube.requests import NODES, ListOptions
from hook.kube.retry import starting
from hook.objects import readers
from hook.objects.views import Malformed
from tests.client.server import Said, serving
from tests.client.test_losing_contact import PATIENCE, following, told, until
from tests.fixtures.objects import obj

if TYPE_CHECKING:
    import pytest

    from tests.client.server import Server

GONE: Final = Said(410, b'{"kind": "Status", "code": 410}')
NOT_FOUND: Final = Said(404, b'{"kind": "Status", "code": 404}')


STATE: Final = "nvidia.com/gpu-driver-upgrade-state"


def node(name: str, version: str, state: str = "upgrade-done") -> dict[str, Any]:
    """Return a node at a version."""
    return obj("node", {"metadata": {"name": name, "resourceVersion": version, "labels": {STATE: state}}})


def events(*found: tuple[str, dict[str, Any]]) -> Said:
    """Send events and end the watch."""
    lines = (json.dumps({"type": kind, "object": each}).encode() + b"\n" for kind, each in found)
    return Said(200, b"".join(lines))


class Watched:
    """Lists two nodes, then gives one answer for each watch; later ones end at once."""

    def __init__(self, *answers: Said) -> None:
        self.answers = list(answers)
        self.versions: list[str] = []

    def __call__(self, line: str) -> Said:
        """Answer."""
        if "watch=true" not in line:
            return told(items=[node("a", "1"), node("b", "2")], metadata={"resourceVersion": "10"})
        found = re.search("resourceVersion=([^&]*)", line)
        self.versions.append(found[1] if found else "")
        return self.answers.pop(0) if self.answers else Said(200)


def after(watched: Watched, watches: int) -> tuple[dict[str, Any], Server]:
    """Follow until so many watches were opened; return what is known then, by name."""
    with serving(watched) as server:
        informer = following(server)
        until(lambda: len(watched.versions) > watches)
        informer.stop()
        return {view.name: view for view in informer.views()}, server


def test_each_event_does_what_it_says() -> None:
    """What was deleted is gone, what was added is there, what was modified differs."""
    changes = events(
        ("DELETED", node("a", "11")), ("ADDED", node("c", "12")), ("MODIFIED", node("b", "13", "drain-required"))
    )
    watched = Watched(changes)
    known, server = after(watched, 1)
    assert {"b", "c"} == set(known)
    assert known["b"].labels[STATE] == "drain-required"
    assert watched.versions[:2] == ["10", "13"]
    assert server.count("limit") == 1


def test_versions_are_those_that_the_watch_has_brought_since_the_last_list() -> None:
    """An object that was only listed is held as of the list's version; so are all of them after a further list."""
    changes = events(("MODIFIED", node("a", "12")), ("MODIFIED", node("b", "13")), ("DELETED", node("a", "14")))
    for later, expected in ((Said(200), ({("", "b"): "13"}, "10", "14")), (GONE, ({}, "10", "10"))):
        watched = Watched(changes, later)
        with serving(watched) as server:
            informer = following(server)
            until(lambda: len(watched.versions) > 2)  # noqa: B023 - it ends within this turn
            informer.stop()
            found = informer.contents()
        assert (found.changes, found.listed, found.version) == expected


def test_a_bookmark_is_no_object() -> None:
    """It says where to go on; one without a version says nothing."""
    mark = {"kind": "Node", "metadata": {"resourceVersion": "77"}}
    watched = Watched(events(("BOOKMARK", mark)), events(("BOOKMARK", {"metadata": {}})))
    known, server = after(watched, 2)
    assert {"a", "b"} == set(known)
    assert watched.versions[:3] == ["10", "77", "77"]
    assert server.count("limit") == 1


def test_an_object_that_cannot_be_read_is_known_to_be_there() -> None:
    """It is kept in its place, and is not what it was before."""
    odd = node("a", "11")
    odd["spec"] = {"taints": 7}
    known = Watched(events(("MODIFIED", odd)))
    with serving(known) as server:
        informer = following(server)
        until(lambda: len(known.versions) > 1)
        informer.stop()
        found = [view for view in informer.views() if isinstance(view, Malformed)]
    assert 1 == len(found)
    assert "a" in found[0].name


def test_a_kind_that_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not served is known, too: it is absent then, and nothing of before is left; it is asked for again."""
    monkeypatch.setattr(informers, "ABSENT_SECONDS", 0.05)
    served = threading.Event()
    page = told(items=[node("a", "1")], metadata={"resourceVersion": "10"})

    def answer(line: str) -> Said:
        return NOT_FOUND if not served.is_set() else Said(200) if "watch=true" in line else page

    with serving(answer) as server:
        informer = following(server)
        until(lambda: informer.synced)
        assert (informer.absent, informer.views(), informer.out_of_sync) == (True, (), None)
        served.set()
        until(lambda: not informer.absent)
        assert ["a"] == [view.name for view in informer.views()]
        served.clear()
        until(lambda: informer.absent)
        assert (informer.views(), informer.problem) == ((), None)
        informer.stop()


def test_what_is_known_already_wakes_nobody() -> None:
    """A busy fleet's nodes change all day in fields that no reader wants."""
    same = node("a", "11")
    same["status"] = {**same.get("status", {}), "images": [{"names": ["x"]}]}
    changed = node("b", "13", "drain-required")
    watched = Watched(events(("MODIFIED", same), ("MODIFIED", node("b", "12"))), events(("MODIFIED", changed)))
    changes: list[int] = []

    def note() -> None:
        changes.append(len(watched.versions))

    with serving(watched) as server:
        informer = Informer(server.api, ListWatch(ListOptions(NODES), readers.node), note, starting(PATIENCE))
        informer.start()
        until(lambda: len(watched.versions) > 2)
        informer.stop()
    assert changes[:2] == [0, 2]  # the list, and what the second watch brings; then it was stopped


def test_an_error_within_a_watch_lists_again() -> None:
    """What it missed is not known; it continues from a new list."""
    gone = {"kind": "Status", "code": 410, "message": "too old"}
    watched = Watched(events(("ADDED", node("c", "12")), ("ERROR", gone), ("ADDED", node("d", "13"))))
    known, server = after(watched, 1)
    assert {"a", "b"} == set(known)
    assert watched.versions[:2] == ["10", "10"]
    assert server.count("limit") == 2
