"""One decision on a large fleet at rest of which some nodes changed: on those alone, and on all.

``python -m tools.profiling.decision --nodes 5000 --changed 20`` prints its figures as JSON. Both
variants take turns in one process, and decide the same.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench import atrest
from hook.decide.record import Memory
from hook.decide.run import decide
from hook.objects import Snapshot, entry, read_daemonset, read_node, read_pod, read_revision, read_slice
from hook.objects.stacks import GPU_OPERATOR
from hook.settings import ControllerSettings

if TYPE_CHECKING:
    from hook.decide.result import Decision
    from hook.objects.decoding import Reader

TURNS: Final = 30
READERS: Final[dict[str, Reader[Any]]] = {
    "ClusterPolicy": GPU_OPERATOR.policy.read,
    "Node": read_node,
    "Pod": read_pod,
    "DaemonSet": read_daemonset,
    "ControllerRevision": read_revision,
    "ResourceSlice": read_slice,
}
SECOND: Final = timedelta(seconds=1)
LATER: Final = atrest.BEGAN + timedelta(days=3)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.profiling.decision", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--changed", type=int, default=20)
    given = parser.parse_args()
    sys.stdout.write(json.dumps(measured(given.nodes, given.changed)) + "\n")


def measured(nodes: int, changed: int) -> dict[str, Any]:
    """Return the CPU milliseconds of a decision in both variants. The median counts."""
    fleet = snapshot(nodes)
    numbers = range(0, nodes, max(1, nodes // changed))
    fleets = [_changed(fleet, numbers, ready=ready) for ready in (False, True)]
    names, memory = {fleet.driver_pods[number].node for number in numbers}, Memory(started=LATER)
    times: dict[str, list[float]] = {"full": [], "incremental": []}
    for turn in range(TURNS):
        seen = replace(fleets[turn % 2], nodes=dict(fleet.nodes))
        full, found = _timed(seen, memory, turn), _timed(seen, memory, turn, names)
        if found[1:] != full[1:]:
            raise SystemExit("incremental and full evaluation differ")
        times["full"].append(full[0])
        times["incremental"].append(found[0])
        memory = found[2]
    middle = {variant: round(1000 * statistics.median(spent[4:]), 1) for variant, spent in times.items()}
    return {
        "full_ms": middle["full"],
        "incremental_ms": middle["incremental"],
        "ratio": round(middle["full"] / middle["incremental"], 1),
    }


def _timed(seen: Snapshot, memory: Memory, turn: int, names: set[str] | None = None) -> tuple[float, Decision, Memory]:
    settings, began = ControllerSettings(), time.process_time()
    decision, after = decide(seen, memory, settings, LATER + turn * SECOND, names)
    return time.process_time() - began, decision, after


def snapshot(nodes: int) -> Snapshot:
    """Return a fleet at rest as the program's cache has it."""
    metadata = {"name": "cluster-policy", "uid": "policy", "creationTimestamp": "2026-01-01T09:00:00Z"}
    policy = {**atrest.POLICY, "metadata": metadata, "status": atrest.POLICY_STATUS}
    found: dict[str, list[Any]] = {kind: [] for kind in READERS}
    for each in chain((policy,), atrest.fleet(nodes, "policy")):
        found[each["kind"]].append(_view(each))
    drivers = [pod for pod in found["Pod"] if pod.owner_uid == "driver-ds"]
    return Snapshot(
        policies=tuple(found["ClusterPolicy"]),
        nodes={node.name: node for node in found["Node"]},
        daemonsets=tuple(found["DaemonSet"]),
        revisions=tuple(found["ControllerRevision"]),
        driver_pods=tuple(drivers),
        plugin_pods=tuple(pod for pod in found["Pod"] if pod.owner_uid == "plugin-ds"),
        slices=tuple(found["ResourceSlice"]),
    )


def _changed(fleet: Snapshot, numbers: range, *, ready: bool) -> Snapshot:
    """Return the fleet with other driver pods on some nodes."""
    pods = list(fleet.driver_pods)
    for number in numbers:
        pods[number] = _view(atrest.driver_pod(number, ready=ready))
    return replace(fleet, driver_pods=tuple(pods))


def _view(each: dict[str, Any]) -> Any:  # noqa: ANN401 - the view of its kind
    metadata = {key: value for key, value in each["metadata"].items() if key != "managedFields"}
    body = json.dumps({**each, "metadata": {**metadata, "resourceVersion": "1"}}).encode()
    return entry(READERS[each["kind"]], each["kind"], body).view


if __name__ == "__main__":
    main()
