"""Decisions: which nodes are evaluated, which plugins are restarted now, and the phase of a run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.decide.record import Memory
from hook.decide.result import Decision, NodeState, NodeStatus, Phase, headline, in_need
from hook.decide.run import deadline, decide, margin, succeeded
from hook.objects import node_of
from hook.settings import Advanced, ControllerSettings, Duration, OnDeadline, Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING, down
from tests.fixtures.modes import avoiding, with_exporter
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, obj, plugin_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import EXPORTER, PLUGIN, Run, deleted, named

TWO = ("a", "b")
YEAR = 365 * 24 * 3600
UNLABELLED = labelled(present="false", deploy_driver=None)
WAIT, FAIL, DEADLINE, DONE = Phase.WAIT, Phase.FAIL, Phase.DEADLINE, Phase.DONE


def rotating() -> Cluster:
    """Return a fleet whose driver pods are all being replaced."""
    return cluster(*TWO).drop("driver-pod")


# The end of a run.

LONG_AGO = Memory(started=LATER - timedelta(hours=2))
RENAMED = stale().change("daemonset", "metadata: {name: mine}", PLUGIN)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rotating(), (DEADLINE, Reason.TIME_UP, Reason.NODES_PENDING)),
        (stale(), (DEADLINE, Reason.TIME_UP, Reason.NODES_PENDING)),
        (RENAMED, (DEADLINE, Reason.TIME_UP, Reason.UNNAMED_PLUGIN)),
        (cluster(), (DONE, Reason.NOTHING_STALE, None)),
    ],
)
def test_a_deadline_names_what_blocked_the_run(found: Cluster, expected: tuple[Phase, Reason, Reason | None]) -> None:
    """It comes before a failure and before a restart. A run that finds nothing to do is done all the same."""
    decision, _memory = found.decide(memory=LONG_AGO)
    assert () == decision.actions
    assert expected == (decision.phase, decision.reason, decision.cause)


@pytest.mark.parametrize(
    ("phase", "on_deadline", "expected"),
    [
        (DONE, OnDeadline.FAIL, True),
        (Phase.SKIP, OnDeadline.FAIL, True),
        (FAIL, OnDeadline.REPORT, False),
        (DEADLINE, OnDeadline.FAIL, False),
        (DEADLINE, OnDeadline.REPORT, True),
        (WAIT, OnDeadline.FAIL, False),
    ],
)
def test_what_the_deployment_tool_sees(phase: Phase, on_deadline: OnDeadline, *, expected: bool) -> None:
    """A deadline is a success only for those who asked for a report. Every phase but Wait is final."""
    decision = Decision(phase, Reason.NODES_PENDING, "")
    assert expected is succeeded(decision, Settings(on_deadline=on_deadline))
    assert (phase is not WAIT) is decision.final


# Memory.


def test_a_decision_depends_on_its_arguments_alone_and_changes_none() -> None:
    """So a run that was killed, and a second one next to it, ask for the very same restarts."""
    memory = Memory(started=LATER)
    after = stale().drop("slice").decide(memory=memory)[1]
    assert (Memory(started=LATER), True) == (memory, after != memory)
    assert stale("a", "b").decide(memory=after) == stale("a", "b").decide(memory=after)
    found = stale(*TWO).put("plugin-pod", *cluster("b").of("plugin-pod"))
    fresh = Memory(started=LATER - timedelta(seconds=40))
    assert found.decide()[0].actions == found.decide(memory=fresh)[0].actions != ()


def test_the_memory_of_the_controller_does_not_grow() -> None:
    """Nodes come and go, their plugins are restarted, refused and in trouble. What is gone is forgotten."""
    run = Run(stale("n0"), FOLLOWING)
    for number in range(1, 10):
        run.act(number * 100)
        (status,) = run.look(number * 100).statuses
        assert status.stale is not None
        run.memory = run.memory.troubled(status.stale, LATER, "busy")
        run.found = stale(f"n{number}")
    run.act(YEAR)
    assert {("n9", "plugin-ds")} == set(run.memory.records)
    run.found.change("daemonset", "metadata: {uid: another}", PLUGIN)
    run.look(YEAR + 1)
    assert {} == run.memory.records, "a driver client that was installed again"


def test_what_still_exists_is_not_forgotten() -> None:
    """A node without its object but with a plugin, and one that lost its labels."""
    run = Run(stale(*TWO), FOLLOWING)
    run.act(0)
    run.found.drop("node", "a").change("node", {"metadata": {**UNLABELLED["metadata"], "name": "b"}}, "b")
    run.look(1)
    assert {("a", "plugin-ds"), ("b", "plugin-ds")} == set(run.memory.records)


def test_only_a_failing_run_names_the_nodes_in_need() -> None:
    """The failed ones first; verified and excluded ones not at all. One line of it is made for grep."""
    states = {"a": NodeState.WAITING, "b": NodeState.FAILED, "c": NodeState.VERIFIED, "d": NodeState.EXCLUDED}
    statuses = tuple(NodeStatus(node, state, Reason.NODE_NOT_READY_BRIEFLY, "") for node, state in states.items())
    for phase in Phase:
        decision = Decision(phase, Reason.TIME_UP, "text", statuses=statuses)
        expected = ["b", "a"] if phase in (FAIL, DEADLINE) else []
        assert expected == [status.node for status in in_need(decision)], phase
        assert f"{phase} (TimeUp): text" == headline(decision)
    counted = [decision.count(*each) for each in ((NodeState.WAITING,), (NodeState.VERIFIED, NodeState.EXCLUDED), ())]
    assert [1, 2, 0] == counted


@pytest.mark.parametrize(("timeout", "kept"), [(8, 4), (60, 5), (5 * 60, 15), (10 * 60, 30), (120 * 60, 30)])
def test_a_margin_of_the_timeout_is_kept_for_reporting(timeout: int, kept: int) -> None:
    """It is a twentieth, at least 5 s and at most 30 s, but never more than half."""
    assert timedelta(seconds=kept) == margin(Settings(timeout=Duration(seconds=timeout)))


def test_a_run_reports_before_its_time_is_up() -> None:
    """The controller has no deadline."""
    started = datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert started + timedelta(minutes=24, seconds=30) == deadline(Settings(), started)
    assert datetime.max.replace(tzinfo=UTC) == deadline(ControllerSettings(), started)


SETTINGS = ControllerSettings()
STATUS = {"metadata": {"generation": 9}, "status": {"state": "notReady"}}
CRASHED = {"status": {"containerStatuses": [running("gpus", 3597, restarts=3), running("compute-domains", 76)]}}


def fleet_without(node: str) -> Cluster:
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
        (cluster("a", "b", "c"), "b", "b", 1),
        (cluster("a", "b", "c").change("policy", STATUS), "", "", 1),
        (cluster("a", "b", "c").change("daemonset", {"status": {"desiredNumberScheduled": 9}}), "", "abc", 1),
        (cluster("a", "b", "c"), "", "abc", 1),
        (cluster("a", "b").change("node", labelled("a", state="upgrade-failed"), "a"), "ac", "ab", 1),
        (cluster("a", "b", "d"), "ad", "abd", 1),
        (cluster("0", "a", "b", "d"), "0", "0abd", 1),
        (fleet_without("0"), "0", "", 1),
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
    fresh, _memory = decide(seen, after.with_restart(restart, LATER), SETTINGS, LATER, changed=set())
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


ONE = down(1)
OURS = Settings(max_parallel_restarts=1)
EIGHT = tuple("abcdefgh")


def restarted(found: Cluster, settings: Settings = ONE) -> list[str]:
    """Return the nodes whose plugin is restarted now."""
    return deleted(found.decide(settings)[0])


def down_on(found: Cluster, nodes: Iterable[str]) -> Cluster:
    """Let the stale plugins of these nodes be not Ready."""
    return found.put("plugin-pod", *(merged(stale_plugin(node), patches.NOT_READY) for node in nodes))


def test_every_stale_plugin_on_a_settled_node_is_restarted_at_once() -> None:
    """Their nodes are disrupted already, so there is no limit by default, and any update strategy will do."""
    found = stale("a", "b", "c", "d").put("plugin-pod", plugin_pod("b")).drop("driver-pod", "driver-c")
    assert ["a", "d"] == restarted(found, Settings())
    assert ["gpu-0"] == restarted(stale().change("daemonset", patches.ON_DELETE), Settings())
    # The plugin that has waited longest is restarted first: the last name must not starve.
    found = stale("a", "b", "c").put("driver-pod", driver_pod("a", ready=R + 20), driver_pod("c", ready=R - 20))
    assert ["c", "b", "a"] == restarted(found, Settings())
    assert ["c"] == restarted(found, OURS)
    decision, _memory = stale("a", "b", "c").decide(Settings(max_parallel_restarts=2))
    assert ["PluginStale", "PluginStale", "PluginQueued"] == reasons(decision.statuses)
    assert ["a", "b"] == deleted(decision)


@pytest.mark.parametrize(("bound", "expected"), [(3, "abc"), ("26%", "abc"), ("1%", "a")])
def test_the_budget_is_a_number_or_a_share_of_the_eligible_plugins(bound: int | str, expected: str) -> None:
    """At least one plugin may be down, whatever the share is."""
    assert [*expected] == restarted(stale(*EIGHT), down(bound))


def test_a_share_is_of_the_eligible_plugins() -> None:
    """Plugins of excluded nodes do not count, nor nodes that need none."""
    quarter = down("25%")
    found = stale(*EIGHT).change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-b")
    found.change("daemonset", avoiding("b"), PLUGIN)
    assert ["c", "d"] == restarted(found, quarter)
    for node in "cd":
        found.change("node", labelled(node, skip="true"), node)
    assert ["e"] == restarted(found, quarter)


def test_a_node_that_waits_for_its_driver_counts_for_the_share() -> None:
    """It wants a plugin: a quarter of five nodes are two plugins, a quarter of four are one."""
    found = stale(*"abcde").change("driver-pod", patches.NOT_READY, "driver-e")
    assert ["a", "b"] == restarted(found, down("25%"))


def test_each_plugin_of_a_node_counts_for_the_budget() -> None:
    """A driver client is one more."""
    both = with_exporter(stale("a", "b"), started=-400)
    assert 2 == len(restarted(both, structs.replace(down("50%"), driver_clients=(EXPORTER,))))


PLUGIN_OF_A, SLICE_OF_A = "plugin-a", "0-gpu.nvidia.com-a"
DOWN = [("plugin-pod", PLUGIN_OF_A, patch) for patch in (patches.DELETING, patches.STARTING, patches.NOT_READY, None)]
# A driver that reloads, an EXCLUDED_AND_DOWN node, and what is not down, or is down by itself, uses no budget.
MARKED = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:59:00Z"}
# The node controller takes Ready away from a SILENT node, and leaves ContainersReady.
SILENT = stale("a", "b").change("plugin-pod", {"status": {"conditions": [MARKED, conditions(R)[1]]}})
EXCLUDED_AND_DOWN = stale("a", "b").change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-a")


@pytest.mark.parametrize(
    ("part", "what", "patch"),
    [*DOWN, *(("slice", SLICE_OF_A, patch) for patch in ("spec: {devices: []}", patches.publishing("570.1.2"), None))],
)
def test_a_plugin_that_is_down_uses_budget_whatever_took_it_down(
    part: str, what: str, patch: str | Object | None
) -> None:
    """The one that waits names it."""
    found = cluster("a", "b").put("plugin-pod", stale_plugin("b"))
    decision, _memory = (found.change(part, patch, what) if patch else found.drop(part, what)).decide(ONE)
    status = decision.statuses[1]
    assert ([], Reason.PLUGIN_QUEUED) == (deleted(decision), status.reason)
    assert status.message.endswith("waits for its turn (max 1 of 2 plugins down at once, 1 are: a)")
    assert ["b"] == restarted(found, down(2))


@pytest.mark.parametrize(
    ("found", "settings", "expected"),
    [
        pytest.param(stale("a", "b").put("driver-pod", driver_pod("a", ready=None)), ONE, ["b"], id="driver reloads"),
        pytest.param(EXCLUDED_AND_DOWN, ONE, ["b"], id="excluded"),
        pytest.param(SILENT, ONE, ["a"], id="silent"),
        pytest.param(down_on(stale("a", "b"), "a"), OURS, ["a"], id="stale and down"),
    ],
)
def test_what_is_not_down_by_a_restart_uses_no_budget(found: Cluster, settings: Settings, expected: list[str]) -> None:
    """A driver that reloads, an excluded node, and what is not down, or is down by itself."""
    assert expected == restarted(found, settings)


def test_a_stale_plugin_that_is_down_needs_no_budget() -> None:
    """Its restart takes nothing down, but it counts as down for the others, and against the limit of ours."""
    found = down_on(stale("a", "b", "c"), "bc")
    assert ["b", "c"] == restarted(found)
    assert ["b", "c", "a"] == restarted(found, down(3))
    # It comes first. Otherwise another one would be down next to it, which this program may have taken down.
    assert ["b"] == restarted(found, OURS)
    # Both limits apply; the one on what is down because of this program counts every restart.
    found = stale(*EIGHT)
    assert ["a", "b"] == restarted(found, down(4, max_parallel_restarts=2))
    assert ["a", "b"] == restarted(found, down(2, max_parallel_restarts=4))
    limits = down(1, max_parallel_restarts=3)
    assert ["a", "b", "c"] == restarted(down_on(found, EIGHT), limits)
    message = found.decide(limits)[0].statuses[7].message
    assert "max 3 and max 1 of 8 plugins down at once, 8 are: a, b, c, d, e and 3 more" in message


SILENCED: dict[str, tuple[str, str, Object]] = {
    "nothing": ("node", "a", {}),
    "it is silent": ("node", "a", not_ready_since(3590)),
    "it is to be upgraded": ("node", "a", labelled("a", state="upgrade-required")),
    "its upgrade failed": ("node", "a", labelled("a", state="upgrade-failed")),
    "it lost its labels": ("node", "a", labelled("a", present=None)),
    "its driver reloads": ("driver-pod", "driver-a", patches.NOT_READY),
}


@pytest.mark.parametrize("settings", [ONE, OURS], ids=["share", "number"])
@pytest.mark.parametrize(("part", "what", "patch"), SILENCED.values(), ids=SILENCED)
def test_a_restarted_plugin_uses_budget_whatever_happens_to_its_node(
    part: str, what: str, patch: Object, settings: Settings
) -> None:
    """From the request until it is verified, also if the node's status says nothing about its plugin."""
    run = Run(stale("a", "b"), settings).record("a")
    for name, pod, expected in (
        ("gone", None, []),
        ("not seen to go yet", stale_plugin("a"), []),
        ("terminating", merged(stale_plugin("a"), patches.DELETING), []),
        ("starting", named(plugin_pod("a", ready=None), "plugin-a", uid="next"), []),
        ("back", named(plugin_pod("a"), "plugin-a", uid="next"), ["b"]),
    ):
        found = stale("a", "b").change(part, patch, what).drop("plugin-pod", "plugin-a")
        found.put("plugin-pod", *([pod] if pod else []))
        assert expected == deleted(run.then(found).look()), name


