"""What log and Events say of the progress of a run."""

from __future__ import annotations

import pytest

from hook.run import report
from hook.settings import Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, stale
from tests.fixtures.modes import with_exporter
from tests.fixtures.objects import driver_pod
from tests.unit.decide.runs import EXPORTER


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cluster("a", "b"), "2 of 2"),
        (with_exporter(stale("a", "b"), -9).change("node", labelled("a", skip="true"), "a"), "0 of 1"),
        (cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)), "1 of 2"),
    ],
)
def test_verified_nodes_are_counted(found: Cluster, expected: str) -> None:
    """Each once, however many plugins it has; excluded ones not at all."""
    decision, _memory = found.decide(Settings(driver_clients=(EXPORTER,)))
    assert report.progress(decision) == f"{expected} nodes verified"
