"""A control plane for what only a real API server can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.evidence import keep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster
    from tests.pool import Pool


@pytest.fixture(scope="module")
def cluster(pool: Pool, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Return a cluster with one GPU node and nothing else."""
    taken = pool.take(1)
    yield taken
    keep(taken, request.node.name)
