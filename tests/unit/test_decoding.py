"""Decoding answers and objects: what only an API server sends, one object at a time, and values kept once."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from hook.errors import RejectedError, UnreachableError
from hook.objects import decoding, readers, wire
from hook.objects.decoding import Count, Event, MalformedObjectError, Name, Page, Text, Time, moment, read
from tests.fixtures.objects import obj, raw

ROOT: Final = Path(__file__).parents[2]
UTC_TIME = datetime(2026, 1, 1, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>a proxy's page</html>",
        b"[]",
        b"null",
        b'{"metadata": {}}',
        b'{"items": null}',
        b'{"items": {}}',
        b'{"items": [{}], "metadata": []}',
        b'{"items": [{"metadata": {"name": "cut',
        rb'{"items": [{"metadata": {"name": "\ud800"}}]}',
    ],
)
def test_what_is_no_list(body: bytes) -> None:
    """An answer that no API server gives comes from something in its place: the API server may come back."""
    with pytest.raises(UnreachableError):
        decoding.answer(Page, body)


@pytest.mark.parametrize("item", [b"1", b"null", b"[]", b'{"metadata": {"name": "\xff"}}'])
def test_an_item_that_cannot_even_be_named(item: bytes) -> None:
    """So does a list whose items are no objects."""
    (body,) = decoding.answer(Page, b'{"items": [' + item + b"]}").items
    with pytest.raises(UnreachableError):
        readers.entry(readers.node, "Node", body)


@pytest.mark.parametrize("shape", [Page, Event, dict[str, Any]])
def test_an_answer_that_is_nested_without_end(shape: type) -> None:
    """The next one would be the same: a refusal, so that the run ends and reports what it could not read."""
    nested = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(RejectedError, match="nested too deeply"):
        decoding.answer(shape, b'{"items": [{"spec": ' + nested + b'}], "object": {}}')


@pytest.mark.parametrize("line", [b"", b"1", b"{}", b'{"type": "ADDED"}', b'{"type": 1, "object": {}}', b"{"])
def test_what_is_no_event(line: bytes) -> None:
    """A watch that sends something else is broken, too."""
    with pytest.raises(UnreachableError):
        decoding.answer(Event, line)


def test_an_event() -> None:
    """The kind, and the text of the object."""
    event = decoding.answer(Event, b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}')
    assert ("ADDED", {"metadata": {"name": "a"}}) == (event.type, decoding.decode(event.object))


@pytest.mark.parametrize("body", [b"", b"1", b"[]", b"null", b"{", b'{"a": 1e999}'])
def test_what_is_no_object(body: bytes) -> None:
    """And a single answer that is no object."""
    with pytest.raises(UnreachableError):
        decoding.decode(body)


def test_one_malformed_object_spoils_no_other() -> None:
    """Each of a page is decoded by itself; a malformed one is named as far as it can be."""
    items = [obj("node"), {"metadata": 7}, obj("node", "metadata: {name: b, resourceVersion: '7', labels: []}")]
    page = decoding.answer(Page, raw({"metadata": {}, "items": items}))
    first, nameless, named = (readers.entry(readers.node, "Node", body) for body in page.items)
    assert readers.node(obj("node")) == first.view
    assert (("", ""), "") == (nameless.key, nameless.version)
    assert (("", "b"), "7", "b") == (named.key, named.version, named.view.name)
    assert "`$.metadata.labels`" in named.view.problem


@pytest.mark.parametrize(
    "item",
    [
        b'{"metadata": {"name": "a"}, "status": {"images": ["\xff"], "other": 1e999}}',
        b'{"metadata": {"name": "a", "managedFields": 7}, "spec": {"volumes": "none"}, "data": []}',
    ],
)
def test_what_is_not_read_may_be_anything(item: bytes) -> None:
    """Nothing that is skipped makes an object malformed."""
    assert "a" == readers.entry(readers.node, "Node", item).view.name


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        pytest.param(Text, 3, id="text-number"),
        pytest.param(Text, False, id="text-boolean"),
        pytest.param(Text, "x" * (decoding.LONGEST_TEXT + 1), id="text-too-long"),
        pytest.param(Name, "", id="name-empty"),
        pytest.param(Count, -1, id="negative"),
        pytest.param(Count, 2**63, id="too-large"),
        pytest.param(Count, 10**40, id="far-too-large"),
        pytest.param(Count, "3", id="number-as-text"),
        pytest.param(Count, 3.5, id="fraction"),
        pytest.param(Count, True, id="number-as-boolean"),
        pytest.param(bool, "false", id="flag-as-text"),
        pytest.param(bool, 0, id="flag-as-number"),
        pytest.param(Time, 1767261600, id="time-as-number"),
        pytest.param(Time, "yesterday", id="no-time"),
        pytest.param(Time, "2026-01-01T10:00:00", id="without-zone"),
        pytest.param(Time, "2016-12-31T23:59:60Z", id="leap-second"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(shape: type, value: object) -> None:
    """Never taken for a default; the message names the path."""
    kind = msgspec.defstruct("Kind", [("field", shape)])
    for source in (json.dumps({"field": value}).encode(), {"field": value}):
        with pytest.raises(MalformedObjectError, match=r"at `\$\.field`"):
            read(kind, source)


@pytest.mark.parametrize("body", [b'{"field": "\xff"}', b"{", b"", b'{"field":' + b"[" * 100_000])
def test_whatever_is_wrong_is_one_error(body: bytes) -> None:
    """Text that is no JSON, no UTF-8, or nested without end."""
    with pytest.raises(MalformedObjectError):
        read(msgspec.defstruct("Kind", [("field", Any)]), body)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("2026-01-01T10:00:00Z", UTC_TIME, id="kubelets"),
        pytest.param("2026-01-01T10:00:00.999999Z", UTC_TIME, id="micro-time"),
        pytest.param("2026-01-01T10:00:00.123456789Z", UTC_TIME, id="nano-time"),
        pytest.param("2026-01-01T12:00:00+02:00", UTC_TIME, id="other-zone"),
    ],
)
def test_times_are_whole_seconds_in_utc(written: str, expected: datetime) -> None:
    """A fraction would prove an order that is not known; equal ones are one value."""
    first, again = (moment(read(Time, written)) for _ in range(2))
    assert (expected, UTC) == (first, first and first.tzinfo)
    assert first is again


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"])
def test_times_before_and_after_all_clocks_are_refused(written: str) -> None:
    """They are well-formed, and no clock shows them in UTC."""
    with pytest.raises(MalformedObjectError, match="is out of range"):
        moment(read(Time, written))


def test_equal_values_stand_in_memory_once() -> None:
    """Never one type of value for another, and never without a bound."""
    assert type(decoding.interned(1)) is int
    assert type(decoding.interned(True)) is bool  # equal to 1, and no number
    for number in range(2 * decoding.MOST_INTERNED):
        assert decoding.interned(number) == number
    assert len(decoding._INTERNED) <= decoding.MOST_INTERNED


AT_ONCE: Final = f"""
import inspect, sys, threading
from {wire.__name__.rpartition(".")[0]} import decoding, wire
classes = inspect.getmembers(wire, inspect.isclass)
shapes = [shape for _, shape in classes if issubclass(shape, decoding.Part)]
sys.setswitchinterval(1e-6)
ready = threading.Barrier(12)

def first():
    ready.wait()
    for shape in shapes:
        try:
            decoding.read(shape, b'{{"metadata": {{}}}}')
        except decoding.MalformedObjectError:
            pass

threads = [threading.Thread(target=first) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
"""Decodes the first objects of all kinds in many threads, as informers do."""


def test_threads_that_decode_their_first_objects_at_once() -> None:
    """The library describes a type on first use, and is not thread-safe there: without a lock, half of these crash."""
    started = [subprocess.Popen([sys.executable, "-c", AT_ONCE], cwd=ROOT) for _ in range(8)]
    assert [0] * 8 == [process.wait() for process in started]
