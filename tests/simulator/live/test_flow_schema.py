"""The FlowSchema of docs/scale.md on a real API server: it takes the requests of this program, and no others."""

from __future__ import annotations

import re
from typing import Final

from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import CHECKOUT
from tests.client.server import until
from tests.pool import Pool

EXAMPLE: Final = re.compile(r"```yaml\n(apiVersion: flowcontrol\..*?)```", re.DOTALL)
ACCOUNT: Final = "system:serviceaccount:gpu-operator:"
GROUPS: Final = ("--as-group=system:serviceaccounts", "--as-group=system:authenticated")


def test_the_example_takes_the_requests_of_this_program(pool: Pool) -> None:
    """Those of the Job and of the controller go to the level that it names; those of another account do not."""
    cluster = pool.take(0)
    (example,) = EXAMPLE.findall((CHECKOUT / "docs/scale.md").read_text(encoding="utf-8"))
    cluster.kubectl("apply", "-f", "-", text=example)
    try:
        for account in ("gpu-operator-post", "gpu-operator-post-controller"):
            before = _dispatched(cluster)
            until(lambda who=account, n=before: _ask(cluster, who) and _dispatched(cluster) > n, account)  # type: ignore[misc]
        before = _dispatched(cluster)
        _ask(cluster, "another")
        assert _dispatched(cluster) == before
    finally:
        cluster.kubectl("delete", "-f", "-", text=example)


def _ask(cluster: Cluster, account: str) -> bool:
    """Send a request as a ServiceAccount. Whether it is allowed is decided after its priority."""
    cluster.kubectl("get", "--raw", "/api/v1/nodes", f"--as={ACCOUNT}{account}", *GROUPS, check=False)
    return True


def _dispatched(cluster: Cluster) -> float:
    """Return how many requests went through the FlowSchema to its level."""
    name = "apiserver_flowcontrol_dispatched_requests_total"
    metrics = cluster.kubectl("get", "--raw", "/metrics").stdout
    labels = 'flow_schema="gpu-operator-post",priority_level="workload-high"'
    counts = re.findall(rf"^{name}\{{{labels}\}} (\S+)$", metrics, re.MULTILINE)
    return sum(map(float, counts))
