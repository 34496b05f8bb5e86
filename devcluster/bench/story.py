"""What the page says between its tables. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from devcluster.bench import tables
from devcluster.bench.computed import REAL_GAP, REAL_LAG, REAL_LOADED, REAL_READY
from devcluster.bench.peers import TITLES
from devcluster.bench.plots import PLOTS
from devcluster.bench.results import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.bench.results import Result

TOP: Final = """\
# Performance

`make bench` measures all of it again{took}; each measure names the command for itself alone.
Figures are of {date}, on {cores} cores and {memory} GiB ({system}, Python {python}).

etcd, API server, controllers, scheduler, kubectl and Helm are the real ones; the GPU operator, drivers and plugins are
simulated, and the simulator keeps a journal of the truth ([how](dev/decisions/0004-simulate-only-the-gpu.md)). Fleets
of several measures share the machine, so absolute times are those of a busy one.
Alone are measured: {alone}.

![Seconds lost a node after the reload itself, by fleet and way](performance.svg)
"""
LOST: Final = """
## Lost DRA capacity

From the moment that a node's new driver is loaded, a plugin that started on the old one is stale: new GPU pods get
old files there, or fail, until it was restarted on the new driver. These seconds, added up over all nodes, are what
an upgrade costs beyond the reload itself. A plugin that waits for a driver at that moment is not charged. The ways
work **side by side, in one run, on one fleet**: each has a plugin of its own on every node, and all see the same
reloads at the same moments. Ratios are of that one run.

{ways}

The scripts are [as they are usually written](../devcluster/bench/peers.py). They are started when `helm upgrade` of
the operator returns, and those that wait for labels do not believe the `upgrade-done` of before. They sleep a second
between two looks; on a busy machine and a large fleet a look itself takes seconds, and a script that watches would do
better there. A way that leaves plugins stale is charged until the upgrade is over: the last driver is ready, and every
plugin that any way refreshes is fresh. In truth they stay stale until an administrator notices.
"""
ALONE: Final = ("the fleet of 500 nodes with 10 at once", "runs with nothing to do", "start-up", "reactions")
"""What `devcluster.bench.matrix` gives the whole machine to."""
MISSING: Final = """
Not measured in this run: {names}."""
LEFT: Final = """
Where all nodes reload at the same moment, as with 8 nodes and 10 at once, the shell Job's restart may meet the reload
itself: its plugins wait while no driver is loaded, and start on the new one. That depends on when the two meet.

