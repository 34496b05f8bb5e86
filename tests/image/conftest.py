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

from devcluster import binaries
from devcluster.cluster import Cluster
from devcluster.gpunode.images import CHART, write_images
from devcluster.kubelet.node import RealNode, why_not
from devcluster.programs import DRA_DRIVER
from devcluster.visit import Visit
from tests.certify.site import image_flags
from tests.e2e.lab import IMAGE, NEW, OLD
from tests.evidence import keep
from tests.image.gpunode import GpuNodeLab
from tests.image.node import NodeLab
from tests.image.visit import VisitLab
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


@pytest.fixture(scope="session")
def real_node() -> None:
    """Skip where a real node cannot be."""
    if reason := why_not():
        cannot(reason)


@pytest.fixture
def boot(
    real_node: None, archive: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[..., NodeLab]]:
    """Return a function that boots a cluster with a simulated fleet and a real node; clusters end with the test."""
    # Set EVIDENCE to a directory to keep the logs and journals of every scenario.
    assert real_node is None
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


@pytest.fixture
def gpu_node(
    real_node: None, archive: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[GpuNodeLab]:
    """Boot a cluster whose only GPU node is a real one, with NVIDIA's DRA driver."""
    assert real_node is None
    programs = binaries.ensure([program.name for program in DRA_DRIVER])
    images = write_images(tmp_path_factory.mktemp("images"), programs, (OLD, NEW))
    with Cluster(tmp_path_factory.mktemp("node") / "c") as cluster:
        cluster.up(nodes=0, real_node=RealNode({default_image(): archive, **images}, gpus=True))
        yield GpuNodeLab(cluster, programs["gpu-kubelet-plugin"].parent / CHART)
        keep(cluster, request.node.name)


@pytest.fixture
def visit(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[VisitLab]:
    """Bring three nodes of a fleet to the cluster of ``--kubeconfig``; skip where none is named."""
    image: str = request.getfixturevalue("test_extra_info").get("image", "")
    kubeconfig = request.config.getoption("kubeconfig")
    if not kubeconfig:
        pytest.skip("make test-visit names a cluster that may be thrown away")
    with Visit(tmp_path_factory.mktemp("guest") / "c") as guest:
        guest.attach(Path(kubeconfig).resolve(), nodes=3)
        yield VisitLab(guest, tuple(image_flags(image)) if image else ())
        keep(guest, request.node.name)


def default_image() -> str:
    """Name the image as the chart does that the laboratory installs."""
    chart = Path(__file__).parents[2] / "charts" / "gpu-operator-post"
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    return f"{IMAGE}:{version}"
