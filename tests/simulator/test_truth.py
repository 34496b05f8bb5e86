"""The ground truth: what the journal's lines add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devcluster.happening import encode
from devcluster.replay import Standing
from devcluster.truth import NETWORK, Truth

if TYPE_CHECKING:
    from pathlib import Path

OURS = {"pod": "p", "daemonset": "plugin", "namespace": "dra"}
OTHER = {"pod": "q", "daemonset": "plugin", "namespace": "shell"}


def loaded(t: float, load: int, version: str = "580.1.2", node: str = "gpu-0") -> list[str]:
    """Return the lines of a driver that loads and turns ready."""
    return [
        encode("driver-loaded", node, t, load=load, version=version),
        encode("driver-ready", node, t + 1, load=load, version=version, pod="d", uid="d", hash="h"),
    ]


def started(t: float, uid: str, load: int, owner: dict[str, str] | None = None, node: str = "gpu-0") -> list[str]:
    """Return the lines of a plugin that starts."""
    who = owner or OURS
    return [
        encode("plugin-started", node, t, uid=uid, load=load, version="580.1.2", **who),
        encode("plugin-ready", node, t + 1, uid=uid, load=load, version="580.1.2", **who),
    ]


def deleted(t: float, uid: str, *, stale: bool, ready: bool = True, current: bool = True) -> list[str]:
    """Return the lines of a plugin that is deleted and goes."""
    judged = {"stale": stale, "driver_ready": ready, "driver_current": current}
    return [
        encode("plugin-deleted", "gpu-0", t, uid=uid, load=1, node_load=2, **judged, **OURS),
        encode("plugin-gone", "gpu-0", t + 1, uid=uid, **OURS),
    ]


UNLOADED = [encode("driver-unloaded", "gpu-0", 20.0)]

MIGRATION = [
    *loaded(10, 1),
    *started(12, "a", 1),
    *UNLOADED,
    *loaded(30, 2, "580.2.3"),
    *deleted(34, "a", stale=True),
    *started(37, "b", 2),
]
"""One node: install, migrate, and the stale plugin is served."""


def test_a_plugin_that_outlives_its_driver_is_stale() -> None:
    """The plugin holds load 1 while load 2 is there."""
    assert Truth.of([*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2)]).stale_now() == ("gpu-0",)


def test_a_remount_of_the_same_version_makes_stale() -> None:
    """Versions do not matter, loads do."""
    truth = Truth.of([*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2, "580.1.2")])
    assert truth.stale_now() == ("gpu-0",)
    assert truth.loaded_now() == {"gpu-0": "580.1.2"}


def test_without_a_driver_nothing_is_stale() -> None:
    """There is nothing to be fresh on, and nothing that a restart would help."""
    assert Truth.of([*loaded(10, 1), *started(12, "a", 1), *UNLOADED]).stale_now() == ()


def test_a_served_plugin_is_fresh() -> None:
    """The new pod holds the new load; the old pod is gone."""
    truth = Truth.of(MIGRATION)
    assert truth.stale_now() == ()
    assert len(truth.restarts()) == 1
    assert truth.early_restarts() == truth.needless_restarts() == ()


def test_stale_time_counts_until_the_fresh_plugin_starts() -> None:
    """The pause between the old pod's deletion and the new one's start is lost capacity too."""
    truth = Truth.of(MIGRATION)
    assert truth.stale_intervals() == {"gpu-0": [(30, 37)]}
    assert truth.stale_seconds(until=100) == {"gpu-0": 7}


def test_stale_time_runs_on_while_nobody_serves_the_node() -> None:
    """An open interval counts until now."""
    truth = Truth.of([*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2)])
    assert truth.stale_seconds(until=100) == {"gpu-0": 70}


def test_restarts_are_judged_by_the_deletion_line() -> None:
    """Early: the driver was not ready or not current. Needless: the plugin was fresh."""
    truth = Truth.of(
        [
            *deleted(1, "a", stale=True, ready=False),
            *deleted(2, "b", stale=True, current=False),
            *deleted(3, "c", stale=False),
            *deleted(4, "d", stale=True),
        ]
    )
    assert [each.uid for each in truth.restarts()] == ["a", "b", "c", "d"]
    assert [each.uid for each in truth.early_restarts()] == ["a", "b"]
    assert [each.uid for each in truth.needless_restarts()] == ["c"]
    assert [each.uid for each in truth.restarts(since=3)] == ["c", "d"]


def test_two_daemonsets_of_one_name_are_told_apart() -> None:
    """``namespace/name`` asks for one of them, the bare name for both."""
    truth = Truth.of(
        [
            *loaded(10, 1),
            *started(12, "a", 1),
            *started(12, "s", 1, OTHER),
            *UNLOADED,
            *loaded(30, 2),
            *started(37, "b", 2),
            encode("plugin-gone", "gpu-0", 38, uid="a", **OURS),
        ]
    )
    assert truth.stale_now("dra/plugin") == ()
    assert truth.stale_now("shell/plugin") == truth.stale_now("plugin") == truth.stale_now() == ("gpu-0",)


def test_a_reboot_leaves_nothing_stale() -> None:
    """All containers died with the node, and so did their hold on the old driver."""
    truth = Truth.of([*loaded(10, 1), *started(12, "a", 1), encode("reboot", "gpu-0", 20), *loaded(30, 2)])
    assert truth.stale_now() == ()
    assert truth.stale_intervals() == {"gpu-0": []}


def test_a_removed_node_is_forgotten() -> None:
    """Nothing on it is stale or loaded; one that comes back under its name is a new one."""
    lines = [*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2), encode("node-removed", "gpu-0", 33)]
    truth = Truth.of([*lines, *loaded(30, 1, node="gpu-1")])
    assert truth.nodes == ("gpu-1",)
    assert truth.stale_now() == ()
    assert truth.loaded_now() == {"gpu-1": "580.1.2"}
    assert truth.stale_intervals()["gpu-0"] == [(30, 33)]
    assert Truth.of([*lines, *loaded(40, 1)]).nodes == ("gpu-0",)


def test_the_ready_driver_is_known() -> None:
    """Ready from driver-ready on, until its pod or the driver is gone."""
    lines = loaded(10, 1)
    assert not Truth.of(lines[:1]).driver_ready_now("gpu-0")
    assert Truth.of(lines).driver_ready_now("gpu-0")
    gone = encode("driver-gone", "gpu-0", 12, pod="d", uid="d")
    assert not Truth.of([*lines, gone]).driver_ready_now("gpu-0")
    assert not Truth.of(lines).driver_ready_now("gpu-7")


def test_a_standing_sums_a_node_up() -> None:
    """What is loaded, and what the plugin believes to be loaded."""
    truth = Truth.of(MIGRATION[:-3])
    assert truth.standings()["gpu-0"] == Standing("580.2.3", True, "580.1.2", True)
    assert Truth.of(MIGRATION[:2]).standings()["gpu-0"] == Standing("580.1.2", True, None, False)


def test_a_lane_tells_reloads_stale_spells_and_restarts() -> None:
    """What the picture draws for one node."""
    lane = Truth.of(MIGRATION).lane("gpu-0", "dra/plugin")
    assert lane.reloads == [(20, 31)]
    assert lane.stale == [(30, 37)]
    assert lane.restarts == [(34, 38)]


def test_an_unfinished_restart_stays_open_in_the_lane() -> None:
    """A plugin that does not come back."""
    lane = Truth.of([*loaded(10, 1), *deleted(34, "a", stale=True)]).lane("gpu-0")
    assert lane.restarts == [(34, None)]


def test_what_the_driver_manager_takes_away_is_no_restart() -> None:
    """A pod that goes because its label was paused is drained; nobody asked for its deletion."""
    drained = encode("plugin-deleted", "gpu-0", 20, uid="a", load=1, drained=True, **OURS)
    truth = Truth.of([*loaded(10, 1), *started(12, "a", 1), drained])
    assert truth.restarts() == truth.early_restarts() == truth.needless_restarts() == ()
    assert [each.uid for each in truth.drains()] == ["a"]


def test_a_plugin_is_behind_a_toolkit_that_was_installed_after_it() -> None:
    """Its driver may be the right one."""
    toolkit = [encode("toolkit-ready", "gpu-0", t, toolkit=number) for t, number in ((15, 1), (20, 2))]
    first = encode("plugin-started", "gpu-0", 17, uid="a", load=1, toolkit=1, **OURS)
    before = [*loaded(10, 1), *toolkit[:1], first]
    assert Truth.of(before).behind_toolkit_now() == ()
    behind = Truth.of([*before, *toolkit[1:]])
    assert behind.behind_toolkit_now("plugin") == ("gpu-0",)
    assert behind.behind_toolkit_now("another") == behind.stale_now() == ()
    caught_up = encode("plugin-started", "gpu-0", 22, uid="b", load=1, toolkit=2, **OURS)
    gone = encode("plugin-gone", "gpu-0", 21, uid="a", **OURS)
    assert Truth.of([*before, *toolkit[1:], gone, caught_up]).behind_toolkit_now() == ()


def test_nodes_come_in_the_order_of_their_numbers() -> None:
    """gpu-2 before gpu-10."""
    lines = [line for node in ("gpu-10", "gpu-2") for line in loaded(1, 1, node=node)]
    assert Truth.of(lines).nodes == ("gpu-2", "gpu-10")


def test_reading_survives_a_line_that_is_being_written(tmp_path: Path) -> None:
    """The journal may be read while the fleet runs; it is found in the state directory by its name."""
    assert Truth.read(tmp_path).happenings == ()
    (tmp_path / "truth.jsonl").write_text("".join(loaded(10, 1)) + '{"t": 12, "ev')
    assert len(Truth.read(tmp_path).happenings) == 2
    assert Truth.read(tmp_path) == Truth.read(tmp_path / "truth.jsonl")


def test_unknown_keys_are_ignored() -> None:
    """A newer simulator may write more."""
    assert Truth.of([encode("driver-loaded", "gpu-0", 1, load=1, colour="green")]).happenings[0].load == 1


def test_each_driver_stack_has_a_story_of_its_own() -> None:
    """A network driver's reload makes no GPU plugin stale; what happens to the node happens to both."""
    card = [
        encode("driver-loaded", "gpu-0", 10.0, stack="network", load=1, version="old"),
        encode("plugin-started", "gpu-0", 12.0, stack="network", load=1, version="old", uid="n", **OTHER),
        encode("driver-loaded", "gpu-0", 30.0, stack="network", load=2, version="new"),
    ]
    gpu = [
        encode("driver-loaded", "gpu-0", 11.0, stack="gpu", load=1, version="580.1.2"),
        encode("plugin-started", "gpu-0", 13.0, stack="gpu", load=1, version="580.1.2", uid="g", **OURS),
    ]
    assert Truth.of([*card, *gpu]).stale_now() == ()
    assert Truth.of([*card, *gpu]).loaded_now() == {"gpu-0": "580.1.2"}
    assert Truth.of([*card, *gpu], NETWORK).stale_now() == ("gpu-0",)
    assert Truth.of([*card, *gpu], NETWORK).loaded_now() == {"gpu-0": "new"}
    reboot = encode("reboot", "gpu-0", 40.0)
    assert Truth.of([*card, *gpu, reboot], NETWORK).stale_now() == ()
    assert Truth.of([*card, *gpu, reboot]).loaded_now() == {"gpu-0": ""}
