"""What stands between a run and its API server misbehaves, in many ways at once.

One upgrade, and one run for each fault, with a proxy and a driver client of its own: whatever a run misses, does twice
or does too early is its own doing.
"""

from __future__ import annotations

import functools
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from devcluster.settings import client
from hook.kube.client import JSON
from tests.e2e import acts
from tests.e2e.acts import PATIENCE, Run, Told
from tests.e2e.faults.breaking import answer, babble, cut_short, lose_answer, refuse, status
from tests.e2e.faults.proxy import Proxy
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, OLD, Lab
from tests.evidence import keep
from tests.pool import Pool
from tests.promises import promised

NODES: Final = ["gpu-0", "gpu-1"]
NAMESPACE: Final = "monitoring"
CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
READS, ALL = "list watch", "list watch create patch delete"
ASKED_SECONDS: Final = 7
"""More than a write is tried for (5 s), so that a run has to remember it between two decisions."""
SURVIVORS: Final = ("cut", "throttled", "unavailable", "garbage", "lost", "balancer", "refused", "plain")
STARTERS: Final = {
    "closed-port": ("ApiUnreachable", "refused"),
    "stranger": ("CertificateRefused", "kubernetes.example"),
    "page": ("ApiUnreachable", "404"),
}
"""Runs that cannot read anything from the start, and the cause that they must name."""


@dataclass(frozen=True, slots=True)
class Storm:
    """What came of it."""

    lab: Lab
    runs: dict[str, Run]
    told: dict[str, Told]
    proxies: dict[str, Proxy]

    def restarts(self, name: str) -> list[str]:
        """Name the nodes on which a run's driver client was restarted, once a restart."""
        return sorted(each.node for each in self.lab.truth.restarts(f"{NAMESPACE}/{name}", since=self.lab.began))

    def assert_refreshed(self, name: str) -> None:
        """Assert the promises: done, nothing stale by then, nothing early, nothing needless, and the story is true."""
        told, truth, plugin = self.told[name], self.lab.truth, f"{NAMESPACE}/{name}"
        told.assert_phase("Done", "Refreshed")
        assert self.restarts(name) == NODES, told.said
        with promised():
            assert truth.early_restarts(plugin, since=self.lab.began) == (), told.said
            assert truth.needless_restarts(plugin, since=self.lab.began) == (), told.said
            assert truth.stale_now(plugin) == ()
        happened = (each for each in truth.since(self.lab.began) if each.event == "plugin-ready")
        started = [each.t for each in happened if each.concerns(plugin)]
        assert len(started) == told.story["restarted"] == len(NODES)
        assert max(started) <= self.runs[name].message.stat().st_mtime


@pytest.fixture(scope="module")
def storm(pool: Pool) -> Iterator[Storm]:
    """Upgrade once, under all faults."""
    lab = Lab(pool.take(len(NODES)))
    _bring_up(lab)
    proxies = {name: Proxy(lab.cluster.files, name).start() for name in (*SURVIVORS, "gone", *STARTERS, "quiet")}
    try:
        _break_from_the_start(proxies)
        runs = {name: _run(lab, name, proxies[name], expect=NEW) for name in SURVIVORS}
        runs |= {name: _run(lab, name, proxies[name], "advanced.apiPatience=4s") for name in STARTERS}
        for name in (*SURVIVORS, "gone"):
            if name == "gone":  # The last: its time is short.
                runs[name] = _run(lab, name, proxies[name], expect=NEW, timeout="60s")
            lab.until(functools.partial(proxies[name].watches, name), f"{name} has read everything once", PATIENCE)
        _break_in_the_middle(proxies)
        lab.operator(chart=NEW_CHART, driver=NEW, **ALL_AT_ONCE)
        lab.until(lambda: lab.settled(len(NODES)), "all nodes are upgraded", PATIENCE)
        for name in ("refused", "plain"):
            proxies[name].accept()
        yield Storm(lab, runs, {name: run.told() for name, run in runs.items()}, proxies)
    finally:
        for proxy in proxies.values():
            proxy.stop()
        keep(lab.cluster, "answers")


def _bring_up(lab: Lab) -> None:
    """Bring the drivers up, then a driver client for each run, as the exporter's chart does; no DRA plugin."""
    lab.operator(**ALL_AT_ONCE)
    lab.until(lambda: acts.upgraded(lab, len(NODES), OLD), "the drivers are loaded", PATIENCE)
    lab.until(lambda: lab.label_states() == {"upgrade-done"}, "the labels are quiet", PATIENCE)
    names = (*SURVIVORS, "gone")
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *map(_client, names)]
    lab.cluster.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    lab.until(lambda: lab.ready_pods(NAMESPACE) == len(names) * len(NODES), "all driver clients run", PATIENCE)
    lab.began = time.time()


