"""The ground truth: what the journal's lines add up to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from devcluster.journal import JOURNAL, Entry, encode
from devcluster.replay import Standing
from devcluster.truth import NETWORK, Truth

OURS = {"pod": "p", "daemonset": "plugin", "namespace": "dra"}
OTHER = {"pod": "q", "daemonset": "plugin", "namespace": "shell"}


def at(t: float, event: str, node: str = "gpu-0", **details: Any) -> str:  # noqa: ANN401 - whatever an event has
    """Return the line of an event."""
    return encode(event, node, t, **details)


def loaded(t: float, load: int, version: str = "580.1.2", node: str = "gpu-0") -> list[str]:
    """Return the lines of a driver that loads and turns ready."""
    return [
        at(t, "driver-loaded", node, load=load, version=version),
        at(t + 1, "driver-ready", node, load=load, version=version, pod="d", uid="d", hash="h"),
    ]


def started(  # noqa: PLR0913 - what differs between plugins
    t: float, uid: str, load: int, owner: dict[str, str] | None = None, node: str = "gpu-0", *, driver: str = ""
) -> list[str]:
    """Return the lines of a plugin that starts, and registers a DRA driver."""
    who = owner or OURS
    return [
        at(t, "plugin-started", node, uid=uid, load=load, version="580.1.2", driver=driver, **who),
        at(t + 1, "plugin-ready", node, uid=uid, load=load, version="580.1.2", **who),
    ]


def deleted(t: float, uid: str, *, stale: bool, ready: bool = True, current: bool = True) -> list[str]:
    """Return the lines of a plugin that is deleted and goes."""
    judged: dict[str, Any] = {"stale": stale, "driver_ready": ready, "driver_current": current}
    return [
        at(t, "plugin-deleted", uid=uid, load=1, node_load=2, **judged, **OURS),
        at(t + 1, "plugin-gone", uid=uid, **OURS),
    ]


UNLOADED: Final = [at(20, "driver-unloaded")]
MIGRATION: Final = [
    *loaded(10, 1),
    *started(12, "a", 1),
    *UNLOADED,
    *loaded(30, 2, "580.2.3"),
    *deleted(34, "a", stale=True),
    *started(37, "b", 2),
]
"""One node: install, migrate, and the stale plugin is restarted."""
STALE: Final = [*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2)]
"""One node whose plugin holds the first load of the same version still."""
GONE: Final = at(20, "driver-gone", pod="d", uid="d")
AGAIN: Final = [*STALE, *started(40, "c", 2, OTHER)]
"""A plugin of the same name, but in another namespace, starts on the new load. The stale one runs on."""
TWICE: Final = [*MIGRATION, *UNLOADED, *loaded(60, 3), *deleted(62, "b", stale=True), *started(64, "c", 3)]
"""As MIGRATION, and another one."""
DELETED: Final = [
    *deleted(1, "a", stale=True, ready=False),
    *deleted(2, "b", stale=True, current=False),
    *deleted(3, "c", stale=False),
    *deleted(4, "d", stale=True),
    at(5, "plugin-deleted", uid="e", load=1, drained=True, **OURS),
    at(6, "plugin-deleted", uid="f", load=1, **OTHER),
]
"""Plugins that are deleted too early (a, b), though fresh (c), rightly (d), by the driver's manager (e), and f."""
CLAIMS: Final = [
    *loaded(1, 1),
    *loaded(1, 1, node="gpu-1"),
    *(at(3, "claim-prepared", load=1, uid=pod, pod=pod, namespace="team") for pod in ("before", "gone")),
    at(3, "claim-prepared", "gpu-1", load=1, uid="elsewhere", pod="elsewhere", namespace="team"),
    *loaded(4, 2),
    at(6, "claim-prepared", load=1, uid="stale", pod="stale", namespace="team"),
    at(7, "claim-prepared", load=2, uid="healthy", pod="healthy", namespace="team"),
    at(8, "claim-released", uid="gone", pod="gone", namespace="team"),
]
"""Pods with claims from before and after a reload."""
Answers = Callable[[Truth], Any]


def stale(daemonset: str | None = None) -> Answers:
    """Ask for what is stale now, and when it was."""
    return lambda truth: (truth.stale_now(daemonset), truth.stale_intervals(daemonset))


