"""What really happened on the fleet, read from the simulator's journal.

Tests and the demo assert on this and never on what the program under test believes. `journal`
has the journal's lines, `replay` what they make of a node; all is pure apart from `Truth.read`.

A plugin is *stale* while a driver is loaded on its node that is not the one it started on: not
the same *load*, a number that grows with each load and each remount of the driver's root file
system. While no driver is loaded at all, nothing can be fresh, and nothing counts as stale.
A stale plugin is *exposed* while new pods can come to it: its node is Ready and not cordoned, and no
DeviceTaintRule keeps new claims off the devices. Taints of the node do not count, because pods that
need a GPU may tolerate them; Kubernetes' own taints say the same as Ready and cordoned do.
A plugin that started before the last installation of the container toolkit, or before the last MIG
reconfiguration, is *behind*.

What is said of plugins holds for every pod that holds the driver, such as a standalone exporter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from devcluster.intervals import Interval, seconds, when, without
from devcluster.journal import JOURNAL, Entry
from devcluster.replay import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from devcluster.replay import Standing

GPU, NETWORK = "gpu", "network"
"""The driver stacks. What each has loaded, and who holds that, are two stories on the same nodes."""

RULES = frozenset({"devices-tainted", "devices-untainted"})
"""What happens to the devices of a node, also where the node itself is gone."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One node's story for a picture: when its driver reloaded, its plugin was stale and restarted."""

    node: str
    reloads: list[Interval]
    """From unloading the old driver to the new one's pod being Ready."""
    stale: list[Interval]
    restarts: list[Interval]
    """From the deletion of a plugin's pod to the next one's being Ready."""
    early: list[Interval]
    """Those restarts that came before the new driver was ready."""
    cordoned: list[Interval]


