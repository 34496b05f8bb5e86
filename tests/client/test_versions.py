"""A cache is as new as a list if it held that version of each object or a later one, and nothing that went away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hook.errors import RejectedError, UnreachableError
from hook.kube.listing import Contents, Listed, as_new, at_least, page

if TYPE_CHECKING:
    from collections.abc import Mapping


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


@pytest.mark.parametrize(
    ("before", "now", "listed", "expected"),
    [
        pytest.param(A5, A5, A5, True, id="the-same"),
        pytest.param({}, {}, {}, True, id="nothing-at-all"),
        pytest.param({"a": "9"}, {"a": "9"}, {"a": "10"}, False, id="behind-by-number-not-by-letter"),
        pytest.param(A5, {"a": "12"}, {"a": "10"}, True, id="changed-since"),
        pytest.param(A5, A5, {"a": "5", "b": "6"}, False, id="an-object-that-the-watch-missed"),
        pytest.param(A5, {"a": "5", "b": "6"}, {"a": "5", "b": "6"}, True, id="delivered-meanwhile"),
        pytest.param(A5, A5, {}, False, id="an-object-that-vanished"),
        pytest.param(A5, {}, {}, True, id="its-deletion-was-delivered"),
        pytest.param(A5, {}, A5, True, id="deleted-after-the-list"),
        pytest.param(A5, {}, {"a": "9"}, False, id="created-again-before-the-list"),
        pytest.param(A5, {"a": "9"}, {"a": "9"}, True, id="created-again-under-its-name"),
        pytest.param(A5, {"a": "5", "b": "11"}, A5, True, id="created-after-the-list"),
        pytest.param(A5, {"a": "5", "b": "10"}, A5, False, id="as-old-as-the-list-and-not-in-it"),
        pytest.param(AS_LISTED, AS_LISTED, {"a": "4"}, True, id="as-it-was-listed-at-first"),
        pytest.param(AS_LISTED, AS_LISTED, A5, False, id="changed-since-it-was-listed-at-first"),
        pytest.param(AS_LISTED, {}, {"a": "3"}, True, id="listed-at-first-and-deleted-after-the-list"),
        pytest.param(AS_LISTED, AS_LISTED, {}, False, id="listed-at-first-and-vanished"),
        pytest.param({}, {}, {"a": "3"}, False, id="older-than-the-first-list-and-not-held"),
        pytest.param({"a": "x"}, {"a": "x"}, {"a": "x"}, False, id="no-number"),
        pytest.param({}, {"a": "x"}, {}, False, id="no-number-and-not-in-the-list"),
    ],
)
def test_what_a_cache_must_hold(before: Objects, now: Objects, listed: Objects, *, expected: bool) -> None:
    """The list is of version 10; when it was asked for, the cache began at 4 and had been brought up to 8."""
    there = Listed({("", name): version for name, version in listed.items()}, "10")
    assert as_new(contents(before, "8"), contents(now, "12"), there) is expected


def test_a_cache_of_another_time_proves_nothing() -> None:
    """Without a watch, or ahead of the cluster: then that was restored from a backup, and what it held is gone."""
    there = Listed({("", "a"): "5"}, "10")
    for version, expected in (("10", True), ("9", True), ("11", False), ("", False)):
        assert as_new(contents(A5, version), contents(A5, "12"), there) is expected, version


def test_a_cache_that_was_listed_again_meanwhile_is_as_new_as_that_list() -> None:
    """It may hold what was created since, and lack what was deleted since; not if its own list is the older one."""
    there = Listed({("", "a"): "5"}, "10")
    for objects, listed, expected in (
        ({"a": "", "b": ""}, "11", True),
        ({}, "11", True),
        ({"a": "", "b": ""}, "9", False),
    ):
        assert as_new(contents(A5, "8"), contents(objects, listed, listed), there) is expected, (objects, listed)


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
        {**good, "metadata": {"resourceVersion": ""}},
        {**good, "items": ["a"]},
        {**good, "items": [{}]},
        {**good, "items": [{"metadata": {"name": "a"}}]},
        {**good, "items": [{"metadata": {"name": "a", "resourceVersion": ""}}]},
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
