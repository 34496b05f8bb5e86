"""The API server itself is killed, forgets the past, and stands on storage that is too slow."""

from __future__ import annotations

import functools
import threading
import time
from typing import TYPE_CHECKING, Final

import pytest

from devcluster import etcd
from hook.kube.requests import PAGE_SIZE
from tests.e2e.faults.api import outage
from tests.e2e.faults.api.breaking import Before, Blocker, LoseAnswer
from tests.e2e.faults.api.fleet import Fleet, fleet_of, together
from tests.e2e.faults.api.proxy import until
from tests.e2e.lab import NEW, OLD

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

NODES: Final = ["gpu-0", "gpu-1"]
CONSUMERS: Final = ("watching", "listing", "looking", "deleting", "telling", "slowly")
ONE_BY_ONE: Final = {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "50%"}
DOWN_SECONDS: Final = 60
SLOW_SECONDS: Final = 20
STOPPED_SECONDS: Final = 12
"""Longer than a write is waited for."""
WAIT: Final = (f"expect.driverVersion={NEW}",)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Share one cluster."""
    with fleet_of(tmp_path_factory.mktemp("server") / "cluster", 2, list(CONSUMERS)) as fleet:
        yield fleet


@pytest.fixture
def fleet(whole: Fleet) -> Fleet:
    """Begin every chapter on the old driver, with nothing stale, whatever became of the last one."""
    whole.refreshed(OLD)
    return whole


def test_down_for_a_minute(fleet: Fleet) -> None:
    """The server is killed in the middle of a migration, of lists and of watches, and its past is compacted.

    Who was reading hears 410, for a watch and for the second page of a list, and lists again; who only finds
    nobody there waits. After a minute all go on, and none restarts anything twice or too early.
    """
    cluster = fleet.lab.cluster
    outage.fill_pages(cluster, PAGE_SIZE + 10)
    proxies = {name: fleet.proxy(name) for name in ("watching", "listing", "looking")}
    back = threading.Event()
    proxies["listing"].rule(Blocker(back), "list", of="daemonsets", each=1, pages=2)
    hooks = [fleet.hook(name, *WAIT, proxy=proxy, timeout="5m") for name, proxy in proxies.items()]
    for name in ("watching", "looking"):
        until(functools.partial(proxies[name].watches, name), f"{name} has read everything once")
    until(lambda: any(one.asked.page == 2 for one in proxies["listing"].asked("list")), "a second page is asked for")
    fleet.migrate(NEW, driver__upgradePolicy=ONE_BY_ONE)
    for name in ("watching", "looking"):
        until(functools.partial(fleet.restarted, name), f"{name} restarts a first plugin")
    proxies["watching"].rule(Blocker(back), "watch")
    outage.kill(cluster)
    killed = time.monotonic()
    etcd.compact(cluster.files)
    time.sleep(max(0.0, killed + DOWN_SECONDS - time.monotonic()))  # this is the fault
    outage.revive(cluster)
    back.set()
    for outcome in together(fleet.lab, hooks).values():
        outcome.assert_served(NODES)
    assert any(b'"code":410' in said for said in proxies["watching"].said)
    assert 410 in [one.status for one in proxies["listing"].asked("list") if one.asked.page == 2]


def test_killed_at_a_write(fleet: Fleet) -> None:
    """The server is killed after it deleted a pod and before it says so; and just before it hears of an event."""
    fleet.migrate(NEW)
    fleet.lab.until(lambda: fleet.on(NEW), "all nodes are migrated, and every plugin is stale", 120)
    restart = functools.partial(outage.restart, fleet.lab.cluster)
    for name, fault, verb in (("deleting", LoseAnswer(restart), "delete"), ("telling", Before(restart), "create")):
        proxy = fleet.proxy(name)
        rule = proxy.rule(fault, verb, each=1)
        outcome = fleet.hook(name, proxy=proxy).outcome(fleet.lab)
        assert rule.used
        outcome.assert_served(NODES)


def test_slow_storage(fleet: Fleet) -> None:
    """Storage answers now and then, and then not at all for a while: a run takes longer, and that is all."""
    hook = fleet.hook("slowly", *WAIT)
    fleet.migrate(NEW)
    with outage.slow_storage(fleet.lab.cluster):
        time.sleep(SLOW_SECONDS)
    with outage.stopped(fleet.lab.cluster):
        time.sleep(STOPPED_SECONDS)
    hook.outcome(fleet.lab).assert_served(NODES)