@dataclass(frozen=True)
class Truth:
    """The journal of one driver stack, with the questions that tests ask it.

    Wherever a `daemonset` can be given, it is a name or ``namespace/name``, and None means all.
    """

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, lines: Iterable[str], stack: str = GPU) -> Truth:
        """Parse the journal's lines. A last line without its newline is still being written."""
        entries = (Entry.parse(line) for line in lines if line.endswith("\n"))
        return cls(tuple(each for each in entries if each.stack in {stack, ""}))

    @classmethod
    def read(cls, journal: Path, stack: str = GPU) -> Truth:
        """Read a journal, or the one in a cluster's state directory; a missing one is empty."""
        file = journal / JOURNAL if journal.is_dir() else journal
        if not file.exists():
            return cls(())
        seen = file.stat()
        return _read(file, stack, (seen.st_ino, seen.st_size, seen.st_mtime_ns))

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that anything happened on and that are still there, in the order of their numbers."""
        last = {each.node: each.event for each in self.entries if each.event not in RULES}
        there = (name for name, event in last.items() if event != "node-removed")
        return tuple(sorted(there, key=lambda name: (len(name), name)))

    def since(self, moment: float) -> tuple[Entry, ...]:
        """Return everything from this moment (unix seconds) on."""
        return tuple(each for each in self.entries if each.t >= moment)

    def holding_old_files(self) -> tuple[str, ...]:
        """Name the pods whose claims were prepared with files of another driver than the one that is loaded now."""
        ends = self._ends
        prepared = {each.uid: each for each in self.entries if each.event == "claim-prepared"}
        gone = {each.uid for each in self.entries if each.event == "claim-released"}
        held = (each for uid, each in prepared.items() if uid not in gone)
        return tuple(sorted(f"{each.namespace}/{each.pod}" for each in held if each.load != ends[each.node].load))

    def stale_now(self, daemonset: str | None = None) -> tuple[str, ...]:
        """Name the nodes that have a stale plugin at the journal's end."""
        ends = self._ends
        return tuple(name for name in self.nodes if ends[name].stale(daemonset))

    def behind_now(self, daemonset: str | None = None) -> tuple[str, ...]:
        """Name the nodes whose plugin started before the container toolkit was installed or MIG reconfigured last."""
        ends = self._ends
        return tuple(name for name in self.nodes if ends[name].behind(daemonset))

    def loaded_now(self) -> dict[str, str]:
        """Return which driver version is loaded on each node; empty where none is."""
        ends = self._ends
        return {name: ends[name].version for name in self.nodes}

    def standings(self, daemonset: str | None = None) -> dict[str, Standing]:
        """Return how each node stands, with the plugin of one DaemonSet."""
        ends = self._ends
        return {name: ends[name].standing(daemonset) for name in self.nodes}

    def running(self, version: str) -> set[str]:
        """Name the nodes whose driver of this version is Ready at the journal's end."""
        standings = self.standings()
        return {name for name, each in standings.items() if each.version == version and each.driver_ready}

    def restarts(self, daemonset: str | None = None, since: float = 0.0) -> tuple[Entry, ...]:
        """Return the deletions of plugin pods that a client asked for."""
        return tuple(each for each in self._deletions(daemonset, since) if not each.drained)

    def drains(self, daemonset: str | None = None, since: float = 0.0) -> tuple[Entry, ...]:
        """Return the deletions of plugin pods that k8s-driver-manager brought about by pausing a label."""
        return tuple(each for each in self._deletions(daemonset, since) if each.drained)

    def early_restarts(self, daemonset: str | None = None, since: float = 0.0) -> tuple[Entry, ...]:
        """Return deletions while the node's driver pod was not Ready, or not of the newest revision."""
        return tuple(
            each for each in self.restarts(daemonset, since) if not (each.driver_ready and each.driver_current)
        )

    def needless_restarts(self, daemonset: str | None = None, since: float = 0.0) -> tuple[Entry, ...]:
        """Return deletions of plugins that were fresh, or had not started yet."""
        return tuple(each for each in self.restarts(daemonset, since) if not each.stale)

    def stale_intervals(self, daemonset: str | None = None) -> dict[str, list[Interval]]:
        """Return when each node had a stale plugin; the last interval may be open."""
        found: dict[str, list[tuple[float, bool]]] = {each.node: [] for each in self.entries}
        for now, node in self._steps():
            if node.stale(daemonset):
                found[now.node].append((now.t, True))
            elif _cured(now, daemonset):
                found[now.node].append((now.t, False))
        return {node: when(observations) for node, observations in found.items()}

    def exposed_intervals(self, daemonset: str | None = None) -> dict[str, list[Interval]]:
        """Return when each node had a stale plugin that new pods could come to."""
        found = self.stale_intervals(daemonset)
        drivers = {each.driver for each in self.entries if each.event == "plugin-started" and each.concerns(daemonset)}
        for name, spells in found.items():
            if spells:
                mine = [each for each in self.entries if each.node == name]
                closed = when(
                    (each.t, each.cordoned or not each.node_ready) for each in mine if each.event == "node-status"
                )
                found[name] = without(spells, [*closed, *_tainted(mine, drivers)])
        return found

    def stale_seconds(self, until: float, daemonset: str | None = None, since: float = 0.0) -> dict[str, float]:
        """Add up the seconds that each node spent with a stale plugin, or with it gone to be replaced."""
        return {name: seconds(spells, since, until) for name, spells in self.stale_intervals(daemonset).items()}

    def exposed_seconds(self, until: float, daemonset: str | None = None, since: float = 0.0) -> dict[str, float]:
        """Add up the part of these seconds in which new pods could come to the node."""
        return {name: seconds(spells, since, until) for name, spells in self.exposed_intervals(daemonset).items()}

    def lane(self, node: str, daemonset: str | None = None) -> Lane:
        """Return one node's history for a picture."""
        restarts = _spans(self._of(node, daemonset), {"plugin-deleted"}, {"plugin-ready"})
        too_early = {each.t for each in self.early_restarts(daemonset) if each.node == node}
        return Lane(
            node,
            reloads=_spans(self._of(node, None), {"driver-unloaded"}, {"driver-ready"}),
            stale=self.stale_intervals(daemonset).get(node, []),
            restarts=restarts,
            early=[span for span in restarts if span[0] in too_early],
            cordoned=when((each.t, each.cordoned) for each in self._of(node, None) if each.event == "node-status"),
        )

    def _deletions(self, daemonset: str | None, since: float) -> Iterator[Entry]:
        for each in self.since(since):
            if each.event == "plugin-deleted" and each.concerns(daemonset):
                yield each

    def _of(self, node: str, daemonset: str | None) -> Iterator[Entry]:
        """All that happened on a node to its driver and to the plugins asked for."""
        for each in self.entries:
            if each.node == node and (not each.daemonset or each.concerns(daemonset)):
                yield each

    def _steps(self) -> Iterator[tuple[Entry, Node]]:
        """Replay: each event and its node's state right after it."""
        nodes: dict[str, Node] = {}
        for now in self.entries:
            node = nodes.setdefault(now.node, Node())
            node.take(now)
            yield now, node

    @cached_property
    def _ends(self) -> dict[str, Node]:
        """Each node at the journal's end."""
        return {now.node: node for now, node in self._steps()}


@lru_cache(maxsize=2)
def _read(file: Path, stack: str, _as_of: tuple[int, int, int]) -> Truth:
    """Read a journal once for each of its states: many look at it several times a second."""
    with file.open() as lines:
        return Truth.of(lines, stack)


def _cured(now: Entry, daemonset: str | None) -> bool:
    """End a stale spell, where nothing is stale: a plugin started, or there is no driver any more to be stale against.

    The plugin's mere absence between its deletion and its successor cures nothing: the node
    still gives no devices.
    """
    return now.event in {"driver-unloaded", "reboot", "node-removed"} or (
        now.event == "plugin-started" and now.concerns(daemonset)
    )


def _spans(entries: Iterable[Entry], opens: set[str], closes: set[str]) -> list[Interval]:
    """Pair each opening event with the first closing one after it."""
    return when((each.t, each.event in opens) for each in entries if each.event in opens | closes)


def _tainted(entries: Iterable[Entry], drivers: set[str]) -> Iterator[Interval]:
    """Yield when a DeviceTaintRule kept new claims off all devices of these DRA drivers."""
    rules: dict[str, list[Entry]] = {}
    for each in entries:
        if each.event in RULES and (not each.driver or {each.driver} == drivers):
            rules.setdefault(each.uid, []).append(each)
    for rule in rules.values():
        yield from when((each.t, each.event == "devices-tainted") for each in rule)
