"""What the page says between its tables. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from devcluster.bench import tables
from devcluster.bench.computed import HOURS, REAL_GAP, REAL_LAG, REAL_LOADED, REAL_MINUTES, REAL_READY
from devcluster.bench.cost import NAMES
from devcluster.bench.peers import TITLES
from devcluster.bench.plots import PLOTS
from devcluster.bench.results import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from devcluster.bench.results import Result

TOP: Final = """\
# Performance

`make bench` measures all of it again{took}. Each row names its measurement. To measure one alone:

```console
make bench BENCH=upgrade-100-1
```

The latest figures are of {date}, on {cores} cores and {memory} GiB ({system}, Python {python}){commit}.

etcd, API server, controllers, scheduler, kubectl and Helm are the real ones. The GPU operator, drivers and plugins are
simulated, and the simulator keeps a journal of the truth ([how](dev/decisions/0004-simulate-only-the-gpu.md)). Some
measures share the machine ([which](../devcluster/bench/matrix.py)), so absolute times are those of a busy machine, and
ratios are always of one run.

![Stale node-seconds of each approach, 100 nodes one by one](performance.svg)

![Stale seconds per node on three fleets: this program and the best script](performance-nodes.svg)

## Goals

Fleets have 5,000 nodes, and comparisons 100, unless the row names another number. A missed goal stays in the table.
"""
MISSING: Final = """
Not measured yet: {names}."""
UPGRADE: Final = """
## Stale node-seconds

From the moment that a node's new driver is loaded, a plugin that started on the old one is stale: new GPU pods get old
files there, or fail, until the plugin is restarted on the new driver. These seconds, added up over all nodes, are what
an upgrade costs in addition to the reload itself. A plugin that waits for a driver at that moment does not count. The
approaches work **side by side, in one run, on one fleet**: each has its own plugin on every node, and all see the same
reloads at the same moments. Each upgrade changes the operator's chart and the driver.

{approaches}

