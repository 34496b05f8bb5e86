"""When the simulator's tests run, and the cluster that the modules of `live` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devcluster.cluster import Cluster
from tests.evidence import keep
from tests.simulator.changes import why_skip
from tests.simulator.stage import Stage
from tests.simulator.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from devcluster.client import Object

PROBE = Path(__file__).with_name("probe_program.py")
"""The program of the image ``test/probe``: it does what its arguments say, as a real container would."""


ALWAYS = ("test_cost.py", "test_performance_page.py", "test_profiling.py")
"""Modules about tools that a change of the program or of a page can break; they need no cluster."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the simulator's tests where it did not change."""
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents and item.path.name not in ALWAYS]
    if mine and (reason := why_skip()):
        for item in mine:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Boot three GPU nodes, two of them with a network card, and the probe image."""
    with Cluster(tmp_path_factory.mktemp("simulator") / "state", images={"probe": [str(PROBE)]}) as started:
        started.up(3, fleet=True, nics=2)
        yield started
        keep(started, "simulator")


@pytest.fixture(scope="session")
def stage(cluster: Cluster) -> Stage:
    """Install operator and plugin. Each test leaves the three nodes calm, on whatever driver."""
    return Stage(cluster)


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    """Make a namespace for one try of a test, where pods can be created at once."""
    tried = getattr(request.node, "execution_count", 1)
    name = "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[:50].strip("-") + f"-{tried}"
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
