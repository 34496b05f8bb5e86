"""One small fleet for all tests of a module: each leaves it calm, on whatever driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.evidence import booted
from tests.simulation.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Boot three GPU nodes with operator and plugin."""
    with booted(tmp_path_factory.mktemp("simulation") / "state", 3, "simulation") as cluster:
        yield Stage(cluster)
