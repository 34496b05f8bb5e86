"""What stands between a run and its API server misbehaves, in many ways at once.

One upgrade, and one run for each fault, with a proxy and a driver client of its own: whatever a run misses, does twice
or does too early is its own doing.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest

from hook.kube.client import JSON
from tests.e2e.acts import PATIENCE
from tests.e2e.faults.api.fleet import Fleet, Outcome, fleet_of, together
from tests.e2e.faults.breaking import answer, babble, cut_short, lose_answer, refuse, status
from tests.e2e.faults.proxy import START_SECONDS, Proxy
from tests.e2e.lab import NEW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.pool import Pool

NODES: Final = ["gpu-0", "gpu-1"]
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
READS, ALL = "list watch", "list watch create patch delete"
ASKED_SECONDS: Final = 7
"""More than a write is tried for (5 s), so that a run has to remember it between two decisions."""
OUT_OF_REACH_SECONDS: Final = 20
SURVIVORS: Final = ("cut", "throttled", "unavailable", "garbage", "lost", "balancer", "refused", "plain")
LATE_SECONDS: Final = 75
STARTERS: Final = {"nobody": "refused", "stranger": "kubernetes.example", "page": "404"}
"""Runs that cannot read anything from the start, and the cause that they must name."""


@dataclass(frozen=True, slots=True)
class Storm:
    """What came of it."""

    fleet: Fleet
    outcomes: dict[str, Outcome]
    proxies: dict[str, Proxy]


@pytest.fixture(scope="module")
def storm(pool: Pool) -> Iterator[Storm]:
    """Upgrade once, under all faults."""
    with fleet_of(pool, 2, [*SURVIVORS, "gone"], "answers") as fleet:
        proxies = {name: fleet.proxy(name) for name in (*SURVIVORS, "gone", *STARTERS)}
        _break_from_the_start(proxies)
        begin = (f"expect.driverVersion={NEW}",)
        hooks = [fleet.hook(name, *begin, proxy=proxies[name]) for name in SURVIVORS]
        hooks += [fleet.hook(name, "advanced.apiPatience=4s", proxy=proxies[name]) for name in STARTERS]
        for name in (*SURVIVORS, "gone"):
            if name == "gone":  # The last: its time is short.
                hooks.append(fleet.hook(name, *begin, proxy=proxies[name], timeout=f"{LATE_SECONDS}s"))
            fleet.lab.until(
                functools.partial(proxies[name].watches, name), f"{name} has read everything once", PATIENCE
            )
        _break_in_the_middle(proxies)
        began = time.monotonic()
        fleet.upgrade(NEW)
        fleet.lab.until(lambda: fleet.on(NEW), "all nodes are upgraded", 120)
        time.sleep(max(0.0, began + OUT_OF_REACH_SECONDS - time.monotonic()))  # this is the fault
        for name in ("refused", "plain"):
            proxies[name].accept()
        yield Storm(fleet, together(fleet.lab, hooks), proxies)


def _break_from_the_start(proxies: dict[str, Proxy]) -> None:
    """Say what is wrong before a hook starts, and whenever it writes."""
    proxies["cut"].rule(cut_short, READS, each=2)
    plain = "Too many requests, please try again later."
    too_many = answer(429, plain, "text/plain", retry_after=str(ASKED_SECONDS))
    proxies["throttled"].rule(too_many, ALL, each=1)
    proxies["unavailable"].rule(answer(503), ALL, each=1)
    proxies["unavailable"].rule(status(503, "ServiceUnavailable", "etcdserver: no leader"), ALL, each=2)
    for nonsense in (
        answer(200),
        answer(200, "{}", JSON),
        answer(200, '{"kind": "List", "items": [{"me', JSON),
        babble,
    ):
        proxies["garbage"].rule(nonsense, ALL, each=1)
    proxies["lost"].rule(lose_answer(), "delete", each=1)
    proxies["lost"].rule(refuse, "create", each=1)
    for _ in range(2):
        proxies["balancer"].rule(answer(404), "list get", each=1)
        proxies["balancer"].rule(answer(403), "list get", each=1)
    proxies["nobody"].refuse()
    proxies["stranger"].rename("kubernetes.example")
    proxies["page"].rule(answer(404), "list get")


def _break_in_the_middle(proxies: dict[str, Proxy]) -> None:
    """Say what goes wrong once everything was read."""
    for _ in range(2):
        proxies["balancer"].rule(answer(404), ALL, each=1)
        proxies["balancer"].rule(answer(403), ALL, each=1)
    proxies["balancer"].cut()
    for name in ("refused", "gone"):
        proxies[name].refuse()
    proxies["plain"].accept(tls=False)


def test_survived(storm: Storm, subtests: pytest.Subtests) -> None:
    """Each plugin is restarted once, on a settled node, and the run ends well and tells the truth."""
    for name in SURVIVORS:
        with subtests.test(name):
            storm.outcomes[name].assert_refreshed(NODES)


def test_asked_to_wait(storm: Storm) -> None:
    """Who answers 429 is left alone for as long as asked: for the same list, watch, restart or event."""
    for verb in ("list", "watch", "delete", "create"):
        asked = storm.proxies["throttled"].asked(verb)
        refused = [seen for seen in asked if seen.status == 429]
        assert refused, verb
        for each in refused:
            # A restart that must wait keeps all others back, too; each selection is read by itself.
            later = [seen for seen in asked if seen.t > each.t]
            again = [seen.t for seen in later if verb == "delete" or seen.asked.selection == each.asked.selection]
            assert again or verb == "create", verb
            assert all(t - each.t >= ASKED_SECONDS for t in again), verb


def test_a_lost_answer(storm: Storm) -> None:
    """A deletion that was done, but whose answer was lost, is not repeated on the next pod, and is told as ours."""
    lost = storm.outcomes["lost"]
    assert [one.status for one in storm.proxies["lost"].asked("delete")].count(0) == 1
    assert lost.story["restarted"] == len(lost.restarts()) == len(NODES)


def test_out_of_reach_to_the_end(storm: Storm) -> None:
    """It ends by its deadline, restarts nothing, and says why it could not see."""
    gone = storm.outcomes["gone"]
    gone.assert_phase("Deadline", "TimeUp")
    gone.assert_untouched()
    assert "refused" in gone.story["message"]
    assert gone.ended - gone.began < LATE_SECONDS + START_SECONDS


def test_nothing_to_read_from_the_start(storm: Storm, subtests: pytest.Subtests) -> None:
    """It is worth another try, soon, and the cause is named; a load balancer's 404 is no empty cluster."""
    for name, cause in STARTERS.items():
        with subtests.test(name):
            outcome = storm.outcomes[name]
            assert outcome.phase == ("Fail", "ApiUnreachable", 1), outcome.said
            assert cause in outcome.story["message"]


def test_nothing_to_do_reads_whole_objects_once(storm: Storm) -> None:
    """A run that finds nothing to do reads the objects of each kind once, custom resources too, then their metadata."""
    proxy = storm.fleet.proxy("quiet")
    outcome = storm.fleet.hook("plain", proxy=proxy).outcome(storm.fleet.lab)
    outcome.assert_phase("Done", "NothingStale")
    outcome.assert_untouched()
    asked = [seen.asked for seen in proxy.asked("list")]
    objects = Counter(each.selection for each in asked if not each.metadata and each.page == 1)
    assert set(objects.values()) == {1}, objects
    # Claims decide nothing, so no second read confirms them.
    assert {each.selection for each in asked if each.metadata} == objects.keys() - {CLAIMS}
    kinds = " ".join(objects)
    assert all(kind in kinds for kind in ("/nodes", "/pods", "/daemonsets", "/resourceslices", "/clusterpolicies"))