The scripts are [as people write them](../devcluster/bench/peers.py). Each is a hook Job of Helm, as this program is,
and starts when `helm upgrade` of the operator returns. Those that wait for labels ignore the `upgrade-done` from before
the upgrade. They sleep a second between two looks. On a busy machine and a large fleet a look itself takes seconds, and
a script that watches would be faster there. An approach that leaves plugins stale counts until the upgrade is over: the
last driver is ready, and every plugin that any approach refreshes is fresh. In reality they stay stale until an
administrator notices. "26.7" is the status of that operator version, in which *ready* waits for all nodes; the other
rows have the status of 26.3 ([alternatives](alternatives.md#which-signal-is-wrong-in-which-version)). For a DRA driver
that gives only ComputeDomains: `make bench BENCH="--nodes 9 --mode compute-domains"`.
"""
EARLIER: Final = """
Measured earlier, when only the driver changed and each script ran at once, as a process instead of a Job:
{names}.
"""
LEFT: Final = """
Where all nodes reload at the same moment, as with 8 nodes and 10 at once, the shell Job's restart may happen during the
reload itself: its plugins wait while no driver is loaded, and start on the new one.

Plugins that each approach leaves stale at its end, restarts before the node's driver was ready, and restarts of fresh
plugins:
"""
OURS_ALONE: Final = """
With this program the stale seconds per node are the driver's own time from loaded to Ready, the reaction, and the
plugin's own start. They do not grow with the fleet. The most is where the driver is ready before the Job itself has
started, or where a plugin starts slowly on the busy machine. The three parts are means:
"""
PLAYED: Final = """
The simulated nodes and the upgrade controller are faster than real ones, so that a run takes minutes. The last row has
the real times behind the [simulator's knobs](../devcluster/fleet/knobs.py):
"""
COMPUTED: Final = f"""
### With times nearer to real ones

**Computed, not measured.** The upgrade controller looks again after two minutes, and so a node takes two minutes.
The assumption is that a driver is loaded {REAL_LOADED:g} s after its pod's start and Ready after {REAL_READY:g} s,
because the operator's startup probe looks after 60 s. Its label then follows {REAL_LAG:g} s later.
In any case a plugin is stale for the {REAL_GAP:g} s between the two, and for what it was stale above beyond its gap.
First an approach that restarts each plugin at once, then one that follows each label, then one that acts at the end:
"""
CHECKED: Final = """
The same sums for `labels` with the times of each run, compared with what was measured there. This checks the sums, not
the assumptions. Where all nodes are in one group there is nothing to check:
"""
REACTION: Final = """
## Reaction

From the moment when the API server receives that a driver's pod is Ready to the moment when it receives the deletion of
the stale plugin on that node, both by its audit log, with no other approach at work. 500 simulated nodes share the
processors with it:
"""
API_SERVER: Final = f"""
## What it costs the API server

Side by side again, but each approach asks an API server of its own, all on one etcd. The costs of a server without
clients are subtracted: to watch a fleet costs every API server the same. A negative figure is noise, by which the
others are uncertain, too. What Helm itself asks is not counted. "Sent" are answers to reads as they went over the wire,
and events of watches, by the API server's own metrics. Simulated objects are smaller than real ones. With affected
workloads this program also watches claims and all pods, which here include the plugins of all other approaches.

This program reads everything that an evaluation needs once, and then every change of it: its cost grows with the
reloads. A script asks for all nodes at each look: its cost grows with the time. The shell Job stops early because it is
wrong early. In an upgrade as short as this one, the scripts ask for less than this program does. The last column is
**computed** for an upgrade that takes {REAL_MINUTES} minutes, as 100 nodes do in reality: what scripts ask at each look
grows with the time, and the changes stay as many. The reports of real kubelets come in addition. A real node has 28 kB
and a real pod 24 kB. kubectl and this program ask for compressed lists, and watches are never compressed:
"""
TWO_HOURS: Final = f"""
## An upgrade of {HOURS} hours

The cost per minute is **measured** while a fleet of 100 nodes of real size waits for its next reload, side by side and
each with an API server of its own: kubelets report their nodes, and labels, driver and plugin pods, DaemonSets and
ResourceSlices change as often as during an upgrade of this length, and each node has a claim with its pod.
The policy does not change. The {HOURS} hours are **computed**: {HOURS * 60} such minutes, and for this program its
first complete read. `shell-job` waits for a single object, ClusterPolicy, and costs next to nothing; it is wrong
[on 26.3](alternatives.md#which-signal-is-wrong-in-which-version). A script that sleeps 30 seconds instead of one costs
about a thirtieth, and each node then waits up to 30 seconds more.
"""
CHAPTERS: Final = {
    "no-op": """
## Nothing to do

A run that finds every plugin fresh, on a fleet whose objects are as large as real ones: nodes of 28 kB, pods of 24 kB.
The fleet is put straight into etcd, and no controller is at work. The quiet times are set to nothing: by default a run
also waits until the operator was quiet for 15 s. Lists come in pages of 50. Memory is the peak of the process alone;
`kubectl get pods -A -o json` of the same fleet is given for scale. Where time and memory go, and what pages and decoder
save: [profile](dev/performance-profile.md).

These figures are of a program that read metadata alone to confirm its end. Now it lists every kind twice, which
transfers up to twice as much, takes half of the CPU time again, and 5 MiB more at 5,000 nodes
([profile](dev/performance-profile.md#variants)).
""",
    "decision": """
## One decision

The CPU time of one decision of the controller on a fleet at rest, of which some drivers changed since the last one:
once with every node evaluated, and once with only those that changed ([how](dev/architecture.md#one-decision)). Both
take turns in one process, and must decide the same; "ratio" is of that one run. The counts, the queue of restarts and
the conditions for the end are computed again from the statuses of all nodes, which takes most of the time:
""",
    "waiting": """
## Waiting

A run that waits, after its first minute, for ten drivers that do not become ready, while every kubelet reports its node
every five minutes, and labels and driver pods change every second. The changes go straight into etcd; "late" is by how
much they came later than they should:
""",
    "controller": """
## Controller

A controller (`controller.enabled`) of the same fleet, with the same changes, after its first minute:
""",
    "reaction-at-once": """
## Many drivers at once

Many drivers are written as ready in the same moment, on a fleet whose objects are as large as real ones. The times are
from the first of these writes until the API server receives the deletions, by its audit log. Nothing replaces the
deleted plugins. "Written" is how long etcd took for all drivers:
""",
    "reaction-controller": """
The same with a controller, which [large fleets](scale.md) use, instead of a Job:
""",
    "affected": """
## Affected workloads

The memory of a run that waits and of a controller, where claims and their pods are read as well
([affected workloads](affected-workloads.md)): four claims per node, and a pod of 8 kB for each:
""",
    "start-up": """
## Start-up

From the start of the process to its first connection to the API server. Before it, a node pulls the image's layers:
"pull" is their size, compressed as for a registry, of an image that was built from these sources on the base that is
named. [Image](dev/image.md) shows what fills it (`make image`, which counts a million bytes as one MB); "not measured":
no image could be built on that machine.
""",
}
"""Measures whose figures speak for themselves."""


def chapters(results: Sequence[Result]) -> Iterator[str]:
    """Return the page, chapter by chapter; what was not measured has none."""
    yield _top(results)
    yield from tables.goals(results)
    if missing := [f"`{name}`" for name in (*PLOTS, *NAMES) if name not in {result.name for result in results}]:
        yield MISSING.format(names=", ".join(missing))
    if upgrades := [result for result in results if result.measure == "upgrade"]:
        yield from _upgrades(upgrades)
    for result in results:
        if result.measure == "reaction":
            yield REACTION
            yield from tables.reaction(result)
            yield f"\n{tables.verdict(result)}"
    for measure, words, table in (
        ("api-server", API_SERVER, tables.api_server),
        ("two-hours", TWO_HOURS, tables.two_hours),
    ):
        for result in results:
            if result.measure == measure:
                yield words
                yield from table(result)
                yield f"\nMeasurement: `{result.name}`"
    for measure, words in CHAPTERS.items():
        if found := sorted((result for result in results if result.measure == measure), key=_nodes):
            yield words
            yield from tables.plain(found)
            yield from _elsewhere(found, results[0])


def _nodes(result: Result) -> int:
    return int(result.given.get("nodes", 0))


def _elsewhere(found: Sequence[Result], first: Result) -> Iterator[str]:
    """Return which are of another commit or machine than the page's first line names."""
    for result in found:
        if result.source != first.source:
            where = f"commit {result.commit or '(not recorded)'}, {result.machine['cores']} cores"
            yield f"\n`{result.name}` was measured apart from the others: {where}, Python {result.machine['python']}."


def _top(results: Sequence[Result]) -> str:
    machine, everything = results[0].machine, [result for result in results if result.name == EVERYTHING]
    took = f" ({everything[0].seconds / 60:.0f} minutes once the programs are built)" if everything else ""
    return TOP.format(
        took=took,
        date=max(result.at for result in results)[:10],
        cores=machine["cores"],
        memory=machine["memory_gib"],
        system=machine["system"],
        python=machine["python"],
        commit=f", commit {results[0].commit}" if results[0].commit else "",
    )


def _upgrades(results: Sequence[Result]) -> Iterator[str]:
    approaches = "\n".join(f"- **{name}**: {TITLES[name]}" for name in tables.approaches(results))
    yield UPGRADE.format(approaches=approaches)
    yield from tables.stale(results)
    if earlier := [f"`{result.name}`" for result in results if "behaviour" not in result.given]:
        yield EARLIER.format(names=", ".join(earlier)).rstrip()
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
