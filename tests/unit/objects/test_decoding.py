"""Decoding answers and objects: what only an API server sends, one object at a time, and values kept once."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from hook.errors import ApiError
from hook.objects import decoding, entry, read_node
from hook.objects.decoding import Count, Event, MalformedObjectError, Name, Page, Text, Time, moment, read
from tests.fixtures.objects import error_of, obj, raw

ROOT: Final = Path(__file__).parents[3]


def test_an_answer_that_no_api_server_gives() -> None:
    """It comes from something in the API server's place: a list, an event or a single object of another shape."""
    for body in (
        b"", b"<html>a proxy's page</html>", b"[]", b"null", b'{"metadata": {}}', b'{"items": null}', b'{"items": {}}',
        b'{"items": [{}], "metadata": []}', b'{"items": [{"metadata": {"name": "cut',
        rb'{"items": [{"metadata": {"name": "\ud800"}}]}',
    ):  # fmt: skip
        assert error_of(ApiError, decoding.answer, Page, body), body
    for body in (b"", b"1", b"{}", b'{"type": "ADDED"}', b'{"type": 1, "object": {}}', b"{"):
        assert error_of(ApiError, decoding.answer, Event, body), body
    for body in (b"", b"1", b"[]", b"null", b"{", b'{"a": 1e999}'):
        assert error_of(ApiError, decoding.decode, body), body
    # A list whose items are no objects comes from something else, too.
    for item in (b"1", b"null", b"[]", b'{"metadata": {"name": "\xff"}}'):
        (body,) = decoding.answer(Page, b'{"items": [' + item + b"]}").items
        assert error_of(ApiError, entry, read_node, "Node", body), item
    # The next answer would be the same, so the run ends and reports what it could not read.
    nested = b"[" * 100_000 + b"]" * 100_000
    for shape in (Page, Event, dict[str, Any]):
        whole = b'{"items": [{"spec": ' + nested + b'}], "object": {}}'
        assert "nested too deeply" in error_of(ApiError, decoding.answer, shape, whole)


def test_one_malformed_object_spoils_no_other() -> None:
    """Each object of a page is decoded by itself; a malformed one is named as far as it can be."""
    items = [obj("node"), {"metadata": 7}, obj("node", "metadata: {name: b, resourceVersion: '7', labels: []}")]
    page = decoding.answer(Page, raw({"metadata": {}, "items": items}))
    first, nameless, named = (entry(read_node, "Node", body) for body in page.items)
    assert read_node(obj("node")) == first.view
    assert (("", ""), "") == (nameless.key, nameless.version)
    assert (("", "b"), "7", "b") == (named.key, named.version, named.view.name)
    assert "`$.metadata.labels`" in named.view.problem


def test_what_is_not_read_may_be_anything() -> None:
    """Nothing that is skipped makes an object malformed."""
    for item in (
        b'{"metadata": {"name": "a"}, "status": {"images": ["\xff"], "other": 1e999}}',
        b'{"metadata": {"name": "a", "managedFields": 7}, "spec": {"volumes": "none"}, "data": []}',
    ):
        assert "a" == entry(read_node, "Node", item).view.name, item


WRONG: Final[dict[Any, tuple[object, ...]]] = {
    Text: (3, False, "x" * (decoding.LONGEST_TEXT + 1)),
    Name: ("",),
    Count: (-1, 2**63, 10**40, "3", 3.5, True),
    bool: ("false", 0),
    Time: (1767261600, "yesterday", "2026-01-01T10:00:00", "2016-12-31T23:59:60Z"),
}


def test_a_value_of_the_wrong_type_is_refused() -> None:
    """It is never taken for a default, and the message names the path."""
    for shape, values in WRONG.items():
        kind = msgspec.defstruct("Kind", [("field", shape)])
        for value in values:
            for source in (json.dumps({"field": value}).encode(), {"field": value}):
                assert "at `$.field`" in error_of(MalformedObjectError, read, kind, source), source
    # So is text that is no JSON, no UTF-8, or nested without end.
    for body in (b'{"field": "\xff"}', b"{", b"", b'{"field":' + b"[" * 100_000):
        assert error_of(MalformedObjectError, read, msgspec.defstruct("Kind", [("field", Any)]), body), body[:30]


def test_times_are_whole_seconds_in_utc() -> None:
    """A fraction would prove an order that is not known; equal ones are one value."""
    expected = datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)
    for written in ("10:00:00Z", "10:00:00.999999Z", "10:00:00.123456789Z", "12:00:00+02:00"):
        first, again = (moment(read(Time, f"2026-01-01T{written}")) for _ in range(2))
        assert (expected, UTC) == (first, first and first.tzinfo), written
        assert first is again, written
    # These are well-formed, and no clock shows them in UTC.
    for written in ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"):
        assert "is out of range" in error_of(MalformedObjectError, moment, read(Time, written)), written


def test_equal_values_stand_in_memory_once() -> None:
    """Never one type of value for another, and never without a bound."""
    assert type(decoding.interned(1)) is int
    assert type(decoding.interned(True)) is bool  # equal to 1, and no number
    for number in range(2 * decoding.MOST_INTERNED):
        assert decoding.interned(number) == number
    assert len(decoding._INTERNED) <= decoding.MOST_INTERNED


AT_ONCE: Final = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from hook.objects import claims, daemonsets, decoding, nodes, operators, pods, policies, slices
readers = [nodes.read_node]
readers += [value for module in list(sys.modules.values()) if module.__name__.startswith("hook.objects")
            for value in vars(module).values() if isinstance(value, decoding.Reader)]
assert len(readers) > 8
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
