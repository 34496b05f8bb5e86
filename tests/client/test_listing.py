"""A cache is as new as a list if it held that version of each object or a later one, and nothing that went away."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from hook.errors import RejectedError, UnreachableError
from hook.kube.listing import Contents, Listed, as_new, at_least, page


def test_versions_compare_as_numbers() -> None:
    """As the API says they do; a version that is none proves nothing."""
    beyond_64_bits = ("18446744073709551617", "18446744073709551616")
    for version, wanted in (("7", "7"), ("10", "9"), beyond_64_bits):
        assert at_least(version, wanted), (version, wanted)
    no_numbers = (("", "9"), ("9", ""), ("0", "0"), ("010", "9"), ("a7", "a6"), ("11\n", "10"))
    for version, wanted in (("9", "10"), *no_numbers):
        assert not at_least(version, wanted), (version, wanted)


def contents(objects: Mapping[str, str], version: str, listed: str = "4") -> Contents:
    """Return what a cache holds, by name; without a version it is as it was listed."""
    views = dict.fromkeys((("", name) for name in objects), object())
    return Contents(views, {("", name): changed for name, changed in objects.items() if changed}, listed, version)


Objects = dict[str, str]
A5: Objects = {"a": "5"}
AS_LISTED: Objects = {"a": ""}


def test_what_a_cache_must_hold() -> None:
    """The list is of version 10; when it was asked for, the cache began at 4 and had been brought up to 8."""
    cases: dict[str, tuple[Objects, Objects, Objects, bool]] = {
        "the same": (A5, A5, A5, True),
        "nothing at all": ({}, {}, {}, True),
        "behind by number, not by letter": ({"a": "9"}, {"a": "9"}, {"a": "10"}, False),
        "changed since": (A5, {"a": "12"}, {"a": "10"}, True),
        "an object that the watch missed": (A5, A5, {"a": "5", "b": "6"}, False),
        "delivered meanwhile": (A5, {"a": "5", "b": "6"}, {"a": "5", "b": "6"}, True),
        "an object that vanished": (A5, A5, {}, False),
        "its deletion was delivered": (A5, {}, {}, True),
        "deleted after the list": (A5, {}, A5, True),
        "created again before the list": (A5, {}, {"a": "9"}, False),
        "created again under its name": (A5, {"a": "9"}, {"a": "9"}, True),
        "created after the list": (A5, {"a": "5", "b": "11"}, A5, True),
        "as old as the list and not in it": (A5, {"a": "5", "b": "10"}, A5, False),
        "as it was listed at first": (AS_LISTED, AS_LISTED, {"a": "4"}, True),
        "changed since it was listed at first": (AS_LISTED, AS_LISTED, A5, False),
        "listed at first and deleted after the list": (AS_LISTED, {}, {"a": "3"}, True),
        "listed at first and vanished": (AS_LISTED, AS_LISTED, {}, False),
        "older than the first list and not held": ({}, {}, {"a": "3"}, False),
        "no number": ({"a": "x"}, {"a": "x"}, {"a": "x"}, False),
        "no number and not in the list": ({}, {"a": "x"}, {}, False),
    }
    for name, (before, now, listed, expected) in cases.items():
        there = Listed({("", each): version for each, version in listed.items()}, "10")
        assert as_new(contents(before, "8"), contents(now, "12"), there) is expected, name

    # Without a watch, or ahead of the cluster: then that was restored from a backup, and what it held is gone.
    there = Listed({("", "a"): "5"}, "10")
    for version, expected in (("10", True), ("9", True), ("11", False), ("", False)):
        assert as_new(contents(A5, version), contents(A5, "12"), there) is expected, version
    # Listed again meanwhile, it is as new as that list, if its own list is not the older one.
    for objects, again, new in (({"a": "", "b": ""}, "11", True), ({}, "11", True), ({"a": "", "b": ""}, "9", False)):
        assert as_new(contents(A5, "8"), contents(objects, again, again), there) is new, (objects, again)


def test_objects_are_names_and_versions_in_whatever_else_an_answer_holds() -> None:
    """A server that cannot answer with metadata alone answers with whole objects; it writes null for no objects."""
    pod = {"kind": "Pod", "metadata": {"namespace": "n", "name": "a", "resourceVersion": "5", "uid": "u"}, "spec": {}}
    metadata = {"resourceVersion": "10", "continue": "more", "remainingItemCount": 3}
    found = page(json.dumps({"kind": "PodList", "items": [pod], "metadata": metadata}).encode())
    assert found == (Listed({("n", "a"): "5"}, "10"), "more")
    assert page(b'{"items": null, "metadata": {"resourceVersion": "10"}}') == (Listed({}, "10"), "")


def test_an_answer_that_is_no_list_proves_nothing() -> None:
    """Whole objects are listed then; an answer that broke off is asked for again."""
    node = {"metadata": {"name": "a", "resourceVersion": "5"}}
    good = {"items": [node], "metadata": {"resourceVersion": "10"}}
    assert page(json.dumps(good).encode())
    odd: list[object] = [
        [],
        {"metadata": {"resourceVersion": "10"}},
        {"items": []},
        {**good, "metadata": {}},
        {**good, "items": ["a"]},
        {**good, "items": [{"metadata": {"name": "a"}}]},
        {**good, "items": [{"metadata": {"resourceVersion": "5"}}]},
    ]
    for answer in odd:
        with pytest.raises(RejectedError):
            page(json.dumps(answer).encode())
    with pytest.raises(RejectedError):
        page(b'{"items": [], "metadata": {"resourceVersion": "1"}, "x": ' + b"[" * 100_000)
    for broken in (b"", b'{"items": [', b"\xff"):
        with pytest.raises(UnreachableError):
            page(broken)
