"""Clusters of tests, and what is left of them to look at: set EVIDENCE to a directory to keep logs and journals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from devcluster.boot.cluster import Cluster


def keep(cluster: Cluster, name: str) -> None:
    """Keep a cluster's logs and journals under a name, if anybody wants them; a second try adds a number."""
    if target := os.environ.get("EVIDENCE"):
        tries = (Path(target) / f"{name}{number}" for number in chain([""], count(2)))
        cluster.save_evidence(next(each for each in tries if not each.exists()))


@contextmanager
def booted(folder: Path, nodes: int, name: str) -> Iterator[Cluster]:
    """Run a cluster with a fleet, and keep what is left of it."""
    with Cluster(folder) as cluster:
        try:
            cluster.up(nodes=nodes, fleet=True)
            yield cluster
        finally:
            keep(cluster, name)
