"""Helm for those tests that render what was bundled."""

from __future__ import annotations

import pytest

from devcluster import binaries
from tests.chart.rendering import Helm


@pytest.fixture(scope="session")
def helms() -> dict[str, Helm]:
    """Both real Helms, taken from the machine or built once."""
    return {name: Helm(binary) for name, binary in binaries.ensure(["helm3", "helm4"]).items()}


@pytest.fixture(scope="session", params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, helms: dict[str, Helm]) -> Helm:
    """One real Helm after the other."""
    return helms[request.param]
