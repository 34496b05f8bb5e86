"""Decoding object by object: what nobody reads is left out, and nothing that somebody does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hook.cluster import decoding, requests
from hook.core import parse, policies
from hook.core.stacks import STACKS
from hook.errors import RejectedError, UnreachableError
from tests.fixtures.objects import obj

READERS = {
    "node": parse.node,
    "driver-pod": parse.pod,
    "plugin-pod": parse.pod,
    "driver-daemonset": parse.daemonset,
    "plugin-daemonset": parse.daemonset,
    "revision": parse.revision,
    "slice": parse.device_slice,
    "deployment": parse.deployment,
    "replicaset": parse.replicaset,
    "lease": parse.lease,
}
BOOKKEEPING: dict[str, dict[str, Any]] = {
    "metadata": {"managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]},
    "spec": {"volumes": [{"name": "run", "hostPath": {"path": "/run"}}]},
    "status": {"images": [{"names": ["ghcr.io/one"], "sizeBytes": 1}]},
}


def taken(found: object, *, whole: bool = False) -> list[Any]:
    """Give the objects of a page that was split and decoded."""
    _meta, objects = decoding.page(json.dumps({"metadata": {}, "items": [found]}).encode(), whole=whole)
    return list(objects)


@pytest.mark.parametrize("name", READERS)
def test_readers_miss_nothing(name: str) -> None:
    """A view of what is decoded is the view of the whole object."""
    whole = obj(name, BOOKKEEPING)
    (light,) = taken(whole)
    assert light != whole
    assert READERS[name](light) == READERS[name](whole)


@pytest.mark.parametrize("section", decoding.UNREAD)
def test_what_is_left_out(section: str) -> None:
    """Of a section only the fields that no reader wants go; of what stands beside the sections all but a few."""
    found = {section: {**BOOKKEEPING[section], "kept": 1}, "revision": 7, "data": BOOKKEEPING[section]}
    (light,) = taken(found)
    assert light == {section: {"kept": 1}, "revision": 7}


def test_one_odd_object_spoils_no_other() -> None:
    """What has another shape is taken apart step by step; those beside it are what they would be without it."""
    page = json.dumps({"metadata": {}, "items": [obj("node"), {"metadata": 7}, obj("slice")]}).encode()
    _meta, objects = decoding.page(page, whole=False)
    first, odd, last = objects
    assert (first, odd, last) == (*taken(obj("node")), {"metadata": 7}, *taken(obj("slice")))


def test_policies_stay_whole() -> None:
    """Who last wrote a policy's spec stands in its managed fields."""
    wrote = {"manager": "helm", "operation": "Update", "time": "2026-01-01T09:00:00Z", "fieldsV1": {"f:spec": {}}}
    policy = obj("policy", {"metadata": {"managedFields": [wrote]}})
    (found,) = taken(policy, whole=True)
    assert found == policy
    for stack in STACKS.values():
        assert all(requests.policies_of(kind).whole for kind in (stack.policy, stack.pool) if kind)
    assert policies.cluster_policy(found).changed is not None


@pytest.mark.parametrize("section", [None, 1, "text", [], [{}]])
def test_other_shapes_reach_the_readers(section: object) -> None:
    """A section that is no object is given as it came: the readers say what is wrong with it."""
    found = {"metadata": section, "spec": section}
    assert taken(found) == [found]


def test_events() -> None:
    """An event of a watch is cut in the same way."""
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "a", "managedFields": []}}}).encode()
    assert decoding.event(line, whole=False) == ("ADDED", {"metadata": {"name": "a"}})
    assert decoding.event(line, whole=True)[1] == {"metadata": {"name": "a", "managedFields": []}}
    assert decoding.event(b'{"object": {}}', whole=False) == ("", {})
    assert decoding.event(b'{"type": "ERROR", "object": {"code": 410}}', whole=False) == ("ERROR", {"code": 410})


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
        b'{"items": [1]}',
        b'{"items": [null]}',
        b'{"items": [{}], "metadata": []}',
        b'{"items": [{"metadata": {"name": "cut',
        b'{"items": [{"metadata": {"name": "\xff"}}]}',
        b'{"items": [{"spec": {"replicas": 1e999}}]}',
    ],
)
def test_what_is_no_list(body: bytes) -> None:
    """Whatever answers in the API server's place is an API server that cannot be reached: it may come back."""
    with pytest.raises(UnreachableError):
        list(decoding.page(body, whole=False)[1])


def test_a_list_that_is_nested_without_end() -> None:
    """It would be so again: a refusal, so that the run ends and says what it could not follow."""
    with pytest.raises(RejectedError, match="nested too deeply"):
        decoding.page(b'{"items": [{"spec": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", whole=False)


@pytest.mark.parametrize("line", [b"", b"1", b"{}", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": 1}', b"{"])
def test_what_is_no_event(line: bytes) -> None:
    """So is a watch that sends something else than events."""
    with pytest.raises(UnreachableError):
        decoding.event(line, whole=False)


@pytest.mark.parametrize("body", [b"", b"1", b"[]", b"null", b"{", b'{"a": 1e999}'])
def test_what_is_no_object(body: bytes) -> None:
    """And a single answer that is no object."""
    with pytest.raises(UnreachableError):
        decoding.decode(body)
