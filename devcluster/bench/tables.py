"""The page's tables. Pure: results in, Markdown out; no figure is anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from devcluster.bench.computed import REAL_GAP, REAL_LAG, REAL_TURN, Times
from devcluster.bench.peers import LABELS, NOTHING, ORIGINAL, OURS, PODS, TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devcluster.bench.results import Result

HEADLINE: Final = "lost-100-1"
"""What the README shows."""
COMPUTED_FLEETS: Final = ((8, 1), (100, 1), (100, 10), (500, 1), (500, 10))
GOAL_SECONDS: Final = 1.0
"""From a ready driver to the deletion of the stale plugin, at the median and at p99."""
TIMES: Final = "\N{MULTIPLICATION SIGN}"
MINUTE, KIB, MIB, THOUSAND = 60.0, 2.0**10, 2.0**20, 1000


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def fleet(result: Result) -> str:
    """Name a plot for people."""
    return fleet_of(result.given["nodes"], result.given["parallel"])


def fleet_of(nodes: int, parallel: int) -> str:
    """Name a fleet and its limit."""
    return f"{nodes} nodes, {'one by one' if parallel == 1 else f'{parallel} at once'}"


def by_size(results: Iterable[Result]) -> list[Result]:
    """Sort plots by their fleets."""
    return sorted(results, key=lambda one: (one.given["nodes"], one.given["parallel"]))


def entries(result: Result) -> dict[str, dict[str, Any]]:
    """Return the accounts by way, ours first."""
    return {one["name"]: one for one in result.figures["entries"]}


def headline(result: Result) -> list[str]:
    """Compare this program with the best script and the usual one, for the README."""
    ours = entries(result)[OURS]["lost_node_seconds"]
    rows = [
        (
            TITLES[name],
            number(one["lost_node_seconds"]),
            "" if name == OURS else f"{one['lost_node_seconds'] / ours:,.0f} {TIMES}",
            str(one["stale_left"]),
            str(one["needless"]),
        )
        for name, one in ((name, entries(result)[name]) for name in (OURS, PODS.name, ORIGINAL.name))
    ]
    return markdown(("", "stale node-seconds", "times as much", "plugins left stale", "fresh plugins restarted"), rows)


def losses(results: Sequence[Result]) -> list[str]:
    """Compare what each way loses on each fleet."""
    rows = []
    for result in by_size(results):
        found = entries(result)
        ours = found[OURS]["lost_node_seconds"]
        cells = [number(ours)]
        cells += [
            f"{number(found[name]['lost_node_seconds'])} ({found[name]['lost_node_seconds'] / ours:,.0f} {TIMES})"
            for name in found
            if name != OURS
        ]
        rows.append((fleet(result), *cells))
    return markdown(("lost, node-seconds", *entries(results[0])), rows)


def left(results: Sequence[Result]) -> list[str]:
    """Return what each way leaves stale, and which restarts it wastes."""
    rows = []
    for result in by_size(results):
        found = entries(result).values()
        rows.append((fleet(result), *(f"{one['stale_left']}; {one['early']}; {one['needless']}" for one in found)))
    return markdown(("left stale; restarted too early; restarted while fresh", *entries(results[0])), rows)


def ours(results: Sequence[Result]) -> list[str]:
    """Return what a node loses with ours, by the size of the fleet."""
    head = ("fleet", "a node loses: median", "the most", "reaction: median", "p99", "the upgrade took", "command")
    rows = []
    for result in by_size(results):
        one, reaction = entries(result)[OURS], result.figures["reaction"]
        times = (
            one["lost_a_node_median"],
            one["lost_a_node_most"],
            reaction["median_seconds"],
            reaction["p99_seconds"],
        )
        took = f"{result.figures['upgrade_seconds']:,.0f} s"
        rows.append((fleet(result), *(f"{value:.2f} s" for value in times), took, f"`{result.command}`"))
    return markdown(head, rows)


def played(results: Sequence[Result]) -> list[str]:
    """Return the times of the simulated fleets."""
    head = ("fleet", "the controller looks again after", "unload", "load", "to Ready")
    keys = ("requeue", "unload", "install", "gap")
    rows = [(fleet(one), *(f"{one.given[key]:g} s" for key in keys)) for one in by_size(results)]
    rows.append(("in reality, about", "120 s", "5 to 60 s", "30 to 300 s", "up to 70 s"))
    return markdown(head, rows)


def computed(results: Sequence[Result]) -> list[str]:
    """Compute what the real two minutes a node make of it."""
    own = REAL_GAP + max(entries(one)[OURS]["lost_a_node_median"] - one.given["gap"] for one in results)
    rows = []
    for nodes, parallel in COMPUTED_FLEETS:
        times = Times(nodes, parallel, REAL_TURN, REAL_LAG, own)
        at_once = times.served_at_once
        late = (
            f"{number(lost)} ({lost / at_once:,.0f} {TIMES})"
            for lost in (times.served_by_label, times.served_at_the_end)
        )
        minutes = f"{times.turns * REAL_TURN / MINUTE:,.0f} min"
        rows.append((fleet_of(nodes, parallel), minutes, number(at_once), *late))
    late_ones = f"{LABELS.name}, {ORIGINAL.name}, {NOTHING.name}"
    return markdown(("computed, node-seconds", "the upgrade takes", OURS, PODS.name, late_ones), rows)


def checked(results: Sequence[Result]) -> list[str]:
    """Hold the same sums against what was measured, with each run's own times."""
    rows = []
    for result in by_size(results):
        found = entries(result)
        turns = -(-result.given["nodes"] // result.given["parallel"])
        if turns == 1:
            continue
        own, late = found[OURS]["lost_a_node_median"], found[PODS.name]["lost_a_node_median"]
        turn = result.figures["upgrade_seconds"] / turns
        times = Times(result.given["nodes"], result.given["parallel"], turn, late - own, own)
        measured = found[LABELS.name]["lost_node_seconds"]
        computed_one = times.served_at_the_end
        rows.append((fleet(result), number(computed_one), number(measured), f"{computed_one / measured:.2f}"))
    return markdown((f"{LABELS.name}, node-seconds", "computed", "measured", "ratio"), rows)


def reaction(result: Result) -> list[str]:
    """Return how soon a stale plugin is deleted on a large fleet."""
    found = result.figures["reaction"]
    head = ("nodes", "changing at once", "deletions", "median", "p90", "p99", "the most", "command")
    times = (f"{found[f'{name}_seconds']:.2f} s" for name in ("median", "p90", "p99", "most"))
    cells = (str(result.given["nodes"]), str(result.given["parallel"]), str(found["deletions"]))
    return markdown(head, [(*cells, *times, f"`{result.command}`")])


def verdict(result: Result) -> str:
    """Hold a reaction against its goal."""
    found = result.figures["reaction"]
    names = {"median": "the median", "p90": "p90", "p99": "p99", "most": "the slowest"}
    met = [words for key, words in names.items() if found[f"{key}_seconds"] < GOAL_SECONDS]
    missed = [words for key, words in names.items() if found[f"{key}_seconds"] >= GOAL_SECONDS]
    parts = [f"met by {', '.join(met)}"] * bool(met) + [f"missed by {', '.join(missed)}"] * bool(missed)
    return f"The goal of {GOAL_SECONDS:g} s is {' and '.join(parts)}."


def api_server(result: Result) -> list[str]:
    """Return what each way cost the API server."""
    rows = []
    for name, one in entries(result).items():
        if found := one.get("api_server"):
            verbs = ", ".join(f"{count} {verb}" for verb, count in found["requests_by_verb"].items() if count > 0)
            size = f"{found['bytes'] / MIB:.1f} MiB"
            rows.append((name, f"{one['seconds']:.0f} s", f"{found['cpu_seconds']:.1f} s", size, verbs))
    return markdown((fleet(result), "it ran", "CPU of the API server", "sent to it", "requests"), rows)


def plain(results: Sequence[Result]) -> Iterator[str]:
    """Show measures whose figures speak for themselves: a row each."""
    keys = list(dict.fromkeys(key for one in results for key in one.figures))
    head = (*results[0].given, *(key.replace("_", " ") for key in keys), "command")
    rows = []
    for one in results:
        figures = (_plain(key, one.figures.get(key, "")) for key in keys)
        rows.append((*(str(value) for value in one.given.values()), *figures, f"`{one.command}`"))
    yield from markdown([_unitless(word) for word in head], rows)


def number(value: float) -> str:
    """Write a figure with as many digits as matter."""
    return f"{value:,.0f}" if value >= THOUSAND / 10 else f"{value:.1f}"


def _unitless(word: str) -> str:
    """Take the unit out of a column's name where the cells carry it."""
    return word.removesuffix(" seconds").removesuffix(" bytes")


def _plain(key: str, value: Any) -> str:  # noqa: ANN401 - JSON holds anything
    """Write a figure with the unit that its key names."""
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items())
    if value is None:
        return "not measured"
    if isinstance(value, str):
        return value
    if key.endswith("bytes"):
        return f"{value / MIB:,.1f} MiB" if value >= MIB else f"{value / KIB:,.1f} KiB"
    return f"{value:.2f} s" if key.endswith("seconds") else f"{value:,}"
