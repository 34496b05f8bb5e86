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

DEMO = "test_the_demo_proves_its_point"
PROGRAM = ("hook", "charts")
"""What the demo also shows: the README promises its result, and these can break it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the simulator's tests where it did not change, and the demo where the program did not either."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.name not in ALWAYS:
            more = PROGRAM if item.name.startswith(DEMO) else ()
            item.add_marker(pytest.mark.skipif(bool(reason := why_skip(*more)), reason=reason))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot three GPU nodes."""
    with Cluster(tmp_path_factory.mktemp("simulator") / "state") as started:
        started.up(3, fleet=True)
        yield started
        keep(started, "simulator")
