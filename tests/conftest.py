"""How tests are spread over workers: those that share a cluster run on one of them, all others anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

SHARING: Final = (
    "tests/devcluster/",
    "tests/simulation/",
    "tests/contract/",
    "tests/cluster/",
    "tests/deployers/",
    "tests/image/test_contents.py",
    "tests/image/test_trimmed.py",
)
"""Modules, or folders of modules, that each make one thing for all of their tests: mostly a cluster."""


class OneWorkerACluster(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
    """Give a module that shares a cluster to one worker, and every other test by itself."""

    def _split_scope(self, nodeid: str) -> str:
        """Name what must stay together."""
        path = nodeid.partition("::")[0]
        return path if path.startswith(SHARING) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerACluster | None:  # noqa: ANN401 - xdist's own
    """Use ours for `--dist load`, which is what `-n` alone means."""
    return OneWorkerACluster(config, log) if config.getoption("dist") == "load" else None
