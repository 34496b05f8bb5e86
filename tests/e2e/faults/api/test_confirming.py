"""What confirms an end: caches that hold what a list of metadata shows; or whole objects, read again."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from tests.e2e.faults.api.fleet import Fleet, fleet_of, together
from tests.e2e.faults.breaking import whole_objects
from tests.e2e.faults.proxy import START_SECONDS, asks_for_metadata
from tests.e2e.lab import NEW, OLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiohttp import web

    from tests.e2e.faults.breaking import Fault
    from tests.e2e.faults.proxy import Proxy
    from tests.pool import Pool

NODES: Final = ["gpu-0", "gpu-1"]
NOTES: Final = "/api/v1/namespaces/default/configmaps"
POLICY: Final = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


@pytest.fixture(scope="module")
def fleet(pool: Pool) -> Iterator[Fleet]:
    """Share one fleet."""
    with fleet_of(pool, 2, ["quiet", "whole", "behind"], "confirming") as fleet:
        fleet.refreshed(OLD)
        yield fleet


def lists(proxy: Proxy) -> Counter[str]:
    """Count by selection how often a hook began to read whole objects."""
    asked = [one.asked for one in proxy.asked("list") if not one.asked.metadata]
    return Counter(one.selection for one in asked if one.page == 1)


@dataclass
class JustBefore:
    """Something happens once, just before the server is asked for the metadata that confirms an end."""

    then: Callable[[], object]
    fault: Fault | None = None
    """What becomes of each such request; otherwise it continues."""
    happened: bool = False

    async def __call__(self, proxy: Proxy, request: web.BaseRequest, body: bytes) -> web.StreamResponse | None:
        """Let it happen."""
        if not self.happened and asks_for_metadata(request):
            self.happened = True
            await asyncio.to_thread(self.then)
        return await self.fault(proxy, request, body) if self.fault and asks_for_metadata(request) else None


def test_nothing_to_do_reads_whole_objects_once(fleet: Fleet) -> None:
    """A run that finds nothing to do reads the objects of each kind once, and then their metadata.

    That holds for every kind, custom resources included, and also where a proxy lets the server answer with whole
    objects; something happens in the cluster just before each run is sure.
    """
    proxies = {name: fleet.proxy(name) for name in ("quiet", "whole")}
    for name, proxy in proxies.items():
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        happens = functools.partial(fleet.lab.cluster.create, NOTES, note)
        proxy.rule(JustBefore(happens, whole_objects if name == "whole" else None), "list")
    hooks = [fleet.hook(name, proxy=proxy) for name, proxy in proxies.items()]
    for outcome in together(fleet.lab, hooks).values():
        outcome.assert_phase("Done", "NothingStale")
        outcome.assert_untouched()
    for proxy in proxies.values():
        objects = lists(proxy)
        metadata = {seen.asked.selection for seen in proxy.asked("list") if seen.asked.metadata}
        assert set(objects.values()) == {1}, objects
        # Claims decide nothing, so no second read confirms them.
        assert metadata == objects.keys() - {"/apis/resource.k8s.io/v1/resourceclaims"}
        kinds = " ".join(objects)
        assert all(kind in kinds for kind in ("/nodes", "/pods", "/daemonsets", "/resourceslices", "/clusterpolicies"))


def test_watches_that_are_behind_confirm_nothing(fleet: Fleet) -> None:
    """All watches fall silent at the moment in which a run would be done, and an upgrade begins.

    By what the run has seen it is done, for more than a minute; the metadata shows that it has not seen all. So it
    continues, sees the upgrade once the silent watches are given up, and restarts the stale plugins.
    """
    proxy = fleet.proxy("behind")

    def upgrade() -> None:
        proxy.freeze()
        fleet.lab.cluster.patch(POLICY, {"spec": {"driver": {"version": NEW}}})

    moment = JustBefore(upgrade)
    proxy.rule(moment, "list")
    outcome = fleet.hook("behind", proxy=proxy, timeout="5m").outcome(fleet.lab)
    assert moment.happened
    outcome.assert_refreshed(NODES)
    assert outcome.ended - outcome.began < 300 + START_SECONDS
