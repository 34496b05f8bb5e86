"""What the program costs on a fleet at rest: a run with nothing to do, and a controller.

The API server has no other clients: requests and bytes are its own counts. Memory is the peak of the process alone,
not of a container.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from devcluster.bench import atrest
from devcluster.bench.busy import keep_busy, unready
from devcluster.bench.figures import MIB, OURS
from devcluster.bench.resting import RestingFleet
from devcluster.boot import etcd
from devcluster.boot.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.bench.figures import Found

RUNS: Final = 3
"""The median of so many runs counts."""
WARM_SECONDS: Final = 60
"""Until a controller has read everything; measuring begins then."""
MINUTES: Final = 5
"""How long a controller is measured."""
QUIET: Final = ("advanced.operatorQuiet=0s", "advanced.unknownOperatorQuiet=0s")
"""The work is measured, not how long a run continues to look at an operator, of which there is none here."""
LEADING: Final = "leading: the Lease"
"""What a controller logs once it leads; a standby costs nothing."""


def nothing_to_do(folder: Path, nodes: int) -> Found:
    """Measure a run that finds every plugin fresh."""
    with Cluster(folder) as cluster:
        fleet = RestingFleet(cluster, nodes)
        runs = [_run(fleet) for _ in range(RUNS)]
    return {OURS: {figure: round(statistics.median(run[figure] for run in runs), 2) for figure in runs[0]}}


def _run(fleet: RestingFleet) -> dict[str, float]:
    before = fleet.usage()
    program = fleet.start("run", "--timeout=10m", *QUIET)
    code = program.wait()
    used = fleet.usage() - before
    if code != 0 or "NothingStale" not in program.said:
        raise SystemExit(f"this was no run with nothing to do:\n{program.said}")
    return {
        "time (s)": program.wall_seconds,
        "CPU (s)": program.cpu_seconds,
        "peak memory (MiB)": program.peak_bytes / MIB,
        "requests": used.requests,
        "received (MiB)": used.bytes / MIB,
        "CPU of the API server (s)": used.cpu_seconds,
    }


def controller(folder: Path, nodes: int) -> Found:
    """Measure a controller of a busy fleet, once it has read everything."""
    with Cluster(folder) as cluster:
        fleet = RestingFleet(cluster, nodes)
        etcd.put(cluster.files, unready())
        where = (f"--release-namespace={atrest.OPERATOR}", "--listen=127.0.0.1:0")
        program = fleet.start("controller", "--identity=bench", *where)
        keep_busy(cluster.files, nodes, range(1, WARM_SECONDS + 1))
        program.look()
        before, computed = fleet.usage(), program.cpu_seconds
        changes, late = keep_busy(cluster.files, nodes, range(WARM_SECONDS + 1, WARM_SECONDS + MINUTES * 60 + 1))
        program.look()
        used = fleet.usage() - before
        program.stop()
        if LEADING not in program.said:
            raise SystemExit(f"this controller did not lead:\n{program.said}")
    found = {
        "CPU (s/min)": (program.cpu_seconds - computed) / MINUTES,
        "peak memory (MiB)": program.peak_bytes / MIB,
        "requests (1/min)": used.requests / MINUTES,
        "received (MiB/min)": used.bytes / MIB / MINUTES,
        "changes (1/s)": changes / (MINUTES * 60),
        "changes late by at most (s)": late,
    }
    return {OURS: {figure: round(value, 2) for figure, value in found.items()}}
