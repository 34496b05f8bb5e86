"""Both versions of Helm. `test_golden.py` shows that they render the same, so most tests use one."""

from __future__ import annotations

import pytest

from devcluster.build import binaries
from tests.chart.rendering import Helm


@pytest.fixture(scope="session")
def helms() -> dict[str, Helm]:
    """Return both real Helms."""
    return {name: Helm(binary) for name, binary in binaries.ensure(["helm3", "helm4"]).items()}


@pytest.fixture(scope="session")
def helm(helms: dict[str, Helm]) -> Helm:
    """Return Helm 4."""
    return helms["helm4"]
