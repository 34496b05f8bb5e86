"""``python -m devcluster.demo``: watch a driver upgrade of the simulated fleet."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from devcluster.boot.cluster import Cluster
from devcluster.demo.simulated import MODES, Demo, finish, run
from devcluster.demo.view import Show


def main() -> None:
    """Run the demo; the last line is for machines."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.demo", description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--mode", choices=MODES, default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpu-operator-post-demo-") as folder, Show(time.time()) as show:
        cluster = Cluster(Path(folder) / "cluster")
        verdict = run(Demo(cluster, options.nodes, show, mode=options.mode))
    finish(verdict)


if __name__ == "__main__":
    main()
