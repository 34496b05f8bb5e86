"""One cluster for the tests that only use it, and one small fleet for each module of tests that migrate it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.evidence import booted
from tests.simulator.stage import Stage
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devcluster.client import Object

PROBE = Path(__file__).with_name("probe_program.py")
"""The program of the image ``test/probe``: it does what its arguments say, as a real container would."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot a cluster with two GPU nodes and the probe image."""
    with Cluster(tmp_path_factory.mktemp("cluster") / "state", images={"probe": [str(PROBE)]}) as started:
        started.up(2)
        yield started


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Make a namespace for one test, where pods can be created at once."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[:50].strip("-")
    cluster.kubectl("create", "namespace", name)
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    until(lambda: cluster.list(accounts))
    return name


@pytest.fixture
def pod(cluster: Cluster, namespace: str) -> Callable[..., str]:
    """Create a pod of the probe image from its arguments; returns the URL path of the pod."""

    def create(*args: str, name: str = "probe", spec: Object | None = None, **container: object) -> str:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        probe = {"name": "main", "image": "test/probe:1", "args": list(args), **container}
        body = {"restartPolicy": "Never", "containers": [probe], **(spec or {})}
        cluster.create(pods, {"metadata": {"name": name}, "spec": body})
        return f"{pods}/{name}"

    return create


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Boot three GPU nodes with operator and plugin. Each test leaves them calm, on whatever driver."""
    with booted(tmp_path_factory.mktemp("simulation") / "state", 3, "simulation") as cluster:
        yield Stage(cluster)
