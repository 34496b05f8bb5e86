"""A control plane for what only a real API server can decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.evidence import keep

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Prepare one control plane for a module, which boots it."""
    with Cluster(tmp_path_factory.mktemp("chart") / "cluster") as prepared:
        yield prepared
        keep(prepared, request.node.name)
