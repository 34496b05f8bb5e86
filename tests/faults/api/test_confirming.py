"""What confirms an end: watches that provably caught up, at the price of a few small requests; or everything again."""

from __future__ import annotations

import asyncio
import functools
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.lab import NEW, OLD
from tests.faults.api.breaking import NoBookmarks
from tests.faults.api.fleet import Fleet, fleet_of, together
from tests.faults.api.proxy import START_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiohttp import web

    from tests.faults.api.proxy import Proxy

pytestmark = pytest.mark.e2e

NODES: Final = ["gpu-0", "gpu-1"]
ONE_OBJECT: Final = re.compile(r"[?&]limit=1(&|$)")
"""A question after a kind's version, which brings one object at most."""
NOTES: Final = "/api/v1/namespaces/default/configmaps"
POLICY: Final = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Share one cluster."""
    with fleet_of(tmp_path_factory.mktemp("confirming") / "cluster", 2, ["quiet", "unmarked", "behind"]) as fleet:
        fleet.refreshed(OLD)
        yield fleet


def lists(proxy: Proxy) -> Counter[str]:
    """Count by selection how often a hook began to read everything."""
    asked = [one.asked for one in proxy.asked("list") if not ONE_OBJECT.search(one.asked.target)]
    return Counter(one.selection for one in asked if one.page == 1)


@dataclass
class JustBefore:
    """Something happens once, just before the server hears of the first question that confirms an end."""

    then: Callable[[], object]
    happened: bool = False

    async def __call__(self, _proxy: Proxy, request: web.BaseRequest, _body: bytes) -> None:
        """Let it happen, and the request go on."""
        if not self.happened and ONE_OBJECT.search(request.path_qs):
            self.happened = True
            await asyncio.to_thread(self.then)


def test_nothing_to_do_lists_each_kind_once(fleet: Fleet) -> None:
    """A run that finds nothing to do reads no kind twice; a server without bookmarks costs it a second list of each.

    Both come to the same end, although something happens in the cluster just before they are sure.
    """
    proxies = {name: fleet.proxy(name) for name in ("quiet", "unmarked")}
    proxies["unmarked"].rule(NoBookmarks(), "watch")
    for name, proxy in proxies.items():
        # Something happens somewhere, so that every kind is at a later version than was seen.
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        proxy.rule(JustBefore(functools.partial(fleet.lab.cluster.create, NOTES, note)), "list")
    hooks = [fleet.hook(name, proxy=proxy) for name, proxy in proxies.items()]
    for outcome in together(fleet.lab, hooks).values():
        assert outcome.verdict == ("Done", "NothingStale", 0), outcome.said
        outcome.assert_untouched()
    once, twice = lists(proxies["quiet"]), lists(proxies["unmarked"])
    assert set(once.values()) == {1}, once
    assert set(twice.values()) == {2}, twice
    kinds = " ".join(once)
    assert all(kind in kinds for kind in ("/nodes", "/pods", "/daemonsets", "/resourceslices", "/clusterpolicies"))


def test_watches_that_are_behind_confirm_nothing(fleet: Fleet) -> None:
    """All watches fall silent at the moment in which a run would be done, and an upgrade begins.

    What the run has seen says done, and goes on saying so for more than a minute; watches that are opened anew tell
    that it is not. So it stays, hears of the upgrade once the silent watches are given up, and serves it.
    """
    proxy = fleet.proxy("behind")

    def upgrade() -> None:
        proxy.freeze()
        fleet.lab.cluster.patch(POLICY, {"spec": {"driver": {"version": NEW}}})

    moment = JustBefore(upgrade)
    proxy.rule(moment, "list")
    outcome = fleet.hook("behind", proxy=proxy, timeout="5m").outcome(fleet.lab)
    assert moment.happened
    outcome.assert_served(NODES)
    assert outcome.ended - outcome.began < 300 + START_SECONDS
