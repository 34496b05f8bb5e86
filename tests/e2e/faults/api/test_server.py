"""The API server itself is killed, and forgets the past."""

from __future__ import annotations

import functools
import json
import signal
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from devcluster import etcd
from devcluster.access import Access
from devcluster.controlplane import Probe
from hook.kube.requests import PAGE_SIZE
from tests.e2e.acts import PATIENCE
from tests.e2e.faults.api.fleet import Fleet, fleet_of, together
from tests.e2e.faults.breaking import block
from tests.e2e.lab import NEW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster
    from tests.pool import Pool

NODES: Final = ["gpu-0", "gpu-1"]
CLIENTS: Final = ("watching", "listing", "looking")
API_SERVER: Final = "kube-apiserver"
ONE_BY_ONE: Final = {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "50%"}
DOWN_SECONDS: Final = 15
"""Longer than the longest pause between two tries, so that each run has asked in vain."""
WAIT: Final = (f"expect.driverVersion={NEW}",)


def _kill(cluster: Cluster) -> None:
    """Kill the API server; nothing starts it again."""
    (found,) = (each for each in cluster.status() if each.name == API_SERVER)
    found.signal_group(signal.SIGKILL)


def _revive(cluster: Cluster) -> None:
    """Start it again, and wait until it is ready."""
    cluster.revive(API_SERVER)
    server = Access.from_kubeconfig(cluster.kubeconfig).server
    cluster.wait_until("the API server is ready again", Probe(cluster.files, server).ready)


def _fill_pages(cluster: Cluster, count: int) -> None:
    """Create DaemonSets that want no pod anywhere, so that their list has more than one page."""
    pod = {"nodeSelector": {"nobody": "here"}, "containers": [{"name": "idle", "image": "idle"}]}
    template = {"metadata": {"labels": {"app": "idle"}}, "spec": pod}
    kind = {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    spec = {"selector": {"matchLabels": {"app": "idle"}}, "template": template}
    names = ({"name": f"idle-{number}", "namespace": "default"} for number in range(count))
    items = [{**kind, "metadata": name, "spec": spec} for name in names]
    cluster.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


@pytest.fixture
def fleet(pool: Pool) -> Iterator[Fleet]:
    """Bring up a fleet on the old driver."""
    with fleet_of(pool, 2, list(CLIENTS), "server") as fleet:
        yield fleet


def test_down_in_the_middle_of_an_upgrade(fleet: Fleet) -> None:
    """The server is killed in the middle of an upgrade, of lists and of watches, and its past is compacted.

    Who was reading hears 410, for a watch and for the second page of a list, and lists again; who only finds
    no server waits. Later all continue, and none restarts anything twice or too early.
    """
    cluster = fleet.lab.cluster
    _fill_pages(cluster, PAGE_SIZE + 10)
    proxies = {name: fleet.proxy(name) for name in CLIENTS}
    back = threading.Event()
    proxies["listing"].rule(block(back), "list", of="daemonsets", each=1, pages=2)
    hooks = [fleet.hook(name, *WAIT, proxy=proxy, timeout="5m") for name, proxy in proxies.items()]
    for name in ("watching", "looking"):
        fleet.lab.until(functools.partial(proxies[name].watches, name), f"{name} has read everything once", PATIENCE)
    fleet.lab.until(
        lambda: any(one.asked.page == 2 for one in proxies["listing"].asked("list")),
        "a second page is asked for",
        PATIENCE,
    )
    fleet.upgrade(NEW, driver__upgradePolicy=ONE_BY_ONE)
    for name in ("watching", "looking"):
        fleet.lab.until(functools.partial(fleet.restarted, name), f"{name} restarts a first plugin", PATIENCE)
    proxies["watching"].rule(block(back), "watch")
    _kill(cluster)
    killed = time.monotonic()
    etcd.compact(cluster.files)
    time.sleep(max(0.0, killed + DOWN_SECONDS - time.monotonic()))  # this is the fault
    _revive(cluster)
    back.set()
    for outcome in together(fleet.lab, hooks).values():
        outcome.assert_refreshed(NODES)
    assert any(b'"code":410' in said for said in proxies["watching"].said)
    assert 410 in [one.status for one in proxies["listing"].asked("list") if one.asked.page == 2]
