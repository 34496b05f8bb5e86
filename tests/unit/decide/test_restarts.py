"""Restarts: which stale plugins are restarted now, in which order, and how many at once."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.settings import Duration, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import down
from tests.fixtures.modes import avoiding, with_exporter
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, plugin_pod, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import EXPORTER, PLUGIN, Run, deleted, named, unnamed

ONE = down(1)
OURS = Settings(max_parallel_restarts=1)
EIGHT = tuple("abcdefgh")
STARTING = merged(patches.NOT_READY, {"status": {"containerStatuses": [waiting("gpus", "ContainerCreating")]}})


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


def test_the_budget_is_a_number_or_a_share_of_the_eligible_plugins() -> None:
    """Plugins of excluded nodes do not count, nor nodes that need none; a node that waits for its driver does."""
    for bound, expected in (
        (1, "a"), (3, "abc"), (20, "abcdefgh"), ("25%", "ab"), ("26%", "abc"), ("1%", "a"), ("100%", "abcdefgh"),
    ):  # fmt: skip
        assert [*expected] == restarted(stale(*EIGHT), down(bound)), bound
    quarter = down("25%")
    found = stale(*EIGHT).change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-b")
    found.change("daemonset", avoiding("b"), PLUGIN)
    assert ["c", "d"] == restarted(found, quarter)
    for node in "cd":
        found.change("node", labelled(node, skip="true"), node)
    assert ["e"] == restarted(found, quarter)
    assert ["f"] == restarted(found.put("driver-pod", driver_pod("e", ready=None)), quarter)
    # A plugin under an unknown name may not be restarted, so it does not count either.
    assert ["gpu-0"] == restarted(unnamed(stale(), stale_plugin()))
    both = with_exporter(stale("a", "b"), started=-400)
    assert 2 == len(restarted(both, structs.replace(down("50%"), driver_clients=(EXPORTER,))))


def test_a_plugin_that_is_down_uses_budget_whatever_took_it_down() -> None:
    """The one that waits names it."""
    old: Object = {"spec": {"devices": [{"attributes": {"driverVersion": {"version": "570.1.2"}}}]}}
    name, slice_of_a = "plugin-a", "0-gpu.nvidia.com-a"
    plugin = [("plugin-pod", name, patch) for patch in (patches.DELETING, STARTING, patches.NOT_READY, None)]
    for part, what, patch in (*plugin, *(("slice", slice_of_a, patch) for patch in ("spec: {devices: []}", old, None))):
        found = cluster("a", "b").put("plugin-pod", stale_plugin("b"))
        decision, _memory = (found.change(part, patch, what) if patch else found.drop(part, what)).decide(ONE)
        status = decision.statuses[1]
        assert ([], Reason.PLUGIN_QUEUED) == (deleted(decision), status.reason), (part, patch)
        assert status.message.endswith("waits for its turn (max 1 of 2 plugins down at once, 1 are: a)")
        assert ["b"] == restarted(found, down(2))
    assert [] == restarted(stale("a", "b").change("plugin-pod", patches.DELETING, name), OURS)
    # A driver that reloads, an excluded node, and what is not down, or is down by itself, uses no budget.
    marked = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:59:00Z"}
    # The node controller takes Ready away from a silent node, and leaves ContainersReady.
    silent = stale("a", "b").change("plugin-pod", {"status": {"conditions": [marked, conditions(R)[1]]}})
    excluded = stale("a", "b").change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-a")
    for name, found, settings, expected in (
        ("driver reloads", stale("a", "b").put("driver-pod", driver_pod("a", ready=None)), ONE, ["b"]),
        ("excluded", excluded, ONE, ["b"]),
        ("silent", silent, ONE, ["a"]),
        ("stale and down", down_on(stale("a", "b"), "a"), OURS, ["a"]),
    ):
        assert expected == restarted(found, settings), name


def test_a_stale_plugin_that_is_down_needs_no_budget() -> None:
    """Its restart takes nothing down, but it counts as down for the others, and against the limit of ours."""
    found = down_on(stale("a", "b", "c"), "bc")
    assert ["b", "c"] == restarted(found)
    assert ["a", "b", "c"] == restarted(found, down(3))
    # Both limits apply; the one on what is down because of this program counts every restart.
    found = stale(*EIGHT)
    assert ["a", "b"] == restarted(found, down(4, max_parallel_restarts=2))
    assert ["a", "b"] == restarted(found, down(2, max_parallel_restarts=4))
    limits = down(1, max_parallel_restarts=3)
    assert ["a", "b", "c"] == restarted(down_on(found, EIGHT), limits)
    message = found.decide(limits)[0].statuses[7].message
    assert "max 3 and max 1 of 8 plugins down at once, 8 are: a, b, c, d, e and 3 more" in message


def test_a_restarted_plugin_uses_budget_whatever_happens_to_its_node() -> None:
    """From the request until it is verified, also if the node's status says nothing about its plugin."""
    plugins: tuple[tuple[str, Object | None, list[str]], ...] = (
        ("gone", None, []),
        ("not seen to go yet", stale_plugin("a"), []),
        ("terminating", merged(stale_plugin("a"), patches.DELETING), []),
        ("starting", named(plugin_pod("a", ready=None), "plugin-a", uid="next"), []),
        ("back", named(plugin_pod("a"), "plugin-a", uid="next"), ["b"]),
    )
    crash: Object = {"status": driver_pod("a", started=3500, ready=3570, restarts=1, ended_before=3499)["status"]}
    for settings in (ONE, OURS):
        run = Run(stale("a", "b"), settings).record("a")
        for part, what, patch in (
            ("node", "a", {}),
            ("node", "a", not_ready_since(3590)),
            ("node", "a", labelled("a", state="upgrade-required")),
            ("node", "a", labelled("a", state="upgrade-failed")),
            ("node", "a", labelled("a", present=None)),
            ("driver-pod", "driver-a", patches.NOT_READY),
            ("driver-pod", "driver-a", crash),
        ):
            for name, pod, expected in plugins[: 2 if patch is crash else 5]:
                found = stale("a", "b").change(part, patch, what).drop("plugin-pod", "plugin-a")
                found.put("plugin-pod", *([pod] if pod else []))
                assert expected == deleted(run.then(found).look()), (name, patch)


