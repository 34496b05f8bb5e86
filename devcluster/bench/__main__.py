"""``python -m devcluster.bench``: compare our hook with what people would use instead; a table, and JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from devcluster.bench.ledger import table
from devcluster.bench.peers import PEERS
from devcluster.bench.scene import Plot, Scene
from devcluster.cluster import Cluster


def main() -> None:
    """Run one comparison."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.bench", description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--requeue", type=float, default=6.0, help="seconds after which the upgrade controller looks")
    parser.add_argument("--install", type=float, default=2.0, help="seconds for a driver to load")
    parser.add_argument("--json", type=Path, help="append the figures to this file, a line a run")
    given = parser.parse_args()
    plot = Plot(given.nodes, given.parallel, given.requeue, given.install)
    prefix = "gpu-operator-post-bench-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, Cluster(Path(folder) / "cluster") as cluster:
        scene = Scene(cluster, plot, PEERS, lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201
        scene.prepare()
        entries = scene.compare()
    print("\n".join(table(entries, plot.nodes)))  # noqa: T201 - this is the command's result
    if given.json:
        run = {"nodes": plot.nodes, "parallel": plot.parallel, "entries": [one.as_json() for one in entries]}
        with given.json.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
