"""``python -m devcluster.bench.cost [NAME...]``: what the program costs, on a fleet at rest or without a cluster.

The program runs as in a pod, against an API server without other clients: requests and bytes are that server's own
counts. Memory is the peak of the process alone (``ru_maxrss`` of a small launcher's child), not of a container.
Measures that you ask for together, and that need a fleet of the same size, share the fleet.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from devcluster.bench import pod, weight
from devcluster.bench.burst import AT_ONCE, burst
from devcluster.bench.idle import idle
from devcluster.bench.resting import Rest
from devcluster.bench.results import FOLDER, Result
from devcluster.bench.running import CLAIMS_PER_NODE, affected, controlling, nothing_to_do, wait, waiting
from devcluster.cluster import Cluster
from devcluster.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MINUTES: Final = 5.0
"""How long a measure per minute takes."""
CHANGED: Final = 20
"""Nodes that change between two decisions."""
STARTS: Final = 15


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure on a fleet at rest."""

    kind: str
    play: Callable[[Rest, argparse.Namespace], dict[str, Any]]
    given: Callable[[int, argparse.Namespace], dict[str, Any]] = lambda _nodes, _given: {}
    """What else the page shows of it, in addition to the number of nodes."""


def _of_minutes(_nodes: int, given: argparse.Namespace) -> dict[str, Any]:
    return {"minutes": given.minutes}


def _wait(rest: Rest, given: argparse.Namespace, *, controller: bool) -> dict[str, Any]:
    return wait(rest, given.minutes, controller=controller)


def _burst(rest: Rest, given: argparse.Namespace, *, arguments: Callable[[], list[str]]) -> dict[str, Any]:
    return burst(rest, min(given.at_once, rest.nodes), arguments())


def _at_once(nodes: int, given: argparse.Namespace) -> dict[str, Any]:
    return {"changed": min(given.at_once, nodes)}


KINDS: Final = {
    measure.kind: measure
    for measure in (
        Measure("no-op", lambda rest, _given: nothing_to_do(rest)),
        Measure("waiting", partial(_wait, controller=False), _of_minutes),
        Measure("controller", partial(_wait, controller=True), _of_minutes),
        Measure(
            "reaction-at-once",
            partial(_burst, arguments=waiting),
            _at_once,
        ),
        Measure("reaction-controller", partial(_burst, arguments=controlling), _at_once),
        Measure("two-hours", lambda rest, given: idle(rest, given.minutes), _of_minutes),
        Measure(
            "affected", lambda rest, _given: affected(rest), lambda nodes, _given: {"claims": CLAIMS_PER_NODE * nodes}
        ),
    )
}
"""In the order in which one fleet serves them: each but the last two leaves the fleet as it was."""
RESTING: Final = {
    **{f"no-op-{nodes}": "no-op" for nodes in (100, 1000, 5000, 15000)},
    "waiting-5000": "waiting",
    "controller-5000": "controller",
    "reaction-5000": "reaction-at-once",
    "reaction-controller-5000": "reaction-controller",
    "two-hours-100": "two-hours",
    **{f"affected-{nodes}": "affected" for nodes in (5000, 15000)},
}
"""The measures of the page on a fleet at rest, and their kinds."""
START_UP, DECISION = "start-up", "decision-5000"
APART: Final = (START_UP, DECISION)
"""Measures without a cluster."""
NAMES: Final = (*RESTING, *APART)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for, or everything."""
    given = _arguments(arguments)
    names = given.name or (NAMES if given.nodes is None else [f"{kind}-{given.nodes}" for kind in given.kind])
    if START_UP in names:
        _start_up(given.out)
    if DECISION in names:
        _decision(given.out)
    wanted = [name for name in names if name not in APART]
    for nodes in sorted({_nodes(name) for name in wanted}):
        with tempfile.TemporaryDirectory(prefix="gpu-operator-post-cost-") as folder:
            _measure([name for name in wanted if _nodes(name) == nodes], nodes, given, Path(folder))


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m devcluster.bench.cost", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*NAMES, []], help="some of the measures")
    parser.add_argument("--out", type=Path, default=FOLDER, help="write figures into this folder, a file per measure")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long a measure per minute takes")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many drivers become ready at once")
    parser.add_argument("--nodes", type=int, help="a fleet of this size instead, for the measures of --kind")
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=["no-op"], help="which measures")
    return parser.parse_args(arguments)


def _nodes(name: str) -> int:
    return int(name.rpartition("-")[2])


def _measure(names: Sequence[str], nodes: int, given: argparse.Namespace, folder: Path) -> None:
    """Measure one after the other on one fleet."""
    kinds = {RESTING.get(name, name.removesuffix(f"-{nodes}")): name for name in names}
    with Cluster(folder / "cluster") as cluster:
        _say(f"{nodes} nodes: putting the fleet in place")
        rest = Rest(cluster, nodes, folder)
        rest.prepare()
        for kind, measure in KINDS.items():
            if kind in kinds:
                _play(measure, kinds[kind], rest, given)


def _play(measure: Measure, name: str, rest: Rest, given: argparse.Namespace) -> None:
    began = time.monotonic()
    found = measure.play(rest, given)
    how = {"nodes": rest.nodes, **measure.given(rest.nodes, given)}
    seconds = round(time.monotonic() - began)
    Result(name, measure.kind, f"make bench BENCH={name}", seconds, how, found).write(given.out)
    _say(f"{name}: {found}")


def _decision(out: Path) -> None:
    """Measure one decision on a fleet of which some nodes changed, evaluating those nodes and all."""
    began, given = time.monotonic(), {"nodes": _nodes(DECISION), "changed": CHANGED}
    options = [f"--{name}={number}" for name, number in given.items()]
    command = [sys.executable, "-m", "tools.profiling.decision", *options]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, check=True)
    figures, seconds = json.loads(done.stdout), round(time.monotonic() - began)
    Result(DECISION, "decision", f"make bench BENCH={DECISION}", seconds, given, figures).write(out)
    _say(f"{DECISION}: {figures}")


def _start_up(out: Path) -> None:
    """Measure the time from a process' start to its first connection to the API server, and what a node pulls first."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        for name in ("token", "ca.crt", "namespace"):
            (Path(folder) / name).write_text("first")
        variables = pod.environment(f"https://127.0.0.1:{listener.getsockname()[1]}")
        # The first start writes the bytecode that an image has.
        times = [_started(listener, Path(folder), variables) for _ in range(STARTS + 1)][1:]
    figures = {
        "first_request_median_seconds": round(statistics.median(times), 3),
        "first_request_most_seconds": round(max(times), 3),
        **weight.image(),
    }
    seconds = round(time.monotonic() - began)
    Result(START_UP, START_UP, f"make bench BENCH={START_UP}", seconds, {"starts": STARTS}, figures).write(out)
    _say(f"{START_UP}: {figures}")


def _started(listener: socket.socket, folder: Path, variables: dict[str, str]) -> float:
    command = pod.program("run", f"--service-account-dir={folder}", "--timeout=1m")
    began = time.monotonic()
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listener.settimeout(60)
    connection, _ = listener.accept()
    took = time.monotonic() - began
    connection.close()
    process.kill()
    process.wait()
    listener.settimeout(0)
    try:
        while True:
            listener.accept()[0].close()
    except BlockingIOError:
        return took


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress on the terminal


if __name__ == "__main__":
    main()
