"""One cluster a module: each story begins with its fleet at rest, no follower, and a Lease that remembers nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.faults.cluster.doorway import Doorway
from tests.follow.ground import Field

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """Boot a fleet of the module's NODES; EVIDENCE names a directory to keep logs and journals in."""
    nodes: int = request.module.NODES
    name = request.module.__name__.rsplit(".", 1)[-1]
    with Cluster(tmp_path_factory.mktemp(name) / "state") as cluster:
        cluster.up(nodes=nodes, fleet=True)
        field = Field(cluster, nodes)
        field.build()
        yield field
        if target := os.environ.get("EVIDENCE"):
            cluster.save_evidence(Path(target) / name)


@pytest.fixture
def field(built: Field) -> Iterator[Field]:
    """Give the module's fleet at rest."""
    built.rest()
    yield built
    built.end_followers()


@pytest.fixture
def door(field: Field) -> Iterator[Doorway]:
    """Give a door before the API server, which closes with the test."""
    with Doorway(field.cluster) as door:
        yield door
