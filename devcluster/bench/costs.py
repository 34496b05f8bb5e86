"""What the program costs on a fleet at rest: a run with nothing to do, and a controller.

The program runs as in a pod, against an API server without other clients: requests and bytes are that server's own
counts. Memory is the peak of the process alone (``ru_maxrss`` of a small launcher's child), not of a container.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from devcluster.bench import atrest, pod
from devcluster.bench.busy import Busy, unready
from devcluster.bench.figures import MIB, OURS
from devcluster.bench.resting import Rest
from devcluster.boot import etcd
from devcluster.boot.ports import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.bench.figures import Found
    from devcluster.bench.servers import OwnServer
    from devcluster.boot.cluster import Cluster

WARM_SECONDS: Final = 60.0
"""Until a program has read everything and logged that; measuring begins then."""
WARM_NODES: Final = 1000
"""Smaller fleets are read in a tenth of that time."""
RUNS: Final = 3
"""The median of so many runs counts."""
MINUTES: Final = 5.0
"""How long a controller is measured."""
QUIET: Final = ("advanced.operatorQuiet=0s", "advanced.unknownOperatorQuiet=0s")
"""The work is measured, not how long a run continues to look at an operator, of which there is none here."""
LEADING: Final = "leading: the Lease"
"""What a controller logs once it leads; a standby costs nothing."""


def warm_seconds(nodes: int) -> float:
    """Return how long a program has for reading the fleet."""
    return WARM_SECONDS if nodes > WARM_NODES else WARM_SECONDS / 10


def nothing_to_do(cluster: Cluster, nodes: int, folder: Path) -> Found:
    """Measure a run that finds every plugin fresh."""
    rest = Rest(cluster, nodes, folder)
    rest.prepare()
    server = rest.server("no-op")
    server.rest()
    runs = [_run(rest, server) for _run_number in range(RUNS)]
    return {OURS: {figure: round(statistics.median(run[figure] for run in runs), 2) for figure in runs[0]}}


def _run(rest: Rest, server: OwnServer) -> dict[str, float]:
    server.begin()
    done = rest.start(server, "no-op", "run", "--timeout=10m", *QUIET).spent()
    used = server.spent()
    if done["exit_code"] != 0 or "NothingStale" not in done["said"]:
        raise SystemExit(f"this was no run with nothing to do:\n{done['said']}")
    return {
        "time (s)": done["wall_seconds"],
        "CPU (s)": done["cpu_seconds"],
        "peak memory (MiB)": done["peak_bytes"] / MIB,
        "requests": used.requests,
        "received (MiB)": used.bytes / MIB,
        "CPU of the API server (s)": used.cpu_seconds,
    }


def controller(cluster: Cluster, nodes: int, folder: Path) -> Found:
    """Measure a controller of a busy fleet, once it has read everything."""
    rest = Rest(cluster, nodes, folder)
    rest.prepare()
    etcd.put(cluster.files, unready())
    server = rest.server("controller")
    (port,) = free_ports(1)
    where = [f"--release-namespace={atrest.OPERATOR}", f"--listen=127.0.0.1:{port}"]
    with Busy(cluster.files, nodes) as busy:
        running = rest.start(server, "controller", "controller", "--identity=bench", *where)
        pid = running.pid()
        time.sleep(warm_seconds(nodes))
        server.begin()
        changes, cpu = busy.changes, pod.cpu(pid)
        time.sleep(MINUTES * 60)
        used = server.spent()
        changes, cpu, memory = busy.changes - changes, pod.cpu(pid) - cpu, pod.resident(pid)
    running.process.terminate()
    done = running.spent()
    if LEADING not in done["said"]:
        raise SystemExit(f"this controller did not lead:\n{done['said']}")
    found = {
        "CPU (s/min)": cpu / MINUTES,
        # Two of the kernel's counts, which differ by what is not yet summed up.
        "peak memory (MiB)": max(done["peak_bytes"], memory) / MIB,
        "requests (1/min)": used.requests / MINUTES,
        "received (MiB/min)": used.bytes / MIB / MINUTES,
        "changes (1/s)": changes / (MINUTES * 60),
        "changes late by at most (s)": busy.late_seconds,
    }
    return {OURS: {figure: round(value, 2) for figure, value in found.items()}}
