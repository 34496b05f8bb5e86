"""One cluster a module: each story begins with its fleet at rest, no follower, and a Lease that remembers nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.controller.ground import Field
from tests.e2e.faults.cluster.doorway import Doorway
from tests.e2e.faults.cluster.ground import built_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """Boot a fleet of the module's NODES."""
    with built_for(request.module, Field, tmp_path_factory) as field:
        yield field


@pytest.fixture
def field(built: Field) -> Iterator[Field]:
    """Give the module's fleet at rest."""
    built.rest()
    yield built
    built.end_followers()


@pytest.fixture
def door(field: Field) -> Iterator[Doorway]:
    """Give a door before the API server, which closes with the test."""
    with Doorway(field.cluster) as door:
        yield door
