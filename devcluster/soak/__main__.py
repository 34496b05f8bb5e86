"""``python -m devcluster.soak``: upgrade a simulated fleet over and over, with faults; exit 1 on a broken promise.

First runs of the Job refresh the fleet, then a controller does, in as many cycles each. The last line is the report.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from devcluster.boot.cluster import Cluster
from devcluster.soak import plan
from devcluster.soak.soak import ControllerSoak, JobSoak
from devcluster.soak.stage import Stage


def main() -> None:
    """Soak one cluster."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.soak", description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--cycles", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1, help="draws the same cycles again")
    parser.add_argument("--evidence", type=Path, help="keep logs and journals here")
    options = parser.parse_args()
    reports: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="gpu-operator-post-soak-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        with cluster:
            try:
                cluster.up(nodes=options.nodes, fleet=True)
                stage = Stage(cluster, options.nodes)
                stage.install(120 + 3 * options.nodes)
                for name, soak in (("job", JobSoak), ("controller", ControllerSoak)):
                    cycles = plan.draw(options.cycles, options.nodes, options.seed)
                    reports[name] = soak(stage, _say).run(cycles).report(time.time())
            finally:
                if options.evidence is not None:
                    cluster.save_evidence(options.evidence)
    _say(json.dumps({"nodes": options.nodes, "cycles": options.cycles, "seed": options.seed, **reports}))
    sys.exit(1 if any(report["broken"] for report in reports.values()) else 0)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - progress and the result


if __name__ == "__main__":
    main()
