"""The page's tables. Pure: results in, Markdown out; no figure is anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from devcluster.bench import goals as wanted
from devcluster.bench.computed import HOURS, REAL_GAP, REAL_LAG, REAL_MINUTES, REAL_TURN, Times, at_real_times, hours
from devcluster.bench.peers import LABELS, NOTHING, ORIGINAL, OURS, PODS, TITLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from devcluster.bench.results import Result

HEADLINE: Final = "upgrade-100-1"
"""What the README shows."""
COMPUTED_FLEETS: Final = ((8, 1), (100, 1), (100, 10), (500, 1), (500, 10))
GOAL_SECONDS: Final = 1.0
"""From a ready driver to the deletion of the stale plugin, at the median and at p99."""
TIMES: Final = "\N{MULTIPLICATION SIGN}"
MISSING: Final = "not measured"
COSTS: Final = ("CPU", "sent")
MINUTE, KIB, MIB, THOUSAND = 60.0, 2.0**10, 2.0**20, 1000


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table."""
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def fleet(result: Result) -> str:
    """Name a comparison for people."""
    named = fleet_of(result.given["nodes"], result.given["parallel"])
    version = result.given.get("behaviour", "26.3")
    return named if version == "26.3" else f"{named}, {version}"


def fleet_of(nodes: int, parallel: int) -> str:
    """Name a fleet and its limit."""
    return f"{nodes} nodes, {'one by one' if parallel == 1 else f'{parallel} at once'}"


def by_size(results: Iterable[Result]) -> list[Result]:
    """Sort comparisons by their fleets."""
    return sorted(results, key=lambda result: (result.given["nodes"], result.given["parallel"], result.name))


def entries(result: Result) -> dict[str, dict[str, Any]]:
    """Return the accounts by approach, ours first."""
    return {entry["name"]: entry for entry in result.figures["entries"]}


def approaches(results: Iterable[Result]) -> list[str]:
    """Name the approaches that were measured on any fleet, ours first."""
    known = {name for result in results for name in entries(result)}
    return [name for name in TITLES if name in known]


def goals(results: Sequence[Result]) -> list[str]:
    """Compare what was measured with the goals."""
    head = ("measure", "measured", "goal", "", "what limits it", "measurement")
    return markdown(head, wanted.rows(results))


def headline(result: Result, names: Iterable[str]) -> list[str]:
    """Compare this program with some of the approaches."""
    ours = entries(result)[OURS]["stale_node_seconds"]
    rows = [
        (
            TITLES[name],
            number(entry["stale_node_seconds"]),
            "" if name == OURS else _times(entry["stale_node_seconds"], ours),
            str(entry["stale_left"]),
            str(entry["needless"]),
        )
        for name, entry in ((name, entries(result)[name]) for name in names)
    ]
    return markdown(("", "stale node-seconds", "times as much", "plugins left stale", "fresh plugins restarted"), rows)


def stale(results: Sequence[Result]) -> list[str]:
    """Compare the stale node-seconds of each approach on each fleet."""
    names, rows = approaches(results), []
    for result in by_size(results):
        found = entries(result)
        ours = found[OURS]["stale_node_seconds"]
        cells = [_against(found[name]["stale_node_seconds"], ours) if name in found else MISSING for name in names[1:]]
        rows.append((fleet(result), number(ours), *cells))
    return markdown(("stale node-seconds", *names), rows)


def _against(value: float, ours: float) -> str:
    return f"{number(value)} ({_times(value, ours)})"


def _times(value: float, ours: float) -> str:
    ratio = value / ours
    return f"{ratio:,.0f} {TIMES}" if ratio >= 1 else f"{ratio:.1f} {TIMES}"


def left(results: Sequence[Result]) -> list[str]:
    """Return what each approach leaves stale, and which of its restarts were wrong."""
    names, rows = approaches(results), []
    for result in by_size(results):
        found = entries(result)
        cells = (
            f"{found[name]['stale_left']}; {found[name]['early']}; {found[name]['needless']}"
            if name in found
            else MISSING
            for name in names
        )
        rows.append((fleet(result), *cells))
    return markdown(("left stale; restarted too early; restarted while fresh", *names), rows)


def ours(results: Sequence[Result]) -> list[str]:
    """Return the stale seconds per node with ours, and where they went, by the size of the fleet."""
    head = ("fleet", "stale per node: median", "most", "driver's own time to Ready", "reaction", "plugin's start")
    rows = []
    for result in by_size(results):
        entry, nodes = entries(result)[OURS], result.given["nodes"]
        parts = entry.get("split", {})
        split = (
            f"{parts[key] / nodes:.2f} s" if parts else MISSING for key in ("driver_ready", "reaction", "plugin_start")
        )
        times = (f"{entry[f'stale_per_node_{key}']:.2f} s" for key in ("median", "most"))
        rows.append((fleet(result), *times, *split, *_upgrade(result)))
    return markdown((*head, "reaction: median", "p99", "the upgrade took", "measurement"), rows)


def _upgrade(result: Result) -> Iterator[str]:
    reaction = result.figures["reaction"]
    yield from (f"{reaction[key]:.2f} s" for key in ("median_seconds", "p99_seconds"))
    yield f"{result.figures['upgrade_seconds']:,.0f} s"
    yield f"`{result.name}`"


def played(results: Sequence[Result]) -> list[str]:
    """Return the times of the simulated fleets."""
    head = ("fleet", "the controller looks again after", "unload", "load", "to Ready")
    keys = ("requeue", "unload", "install", "gap")
    rows = [(fleet(result), *(f"{result.given[key]:g} s" for key in keys)) for result in by_size(results)]
    rows.append(("in reality, about", "120 s", "5 to 60 s", "30 to 300 s", "up to 70 s"))
    return markdown(head, rows)