def test_a_restarted_plugin_that_waits_for_its_next_restart_uses_budget() -> None:
    """It is down and stale once more, because its driver was reloaded meanwhile. Only its own time limits that."""
    run = Run(stale("a", "b"), down("100%", max_parallel_restarts=1))
    assert ["plugin-a"] == run.restart()
    run.found.put("driver-pod", driver_pod("a", started=3605, ready=3615, restarts=1))
    for ready, seconds, expected in ((None, 16, []), (3617, 18, ["b"]), (None, 20, [])):
        run.found.put("plugin-pod", named(plugin_pod("a", waited=None, started=3612, ready=ready), "next"))
        decision = run.look(seconds)
        assert "RestartBackedOff" == reasons(decision.statuses)[0]
        assert expected == deleted(decision), seconds
    hour = Advanced(restart_backoff=Duration(hours=1))
    run.settings = structs.replace(down("100%", max_parallel_restarts=1), advanced=hour)
    assert [[], ["b"]] == [deleted(run.look(seconds)) for seconds in (299, 300)]


def test_a_restarted_plugin_stops_using_budget() -> None:
    """Its time to come back is over, or its node is excluded."""
    run = Run(stale("a", "b"), ONE).record("a")
    gone = stale("a", "b").drop("plugin-pod", "plugin-a").change("node", labelled("a", state="upgrade-required"), "a")
    assert [[], ["b"]] == [deleted(run.then(gone).look(seconds)) for seconds in (299, 300)]
    excluded = stale("a", "b").change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-a")
    assert ["b"] == deleted(run.then(excluded).look())


