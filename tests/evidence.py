"""Clusters of tests, and what is left of them to look at: set EVIDENCE to a directory to keep logs and journals."""

from __future__ import annotations

import os
from pathlib import Path

from devcluster.cluster import Cluster


def keep(cluster: Cluster, name: str) -> None:
    """Keep a cluster's logs and journals under a name, if anybody wants them."""
    if target := os.environ.get("EVIDENCE"):
        cluster.save_evidence(Path(target) / name)
