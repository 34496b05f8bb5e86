"""One cluster a scenario: booting one takes a few seconds, and nothing leaks from one to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.e2e.lab import Lab
from tests.evidence import keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def boot(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Lab]]:
    """Give a function that boots a cluster with a fleet; clusters end with the test.

    Set EVIDENCE to a directory to keep the logs and journals of every scenario.
    """
    clusters: list[Cluster] = []

    def start(nodes: int, helm: int = 4, slices: str = "v1") -> Lab:
        cluster = Cluster(tmp_path / f"cluster-{len(clusters)}", slices=slices)
        cluster.__enter__()
        clusters.append(cluster)
        cluster.up(nodes=nodes, fleet=True)
        return Lab(cluster, helm)

    yield start
    for cluster in clusters:
        keep(cluster, request.node.name)
        cluster.down()