def _client(name: str) -> dict[str, Any]:
    """Describe a DaemonSet that holds the driver."""
    labels = {"app.kubernetes.io/name": name}
    spec = {
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "exporter", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless"}],
    }
    template = {"metadata": {"labels": labels, "annotations": {"devcluster/holds": "driver"}}, "spec": spec}
    metadata, daemonset = {"name": name, "namespace": NAMESPACE}, {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    return {**daemonset, "metadata": metadata, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def _run(lab: Lab, name: str, proxy: Proxy, *args: str, expect: str = "", timeout: str = "4m") -> Run:
    wanted = (f"expect.driverVersion={expect}",) if expect else ()
    return acts.begin(lab, client(NAMESPACE, name), *wanted, *args, kubeconfig=proxy.kubeconfig, timeout=timeout)


def _break_from_the_start(proxies: dict[str, Proxy]) -> None:
    """Return what is wrong before a hook starts, and whenever it writes."""
    proxies["cut"].rule(cut_short, READS, each=2)
    plain = "Too many requests, please try again later."
    too_many = answer(429, plain, "text/plain", retry_after=str(ASKED_SECONDS))
    proxies["throttled"].rule(too_many, ALL, each=1)
    proxies["unavailable"].rule(answer(503), ALL, each=1)
    proxies["unavailable"].rule(status(503, "ServiceUnavailable", "etcdserver: no leader"), ALL, each=2)
    for nonsense in (answer(200), answer(200, "{}", JSON), answer(200, '{"kind": "List", "items":[{"me', JSON), babble):
        proxies["garbage"].rule(nonsense, ALL, each=1)
    proxies["lost"].rule(lose_answer, "delete", each=1)
    proxies["lost"].rule(refuse, "patch", each=1)
    for _ in range(2):
        proxies["balancer"].rule(answer(404), "list get", each=1)
        proxies["balancer"].rule(answer(403), "list get", each=1)
    proxies["closed-port"].refuse()
    proxies["stranger"].rename("kubernetes.example")
    proxies["page"].rule(answer(404), "list get")


def _break_in_the_middle(proxies: dict[str, Proxy]) -> None:
    """Return what goes wrong once everything was read."""
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
            storm.assert_refreshed(name)


def test_asked_to_wait(storm: Storm) -> None:
    """A server that answers 429 gets no request for as long as it asks: for the same list, watch, restart or event."""
    for verb in ("list", "watch", "delete", "patch"):
        asked = storm.proxies["throttled"].asked(verb)
        refused = [seen for seen in asked if seen.status == 429]
        assert refused, verb
        for each in refused:
            # A restart that must wait keeps all others back, too; each selection is read by itself.
            later = [seen for seen in asked if seen.t > each.t]
            again = [seen.t for seen in later if verb == "delete" or seen.asked.selection == each.asked.selection]
            assert again or verb == "patch", verb
            assert all(t - each.t >= ASKED_SECONDS for t in again), verb


def test_a_lost_answer(storm: Storm) -> None:
    """A deletion that was done, but whose answer was lost, is not repeated on the next pod, and is reported as ours."""
    assert [one.status for one in storm.proxies["lost"].asked("delete")].count(0) == 1
    assert storm.told["lost"].story["restarted"] == len(storm.restarts("lost")) == len(NODES)


def test_out_of_reach_to_the_end(storm: Storm) -> None:
    """It ends by its deadline, restarts nothing, and says why it could not see."""
    gone = storm.told["gone"].assert_phase("Deadline", "TimeUp")
    with promised():
        assert storm.restarts("gone") == [], gone.said
    assert "refused" in gone.story["message"]


def test_nothing_to_read_from_the_start(storm: Storm) -> None:
    """The cause is named, and a certificate is a cause of its own; a load balancer's 404 is no empty cluster."""
    for name, (reason, cause) in STARTERS.items():
        told = storm.told[name].assert_phase("Fail", reason, 1)
        assert cause in told.story["message"], name


def test_nothing_to_do_reads_each_kind_twice(storm: Storm) -> None:
    """A run that finds nothing to do lists each kind, and once more before its end, custom resources too."""
    proxy = storm.proxies["quiet"]
    _run(storm.lab, "plain", proxy).told().assert_phase("Done", "NothingStale")
    assert storm.restarts("plain") == NODES
    asked = [seen.asked for seen in proxy.asked("list")]
    objects = Counter(each.selection for each in asked if each.page == 1)
    # Claims decide nothing, so no second read confirms them.
    assert {selection: 1 if selection == CLAIMS else 2 for selection in objects} == objects
    kinds = " ".join(objects)
    assert all(kind in kinds for kind in ("/nodes", "/pods", "/daemonsets", "/resourceslices", "/clusterpolicies"))
