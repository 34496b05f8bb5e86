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
"""One node: install, migrate, and the stale plugin is restarted."""


STALE = [*loaded(10, 1), *started(12, "a", 1), *UNLOADED, *loaded(30, 2)]
"""One node whose plugin holds the first load of the same version still."""


def test_a_plugin_is_stale_while_it_holds_an_older_load() -> None:
    """Loads matter, versions do not; stale time ends with the start of the next plugin, or not at all."""
    rebooted = [*loaded(10, 1), *started(12, "a", 1), encode("reboot", "gpu-0", 20), *loaded(30, 2)]
    for name, lines, stale, intervals in (
        ("remounted", STALE, ("gpu-0",), [(30, None)]),
        ("unloaded", STALE[:-2], (), []),
        ("refreshed", MIGRATION, (), [(30, 37)]),
        ("rebooted", rebooted, (), []),
    ):
        truth = Truth.of(lines)
        assert (truth.stale_now(), truth.stale_intervals()) == (stale, {"gpu-0": intervals}), name
    assert Truth.of(STALE).loaded_now() == {"gpu-0": "580.1.2"}
    assert Truth.of(MIGRATION).stale_seconds(until=100) == {"gpu-0": 7}
    assert Truth.of(STALE).stale_seconds(until=100) == {"gpu-0": 70}


def test_restarts_are_classified_by_the_deletion_line() -> None:
    """Early: the driver was not ready or not current. Needless: the plugin was fresh. A drain is no restart."""
    truth = Truth.of(
        [
            *deleted(1, "a", stale=True, ready=False),
            *deleted(2, "b", stale=True, current=False),
            *deleted(3, "c", stale=False),
            *deleted(4, "d", stale=True),
            encode("plugin-deleted", "gpu-0", 5, uid="e", load=1, drained=True, **OURS),
        ]
    )
    found = (truth.restarts(), truth.early_restarts(), truth.needless_restarts(), truth.restarts(since=3))
    assert ["".join(each.uid for each in some) for some in found] == ["abcd", "ab", "c", "cd"]
    assert [each.uid for each in truth.drains()] == ["e"]
    fine = Truth.of(MIGRATION)
    assert (len(fine.restarts()), fine.early_restarts(), fine.needless_restarts()) == (1, (), ())


def test_a_plugin_is_behind_a_toolkit_that_was_installed_after_it() -> None:
    """Its driver may be the right one."""
    first, second = (encode("toolkit-ready", "gpu-0", 10.0 + number, toolkit=number) for number in (1, 10))
    plugin = encode("plugin-started", "gpu-0", 17, uid="a", load=1, toolkit=1, **OURS)
    before = [*loaded(10, 1), first, plugin]
    after = [*before, second]
    current = encode("plugin-started", "gpu-0", 22, uid="b", load=1, toolkit=10, **OURS)
    gone = encode("plugin-gone", "gpu-0", 21, uid="a", **OURS)
    assert Truth.of(before).behind_now() == Truth.of([*after, gone, current]).behind_now() == ()
    behind = Truth.of(after)
    assert behind.behind_now("plugin") == ("gpu-0",)
    assert behind.behind_now("another") == behind.stale_now() == ()
    assert Truth.of([*before, encode("mig-reconfigured", "gpu-0", 20, mig=1)]).behind_now() == ("gpu-0",)


def test_each_driver_stack_has_a_journal_of_its_own() -> None:
    """A reload of a network driver makes no GPU plugin stale; what happens to the node happens to both."""
    lines = [
        encode("driver-loaded", "gpu-0", 10.0, stack="network", load=1, version="old"),
        encode("plugin-started", "gpu-0", 12.0, stack="network", load=1, version="old", uid="n", **OTHER),
        encode("driver-loaded", "gpu-0", 30.0, stack="network", load=2, version="new"),
        encode("driver-loaded", "gpu-0", 11.0, stack="gpu", load=1, version="580.1.2"),
        encode("plugin-started", "gpu-0", 13.0, stack="gpu", load=1, version="580.1.2", uid="g", **OURS),
    ]
    gpu, network = Truth.of(lines), Truth.of(lines, NETWORK)
    assert (gpu.stale_now(), gpu.loaded_now()) == ((), {"gpu-0": "580.1.2"})
    assert (network.stale_now(), network.loaded_now()) == (("gpu-0",), {"gpu-0": "new"})
    lines.append(encode("reboot", "gpu-0", 40.0))
    assert Truth.of(lines, NETWORK).stale_now() == ()
    assert Truth.of(lines).loaded_now() == {"gpu-0": ""}


