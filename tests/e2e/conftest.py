"""A cluster for each test, with nothing in it but nodes; or a small fleet for each module, at rest for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devcluster.boot.cluster import Cluster
from tests.e2e.lab import ALL_AT_ONCE, NEW, Lab
from tests.e2e.resting import RestingLab
from tests.evidence import keep
from tests.pool import Pool


@pytest.fixture
def boot(pool: Pool, request: pytest.FixtureRequest) -> Iterator[Callable[..., Lab]]:
    """Return a function that empties the cluster for a fleet of so many nodes."""
    # Set EVIDENCE to a directory to keep the logs and journals of every test.
    used: list[Cluster] = []

    def start(nodes: int, helm: int = 4) -> Lab:
        used.append(pool.take(nodes))
        return Lab(used[-1], helm)

    yield start
    for cluster in used:
        keep(cluster, request.node.name)


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, pool: Pool) -> Iterator[RestingLab]:
    """Build a fleet of the module's NODES in the module's LAB."""
    nodes: int = request.module.NODES
    lab: RestingLab = request.module.LAB(pool.take(nodes), nodes)
    lab.fleet(nodes=nodes, driver=NEW, **ALL_AT_ONCE)
    yield lab
    keep(lab.cluster, request.module.__name__.rsplit(".", 1)[-1])


@pytest.fixture
def lab(built: RestingLab) -> Iterator[RestingLab]:
    """Bring the module's fleet to rest."""
    built.rest()
    yield built
    built.end_leftovers()
