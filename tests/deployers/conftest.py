"""One cluster a deployer; the tests of one module share it, one after the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.deployers.bench import NODES

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs deployers, which are built on first use."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.deployers)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Boot a cluster with a fleet; set EVIDENCE to a directory to keep its logs and journals."""
    with Cluster(tmp_path_factory.mktemp("cluster") / "state") as cluster:
        cluster.up(nodes=len(NODES), fleet=True)
        yield cluster
        if target := os.environ.get("EVIDENCE"):
            cluster.save_evidence(Path(target) / Path(request.node.name).stem)
