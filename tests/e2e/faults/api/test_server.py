"""The API server itself is killed, forgets the past, and stands on storage that is too slow."""

from __future__ import annotations

import contextlib
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
from tests.e2e.faults.breaking import before, block, lose_answer
from tests.e2e.lab import NEW, OLD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from devcluster.cluster import Cluster
    from devcluster.processes import Record
    from tests.pool import Pool

NODES: Final = ["gpu-0", "gpu-1"]
CLIENTS: Final = ("watching", "listing", "looking", "deleting", "telling", "slowly")
ONE_BY_ONE: Final = {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "50%"}
DOWN_SECONDS: Final = 60
SLOW_SECONDS: Final = 20
STOPPED_SECONDS: Final = 12
"""Longer than a write is waited for."""
WAIT: Final = (f"expect.driverVersion={NEW}",)


API_SERVER, ETCD = "kube-apiserver", "etcd"
PAUSE_SECONDS, PULSE_SECONDS = 1.0, 0.3
"""A disk that is far too slow: a request in four is answered within a second."""


def _process(cluster: Cluster, name: str) -> Record:
    (found,) = (each for each in cluster.status() if each.name == name)
    return found


def _kill(cluster: Cluster) -> None:
    """Kill the API server; nothing starts it again."""
    _process(cluster, API_SERVER).signal_group(signal.SIGKILL)


def _revive(cluster: Cluster) -> None:
    """Start it again, and wait until it is ready."""
    cluster.revive(API_SERVER)
    server = Access.from_kubeconfig(cluster.kubeconfig).server
    cluster.wait_until("the API server is ready again", Probe(cluster.files, server).ready)


def _restart(cluster: Cluster) -> None:
    """Kill the API server and start it at once; it needs a few seconds."""
    _kill(cluster)
    cluster.revive(API_SERVER)


@contextlib.contextmanager
def _stopped(cluster: Cluster, name: str = ETCD) -> Iterator[None]:
    """Let a process stand still."""
    record = _process(cluster, name)
    record.signal_group(signal.SIGSTOP)
    try:
        yield
    finally:
        record.signal_group(signal.SIGCONT)


@contextlib.contextmanager
def _slow_storage(cluster: Cluster) -> Iterator[None]:
    """Let etcd stand still most of the time."""
    enough = threading.Event()

    def pulse() -> None:
        while not enough.is_set():
            with _stopped(cluster):
                time.sleep(PAUSE_SECONDS)
            time.sleep(PULSE_SECONDS)

    thread = threading.Thread(target=pulse, name="slow-etcd")
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def _fill_pages(cluster: Cluster, count: int) -> None:
    """Create DaemonSets that want no pod anywhere, so that their list has more than one page."""
    pod = {"nodeSelector": {"nobody": "here"}, "containers": [{"name": "idle", "image": "idle"}]}
    template = {"metadata": {"labels": {"app": "idle"}}, "spec": pod}
    kind = {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    spec = {"selector": {"matchLabels": {"app": "idle"}}, "template": template}
    names = ({"name": f"idle-{number}", "namespace": "default"} for number in range(count))
    items = [{**kind, "metadata": name, "spec": spec} for name in names]
    cluster.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


@pytest.fixture(scope="module")
def whole(pool: Pool) -> Iterator[Fleet]:
    """Share one fleet."""
    with fleet_of(pool, 2, list(CLIENTS), "server") as fleet:
        yield fleet


@pytest.fixture
def fleet(whole: Fleet) -> Fleet:
    """Begin every chapter on the old driver, with nothing stale, whatever became of the last one."""
    whole.refreshed(OLD)
    return whole


def test_down_for_a_minute(fleet: Fleet) -> None:
    """The server is killed in the middle of an upgrade, of lists and of watches, and its past is compacted.

    Who was reading hears 410, for a watch and for the second page of a list, and lists again; who only finds
    no server waits. After a minute all continue, and none restarts anything twice or too early.
    """
    cluster = fleet.lab.cluster
    _fill_pages(cluster, PAGE_SIZE + 10)
    proxies = {name: fleet.proxy(name) for name in ("watching", "listing", "looking")}
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


def test_killed_at_a_write(fleet: Fleet) -> None:
    """The server is killed after it deleted a pod and before it says so; and just before it hears of an event."""
    fleet.upgrade(NEW)
    fleet.lab.until(lambda: fleet.on(NEW), "all nodes are upgraded, and every plugin is stale", 120)
    restart = functools.partial(_restart, fleet.lab.cluster)
    for name, fault, verb in (("deleting", lose_answer(restart), "delete"), ("telling", before(restart), "create")):
        proxy = fleet.proxy(name)
        rule = proxy.rule(fault, verb, each=1)
        outcome = fleet.hook(name, proxy=proxy).outcome(fleet.lab)
        assert rule.used
        outcome.assert_refreshed(NODES)


def test_slow_storage(fleet: Fleet) -> None:
    """Storage answers now and then, and then not at all for a while: a run takes longer, and that is all."""
    hook = fleet.hook("slowly", *WAIT)
    fleet.upgrade(NEW)
    with _slow_storage(fleet.lab.cluster):
        time.sleep(SLOW_SECONDS)
    with _stopped(fleet.lab.cluster):
        time.sleep(STOPPED_SECONDS)
    hook.outcome(fleet.lab).assert_refreshed(NODES)
