"""Takes a cluster down when the process that booted it dies without doing so.

A test run that is killed would otherwise leave a control plane behind.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from devcluster.boot.processes import Record

STEP_SECONDS = 0.5


@click.command()
@click.option("--state", type=click.Path(path_type=Path), required=True)
@click.option("--owner", type=int, required=True, help="Process that booted the cluster.")
@click.option("--started", required=True, help="When it started, to tell it from a later one.")
def main(state: Path, owner: int, started: str) -> None:
    """Wait for the owner's end."""
    record = Record("owner", owner, started)
    while record.alive:
        time.sleep(STEP_SECONDS)
    # Only now: mostly the owner takes its cluster down itself, and a client of clusters takes long to import.
    from devcluster.boot.cluster import Cluster  # noqa: PLC0415

    Cluster(state).down()


if __name__ == "__main__":
    main()
