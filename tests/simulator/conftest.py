"""When the simulator's tests run, and a cluster for those that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from tests.evidence import keep
from tests.simulator.changes import why_skip

ALWAYS = ("test_cost.py", "test_performance_page.py")
"""Modules about tools that a change of the program or of a page can break; they need no cluster."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the simulator's tests where it did not change."""
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents and item.path.name not in ALWAYS]
    if mine and (reason := why_skip()):
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot three GPU nodes."""
    with Cluster(tmp_path_factory.mktemp("simulator") / "state") as started:
        started.up(3, fleet=True)
        yield started
        keep(started, "simulator")
