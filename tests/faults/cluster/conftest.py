"""One cluster a module: each fault begins with a fleet at rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.faults.cluster.doorway import Doorway
from tests.faults.cluster.ground import Ground

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Boot a fleet of the module's NODES; EVIDENCE names a directory to keep logs and journals in."""
    nodes: int = getattr(request.module, "NODES", 2)
    name = request.module.__name__.rsplit(".", 1)[-1]
    with Cluster(tmp_path_factory.mktemp(name) / "state") as cluster:
        cluster.up(nodes=nodes, fleet=True)
        ground = Ground(cluster, nodes)
        ground.build()
        yield ground
        if target := os.environ.get("EVIDENCE"):
            cluster.save_evidence(Path(target) / name)


@pytest.fixture
def ground(built: Ground) -> Ground:
    """Give the module's fleet at rest."""
    built.rest()
    return built


@pytest.fixture
def door(ground: Ground) -> Iterator[Doorway]:
    """Give a door before the API server, which closes with the test."""
    with Doorway(ground.cluster) as door:
        yield door
