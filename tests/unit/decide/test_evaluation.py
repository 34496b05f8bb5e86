"""What is evaluated again, and what is kept. Random histories are in tests/properties."""

from __future__ import annotations

from datetime import timedelta

from hook.decide.fleet import index
from hook.decide.record import Memory
from hook.decide.run import decide
from hook.objects import node_of
from hook.settings import ControllerSettings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale_plugin
from tests.fixtures.objects import R, driver_pod, merged, obj, plugin_pod, running

SETTINGS = ControllerSettings()
STATUS = {"metadata": {"generation": 9}, "status": {"state": "notReady"}}
CRASHED = {"status": {"containerStatuses": [running("gpus", 3597, restarts=3), running("compute-domains", 76)]}}


def without(node: str) -> Cluster:
    """Return a fleet from which a node was removed a moment ago: the counts of the DaemonSets are of before."""
    found = cluster("0", "a", "b", "d")
    return found.drop("node", node).drop("driver-pod", f"driver-{node}").drop("plugin-pod", f"plugin-{node}")


def test_only_nodes_about_which_something_changed_are_evaluated() -> None:
    """After each event the decision is that of a full evaluation, and all other statuses are the same objects."""
    crashed = merged(plugin_pod("b"), CRASHED)
    events: list[tuple[Cluster, str, str, int]] = [
        (cluster("a", "b", "c"), "abc", "abc", 0),
        (cluster("a", "b", "c"), "", "", 1),
        (cluster("a", "b", "c").put("plugin-pod", stale_plugin("b")), "b", "b", 1),
        (cluster("a", "b", "c").put("plugin-pod", crashed), "b", "b", 1),
        (cluster("a", "b", "c").put("plugin-pod", crashed), "", "b", 90),
        (cluster("a", "b", "c").put("plugin-pod", crashed), "", "", 1),
        (cluster("a", "b", "c").put("plugin-pod", crashed), "", "abc", -90),
        (cluster("a", "b", "c"), "b", "b", 1),
        (cluster("a", "b", "c").change("policy", STATUS), "", "", 1),
        (cluster("a", "b", "c").change("daemonset", {"status": {"desiredNumberScheduled": 9}}), "", "abc", 1),
        (cluster("a", "b", "c"), "", "abc", 1),
        (cluster("a", "b").change("node", labelled("a", state="upgrade-failed"), "a"), "ac", "ab", 1),
        (cluster("a", "b", "d"), "ad", "abd", 1),
        (cluster("0", "a", "b", "d"), "0", "0abd", 1),
        (without("0"), "0", "", 1),
        (cluster("0", "a", "b", "d"), "0", "0", 1),
        (cluster("0", "a", "b", "d").change("policy", "spec: {driver: {version: 590.1.2}}"), "", "0abd", 1),
        (cluster("0", "a", "b", "d"), "", "0abd", 1),
    ]
    memory, now = Memory(started=LATER), LATER
    statuses: dict[str, object] = {}
    for number, (found, changed, expected, seconds) in enumerate(events):
        now += timedelta(seconds=seconds)
        seen = found.seen()
        full, evaluated = decide(seen, memory, SETTINGS, now), decide(seen, memory, SETTINGS, now, changed={*changed})
        assert evaluated == full, number
        memory = evaluated[1]
        assert memory.evaluation is not None
        again = {status.node: status for each in memory.evaluation.statuses.values() for status in each}
        assert {node for node in again if again[node] is not statuses.get(node)} == {*expected}, number
        assert [*memory.evaluation.fleet.nodes] == sorted(again), number
        statuses = dict(again)


def test_a_restart_lets_its_node_be_evaluated_again() -> None:
    """Its record may make a pod fresh that is there already."""
    found = cluster("a", "b").put("plugin-pod", stale_plugin("a"))
    decision, memory = found.decide()
    successor = merged(plugin_pod("a", waited=None, started=R), {"metadata": {"uid": "successor"}})
    seen = found.put("plugin-pod", dict(successor)).seen()
    _stale, after = decide(seen, memory, SETTINGS, LATER, changed={"a"})
    (restart,) = decision.actions
    fresh, _memory = decide(seen, after.asked("a", restart.pod, LATER), SETTINGS, LATER, changed=set())
    assert ["Verified", "Verified"] == [status.reason.value for status in fresh.statuses]


def test_the_order_of_objects_does_not_matter() -> None:
    """A cache has pods in the order in which they came, and an older generation of a pool is dropped wherever it is."""
    second = {"metadata": {"name": "b", "uid": "b"}}
    slices = [
        obj("slice", {"metadata": {"name": f"slice-{generation}"}, "spec": {"pool": {"generation": generation}}})
        for generation in (1, 2)
    ]
    found = cluster().put("driver-pod", dict(merged(driver_pod(), second))).only("slice", *slices)
    turned = cluster().only("driver-pod", *found.of("driver-pod")[::-1]).only("slice", *slices[::-1])
    ours, theirs = (index(each.seen(), SETTINGS).nodes["gpu-0"] for each in (found, turned))
    assert (["b", "driver-gpu-0"], [2]) == (
        [pod.name for pod in ours.driver_pods],
        [each.generation for each in ours.slices],
    )
    assert ours == theirs


def test_each_object_of_a_node_names_it() -> None:
    """A change of any other object concerns no node alone."""
    seen = cluster("a").seen()
    on_node = (seen.nodes["a"], *seen.driver_pods, *seen.plugin_pods, *(seen.slices or ()))
    assert ["a"] * 4 == [node_of(each) for each in on_node]
    assert ["", ""] == [node_of(each) for each in (seen.daemonsets[0], None)]
