"""Which part of a plugin's stale time users feel, by hand-written journals."""

from __future__ import annotations

from typing import Final

import pytest

from devcluster.intervals import Interval
from devcluster.journal import Entry
from devcluster.truth import Truth
from tests.simulator.test_truth import OTHER, OURS, STALE, UNLOADED, at, loaded, started

GPU: Final = "gpu.nvidia.com"


def node(t: float, *, ready: bool = True, cordoned: bool = False) -> str:
    """Return the line of what the API says of the node."""
    return at(t, "node-status", node_ready=ready, cordoned=cordoned)


def rule(t: float, driver: str = GPU, uid: str = "r") -> str:
    """Return the line of a DeviceTaintRule for the node's devices."""
    return at(t, "devices-tainted", uid=uid, driver=driver)


def deleted(t: float, uid: str = "r") -> str:
    """Return the line of its deletion."""
    return at(t, "devices-untainted", uid=uid, driver=GPU)


def refreshed(*lines: str) -> Truth:
    """Return a journal with more lines, of a plugin that is stale from 30 to 37."""
    gone = at(36, "plugin-gone", uid="a", **OURS)
    reload = [*loaded(10, 1), *started(12, "a", 1, driver=GPU), *UNLOADED, *loaded(30, 2), gone]
    return Truth.of(sorted([*reload, *started(37, "b", 2, driver=GPU), *lines], key=lambda line: Entry.parse(line).t))


NODE: Final = {
    "nothing is known of the node": ([], [(30, 37)]),
    "open all the time": ([node(1)], [(30, 37)]),
    "cordoned before, uncordoned after": ([node(20, cordoned=True), node(40)], []),
    "uncordoned while stale": ([node(20, cordoned=True), node(33)], [(33, 37)]),
    "cordoned while stale": ([node(1), node(33, cordoned=True)], [(30, 33)]),
    "cordoned and not Ready, then uncordoned alone": (
        [node(20, ready=False, cordoned=True), node(32, ready=False), node(35)],
        [(35, 37)],
    ),
    "not Ready": ([node(1), node(31, ready=False), node(33)], [(30, 31), (33, 37)]),
}
"""By what happens to the node: lines, and when its plugin, which is stale from 30 to 37, is exposed."""


@pytest.mark.parametrize(("lines", "expected"), NODE.values(), ids=NODE)
def test_a_stale_plugin_is_exposed_while_its_node_takes_pods(lines: list[str], expected: list[Interval]) -> None:
    """A node takes pods while it is Ready and not cordoned."""
    assert refreshed(*lines).exposed_intervals("dra/plugin") == {"gpu-0": expected}


RULES: Final = {
    "from before the reload until after the restart": ([rule(20), deleted(40)], []),
    "deleted while stale": ([rule(20), deleted(34)], [(34, 37)]),
    "one after the other": ([rule(20), rule(33, uid="s"), deleted(34), deleted(35, "s")], [(35, 37)]),
    "of all drivers": ([rule(20, driver="")], []),
    "of another driver": ([rule(20, driver="other.example.com")], [(30, 37)]),
    "in addition to a cordon": ([rule(20), deleted(32), node(31, cordoned=True), node(34)], [(34, 37)]),
}
"""By what a DeviceTaintRule covers: lines, and when the plugin is exposed."""


@pytest.mark.parametrize(("lines", "expected"), RULES.values(), ids=RULES)
def test_a_device_taint_rule_keeps_new_claims_off(lines: list[str], expected: list[Interval]) -> None:
    """What is stale is not exposed while a rule covers the devices of its driver."""
    assert refreshed(*lines).exposed_intervals("dra/plugin") == {"gpu-0": expected}


def test_exposed_time_ends_with_the_node_or_never() -> None:
    """A plugin that stays stale is exposed without an end, except where its node goes."""
    open_node = [*STALE, node(33)]
    assert Truth.of(open_node).exposed_intervals() == {"gpu-0": [(30, None)]}
    assert Truth.of([*open_node, at(50, "node-removed")]).exposed_intervals() == {"gpu-0": [(30, 50)]}


def test_exposed_seconds_are_a_part_of_stale_seconds() -> None:
    """Both count between two moments, for the plugin that is asked for; a node that is never stale has none."""
    lines = [node(20, cordoned=True), *STALE, node(40), *started(45, "c", 2, OTHER), at(46, "reboot", "gpu-1")]
    truth = Truth.of(lines)
    assert truth.stale_seconds(100, "dra/plugin") == {"gpu-0": 70, "gpu-1": 0}
    assert truth.exposed_seconds(100, "dra/plugin") == {"gpu-0": 60, "gpu-1": 0}
    assert truth.exposed_seconds(90, "dra/plugin", since=50) == {"gpu-0": 40, "gpu-1": 0}
    assert truth.exposed_seconds(100, "shell/plugin") == {"gpu-0": 0, "gpu-1": 0}
