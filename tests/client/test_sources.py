"""What is put together to a snapshot: absent is not empty, and what cannot be read is neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from hook.kube.cache import DRIVER_PODS, PLUGIN_PODS, POLICIES, POOLS, REVISIONS, SLICES, assemble
from hook.kube.listing import ListWatch
from hook.kube.requests import PODS, RESOURCE_SLICES, ListOptions, policies_of
from hook.objects import readers
from hook.objects.drivers import GPU_OPERATOR
from hook.objects.views import Malformed
from tests.fixtures.cluster import cluster

if TYPE_CHECKING:
    from hook.kube.cache import Lists

RECORDED: Final = "data: {spec: {template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: b}]}}}}"
FOUND: Final = cluster("a", "b").change("revision", RECORDED).seen()
ODD: Final = Malformed("Pod", "dra", "odd", "a", "it has no spec")


def source(part: str, namespace: str = "") -> ListWatch:
    """Name a selection; how it is read does not matter here."""
    kinds = {POLICIES: policies_of(GPU_OPERATOR.policy), POOLS: policies_of(GPU_OPERATOR.policy)}
    resource = kinds.get(part, RESOURCE_SLICES if part == SLICES else PODS)
    return ListWatch(ListOptions(resource, namespace, labels=part), readers.pod)


def shown(part: str, *found: object, unknown: bool = False) -> Any:  # noqa: ANN401 - a snapshot's part
    """Fill one part, and return what the snapshot has of it."""
    one = source(part)
    seen = assemble({one: part}, {one: (found, unknown)})
    return {SLICES: seen.slices, POLICIES: seen.policies, POOLS: seen.pools}[part]


@pytest.mark.parametrize("part", [SLICES, POLICIES])
def test_a_kind_that_is_not_served_is_absent(part: str) -> None:
    """A cluster without DRA publishes nothing, and one without the operator wants nothing; an empty list differs."""
    assert shown(part, unknown=True) is None
    assert shown(part) == ()
    assert shown(part, ODD) == ()


def test_slices_that_nobody_asks_for_are_absent() -> None:
    """The server has no version of them, so there is no source. One that was not read yet is no empty list either."""
    assert assemble({}, {}).slices is None
    assert assemble({source(SLICES): SLICES}, {}).slices is None
    assert assemble({}, {}).policies == ()


def test_pools_of_a_kind_that_is_not_served_are_none() -> None:
    """They are looked at only where a policy asks for it."""
    assert shown(POOLS, unknown=True) == ()


def test_one_namespace_in_which_a_kind_is_unknown_makes_it_absent() -> None:
    """A server has a kind in all of them or in none."""
    here, there = source(SLICES, "a"), source(SLICES, "b")
    views: Lists = {here: ((), False), there: ((), True)}
    assert assemble({here: SLICES, there: SLICES}, views).slices is None


def test_what_cannot_be_read_is_kept_apart() -> None:
    """It is among the unreadable, and not among those that count."""
    one = source(PLUGIN_PODS)
    seen = assemble({one: PLUGIN_PODS}, {one: ((*FOUND.plugin_pods, ODD), False)})
    assert (seen.plugin_pods, seen.malformed) == (FOUND.plugin_pods, (ODD,))


@pytest.mark.parametrize("part", [PLUGIN_PODS, DRIVER_PODS, REVISIONS])
def test_what_two_selections_bring_counts_once(part: str) -> None:
    """Labels of two charts may overlap: a node with two driver pods would wait without end."""
    first, second = source(part, "a"), source(part, "b")
    found = {PLUGIN_PODS: FOUND.plugin_pods, DRIVER_PODS: FOUND.driver_pods, REVISIONS: FOUND.revisions}[part]
    assert found
    views: Lists = {first: (tuple(found), False), second: (tuple(found), False)}
    seen = assemble({first: part, second: part}, views)
    got = {PLUGIN_PODS: seen.plugin_pods, DRIVER_PODS: seen.driver_pods, REVISIONS: seen.revisions}[part]
    assert tuple(got) == tuple(found)
