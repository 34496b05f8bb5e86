"""Helm for those tests that render what was bundled; and property tests that try the same everywhere."""

from __future__ import annotations

import pytest
from hypothesis import settings

from devcluster import binaries
from tests.chart.rendering import Helm

# As in tests/unit: nothing depends on the clock or on what an earlier run found.
settings.register_profile("everywhere", deadline=None, database=None, derandomize=True)
settings.load_profile("everywhere")


@pytest.fixture(scope="session")
def helms() -> dict[str, Helm]:
    """Both real Helms, taken from the machine or built once."""
    return {name: Helm(binary) for name, binary in binaries.ensure(["helm3", "helm4"]).items()}


@pytest.fixture(scope="session", params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, helms: dict[str, Helm]) -> Helm:
    """One real Helm after the other."""
    return helms[request.param]