def running(*versions: str) -> Answers:
    """Ask for the nodes with a Ready driver of each version."""
    return lambda truth: tuple(sorted(truth.running(version)) for version in versions)


def standing(daemonset: str | None = None) -> Answers:
    """Ask how the only node stands."""
    return lambda truth: truth.standings(daemonset)["gpu-0"]


def deletions(daemonset: str | None = None, since: float = 0) -> Answers:
    """Ask for the plugins that were restarted, drained, restarted early and without need."""
    return lambda truth: [
        "".join(each.uid for each in ask(daemonset, since))
        for ask in (truth.restarts, truth.drains, truth.early_restarts, truth.needless_restarts)
    ]


VERDICTS: Final[dict[str, tuple[list[str], Answers, Any]]] = {
    # What is loaded, and whether it runs.
    "a Ready driver runs": (loaded(10, 1), running("580.1.2", "580.2.3"), (["gpu-0"], [])),
    "a driver that is loaded but not Ready does not run": (loaded(10, 1)[:1], running("580.1.2"), ([],)),
    "one that was Ready does not make the next one Ready": (
        [*loaded(10, 1), loaded(30, 2)[0]], running("580.1.2"), ([],)),
    "a driver stays loaded after its pod is gone, but does not run": (
        [*loaded(10, 1), GONE], lambda truth: (truth.loaded_now(), truth.running("580.1.2")),
        ({"gpu-0": "580.1.2"}, set())),
    "while another pod's is Ready, it does": (
        [*loaded(10, 1), at(20, "driver-gone", pod="e", uid="e")], running("580.1.2"), (["gpu-0"],)),
    **{
        f"no driver is loaded or runs after {event}": (
            [*loaded(10, 1), at(20, event)],
            lambda truth: (truth.loaded_now(), truth.running("580.1.2"), truth.running("")),
            ({"gpu-0": ""}, set(), set()))
        for event in ("driver-unloaded", "reboot")
    },
    "each node has a driver of its own": (
        [*loaded(10, 1), *loaded(10, 1, "580.2.3", "gpu-1")], running("580.1.2", "580.2.3"), (["gpu-0"], ["gpu-1"])),
    # Which nodes there are.
    "nodes are in the order of their numbers": (
        [at(1, "reboot", f"gpu-{number}") for number in (10, 9, 1)], lambda truth: truth.nodes,
        ("gpu-1", "gpu-9", "gpu-10")),
    "a node that was removed is not there, with all that was on it": (
        [*STALE, at(40, "toolkit-ready", toolkit=1), at(41, "node-removed")],
        lambda truth: (truth.nodes, truth.stale_now(), truth.behind_now(), truth.loaded_now(), truth.standings()),
        ((), (), (), {}, {})),
    "a DeviceTaintRule does not bring it back": (
        [*STALE, at(40, "node-removed"), at(41, "devices-untainted")], lambda truth: truth.nodes, ()),
    "one that comes again with its name is": (
        [*STALE, at(40, "node-removed"), *loaded(50, 1)], lambda truth: (truth.nodes, truth.stale_now()),
        (("gpu-0",), ())),
    # What a plugin holds.
    "a plugin holds what it started on": (
        STALE, standing(), Standing("580.1.2", driver_ready=True, plugin_version="580.1.2", stale=True)),
    "of two plugins the last one counts": (
        [*STALE, at(40, "plugin-started", uid="z", load=2, version="x", **OURS)], standing(),
        Standing("580.1.2", driver_ready=True, plugin_version="x", stale=True)),
    "a plugin that is gone holds nothing": (
        MIGRATION[:-2], standing(), Standing("580.2.3", driver_ready=True, plugin_version=None, stale=False)),
    "a plugin is gone with its node's power": (
        [*STALE, at(40, "reboot")], standing(), Standing("", driver_ready=False, plugin_version=None, stale=False)),
    "the end of another pod leaves it there": (
        [*STALE, at(40, "plugin-gone", uid="z", **OURS)], stale(), (("gpu-0",), {"gpu-0": [(30, None)]})),
    "a plugin that starts again in its pod holds the new one": (
        [*STALE, *started(40, "a", 2)], stale(), ((), {"gpu-0": [(30, 40)]})),
    # Whose plugin it is.
    "of two plugins one is stale: a name alone means any namespace": (
        AGAIN, lambda truth: [
            name for name in (None, "plugin", "dra/plugin", "shell/plugin", "default/plugin", "plugi")
            if truth.stale_now(name)], [None, "plugin", "dra/plugin"]),
    "and so it was stale": (
        AGAIN, lambda truth: [truth.stale_intervals(name)["gpu-0"] for name in ("dra/plugin", "shell/plugin")],
        [[(30, None)], []]),
    "what a DaemonSet's plugin holds": (
        [*AGAIN, at(50, "plugin-started", uid="e", load=2, version="x", daemonset="e", namespace="dra")],
        lambda truth: [truth.standings(name)["gpu-0"].plugin_version for name in ("e", "dra/e", "shell/e", "plugin")],
        ["x", "x", None, "580.1.2"]),
    # When it was stale.
    "a plugin is stale from the next load on, whatever its version": (
        STALE, stale(), (("gpu-0",), {"gpu-0": [(30, None)]})),
    "nothing is stale while nothing is loaded": (STALE[:-2], stale(), ((), {"gpu-0": []})),
    "a stale spell ends with the start of the next plugin": (MIGRATION, stale(), ((), {"gpu-0": [(30, 37)]})),
    "nothing outlives a reboot": (
        [*loaded(10, 1), *started(12, "a", 1), at(20, "reboot"), *loaded(30, 2)], stale(), ((), {"gpu-0": []})),
    **{
        f"{event} ends a stale spell": ([*STALE, at(40, event)], stale(), ((), {"gpu-0": [(30, 40)]}))
        for event in ("driver-unloaded", "reboot", "node-removed")
    },
    "the mere absence of the plugin does not": (
        [*STALE, *deleted(40, "a", stale=True)], stale(), ((), {"gpu-0": [(30, None)]})),
    "nor does the start of another DaemonSet's plugin": (
        [*STALE, *deleted(40, "a", stale=True), *started(45, "c", 2, OTHER)], stale("dra/plugin"),
        ((), {"gpu-0": [(30, None)]})),
    "a later reload makes it one spell": (
        [*STALE, *loaded(40, 3), *deleted(45, "a", stale=True), *started(50, "b", 3)], stale(),
        ((), {"gpu-0": [(30, 50)]})),
    "spells are added up": (
        TWICE, lambda truth: (truth.stale_intervals(), truth.stale_seconds(100)),
        ({"gpu-0": [(30, 37), (60, 64)]}, {"gpu-0": 11})),
    "each node has spells of its own": (
        [*STALE, *loaded(31, 1, node="gpu-1"), *started(40, "x", 1, node="gpu-1")],
        lambda truth: truth.stale_seconds(100), {"gpu-0": 70, "gpu-1": 0}),
    # Whether it is behind.
    "a plugin that started before a toolkit is behind, and not stale": (
        [*loaded(10, 1), *started(12, "a", 1), at(20, "toolkit-ready", toolkit=10)],
        lambda truth: (truth.behind_now("plugin"), truth.behind_now("another"), truth.stale_now()),
        (("gpu-0",), (), ())),
    "one that started after it is not": (
        [at(5, "toolkit-ready", toolkit=1), at(6, "mig-reconfigured", mig=2),
         at(12, "plugin-started", uid="a", toolkit=1, mig=2, **OURS)], Truth.behind_now, ()),
    "a MIG layout counts by itself": (
        [at(5, "toolkit-ready", toolkit=1), at(12, "plugin-started", uid="a", toolkit=1, **OURS),
         at(20, "mig-reconfigured", mig=1)], Truth.behind_now, ("gpu-0",)),
    "files and layouts stay through a reboot": (
        [at(5, "toolkit-ready", toolkit=1), at(6, "mig-reconfigured", mig=2), at(8, "reboot"),
         at(12, "plugin-started", uid="a", toolkit=1, mig=2, **OURS)], Truth.behind_now, ()),
    # What was done to plugins.
    "each deletion is judged by its own line": (DELETED, deletions(), ["abcdf", "e", "abf", "cf"]),
    "those of one namespace": (DELETED, deletions("dra/plugin"), ["abcd", "e", "ab", "c"]),
    "those of another one": (DELETED, deletions("shell/plugin"), ["f", "", "f", "f"]),
    "those since a moment, which belongs to it": (DELETED, deletions(since=6), ["f", "", "f", "f"]),
    # Whose files a pod has.
    "a pod holds the files that its claim was prepared with until it is gone": (
        CLAIMS, Truth.holding_old_files, ("team/before", "team/stale")),
}  # fmt: skip
"""By what is to be seen: a journal, a question, and the right verdict."""


