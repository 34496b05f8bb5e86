"""One cluster a module: each fault begins with a fleet at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults.cluster.doorway import Doorway
from tests.e2e.faults.cluster.ground import Ground, built_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Boot a fleet of the module's NODES."""
    with built_for(request.module, Ground, tmp_path_factory) as ground:
        yield ground


@pytest.fixture
def ground(built: Ground) -> Ground:
    """Give the module's fleet at rest."""
    built.rest()
    return built


@pytest.fixture
def door(ground: Ground) -> Iterator[Doorway]:
    """Give a door before the API server, which closes with the test."""
    with Doorway(ground.cluster) as door:
        yield door
