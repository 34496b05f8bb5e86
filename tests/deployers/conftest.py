"""One cluster a deployer; the tests of one module share it, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deployers.bench import booted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs deployers, which are built on first use."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.deployers)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Boot a cluster for the module."""
    with booted(tmp_path_factory.mktemp("cluster"), Path(request.node.name).stem) as cluster:
        yield cluster