def test_a_restarted_plugin_stops_using_budget() -> None:
    """Its time to come back is over, its node is excluded, it came back before a reload, or nothing was deleted."""
    run = Run(stale("a", "b"), ONE).record("a")
    gone = stale("a", "b").drop("plugin-pod", "plugin-a").change("node", labelled("a", state="upgrade-required"), "a")
    assert [[], ["b"]] == [deleted(run.then(gone).look(seconds)) for seconds in (299, 300)]
    excluded = stale("a", "b").change("node", labelled("a", skip="true"), "a").drop("plugin-pod", "plugin-a")
    assert ["b"] == deleted(run.then(excluded).look())
    back = run.then(stale("a", "b").put("plugin-pod", named(plugin_pod("a"), "plugin-a", uid="next")))
    assert ["b"] == deleted(back.look())
    reloads = stale("a", "b").drop("plugin-pod", "plugin-a").change("driver-pod", patches.NOT_READY, "driver-a")
    assert ["b"] == deleted(back.then(reloads).look())
    for settings, found in (
        (ONE, stale("a", "b").put("driver-pod", driver_pod("a", ready=None))),
        (OURS, stale("a", "b")),
    ):
        refused = Run(stale("a", "b"), settings).record("a", refused="by admission")
        assert ["b"] == deleted(refused.then(found).look(5))
    # Of two driver clients on the same node, only the one that was restarted uses budget.
    two = structs.replace(down(2), driver_clients=(EXPORTER,))
    run = Run(with_exporter(stale("a", "b")), two).record("a")
    hidden = with_exporter(stale("a", "b")).drop("plugin-pod", "plugin-a")
    assert ["b"] == deleted(run.then(hidden.change("node", labelled("a", state="upgrade-failed"), "a")).look())
    run = Run(with_exporter(stale("a", "b")), structs.replace(OURS, driver_clients=(EXPORTER,))).record("a")
    unready = with_exporter(stale("a", "b")).put("plugin-pod", merged(plugin_pod("a"), patches.NOT_READY))
    assert [] == deleted(run.then(unready).look())


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