def _claim(t: float, event: str, pod: str, load: int = 0, node: str = "gpu-0") -> str:
    return encode(event, node, t, stack="gpu", load=load, uid=f"{pod}-uid", pod=pod, namespace="team")


def test_a_pod_holds_the_files_of_the_driver_that_its_claims_were_prepared_with() -> None:
    """They stay until the pod is gone, whatever is loaded meanwhile; an answer of a fresh plugin is right."""
    lines = [
        encode("driver-loaded", "gpu-0", 1.0, stack="gpu", load=1, version="580.1.2"),
        encode("driver-loaded", "gpu-1", 1.0, stack="gpu", load=1, version="580.1.2"),
        _claim(2, "claim-prepared", "before", 1),
        _claim(2, "claim-prepared", "gone", 1),
        _claim(2, "claim-prepared", "elsewhere", 1, "gpu-1"),
        encode("driver-loaded", "gpu-0", 3.0, stack="gpu", load=2, version="580.2.3"),
        _claim(4, "claim-prepared", "stale", 1),
        _claim(5, "claim-prepared", "healthy", 2),
        _claim(6, "claim-released", "gone"),
    ]
    truth = Truth.of(lines)
    assert truth.holding_old_files() == ("team/before", "team/stale")
    assert truth.nodes == ("gpu-0", "gpu-1")


def at(t: float, event: str, node: str = "gpu-0", **details: Any) -> str:  # noqa: ANN401 - whatever an event has
    """Return the line of anything else."""
    return encode(event, node, t, **details)


GONE: Final = at(20, "driver-gone", pod="d", uid="d")
AGAIN: Final = [*STALE, *started(40, "c", 2, OTHER)]
"""A plugin of the same name, but in another namespace, starts on the new load. The stale one runs on."""
TWICE: Final = [*MIGRATION, *UNLOADED, *loaded(60, 3), *deleted(62, "b", stale=True), *started(64, "c", 3)]
"""As MIGRATION, and another one."""
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


