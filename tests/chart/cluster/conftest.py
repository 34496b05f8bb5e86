"""A control plane for what only a real API server can decide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster.boot.cluster import Cluster
from tests.evidence import keep
from tests.pool import Pool


@pytest.fixture(scope="module")
def cluster(pool: Pool, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Return a cluster with one GPU node and nothing else."""
    taken = pool.take(1)
    yield taken
    keep(taken, request.node.name)
