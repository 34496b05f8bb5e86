"""Measure what the program's pages and its decoder save, and where the rest goes: ``python -m tools.profiling``.

Every run finds nothing to do on the same fleet at rest, as in ``make bench BENCH=no-op-1000``, one after the other, in
turn; only such runs compare. Prints the tables of docs/dev/performance-profile.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench import pod
from devcluster.bench.costs import QUIET
from devcluster.bench.figures import MIB, markdown
from devcluster.bench.resting import Rest
from devcluster.boot.cluster import Cluster
from devcluster.settings import separated
from tools.profiling.child import FOUND, MOUNT
from tools.profiling.typed import READ, TYPED
from tools.profiling.variants import AS_IT_IS, NAMES
from tools.profiling.watching import WATCHES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHILD: Final = "tools.profiling.child"
VARIANTS: Final = (*NAMES, TYPED)
NODES: Final = 1000
TURNS: Final = 3


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.profiling", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*VARIANTS, []], help="some of the variants, else all")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--turns", type=int, default=TURNS, help="runs of each; the median counts")
    given = parser.parse_args()
    names = given.name or VARIANTS
    with tempfile.TemporaryDirectory(prefix="gpu-operator-post-profile-") as name:
        folder = Path(name)
        with Cluster(folder / "cluster") as cluster:
            rest = Rest(cluster, given.nodes, folder)
            rest.prepare()
            bench = Bench(rest.server("profile").url, folder)
            bench.run(AS_IT_IS)  # The first one writes bytecode, and finds an API server that has cached nothing.
            runs = [(each, bench.run(each)) for _turn in range(given.turns) for each in names]
            found = {each: [one for name, one in runs if name == each] for each in names}
            watched = {each: (bench.run(each), bench.found())[1] for each in WATCHES}
    sys.stdout.writelines(f"{line}\n" for line in report(given.nodes, found, watched))


class Bench:
    """Runs of the program against one API server."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder

    def run(self, name: str) -> Mapping[str, Any]:
        """Let it run to its end; return what it spent."""
        flags = [f"--service-account-dir={self._folder / MOUNT}", "--timeout=10m"]
        command = [sys.executable, "-m", CHILD, name, str(self._folder), "run", *flags]
        variables = {**pod.environment(self._url), **separated(QUIET)[1]}
        done = pod.launch(command, self._folder / "spent.json", variables).spent()
        if done["exit_code"] != 0 or (READ if name == TYPED else "NothingStale") not in done["said"]:
            raise SystemExit(f"{name}: this was no run with nothing to do:\n{done['said']}")
        print(f"{name}: {done['cpu_seconds']} s, {done['peak_bytes'] / MIB:.1f} MiB", file=sys.stderr)  # noqa: T201 - progress
        return done

    def found(self) -> list[dict[str, Any]]:
        """Return what a watch found in the last run."""
        found: list[dict[str, Any]] = json.loads((self._folder / FOUND).read_text())
        return found


def report(
    nodes: int, runs: Mapping[str, Sequence[Mapping[str, Any]]], watched: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Iterator[str]:
    """Yield the tables."""
    rows = []
    for name, done in runs.items():
        cpu, peak = (statistics.median(one[key] for one in done) for key in ("cpu_seconds", "peak_bytes"))
        rows.append((name, f"{cpu:.2f} s", f"{peak / MIB:.1f} MiB"))
    yield from markdown((f"{nodes} nodes", "CPU", "peak of the process"), rows)
    yield ""
    times = ((f"`{one['where']}`", f"{one['itself']:.0%}", f"{one['with_callees']:.0%}") for one in watched["time"])
    yield from markdown(("function", "itself", "with what it calls"), times)
    yield ""
    sizes = ((f"`{one['where']}`", f"{one['bytes'] / MIB:.2f} MiB") for one in watched["memory"])
    yield from markdown(("line", "holds at the peak"), sizes)


if __name__ == "__main__":
    main()
