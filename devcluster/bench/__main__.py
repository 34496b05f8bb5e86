"""``python -m devcluster.bench``: compare this program with what people use instead, and measure what it costs.

With the name of a measure: that one. With ``--nodes`` and its like: a comparison of your own. Without anything:
everything that docs/performance.md shows, measure by measure.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from devcluster.bench import cost, matrix
from devcluster.bench.ledger import table
from devcluster.bench.peers import PEERS
from devcluster.bench.plots import MODES, PLOTS, Plot
from devcluster.bench.results import FOLDER, Result
from devcluster.bench.scene import Scene
from devcluster.cluster import Cluster

OWN, UPGRADE = "own", "upgrade"
"""The name of a comparison that is given by its numbers, and the kind of the page's comparisons."""


def main() -> None:
    """Run what was asked for."""
    given = _arguments()
    if given.nodes is not None:
        peers = () if given.alone else PEERS
        plot = Plot(
            given.nodes,
            given.parallel,
            given.requeue,
            given.install,
            peers=peers,
            own_servers=given.servers,
            behaviour=given.behaviour,
            mode=given.mode,
        )
        play(OWN, plot, given.out)
    elif given.name in cost.NAMES:
        cost.main([given.name, f"--out={given.out}"])
    elif given.name is not None:
        play(given.name, PLOTS[given.name], given.out)
    else:
        sys.exit(matrix.run(given.out))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devcluster.bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*PLOTS, *cost.NAMES], help="one measure of the page")
    parser.add_argument("--out", type=Path, default=FOLDER, help="write figures into this folder, a file per measure")
    own = parser.add_argument_group("a comparison of your own")
    own.add_argument("--nodes", type=int)
    own.add_argument("--parallel", type=int, default=1)
    own.add_argument("--requeue", type=float, default=6.0, help="seconds after which the upgrade controller looks")
    own.add_argument("--install", type=float, default=2.0, help="seconds for a driver to load")
    own.add_argument("--alone", action="store_true", help="only this program")
    own.add_argument("--servers", action="store_true", help="an API server of its own for each approach")
    own.add_argument(
        "--mode", choices=MODES, default="", help="compute-domains: the plugin publishes no driver version"
    )
    own.add_argument("--behaviour", choices=("26.3", "26.7"), default="26.3", help="of the operator's policy status")
    return parser.parse_args()


def play(name: str, plot: Plot, out: Path) -> None:
    """Play one comparison: a table for people, and its figures into a file."""
    began = time.monotonic()
    prefix = "gpu-operator-post-bench-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, Cluster(Path(folder) / "cluster") as cluster:
        scene = Scene(cluster, plot, plot.peers, lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True))  # noqa: T201
        scene.prepare()
        played = scene.compare()
        sizes = scene.sizes()
    figures = {
        "upgrade_seconds": round(played.seconds, 1),
        "entries": [entry.as_json() for entry in played.entries],
        "reaction": played.reactions.as_json(),
        "object_bytes": sizes,
    }
    print("\n".join(table(played.entries, plot.nodes)))  # noqa: T201 - this is the command's result
    seconds = round(time.monotonic() - began)
    command = f"make bench BENCH={name}" if name in PLOTS else f"make bench BENCH='{' '.join(sys.argv[1:])}'"
    measure = UPGRADE if name.startswith(UPGRADE) else name
    Result(name, measure, command, seconds, plot.as_json(), figures).write(out)


if __name__ == "__main__":
    main()
