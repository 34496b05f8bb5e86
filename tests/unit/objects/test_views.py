"""Views: what is kept of an object follows from the places of its fields."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from hook.objects.decoding import Count, MalformedObjectError, Name, Text
from hook.objects.views import At, View, at, made, reader
from tests.fixtures.objects import Object, raw


def _sum(first: int, second: int) -> int:
    return first + second


class Kind(View, frozen=True):
    """A kind with every sort of field."""

    name: Annotated[Name, at("metadata", "name")]
    wanted: Annotated[Count, at("spec", "wanted")]
    both: Annotated[int, made(_sum, At(("spec", "wanted"), Count), At(("status", "more"), Count, 1))]
    odd: Annotated[Text, at("metadata", "annotations", "example.com/odd-key")] = "none"
    later: str = "unknown"


READ = reader(Kind)
METADATA: Object = {"namespace": "n", "name": "a", "annotations": {"example.com/odd-key": "x", "more": 7}}


@pytest.mark.parametrize("source", [raw, dict], ids=["text", "values"])
def test_each_field_has_what_stands_in_its_place(source: type) -> None:
    """Of the text of an object, or of its plain values. What has no place is not read."""
    whole = {"metadata": METADATA, "spec": {"wanted": 2, "other": []}, "status": {"more": 3}, "data": 1}
    assert Kind("a", 2, 5, "x", "unknown") == READ(source(whole))


def test_what_an_object_does_not_have_is_the_default() -> None:
    """Of the field, or of the place that it is made of."""
    assert Kind("a", 2, 3, "none", "unknown") == READ({"metadata": {"name": "a"}, "spec": {"wanted": 2}})


@pytest.mark.parametrize(
    ("spec", "path"),
    [({"wanted": -1}, r"\$\.spec\.wanted"), ({}, r"\$\.spec"), (None, r"\$\.spec"), (..., "spec")],
    ids=["wrong", "missing", "null", "no-parent"],
)
def test_a_field_without_a_default_is_required(spec: object, path: str) -> None:
    """So is everything around it."""
    found = {"metadata": {"name": "a"}, **({} if spec is ... else {"spec": spec})}
    with pytest.raises(MalformedObjectError, match=path):
        READ(found)


def test_what_is_kept_may_be_less_than_the_view() -> None:
    """An object that is nothing to keep is left out."""
    some = READ.keeping(lambda kind: kind if kind.wanted else None)
    assert [2, None] == [
        kind and kind.wanted for kind in (some({"metadata": METADATA, "spec": {"wanted": each}}) for each in (2, 0))
    ]


def test_a_kind_has_one_reader() -> None:
    """Informers that follow the same objects are found by it."""
    assert reader(Kind) is READ


def test_only_what_is_read_is_decoded() -> None:
    """The decoded form has the key of the object and the places of the view, and nothing else."""
    inside = {field.encode_name: field.type for field in msgspec.structs.fields(READ.shape)}
    assert {"metadata", "spec", "status"} == inside.keys()
    metadata = msgspec.structs.fields(inside["metadata"])
    assert {"namespace", "name", "annotations"} == {field.encode_name for field in metadata}


def test_no_place_is_inside_another() -> None:
    """One of them would not be read."""

    class Overlapping(View, frozen=True):
        whole: Annotated[dict[str, int], at("spec")]
        part: Annotated[int, at("spec", "part")]

    with pytest.raises(TypeError, match="under spec"):
        reader(Overlapping)
