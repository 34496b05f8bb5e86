"""A memo: what is evaluated again, and that nothing else changes by it. Random histories are in tests/properties."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hook.config import ControllerSettings
from hook.decide.decide import decide
from hook.decide.memo import Groups, Memo, _differing, differences
from hook.decide.state import Memory
from hook.objects.views import Snapshot
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, stale_plugin
from tests.fixtures.objects import merged, plugin_pod, running

SETTINGS = ControllerSettings()
STATUS = {"metadata": {"generation": 9}, "status": {"state": "notReady"}}


def shared(before: Snapshot, after: Snapshot) -> Snapshot:
    """Return a snapshot with the views of before where they are equal, as a cache has them."""
    known = (*before.nodes.values(), *before.driver_pods, *before.plugin_pods, *(before.slices or ()))

    def again(views: object) -> tuple[object, ...]:
        return tuple(next((each for each in known if each == view), view) for view in views)  # type: ignore[attr-defined]

    nodes = {node.name: node for node in again(after.nodes.values())}  # type: ignore[attr-defined]
    pods = {field: again(getattr(after, field)) for field in ("driver_pods", "plugin_pods", "slices")}
    return replace(after, nodes=nodes, **pods)  # type: ignore[arg-type]


def test_only_nodes_about_which_something_changed_are_evaluated() -> None:
    """After each event the decision is that of a full evaluation, and all other statuses are the same objects."""
    crashed = {"status": {"containerStatuses": [running("gpus", 3597, restarts=3), running("compute-domains", 76)]}}
    events: list[tuple[Cluster, set[str], int]] = [
        (cluster("a", "b", "c"), {"a", "b", "c"}, 0),
        (cluster("a", "b", "c"), set(), 1),
        (cluster("a", "b", "c").put("plugin-pod", stale_plugin("b")), {"b"}, 1),
        (cluster("a", "b", "c").put("plugin-pod", merged(plugin_pod("b"), crashed)), {"b"}, 1),
        (cluster("a", "b", "c").put("plugin-pod", merged(plugin_pod("b"), crashed)), {"b"}, 90),
        (cluster("a", "b", "c").put("plugin-pod", merged(plugin_pod("b"), crashed)), {"b"}, -90),
        (cluster("a", "b", "c").change("node", not_ready_since(3600), "c"), {"b", "c"}, 1),
        (cluster("a", "b", "c"), {"c"}, 1),
        (cluster("a", "b", "c").change("daemonset", {"status": {"desiredNumberScheduled": 9}}), set(), 1),
        (cluster("a", "b", "c").change("policy", STATUS), set(), 1),
        (cluster("a", "b", "c").drop("plugin-pod", "plugin-a"), {"a"}, 1),
        (cluster("a", "b", "c").drop("plugin-pod", "plugin-a").change("policy", STATUS), set(), 1),
        (cluster("a", "b").change("node", labelled("a", state="upgrade-failed"), "a"), {"a"}, 1),
        (cluster("a", "b", "d"), {"a", "d"}, 1),
        (cluster("a", "b", "d").drop("slice"), {"a", "b", "d"}, 1),
        (cluster("0", "a", "b", "d"), {"0", "a", "b", "d"}, 1),
        (cluster("0", "a", "b", "d").change("policy", "spec: {driver: {version: 590.1.2}}"), {"0", "a", "b", "d"}, 1),
        (cluster("0", "a", "b", "d"), {"0", "a", "b", "d"}, 1),
        (cluster("0", "a", "b", "d"), set(), -600),
    ]
    memo, memory, now, before = Memo(), Memory(started=LATER), LATER, Snapshot()
    statuses: dict[str, object] = {}
    for number, (found, expected, seconds) in enumerate(events):
        now += timedelta(seconds=seconds)
        before = shared(before, found.seen())
        incremental = decide(before, memory, SETTINGS, now, memo=memo)
        assert incremental == decide(before, memory, SETTINGS, now), number
        evaluated = {status.node: status for status in incremental[0].statuses}
        assert {node for node in evaluated if evaluated[node] is not statuses.get(node)} <= expected, number
        # The same memory once more: what was recorded of restarts and proofs is taken over with the next decision.
        memory = incremental[1]
        for each in incremental[0].actions[:1]:
            memory = memory.asked(each.node, each.pod, now)
        statuses = dict(evaluated)
        assert memo.fleet is not None
        assert [*memo.fleet.nodes] == sorted({*evaluated} & {*memo.fleet.nodes})
    again = decide(before, memory, SETTINGS, now, memo=memo.renewed())[0].statuses
    assert [True] * 4 == [status is statuses[status.node] for status in again], "evaluated, and shared"


def test_what_moved_counts_as_changed() -> None:
    """The order of the pods of a node shows in messages, so a memo must not miss it."""
    a, b, c, many = object(), object(), object(), [object() for _count in range(300)]
    assert [] == list(differences([a, b], [a, b]))
    assert [b, c] == list(differences([a, b], [a, c]))
    assert [b] == list(differences([a, b, c], [a, c]))
    assert {a, b} <= set(differences([a, b, c], [b, a]))
    assert [many[0]] == list(differences(many, many[1:])), "all others only moved up"
    assert [many[0], a] == list(differences(many, [*many[1:], a])), "as where a pod was replaced"
    assert {"b", "c"} == _differing({"a": 1, "b": 2}, {"a": 1, "c": 3})
    assert [a, a, b, a] == list(differences([a, a, b], [a])), "with one object twice, everything counts"


def test_groups_follow_their_objects() -> None:
    """An empty group is gone."""
    groups, pods = Groups("node"), cluster("a", "b").seen().driver_pods
    assert [{"a", "b"}, set(), {"b"}] == [groups.follow(each) for each in (pods, pods, pods[:1])]
    assert {"a": (pods[0],)} == dict(groups.by_key)
