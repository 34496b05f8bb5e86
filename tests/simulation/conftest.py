"""One small fleet for all tests of a module: each leaves it calm, on whatever driver."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.simulation.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Boot three GPU nodes with operator and plugin; EVIDENCE names a directory to keep the logs in."""
    with Cluster(tmp_path_factory.mktemp("simulation") / "state") as cluster:
        cluster.up(nodes=3, fleet=True)
        yield Stage(cluster)
        if target := os.environ.get("EVIDENCE"):
            cluster.save_evidence(Path(target) / "simulation")