def test_a_plugin_that_came_back_before_a_reload_uses_no_budget() -> None:
    """It is stale like any other one."""
    run = Run(stale("a", "b"), ONE).record("a")
    back = run.then(stale("a", "b").put("plugin-pod", named(plugin_pod("a"), "plugin-a", uid="next")))
    assert ["b"] == deleted(back.look())
    reloads = stale("a", "b").drop("plugin-pod", "plugin-a").change("driver-pod", patches.NOT_READY, "driver-a")
    assert ["b"] == deleted(back.then(reloads).look())


def test_a_restarted_plugin_is_awaited_among_others() -> None:
    """Its node only says that its driver reloads. The other driver client there was not restarted."""
    run = Run(with_exporter(stale("a", "b")), structs.replace(OURS, driver_clients=(EXPORTER,))).record("a")
    reloads = with_exporter(stale("a", "b")).change("driver-pod", patches.NOT_READY, "driver-a")
    assert [] == deleted(run.then(reloads.drop("plugin-pod", "plugin-a")).look())


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (ONE, stale("a", "b").put("driver-pod", driver_pod("a", ready=None))),
        (OURS, stale("a", "b")),
    ],
)
def test_a_refused_restart_uses_no_budget(settings: Settings, found: Cluster) -> None:
    """Nothing was deleted."""
    refused = Run(stale("a", "b"), settings).record("a", refused="by admission")
    assert ["b"] == deleted(refused.then(found).look(5))