VERDICTS: Final[dict[str, tuple[list[str], Answers, Any]]] = {
    # What is loaded, and whether it runs.
    "a Ready driver runs": (loaded(10, 1), running("580.1.2", "580.2.3"), (["gpu-0"], [])),
    "a driver that is loaded but not Ready does not run": (loaded(10, 1)[:1], running("580.1.2"), ([],)),
    "one that was Ready does not make the next one Ready": (
        [*loaded(10, 1), loaded(30, 2)[0]], running("580.1.2"), ([],)),
    "a driver does not run after its pod is gone": ([*loaded(10, 1), GONE], running("580.1.2"), ([],)),
    "but while another pod's is Ready, it does": (
        [*loaded(10, 1), at(20, "driver-gone", pod="e", uid="e")], running("580.1.2"), (["gpu-0"],)),
    "but it stays loaded": ([*loaded(10, 1), GONE], Truth.loaded_now, {"gpu-0": "580.1.2"}),
    "an unloaded driver is neither loaded": ([*loaded(10, 1), *UNLOADED], Truth.loaded_now, {"gpu-0": ""}),
    "nor does it run": ([*loaded(10, 1), *UNLOADED], running("580.1.2", ""), ([], [])),
    "nor does one before a reboot": ([*loaded(10, 1), at(20, "reboot")], running("580.1.2", ""), ([], [])),
    "each node has a driver of its own": (
        [*loaded(10, 1), *loaded(10, 1, "580.2.3", "gpu-1")], running("580.1.2", "580.2.3"), (["gpu-0"], ["gpu-1"])),
    # Which nodes there are.
    "nodes are in the order of their numbers": (
        [at(1, "reboot", f"gpu-{number}") for number in (10, 9, 1)], lambda truth: truth.nodes,
        ("gpu-1", "gpu-9", "gpu-10")),
    "a DeviceTaintRule does not bring it back": (
        [*STALE, at(40, "node-removed"), at(41, "devices-untainted")], lambda truth: truth.nodes, ()),
    "a node that was removed is not there": ([*STALE, at(40, "node-removed")], lambda truth: truth.nodes, ()),
    "nothing on it is stale, behind or loaded": (
        [*STALE, at(40, "toolkit-ready", toolkit=1), at(41, "node-removed")],
        lambda truth: (truth.stale_now(), truth.behind_now(), truth.loaded_now(), truth.standings()), ((), (), {}, {})),
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
    "of two plugins one may be stale": (AGAIN, stale(), (("gpu-0",), {"gpu-0": [(30, None)]})),
    # Whose plugin it is.
    "a name alone means any namespace": (AGAIN, stale("plugin"), (("gpu-0",), {"gpu-0": [(30, None)]})),
    "a namespace means that one": (AGAIN, stale("dra/plugin"), (("gpu-0",), {"gpu-0": [(30, None)]})),
    "not another one": (AGAIN, stale("shell/plugin"), ((), {"gpu-0": []})),
    "nor one that has none of that name": (AGAIN, stale("default/plugin"), ((), {"gpu-0": []})),
    "nor another name": (AGAIN, stale("plugi"), ((), {"gpu-0": []})),
    "what a DaemonSet's plugin holds": (
        [*AGAIN, at(50, "plugin-started", uid="e", load=2, version="x", daemonset="e", namespace="dra")],
        lambda truth: [truth.standings(name)["gpu-0"].plugin_version for name in ("e", "dra/e", "shell/e", "plugin")],
        ["x", "x", None, "580.1.2"]),
    "restarts of one namespace": (
        [*deleted(1, "a", stale=True), at(2, "plugin-deleted", uid="b", stale=True, **OTHER)],
        lambda truth: ["".join(each.uid for each in truth.restarts(name)) for name in
                       (None, "plugin", "dra/plugin", "shell/plugin", "plugi")], ["ab", "ab", "a", "b", ""]),
    # When it was stale.
    "an unloaded driver ends a stale spell": (
        [*STALE, at(40, "driver-unloaded")], stale(), ((), {"gpu-0": [(30, 40)]})),
    "so does a reboot": ([*STALE, at(40, "reboot")], stale(), ((), {"gpu-0": [(30, 40)]})),
    "and the node's end": ([*STALE, at(40, "node-removed")], stale(), ((), {"gpu-0": [(30, 40)]})),
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
    "a plugin that started before a toolkit is behind": (
        [*loaded(10, 1), *started(12, "a", 1), at(20, "toolkit-ready", toolkit=1)], Truth.behind_now, ("gpu-0",)),
    "one that started after it is not": (
        [at(5, "toolkit-ready", toolkit=1), at(6, "mig-reconfigured", mig=2),
         at(12, "plugin-started", uid="a", toolkit=1, mig=2, **OURS)], Truth.behind_now, ()),
    "a MIG layout counts by itself": (
        [at(5, "toolkit-ready", toolkit=1), at(12, "plugin-started", uid="a", toolkit=1, **OURS),
         at(20, "mig-reconfigured", mig=1)], Truth.behind_now, ("gpu-0",)),
    "files and layouts stay through a reboot": (
        [at(5, "toolkit-ready", toolkit=1), at(6, "mig-reconfigured", mig=2), at(8, "reboot"),
         at(12, "plugin-started", uid="a", toolkit=1, mig=2, **OURS)], Truth.behind_now, ()),
    # Since when.
    "a moment belongs to what is since then": (
        [at(1, "reboot"), at(2, "reboot"), at(3, "reboot")], lambda truth: [each.t for each in truth.since(2)], [2, 3]),
    "restarts and drains since a moment": (
        [*deleted(1, "a", stale=False, ready=False), *deleted(3, "b", stale=False, ready=False),
         *(at(t, "plugin-deleted", uid=uid, drained=True, **OURS) for t, uid in ((1, "c"), (3, "d")))],
        lambda truth: ["".join(each.uid for each in ask(since=2)) for ask in
                       (truth.restarts, truth.drains, truth.early_restarts, truth.needless_restarts)],
        ["b", "d", "b", "b"]),
    "questions with a DaemonSet and a moment": (
        [*deleted(1, "a", stale=False, ready=False), at(2, "plugin-deleted", uid="b", drained=True, **OURS)],
        lambda truth: [len(ask("shell/plugin", 0)) for ask in
                       (truth.restarts, truth.drains, truth.early_restarts, truth.needless_restarts)], [0, 0, 0, 0]),
}  # fmt: skip
"""By what is to be seen: a journal, a question, and the right verdict."""


@pytest.mark.parametrize(("lines", "ask", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_verdicts(lines: list[str], ask: Answers, verdict: object) -> None:
    """What a small journal adds up to."""
    assert ask(Truth.of(lines)) == verdict


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
