"""Helpers for what surrounds the program: workflows, releases and documents."""

from __future__ import annotations

import pytest

from devcluster import binaries
from tests.chart.rendering import Helm


@pytest.fixture(scope="session", params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest) -> Helm:
    """One real Helm after the other: users have either."""
    return Helm(binaries.ensure([request.param])[request.param])