def test_a_refused_restart_takes_no_place_from_the_others() -> None:
    """Its plugin went by itself later, so it says nothing about what restarts do."""
    run = Run(stale("a", "b", "c"), OURS)
    for action in run.found.decide()[0].actions[:2]:
        run.memory = run.memory.with_restart(action, run.memory.started, "by admission")
    run.found.drop("plugin-pod", "plugin-a").drop("plugin-pod", "plugin-b")
    assert [[], ["c"]] == [deleted(run.look(seconds)) for seconds in (0, 300)]


def test_one_plugin_that_does_not_come_back_returns_its_budget() -> None:
    """It would keep all others stale. A second one stops the restarts, and the run ends with the reason."""
    settings = structs.replace(OURS, plugin_timeout=Duration())

    def unready(node: str) -> Object:
        return named(plugin_pod(node, ready=None), f"plugin-{node}", uid="next")

    run = Run(stale("a", "b", "c"), settings).record("a")
    run.found.put("plugin-pod", unready("a"))
    assert (Phase.WAIT, ["b"]) == ((first := run.act()).phase, deleted(first))
    run.found.put("plugin-pod", unready("b"))
    assert (Phase.WAIT, []) == ((second := run.look()).phase, deleted(second))
    later = run.look(settings.node_timeout.total_seconds())
    assert (Phase.FAIL, Reason.PLUGIN_NOT_READY, []) == (later.phase, later.reason, deleted(later))
    assert ["PluginNotReady", "PluginNotReady", "PluginQueued"] == reasons(later.statuses)
