"""The command line: ``python -m devcluster.soak --nodes 200 --cycles 30 --seed 1``; exits 1 on a broken promise."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from devcluster.boot.cluster import Cluster
from devcluster.soak import plan
from devcluster.soak.controlled import ControllerSoak
from devcluster.soak.jobs import JobSoak
from devcluster.soak.stage import Stage

if TYPE_CHECKING:
    from devcluster.soak.course import Course


@click.command()
@click.option("--nodes", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--cycles", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Draws the same cycles again.")
@click.option("--controller", is_flag=True, help="A controller that runs all the time instead of the hook's runs.")
@click.option("--evidence", type=click.Path(path_type=Path), help="Keep logs and journals here.")
def main(*, nodes: int, cycles: int, seed: int, controller: bool, evidence: Path | None) -> None:
    """Upgrade a simulated fleet over and over, with faults; the last line is the report as JSON."""
    began = time.time()

    def say(line: str) -> None:
        click.echo(f"{time.time() - began:7.1f} s  {line}")

    with tempfile.TemporaryDirectory(prefix="gpu-operator-post-soak-") as folder:
        cluster = Cluster(Path(folder) / "cluster")
        with cluster:
            try:
                say(f"booting a control plane with {nodes} GPU nodes")
                cluster.up(nodes=nodes, fleet=True)
                stage = Stage(cluster, nodes)
                stage.install(120 + 3 * nodes)
                kind: type[Course] = ControllerSoak if controller else JobSoak
                soaked = kind(stage, seed, say).run(plan.draw(cycles, nodes, seed))
            finally:
                if evidence is not None:
                    cluster.save_evidence(evidence)
    for run in soaked.runs:
        if run.said:
            click.echo(f"--- cycle {run.cycle}\n{run.said}")
    report = soaked.report(time.time())
    click.echo(json.dumps(report))
    sys.exit(1 if report["broken"] else 0)


if __name__ == "__main__":
    main()
