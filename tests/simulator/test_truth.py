"""The ground truth: what the journal's lines add up to."""

from __future__ import annotations

from devcluster.happening import encode
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