What each leaves stale at its end, what it restarted before its node's driver was ready, and what while it was fresh:
"""
OURS_ALONE: Final = """
With this program a node loses the time from its loaded driver to a Ready one, the reaction, and the plugin's own start;
not more on a larger fleet. The most is lost where the driver is ready before the Job itself has started, or where a
plugin starts slowly on the busy machine:
"""
PLAYED: Final = """
So that anybody can wait for it, the simulated nodes and the upgrade controller are faster than real ones; the last row
is what the [simulator's knobs](../devcluster/fleet/knobs.py) were shortened from:
"""
COMPUTED: Final = f"""
### With times nearer to real ones

**Computed, not measured.** The upgrade controller looks again after two minutes, and so a node takes two minutes.
It is assumed that a driver is loaded {REAL_LOADED:g} s after its pod's start and Ready after {REAL_READY:g} s,
because the operator's startup probe looks after 60 s. Its label then follows {REAL_LAG:g} s later.
In any case a node loses the {REAL_GAP:g} s between the two, and what it lost above beyond its gap there.
First who acts at once, then who acts at each label, then who acts at the end:
"""
CHECKED: Final = """
The same sums for `labels` with each run's own turn, lag and loss, against what was measured there. It checks the sums,
not the assumptions; where all nodes are in one group there is nothing to check:
"""
REACTION: Final = """
## Reaction

From the moment when the API server receives that a driver's pod is Ready to the moment when it receives the deletion of
the stale plugin on that node, both by its audit log, with no other way at work. 500 simulated nodes share the
processors with it:
"""
API_SERVER: Final = """
## What it costs the API server

Side by side again, but each way asks an API server of its own, all on one etcd. The costs of a server without clients
are subtracted: following a fleet costs every API server the same. A figure below nothing is noise, by which the
others are uncertain, too. What Helm itself asks, with any of them, is not counted. "Sent" are answers to reads as
they went over the wire, and events of watches, by the API server's own metrics. Simulated objects are smaller than
real ones.

This program reads everything that a judgement needs, once, and then every change of it: what it costs grows with the
reloads. A script asks for all nodes at each look: what it costs grows with the time. The shell Job stops early because
it is wrong early. In an upgrade as short as this one, the scripts ask for less than this program does:
"""
CHAPTERS: Final = {
    "no-op": """
## Nothing to do

A run that finds every plugin fresh, on a fleet whose objects are as large as real ones: nodes of 28 kB, pods of 24 kB.
The fleet is put straight into etcd, and no controller is at work. The quiet times are set to nothing: by default a run
waits besides until the operator was quiet for 15 s. Lists come in pages of 50, and each object is sent once: one list a
kind. Memory is the peak of the process alone, and the goal is 64 MiB at 5,000 nodes; `kubectl get pods -A -o json` of
the same fleet is given for scale. Where time and memory go, and what pages and decoder save:
[profile](dev/performance-profile.md).
""",
    "decision": """
## One decision

The processor's time of one decision of the controller on a fleet at rest, of which some drivers changed since the last
one: once with every node evaluated, and once with only those that changed ([how](dev/architecture.md#one-decision)).
Both take turns in one process, and must decide the same; "ratio" is of that one run:
""",
    "waiting": """
## Waiting

A run that waits, after its first minute, for ten drivers that do not become ready, while every kubelet reports its node
every five minutes and labels and driver pods change every second. The changes go straight into etcd; "late" is by how
much they came later than they should:
""",
    "following": """
## Following

A controller (`controller.enabled`) of the same fleet, with the same changes, after its first minute:
""",
    "start-up": """
## Start-up

From the start of the process to its first connection to the API server. Before it, a node pulls the image's layers:
"pull" is their size, compressed as for a registry, of an image that was built from these sources on the base that is
named. [Image](dev/image.md) says what fills it (`make image`, which counts a million bytes as one MB); "not measured":
no image could be built on that machine.
""",
}
"""Measures whose figures speak for themselves."""


def chapters(results: Sequence[Result]) -> Iterator[str]:
    """Return the page, chapter by chapter; what was not measured has none."""
    yield _top(results)
    lost = [one for one in results if one.measure == "lost"]
    if lost:
        yield from _lost(lost)
    for one in results:
        if one.measure == "reaction":
            yield REACTION
            yield from tables.reaction(one)
            yield f"\n{tables.verdict(one)}"
    for one in results:
        if one.measure == "api-server":
            yield API_SERVER
            yield from tables.api_server(one)
            yield f"\n`{one.command}`"
    for measure, words in CHAPTERS.items():
        if found := [one for one in results if one.measure == measure]:
            yield words
            yield from tables.plain(found)
            yield from _elsewhere(found, results[0])


def _elsewhere(found: Sequence[Result], first: Result) -> Iterator[str]:
    """Return which had other cores than the page's first line says."""
    for one in found:
        if one.machine["cores"] != first.machine["cores"]:
            yield f"\n`{one.name}` was measured on {one.machine['cores']} cores."


def _top(results: Sequence[Result]) -> str:
    machine, everything = results[0].machine, [one for one in results if one.name == EVERYTHING]
    took = f" ({everything[0].seconds / 60:.0f} minutes once the programs are built)" if everything else ""
    return TOP.format(
        took=took,
        date=max(one.at for one in results)[:10],
        cores=machine["cores"],
        memory=machine["memory_gib"],
        system=machine["system"],
        python=machine["python"],
        alone=", ".join(ALONE),
    )


def _lost(results: Sequence[Result]) -> Iterator[str]:
    ways = "\n".join(f"- **{name}**: {TITLES[name]}" for name in tables.entries(results[0]))
    yield LOST.format(ways=ways)
    yield from tables.losses(results)
    known = {one.name for one in results}
    if missing := [_words(name) for name in PLOTS if name.startswith("lost") and name not in known]:
        yield MISSING.format(names="; ".join(missing))
    yield LEFT
    yield from tables.left(results)
    yield OURS_ALONE
    yield from tables.ours(results)
    yield PLAYED
    yield from tables.played(results)
    yield COMPUTED
    yield from tables.computed(results)
    yield CHECKED
    yield from tables.checked(results)


def _words(name: str) -> str:
    plot = PLOTS[name]
    return f"{tables.fleet_of(plot.nodes, plot.parallel)} (`make bench BENCH={name}`)"
