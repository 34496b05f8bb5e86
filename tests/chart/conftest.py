"""Both Helms, and a control plane for what only a real API server can judge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster import binaries
from devcluster.cluster import Cluster
from tests.chart.admission_scene import apply, scene
from tests.chart.rendering import Helm
from tests.e2e.conftest import boot

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["boot"]


@pytest.fixture(scope="session")
def helms() -> dict[str, Helm]:
    """Both real Helms, taken from the machine or built once."""
    return {name: Helm(binary) for name, binary in binaries.ensure(["helm3", "helm4"]).items()}


@pytest.fixture(scope="session", params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, helms: dict[str, Helm]) -> Helm:
    """One real Helm after the other."""
    return helms[request.param]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot a control plane to try the guard on; pods need not run to be deleted. Each test has accounts of its own."""
    with Cluster(tmp_path_factory.mktemp("guard") / "cluster") as booted:
        booted.up(nodes=1)
        apply(booted, scene())
        yield booted
