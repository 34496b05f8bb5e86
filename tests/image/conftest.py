"""One image a test run, and clusters with a real node that has it. Skips, and says why, where that cannot be.

With REQUIRE_IMAGE set, what would be skipped fails: for machines that are known to have everything.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
import yaml

from devcluster.boot.cluster import Cluster
from devcluster.kubelet.node import RealNode, why_not
from tests.e2e.lab import IMAGE
from tests.evidence import keep
from tests.image.node import NodeLab
from tools.image.__main__ import build
from tools.image.commands import CannotBuildError

TAG = "localhost/gpu-operator-post:test"
REQUIRED = "REQUIRE_IMAGE"


def cannot(reason: str) -> NoReturn:
    """Skip, because this machine lacks something; fail, if it was said to lack nothing."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the image, once for all test processes."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    target = shared / "image.tar"
    with (shared / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            try:
                build(TAG, shared / "unfinished.tar")
            except CannotBuildError as error:
                cannot(str(error))
            (shared / "unfinished.tar").rename(target)
    return target


def need_real_node() -> None:
    """Skip where a real node cannot be."""
    if reason := why_not():
        cannot(reason)


@pytest.fixture
def boot(
    archive: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[..., NodeLab]]:
    """Return a function that boots a cluster with a simulated fleet and a real node; clusters end with the test."""
    # Set EVIDENCE to a directory to keep the logs and journals of every scenario.
    need_real_node()
    clusters: list[Cluster] = []

    def start(nodes: int, *, at_rest: bool = False) -> NodeLab:
        # A short path: the name of a socket in it is limited.
        cluster = Cluster(tmp_path_factory.mktemp("node") / "c")
        cluster.__enter__()
        clusters.append(cluster)
        node = RealNode({default_image(): archive})
        cluster.up(nodes=nodes, fleet=not at_rest, real_node=node, at_rest=at_rest)
        return NodeLab(cluster)

    yield start
    for cluster in clusters:
        keep(cluster, request.node.name)
        cluster.down()


def default_image() -> str:
    """Name the image as the chart does that the laboratory installs."""
    chart = Path(__file__).parents[2] / "charts" / "gpu-operator-post"
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    return f"{IMAGE}:{version}"
