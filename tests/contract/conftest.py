"""Clusters for the contracts that only a real API server can judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.contract.guardscene import apply, scene
from tests.e2e.conftest import boot

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["boot"]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot a control plane to try the guard on; pods need not run to be deleted. Each test has accounts of its own."""
    with Cluster(tmp_path_factory.mktemp("guard") / "cluster") as booted:
        booted.up(nodes=1)
        apply(booted, scene())
        yield booted
