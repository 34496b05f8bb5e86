"""The compatibility page: what it says of each version is what the pins say."""

from __future__ import annotations

from devcluster import programs
from devcluster.binaries import DEPLOYER_NAMES
from tools import compatibility
from tools.compatibility import PAGE, RECORDINGS, SCENARIOS, TESTED, version_of

NOT_DEPLOYING = {"crane"}
"""It serves charts to the deployment tools of the tests."""


def test_the_page_is_up_to_date() -> None:
    """`make docs` would not change it."""
    assert PAGE.read_text() == compatibility.rendered(), "run: make docs"


def test_every_deployment_tool_has_a_line() -> None:
    """And an older version than the newest has its reason, a newest one has none."""
    named = {row.program for row in TESTED}
    assert set(DEPLOYER_NAMES) - NOT_DEPLOYING <= named
    for row in TESTED:
        assert bool(row.why_older) == (version_of(row.program) != row.newest), row.program
    assert [name for name in ("kubectl", "kubelet", "kube-scheduler") if version_of(name) != programs.KUBERNETES] == []


def test_every_recording_is_described() -> None:
    """By what happened in it; and no description is left over."""
    names = {file.stem.partition("-")[2] for file in RECORDINGS.glob("v*.jsonl")}
    assert names == set(SCENARIOS)