@pytest.mark.parametrize(("lines", "ask", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_verdicts(lines: list[str], ask: Answers, verdict: object) -> None:
    """What a small journal adds up to."""
    assert ask(Truth.of(lines)) == verdict


def test_each_driver_stack_has_a_journal_of_its_own() -> None:
    """A reload of a network driver makes no GPU plugin stale; what happens to the node happens to both."""
    lines = [
        at(10, "driver-loaded", stack="network", load=1, version="old"),
        at(12, "plugin-started", stack="network", load=1, version="old", uid="n", **OTHER),
        at(30, "driver-loaded", stack="network", load=2, version="new"),
        at(11, "driver-loaded", stack="gpu", load=1, version="580.1.2"),
        at(13, "plugin-started", stack="gpu", load=1, version="580.1.2", uid="g", **OURS),
    ]
    gpu, network = Truth.of(lines), Truth.of(lines, NETWORK)
    assert (gpu.stale_now(), gpu.loaded_now()) == ((), {"gpu-0": "580.1.2"})
    assert (network.stale_now(), network.loaded_now()) == (("gpu-0",), {"gpu-0": "new"})
    lines.append(at(40, "reboot"))
    assert Truth.of(lines, NETWORK).stale_now() == ()
    assert Truth.of(lines).loaded_now() == {"gpu-0": ""}


def test_the_picture_of_a_node() -> None:
    """Reloads last until the pod is Ready, restarts until the plugin is; a restart is early or not by its own line."""
    lines = [
        *TWICE,
        *loaded(30, 1, node="gpu-1"),
        *deleted(70, "c", stale=True, ready=False),
        at(71, "plugin-ready", uid="o", **OTHER),
        at(72, "plugin-deleted", uid="o", **OTHER),
        at(80, "driver-unloaded"),
        at(15, "node-status", node_ready=True, cordoned=True),
        at(40, "node-status", node_ready=False, cordoned=False),
    ]
    lane = Truth.of(lines).lane("gpu-0", "dra/plugin")
    assert lane.node == "gpu-0"
    assert lane.reloads == [(20, 31), (20, 61), (80, None)]
    assert lane.restarts == [(34, 38), (62, 65), (70, None)]
    assert lane.early == [(70, None)]
    assert lane.stale == [(30, 37), (60, 64)]
    assert lane.cordoned == [(15, 40)]
    empty = Truth.of(lines).lane("gpu-1", "dra/plugin")
    assert (empty.reloads, empty.restarts, empty.early, empty.stale) == ([], [], [], [])


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    """Whether half of it is there or all but its newline; it is read when it is whole."""
    file = tmp_path / JOURNAL
    assert (Truth.read(tmp_path).entries, Truth.read(file).entries) == ((), ())
    first, second = loaded(10, 1)
    for text, events in (
        (first, ["driver-loaded"]),
        (first + second[:20], ["driver-loaded"]),
        (first + second.rstrip(), ["driver-loaded"]),
        (first + second, ["driver-loaded", "driver-ready"]),
        (first + second + at(20, "node-removed"), ["driver-loaded", "driver-ready", "node-removed"]),
    ):
        file.write_text(text)
        for place in (file, tmp_path):
            assert [each.event for each in Truth.read(place).entries] == events
    assert [each.event for each in Truth.read(file, NETWORK).entries] == [
        "driver-loaded",
        "driver-ready",
        "node-removed",
    ]


def test_a_line_is_one_entry() -> None:
    """Times have milliseconds, and keys of another version are ignored."""
    line = encode("driver-loaded", "gpu-0", 1.23456, stack="gpu", load=2, invented="x")
    assert line.endswith("}\n")
    assert line.count("\n") == 1
    assert Entry.parse(line) == Entry(1.235, "driver-loaded", "gpu-0", "gpu", load=2)
