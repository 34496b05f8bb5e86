"""Decoding answers and objects: what only an API server sends, and one object at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from hook.errors import ApiError
from hook.objects import decoding, entry, read_node
from hook.objects.decoding import Count, Event, Excerpt, MalformedObjectError, Name, Page, Text, Time, read
from tests.fixtures.objects import obj, raw

ROOT: Final = Path(__file__).parents[3]
LONG: Final = b'{"a": ' + b"9" * 5000 + b"}"
NESTED: Final = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        *((Page, body) for body in (b"", b"[]", b"null", b"<html>a proxy's page</html>")),
        *((Page, body) for body in (b'{"metadata": {}}', b'{"items": null}', b'{"items": {}}')),
        (Page, b'{"items": [{}], "metadata": []}'),
        (Page, b'{"items": [{"metadata": {"name": "cut'),
        (Page, rb'{"items": [{"metadata": {"name": "\ud800"}}]}'),
        *((Event, body) for body in (b"", b"1", b"{}", b"{", b'{"type": "ADDED"}', b'{"type": 1, "object": {}}')),
        *((dict[str, Any], body) for body in (b"", b"1", b"[]", b"null", b"{", b'{"a": 1e999}', LONG, b"NaN")),
    ],
)
def test_an_answer_that_no_api_server_gives(shape: Any, body: bytes) -> None:  # noqa: ANN401 - a type
    """It comes from something in the API server's place, so the request may be sent again."""
    with pytest.raises(ApiError) as refused:
        decoding.answer(shape, body)
    assert refused.value.unreachable


@pytest.mark.parametrize("shape", [Page, Event, dict[str, Any]])
def test_an_answer_that_is_nested_too_deeply(shape: Any) -> None:  # noqa: ANN401 - a type
    """The next answer would be the same, so the run ends and reports what it could not read."""
    with pytest.raises(ApiError, match="nested too deeply") as refused:
        decoding.answer(shape, b'{"items": [{"spec": ' + NESTED + b'}], "object": {}}')
    assert not refused.value.unreachable


@pytest.mark.parametrize("item", [b"1", b"null", b"[]", b'{"metadata": {"name": "\xff"}}'])
def test_an_item_that_is_no_object(item: bytes) -> None:
    """The list comes from something in the API server's place."""
    (body,) = decoding.answer(Page, b'{"items": [' + item + b"]}").items
    with pytest.raises(ApiError):
        entry(read_node, "Node", body)


def test_one_malformed_object_spoils_no_other() -> None:
    """Each object of a page is decoded by itself; a malformed one is named as far as it can be."""
    items = [obj("node"), {"metadata": 7}, obj("node", "metadata: {name: b, resourceVersion: '7', labels: []}")]
    page = decoding.answer(Page, raw({"metadata": {}, "items": items}))
    (_key, first), (nameless, _), (named, view) = (entry(read_node, "Node", body) for body in page.items)
    assert read_node(obj("node")) == first
    assert ["", "", "7"] == [decoding.version(body) for body in page.items]
    assert (("", ""), ("", "b"), "b") == (nameless, named, view.name)
    assert "`$.metadata.labels`" in view.problem


@pytest.mark.parametrize(
    "item",
    [
        b'{"metadata": {"name": "a"}, "status": {"images": ["\xff"], "other": 1e999}}',
        b'{"metadata": {"name": "a", "generateName": 7}, "spec": {"volumes": "none"}, "data": []}',
    ],
)
def test_what_is_not_read_may_be_anything(item: bytes) -> None:
    """Nothing that is skipped makes an object malformed."""
    _key, view = entry(read_node, "Node", item)
    assert "a" == view.name


WRONG: Final[dict[Any, tuple[object, ...]]] = {
    Text: (3, False, "x" * (decoding.LONGEST_TEXT + 1)),
    Name: ("",),
    Count: (-1, 2**63, 10**40, "3", 3.5, True),
    bool: ("false", 0),
    Time: (1767261600, "yesterday", "2026-01-01T10:00:00", "2016-12-31T23:59:60Z"),
}


@pytest.mark.parametrize(
    ("shape", "value"),
    [(shape, value) for shape, values in WRONG.items() for value in values],
    ids=lambda value: str(value)[:40] if isinstance(value, str | int | float) else "",
)
def test_a_value_of_the_wrong_type_is_refused(shape: Any, value: object) -> None:  # noqa: ANN401 - a type
    """It is never taken for a default, and the message names the path."""
    kind = msgspec.defstruct("Kind", [("field", shape)])
    for source in (json.dumps({"field": value}).encode(), {"field": value}):
        with pytest.raises(MalformedObjectError, match=r"at `\$\.field`"):
            read(kind, source)


@pytest.mark.parametrize("body", [b'{"field": "\xff"}', b"{", b"", b'{"field":' + NESTED], ids=lambda body: body[:9])
def test_text_that_is_no_json_is_refused(body: bytes) -> None:
    """Neither is text that is no UTF-8, or that is nested without end."""
    with pytest.raises(MalformedObjectError):
        read(msgspec.defstruct("Kind", [("field", Any)]), body)


@pytest.mark.parametrize("clock", ["10:00:00Z", "10:00:00.999999Z", "10:00:00.123456789Z", "12:00:00+02:00"])
def test_times_are_whole_seconds_in_utc(clock: str) -> None:
    """A fraction would prove an order that is not known. Equal times are one value."""
    first, again = (read(Time, f"2026-01-01T{clock}") for _ in range(2))
    assert first == datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)
    assert first is again


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_a_time_that_utc_cannot_show_is_malformed(time: str) -> None:
    """It is well-formed, and no clock shows it in UTC."""
    with pytest.raises(MalformedObjectError, match="is out of range"):
        read(Time, time)


def test_the_beginning_of_a_message_is_kept() -> None:
    """As much as an Event can hold."""
    assert "x" * 1024 == read(Excerpt, "x" * 2000)


AT_ONCE: Final = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from hook.objects import claims, daemonsets, decoding, nodes, operators, pods, policies, slices, views
for kind in (policies.ClusterPolicy, policies.NvidiaDriver, policies.NicClusterPolicy):
    setattr(policies, kind.plural, views.reader(kind))
readers = [value for module in list(sys.modules.values()) if module.__name__.startswith("hook.objects.")
           for value in vars(module).values() if isinstance(value, decoding.Reader)]
assert len(readers) > 11
sys.setswitchinterval(1e-6)
ready = threading.Barrier(12)

def first(_):
    ready.wait()
    for reader in readers:
        try:
            reader(b'{"metadata": {}}')
        except decoding.MalformedObjectError:
            pass

list(ThreadPoolExecutor(12).map(first, range(12)))
"""
"""Decodes the first objects of all kinds in many threads, as informers do."""


def test_threads_that_decode_their_first_objects_at_once() -> None:
    """The library describes a type on first use, and is not thread-safe there: without a lock, half of these crash."""
    started = [subprocess.Popen([sys.executable, "-c", AT_ONCE], cwd=ROOT) for _ in range(8)]
    assert [0] * 8 == [process.wait() for process in started]
