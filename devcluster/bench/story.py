"""What the page says between its tables. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from devcluster.bench import tables
from devcluster.bench.peers import LABELS, OURS, TITLES
from devcluster.bench.results import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.bench.results import Result

TOP: Final = """\
# Performance

Measured, not claimed: `make bench` runs all of it again{took}, and each table names the command for its part alone.
Figures are of {date}, on {cores} cores and {memory} GiB ({system}, Python {python}). etcd, API server, controllers,
scheduler, kubectl and Helm are the real ones; the GPU fleet is simulated, and keeps the truth to the millisecond
([how](decisions/0004-simulate-only-the-gpu.md)). Fleets of different measures share the machine, so absolute times are
those of a busy one; only reactions are measured alone.

![Seconds that a node gives no devices, by fleet and way](performance.svg)
"""
LOST: Final = """
## Lost DRA capacity

From the moment that a node's new driver is loaded until a plugin runs on it, new GPU pods fail there. Added up over
all nodes, these seconds are what an upgrade costs. The ways work **side by side, in one run, on one fleet**: each has
a plugin of its own on every node, and all see the same reloads at the same moments. Ratios are of that one run.

{ways}

The scripts are [as a person would write them](../devcluster/bench/peers.py), with every benefit of the doubt: they are
started when `helm upgrade` of the operator returns, look once a second, and those that wait for labels do not believe
the `upgrade-done` of before. Whoever leaves plugins stale is charged until the last driver is ready and the last plugin
fresh that anybody refreshes, as if a person mended all at that moment; in truth they stay stale until somebody notices.
"""
LEFT: Final = """
Where all nodes reload at the same moment, as with 8 nodes and 10 at once, the shell Job's restart may fall into the
very seconds in which no driver is loaded: its plugins then wait, and start on the new one. Only luck makes it so. What
each leaves stale at its end, what it restarted before its node's driver was ready, and what although it was fresh:
"""
OURS_ALONE: Final = """
With {ours} a node loses what its own driver takes from loaded to Ready, the reaction, and the plugin's own start; not
more on a larger fleet. The most is lost by nodes whose driver is ready before the Job itself has started:
"""
PLAYED: Final = """
So that anybody can wait for it, the simulated nodes and the upgrade controller are faster than real ones:
"""
COMPUTED: Final = """
### With real times

**Computed, not measured.** A node takes two minutes in reality, because the upgrade controller looks again only then,
although its driver is Ready after 20 s; its label follows 100 s after that. With these times, and the largest median
above for what a node loses in any case, whoever acts at once, at each label, or at the end (or never, if a person mends
all at that very moment) loses:
"""
CHECKED: Final = """
The same sums with the times of the runs above, against what was measured there:
"""
REACTION: Final = """
## Reaction

From a driver's being ready (the simulator's truth, before it tells the API server) to the API server's receiving the
deletion of the stale plugin on that node (its audit log), with nobody else at work:
"""
API_SERVER: Final = """
## What it costs the API server

Side by side again, but each way asks an API server of its own, all on one etcd. What the one spends that nobody asks is
taken off: following a fleet costs every API server the same. What Helm itself asks, with any of them, is not counted.
"Sent" are answers to reads as they went over the wire, and events of watches, by the API server's own metrics.

{ours} reads everything that a judgement needs, once, and then every change of it: what it costs grows with the reloads.
A script asks for all nodes at each look: what it costs grows with the time; {job} stops early because
it is wrong early. In an upgrade as short as this one the scripts look so seldom that they ask for less:
"""
API_SERVER_COMPUTED: Final = """
**Computed for real times**: a look costs what it cost {labels} here, and a script looks once a second; {ours} costs
what it cost here, and a node's object of 28 kB for each of its kubelet's reports, one in five minutes:
"""
CHAPTERS: Final = {
    "no-op": """
## Nothing to do

A run that finds every plugin fresh, on a fleet whose objects are as large as real ones: nodes of 28 kB, pods of 24 kB.
Memory is the peak of the process alone; `kubectl get pods -A -o json` of the same fleet stands beside it for scale.
""",
    "waiting": """
## Waiting

A run that waits, after its first minute, for ten drivers that do not become ready, while every kubelet reports its node
every five minutes and labels and driver pods change every second:
""",
    "start-up": """
## Start-up

From the start of the process to its first connection to the API server:
""",
}
"""Measures whose figures speak for themselves."""


def chapters(results: Sequence[Result]) -> Iterator[str]:
    """Give the page, chapter by chapter; what was not measured has none."""
    yield _top(results)
    lost = [one for one in results if one.measure == "lost"]
    if lost:
        yield from _lost(lost)
    for one in results:
        if one.measure == "reaction":
            yield REACTION
            yield from tables.reaction(one)
    for one in results:
        if one.measure == "api-server":
            yield API_SERVER.format(ours=f"`{OURS}`", job="the shell Job")
            yield from tables.api_server(one)
            yield f"\n`{one.command}`"
            yield API_SERVER_COMPUTED.format(ours=f"`{OURS}`", labels=f"`{LABELS.name}`")
            yield from tables.api_server_computed(one)
    for measure, words in CHAPTERS.items():
        if found := [one for one in results if one.measure == measure]:
            yield words
            yield from tables.plain(found)


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
    )


def _lost(results: Sequence[Result]) -> Iterator[str]:
    ways = "\n".join(f"- **{name}**: {TITLES[name]}" for name in tables.entries(results[0]))
    yield LOST.format(ways=ways)
    yield from tables.losses(results)
    yield LEFT
    yield from tables.left(results)
    yield OURS_ALONE.format(ours=f"`{OURS}`")
    yield from tables.ours(results)
    yield PLAYED
    yield from tables.played(results)
    yield COMPUTED
    yield from tables.computed(results)
    yield CHECKED
    yield from tables.checked(results)
