"""How tests are spread over workers, which are tried once more, and how properties are tried.

Those that share a cluster, or what they render, run on one worker, all others anywhere. What fails on a cluster is
tried once more, and shown as a rerun: machines are busy. A broken promise never is. Properties are tried with the same
examples everywhere, without files that stay behind, and without a clock. No test builds a program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from devcluster.build.binaries import NEVER_BUILD
from tests.pool import Pool
from tests.promises import BrokenPromiseError

# What a shared helper asserts shows its values, as in a test.
pytest.register_assert_rewrite("tests.deployers", "tests.e2e", "tests.image", "tests.process", "tests.properties")

# A busy machine is slow, which is no failure; random examples would make a failure come and go.
settings.register_profile(
    "everywhere", deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("everywhere")

# A build within a test takes minutes without a word. Targets of make build what their tests need, and show it.
os.environ[NEVER_BUILD] = "1"

SHARING: Final = (
    "tests/chart/cluster/",
    "tests/certify/",
    "tests/client/test_real_server.py",
    "tests/client/test_taints.py",
    "tests/e2e/test_controller.py",
    "tests/e2e/test_faults.py",
    "tests/image/test_contents.py",
)
"""Modules, or folders of modules, that each make one thing for all of their tests: mostly a cluster."""

ON_A_CLUSTER: Final = (*SHARING, "tests/deployers/", "tests/simulator/", "tests/e2e/", "tests/image/")
"""Where a test runs against programs that a busy machine may starve."""


SAME_RENDERINGS: Final = ("tests/chart/", "tests/bundler/")
"""Modules whose tests look at the same renderings, which each process makes once."""

ONE_PER_PARAMETER: Final = ("tests/replay/test_replay.py",)
"""Here a module makes one for each of its parameters, which is all that stands in brackets. A test without is alone."""

LONGEST_FIRST: Final = (
    "tests/deployers/test_tools.py",
    "tests/deployers/test_gates.py",
    "tests/deployers/",
    # Builds the image, for which others would wait.
    "tests/image/test_interruption.py::test_a_controller_that_hangs_and_is_deleted",
    "tests/e2e/test_soak.py",
    "tests/e2e/test_controller.py",
    "tests/e2e/test_faults.py",
    "tests/image/",
    "tests/chart/cluster/",
    "tests/certify/",
    "tests/simulator/",
    "tests/e2e/",
    *ON_A_CLUSTER,
    "tests/properties/",
    "tests/replay/",
    "tests/chart/",
)
"""What takes minutes, mostly of waiting, begins first: at the end it would run alone. What only computes is last."""


class OneWorkerACluster(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """Assign a module that shares a cluster or renderings to one worker, and every other test by itself."""

    def _assign_work_unit(self, node: Any) -> None:  # noqa: ANN401 - xdist's own
        """Let one worker begin at the end, with what only computes, while the others wait for their clusters."""
        if node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def _split_scope(self, nodeid: str) -> str:
        """Name what must stay together."""
        path, _, name = nodeid.partition("::")
        if path.startswith(ONE_PER_PARAMETER):
            parameter = name.partition("[")[2]
            return path + parameter if parameter else nodeid
        return path if path.startswith((*SHARING, *SAME_RENDERINGS)) else nodeid


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Share one cluster among the tests of this worker that need one."""
    pool = Pool(tmp_path_factory.mktemp("pool"))
    yield pool
    pool.down()


@pytest.fixture(autouse=True)
def _no_idle_cluster(pool: Pool, request: pytest.FixtureRequest) -> None:
    if _turn(request.node) >= LONGEST_FIRST.index("tests/properties/"):
        pool.down()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerACluster | None:  # noqa: ANN401 - xdist's own
    """Use ours for `--dist load`, which is what `-n` alone means."""
    if config.getoption("dist") != "load":
        return None
    config.option.loadscopereorder = False  # the number of its tests says nothing of how long a module takes
    return OneWorkerACluster(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest; let what ran on a cluster be tried once more, whatever went wrong but a promise."""
    items.sort(key=_turn)
    once_more = pytest.mark.flaky(reruns=1, only_rerun=[Exception])
    for item in items:
        if item.nodeid.startswith(ON_A_CLUSTER):
            item.add_marker(once_more)
            item.add_marker(pytest.mark.e2e)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Try a test that broke a promise never again, even if only a subtest broke it."""
    # `rerun_except` looks only at the last report of a test, and each subtest has a report of its own.
    if call.excinfo and call.excinfo.errisinstance(BrokenPromiseError):
        item.add_marker(pytest.mark.flaky(condition=False), append=False)


def _turn(item: pytest.Item) -> int:
    path = item.nodeid
    return next((turn for turn, prefix in enumerate(LONGEST_FIRST) if path.startswith(prefix)), len(LONGEST_FIRST))
