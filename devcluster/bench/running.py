"""What the program costs on a fleet at rest: with nothing to do, while it waits, as a controller, and with claims."""

from __future__ import annotations

import shutil
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

from devcluster import etcd
from devcluster.bench import atrest, pod
from devcluster.bench.busy import UPGRADING, Busy, unready
from devcluster.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.bench.resting import Rest
    from devcluster.bench.servers import OwnServer

WARM_SECONDS: Final = 60.0
"""Until a program has read everything and logged that; measuring begins then."""
WARM_NODES: Final = 1000
"""Smaller fleets are read in a tenth of that time."""
RUNS: Final = 3
"""The median of so many runs counts."""
QUIET: Final = ("advanced.operatorQuiet=0s", "advanced.unknownOperatorQuiet=0s")
"""The work is measured, not how long a run continues to look at an operator, of which there is none here."""
LEADING: Final = "leading: the Lease"
"""What a controller logs once it leads; a standby costs nothing."""
CLAIMS_PER_NODE: Final = 4
CLAIM_BYTES: Final = 300
"""An API server sends no smaller claim: less than that of each shows that the program did not read all."""
KUBECTL_NODES: Final = 5000
"""kubectl needs 3 GB for the pods of so many nodes. Larger fleets are measured without it."""


def warm_seconds(nodes: int) -> float:
    """Return how long a program has for reading the fleet."""
    return WARM_SECONDS if nodes > WARM_NODES else WARM_SECONDS / 10


def waiting() -> list[str]:
    """Spell the arguments of a run that waits without end for drivers that are not ready."""
    return ["run", "--timeout=4h"]


def controlling() -> list[str]:
    """Spell the arguments of a controller."""
    (port,) = free_ports(1)
    where = [f"--release-namespace={atrest.OPERATOR}", f"--listen=127.0.0.1:{port}"]
    return ["controller", "--identity=bench", *where]


def nothing_to_do(rest: Rest) -> dict[str, Any]:
    """Measure a run that finds nothing to do, and kubectl reading the same pods."""
    server = rest.server("no-op")
    server.rest()
    runs = [_no_op(rest, server) for _run in range(RUNS)]
    compared = _kubectl(rest, server) if rest.nodes <= KUBECTL_NODES else None
    server.stop()
    found = {key: statistics.median(run[key] for run in runs) for key in runs[0] if key != "requests_by_verb"}
    return {
        **found,
        "requests_by_verb": runs[0]["requests_by_verb"],
        "cpu_most_seconds": max(run["cpu_seconds"] for run in runs),
        "peak_most_bytes": max(run["peak_bytes"] for run in runs),
        "kubectl_get_pods_peak_bytes": compared,
    }


def _no_op(rest: Rest, server: OwnServer) -> dict[str, Any]:
    """Measure one run."""
    server.begin()
    done = rest.start(server, "no-op", "run", "--timeout=10m", *QUIET).spent()
    used = server.spent().as_json()
    if done["exit_code"] != 0 or "NothingStale" not in done["said"]:
        raise SystemExit(f"this was no run with nothing to do:\n{done['said']}")
    return {
        "wall_seconds": done["wall_seconds"],
        "cpu_seconds": done["cpu_seconds"],
        "peak_bytes": done["peak_bytes"],
        "requests": used["requests"],
        "requests_by_verb": used["requests_by_verb"],
        "received_bytes": used["bytes"],
        "api_server_cpu_seconds": used["cpu_seconds"],
    }


def _kubectl(rest: Rest, server: OwnServer) -> int:
    """Return the memory that kubectl takes to list the fleet's pods as objects."""
    target = rest.folder / "pods.json"
    kubectl = shutil.which(str(rest.cluster.binary("kubectl"))) or "kubectl"
    listing = f'exec "{kubectl}" get pods -A -o json "--kubeconfig={server.kubeconfig}" > "{target}"'
    done = pod.launch(["/bin/sh", "-c", listing], rest.folder / "kubectl.json", pod.environment(server.url)).spent()
    target.unlink()
    return int(done["peak_bytes"])


def wait(rest: Rest, minutes: float, *, controller: bool) -> dict[str, Any]:
    """Measure a run that waits for a busy fleet, or a controller of it, once it has read everything."""
    etcd.put(rest.cluster.files, unready())
    name = "controller" if controller else "waiting"
    server = rest.server(name)
    with Busy(rest.cluster.files, rest.nodes) as busy:
        running = rest.start(server, name, *(controlling() if controller else waiting()))
        pid, warm = running.pid(), warm_seconds(rest.nodes)
        time.sleep(warm)
        server.begin()
        before, cpu, memory = busy.changes, pod.cpu(pid), pod.resident(pid)
        time.sleep(minutes * 60)
        used, memories = server.spent().as_json(), (memory, pod.resident(pid))
        cpu, changes = pod.cpu(pid) - cpu, busy.changes - before
    done = _ended(running, controller=controller)
    server.stop()
    etcd.put(rest.cluster.files, (atrest.driver_pod(number) for number in range(UPGRADING)))
    return {
        "requests_a_minute": round(used["requests"] / minutes, 1),
        "requests_by_verb": used["requests_by_verb"],
        "full_lists": used["requests_by_verb"].get("LIST", 0),
        "received_bytes": used["bytes"],
        "cpu_seconds_a_minute": round(cpu / minutes, 2),
        "memory_at_the_start_bytes": memories[0],
        "memory_at_the_end_bytes": memories[1],
        # Two of the kernel's counts, which differ by what is not yet summed up.
        "peak_bytes": max(done["peak_bytes"], *memories),
        "changes_a_second": round(changes / (minutes * 60), 1),
        "changes_late_seconds": round(busy.late_seconds, 1),
    }


def affected(rest: Rest) -> dict[str, Any]:
    """Measure the memory of a run and of a controller where claims and their pods are read, too."""
    count = CLAIMS_PER_NODE * rest.nodes
    etcd.put(rest.cluster.files, atrest.claims(count, rest.nodes))
    etcd.put(rest.cluster.files, unready())
    found: dict[str, Any] = {}
    for name, arguments in (("run", waiting()), ("controller", controlling())):
        found |= {f"{name}_{key}": value for key, value in _with_claims(rest, name, arguments, count).items()}
    return found


def _with_claims(rest: Rest, name: str, arguments: Sequence[str], count: int) -> dict[str, Any]:
    server = rest.server(f"affected-{name}")
    server.begin()
    running = rest.start(server, f"affected-{name}", *arguments)
    # Claims and pods are read after everything else, and are twice as many objects.
    time.sleep(2 * warm_seconds(rest.nodes))
    used, memory = server.spent(), pod.resident(running.pid())
    done = _ended(running, controller=name == "controller")
    server.stop()
    if used.bytes["resourceclaims"] < count * CLAIM_BYTES:
        raise SystemExit(f"the {name} did not read all claims:\n{done['said']}")
    return {"peak_bytes": max(done["peak_bytes"], memory), "received_bytes": used.bytes.total()}


def _ended(running: pod.Running, *, controller: bool) -> dict[str, Any]:
    """End a program, and return what it spent."""
    running.process.terminate()
    done = running.spent()
    if controller and LEADING not in done["said"]:
        raise SystemExit(f"this controller did not lead:\n{done['said']}")
    return done
