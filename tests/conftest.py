"""How tests are spread over workers, and which are tried once more.

Those that share a cluster run on one worker, all others anywhere. What fails on a cluster is tried once more, and
shown as a rerun: machines are busy. A broken promise never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.promises import BrokenPromiseError

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARING: Final = (
    "tests/devcluster/",
    "tests/simulation/",
    "tests/contract/",
    "tests/cluster/",
    "tests/faults/api/",
    "tests/deployers/",
    "tests/faults/cluster/",
    "tests/follow/",
    "tests/image/test_contents.py",
    "tests/image/test_trimmed.py",
)
"""Modules, or folders of modules, that each make one thing for all of their tests: mostly a cluster."""

ON_A_CLUSTER: Final = (
    *SHARING,
    "tests/e2e/",
    "tests/faults/",
    "tests/image/",
    "tests/soak/",
    "tests/hostile/test_admitted.py",
    "tests/chart/test_chart_testing.py",
    "tests/hostile/test_admitted.py",
    "tests/soak/test_soak.py",
)
"""Where a test runs against programs that a busy machine may starve."""


ONE_PER_PARAMETER: Final = "tests/deployers/"
"""Here a module makes one for each of its parameters, which is all that stands in the brackets of its tests."""


class OneWorkerACluster(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """Give a module that shares a cluster to one worker, and every other test by itself."""

    def _split_scope(self, nodeid: str) -> str:
        """Name what must stay together."""
        path, _, name = nodeid.partition("::")
        if path.startswith(ONE_PER_PARAMETER):
            return path + name.partition("[")[2]
        return path if path.startswith(SHARING) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerACluster | None:  # noqa: ANN401 - xdist's own
    """Use ours for `--dist load`, which is what `-n` alone means."""
    return OneWorkerACluster(config, log) if config.getoption("dist") == "load" else None


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Let what ran on a cluster be tried once more, whatever went wrong but a promise."""
    once_more = pytest.mark.flaky(reruns=1, only_rerun=[Exception], rerun_except=[BrokenPromiseError])
    for item in items:
        if item.nodeid.startswith(ON_A_CLUSTER):
            item.add_marker(once_more)