def computed(results: Sequence[Result]) -> list[str]:
    """Compute the same for the real two minutes per node."""
    own = REAL_GAP + max(entries(result)[OURS]["stale_per_node_median"] - result.given["gap"] for result in results)
    rows = []
    for nodes, parallel in COMPUTED_FLEETS:
        times = Times(nodes, parallel, REAL_TURN, REAL_LAG, own)
        at_once = times.restarted_at_once
        late = (_against(value, at_once) for value in (times.restarted_by_label, times.restarted_at_the_end))
        minutes = f"{times.turns * REAL_TURN / MINUTE:,.0f} min"
        rows.append((fleet_of(nodes, parallel), minutes, number(at_once), *late))
    late_ones = f"{LABELS.name}, {ORIGINAL.name}, {NOTHING.name}"
    return markdown(("computed, node-seconds", "the upgrade takes", OURS, PODS.name, late_ones), rows)


def checked(results: Sequence[Result]) -> list[str]:
    """Compare the same sums with what was measured, with the times of each run."""
    rows = []
    for result in by_size(results):
        found = entries(result)
        turns = -(-result.given["nodes"] // result.given["parallel"])
        if turns == 1:
            continue
        own, late = found[OURS]["stale_per_node_median"], found[PODS.name]["stale_per_node_median"]
        turn = result.figures["upgrade_seconds"] / turns
        times = Times(result.given["nodes"], result.given["parallel"], turn, late - own, own)
        measured = found[LABELS.name]["stale_node_seconds"]
        expected = times.restarted_at_the_end
        rows.append((fleet(result), number(expected), number(measured), f"{expected / measured:.2f}"))
    return markdown((f"{LABELS.name}, node-seconds", "computed", "measured", "ratio"), rows)


def reaction(result: Result) -> list[str]:
    """Return how soon a stale plugin is deleted on a large fleet."""
    found = result.figures["reaction"]
    head = ("nodes", "changing at once", "deletions", "median", "p90", "p99", "the most", "measurement")
    times = (f"{found[f'{name}_seconds']:.2f} s" for name in ("median", "p90", "p99", "most"))
    cells = (str(result.given["nodes"]), str(result.given["parallel"]), str(found["deletions"]))
    return markdown(head, [(*cells, *times, f"`{result.name}`")])


def verdict(result: Result) -> str:
    """Compare a reaction with its goal."""
    found = result.figures["reaction"]
    names = {"median": "the median", "p90": "p90", "p99": "p99", "most": "the slowest"}
    met = [words for key, words in names.items() if found[f"{key}_seconds"] < GOAL_SECONDS]
    missed = [words for key, words in names.items() if found[f"{key}_seconds"] >= GOAL_SECONDS]
    parts = [f"met by {', '.join(met)}"] * bool(met) + [f"missed by {', '.join(missed)}"] * bool(missed)
    return f"The goal of {GOAL_SECONDS:g} s is {' and '.join(parts)}."


def api_server(result: Result) -> list[str]:
    """Return what each approach cost the API server."""
    rows = []
    for name, one in entries(result).items():
        if found := one.get("api_server"):
            verbs = ", ".join(f"{count} {verb}" for verb, count in found["requests_by_verb"].items() if count > 0)
            size = f"{found['bytes'] / MIB:.1f} MiB"
            looks = found["requests_by_verb"].get("LIST", 0) / one["seconds"] * MINUTE
            cpu, sent = at_real_times(one, "cpu_seconds"), at_real_times(one, "bytes") / MIB
            computed = f"{cpu:.1f} s, {sent:.1f} MiB"
            times = f"{one['seconds']:.0f} s", f"{found['cpu_seconds']:.1f} s"
            rows.append((name, *times, size, verbs, f"{looks:.0f}", computed))
    head = ("it ran", "CPU of the API server", "sent to it", "requests", "lists per minute")
    table = markdown((fleet(result), *head, f"computed: the same in {REAL_MINUTES} minutes"), rows)
    if sizes := result.figures.get("object_bytes"):
        shown = (f"a {kind} has {_plain('bytes', size)}" for kind, size in sizes.items())
        table += ["", f"Here {', '.join(shown)}."]
    return table


def two_hours(result: Result) -> list[str]:
    """Return what a minute costs the API server, and compute a whole upgrade."""
    head = ("", "CPU per minute", "sent per minute", "requests per minute", *(f"{HOURS} h: {key}" for key in COSTS))
    rows = []
    for name, entry in entries(result).items():
        minute = (f"{entry['cpu_seconds_a_minute']:.2f} s", _plain("bytes", entry["bytes_a_minute"]))
        cpu, size = hours(result.figures, name, "cpu_seconds"), hours(result.figures, name, "bytes")
        cells = (*minute, f"{entry['requests_a_minute']:,.0f}", f"{cpu:,.0f} s", _plain("bytes", size))
        rows.append((name, *cells))
    return markdown(head, rows)


def plain(results: Sequence[Result]) -> Iterator[str]:
    """Show measures whose figures speak for themselves: a row each."""
    keys = list(dict.fromkeys(key for one in results for key in one.figures))
    head = (*results[0].given, *(key.replace("_", " ") for key in keys), "measurement")
    rows = []
    for one in results:
        figures = (_plain(key, one.figures.get(key, "")) for key in keys)
        rows.append((*(str(value) for value in one.given.values()), *figures, f"`{one.name}`"))
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
