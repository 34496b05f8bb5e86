"""Affected pods: whose claims were prepared by a plugin that was not fresh on the driver that is loaded now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from hook.config import Settings
from hook.decide import clients
from hook.decide.state import Memory
from hook.decide.workloads import Affected, AffectedPod, Exposure, Plugins, Refresh, Refreshes, affected_pods, joined
from hook.objects.drivers import GPU_OPERATOR
from hook.objects.workloads import claim_pod, claim_reader
from tests.fixtures import workloads
from tests.fixtures.cluster import LATER, Cluster, cluster, stale, stale_plugin
from tests.fixtures.objects import Object, R, at, driver_pod, finished, merged, obj, plugin_pod, running, stamp
from tests.unit.decide import patches
from tests.unit.decide.runs import TOOLKIT, Run, named

BEFORE, STALE, POSSIBLE = Exposure.BEFORE_UPGRADE, Exposure.WHILE_STALE, Exposure.POSSIBLE
AGAIN = 3600
"""The plugin that replaced one that this program restarted; the restart is at LATER."""


def evaluate(
    found: Cluster,
    *pods: Object,
    memory: Memory | None = None,
    before: Mapping[str, Refresh] | None = None,
    shared: tuple[Object, ...] = (),
) -> tuple[dict[str, Exposure], Refreshes]:
    """Return the exposure of each affected pod by its name, and the refreshes that are known after that."""
    snapshot = found.seen()
    read = claim_reader(GPU_OPERATOR.plugin.claim_drivers)
    held = [*shared, *(workloads.claim(f"{pod['metadata']['name']}-gpu", pod["metadata"]["name"]) for pod in pods)]
    holders = joined(filter(None, map(read, held)), filter(None, map(claim_pod, pods)))
    plugins = clients.find(snapshot.daemonsets, GPU_OPERATOR, Settings())
    seen = Plugins(snapshot, plugins, GPU_OPERATOR, memory or Memory(started=LATER))
    affected, refreshes = affected_pods(holders, seen, before or {})
    assert affected == sorted(affected, key=lambda pod: (not pod.exposure.certain, pod.name))
    return {pod.name: pod.exposure for pod in affected}, refreshes


def restarted(settings: Settings | None = None) -> tuple[Cluster, Memory]:
    """Return a node whose stale plugin this program restarted, with the fresh one, and the memory of the run."""
    run = Run(stale(), settings or Settings())
    run.restart()
    run.found.put("plugin-pod", named(plugin_pod(waited=AGAIN + 9, started=AGAIN + 10), "fresh"))
    run.look(60)
    return run.found, run.memory


def waited(started: float) -> Object:
    """Return a plugin pod whose init container started at a moment, and waited for the driver until R + 5."""
    init = merged(finished("init-container", R + 5), {"state": {"terminated": {"startedAt": stamp(started)}}})
    whole: Object = merged(plugin_pod(), {"status": {"initContainerStatuses": [init]}})
    return whole


def test_pods_are_joined_with_their_claims() -> None:
    """A pod that no claim is reserved for holds none of these drivers' devices."""
    read = claim_reader(("gpu.nvidia.com",))
    claims = filter(None, [read(workloads.claim("b", "one", "two")), read(workloads.claim("a", "one"))])
    pods = filter(None, (claim_pod(workloads.claim_pod(name, started=1)) for name in ("one", "two", "three")))
    assert [(pod.name, names) for pod, names in joined(claims, pods)] == [("one", ("a", "b")), ("two", ("b",))]


def test_what_a_restart_of_this_program_shows() -> None:
    """The start of the plugin that replaced the stale one separates affected pods from healthy ones."""
    found, memory = restarted()
    affected, refreshes = evaluate(
        found,
        workloads.claim_pod("old", started=-100),
        workloads.claim_pod("survivor", started=-100, sandbox=20),
        workloads.claim_pod("stale", started=R + 30),
        workloads.claim_pod("same-second", started=0),
        workloads.claim_pod("last", started=AGAIN + 5, sandbox=AGAIN + 9),
        workloads.claim_pod("retried", started=R + 30, sandbox=AGAIN + 10),
        workloads.claim_pod("between", started=AGAIN + 10, sandbox=AGAIN + 12),
        workloads.claim_pod("unknown", started=R + 30, patch={"status": {"conditions": None}}),
        workloads.claim_pod("healthy", started=AGAIN + 11),
        memory=memory,
    )
    assert affected == {
        "old": BEFORE, "survivor": BEFORE, "stale": STALE, "same-second": STALE, "last": STALE,
        "retried": POSSIBLE, "between": POSSIBLE, "unknown": POSSIBLE,
    }  # fmt: skip
    run = "driver-gpu-0-uid/0"
    assert refreshes == {"gpu-0": Refresh(run, by=at(AGAIN + 11), first=at(AGAIN + 10))}


def test_a_shared_claim_makes_each_of_its_pods_affected() -> None:
    """The plugin answers from its checkpoint: a later pod gets the files of the first one, with the same certainty."""
    found, memory = restarted()
    pods = [workloads.claim_pod(name, started=AGAIN + 20) for name in ("first", "second", "third", "alone")]
    pods += [
        workloads.claim_pod("old", started=-100),
        workloads.claim_pod("stale", started=R + 30),
        workloads.claim_pod("retried", started=R + 30, sandbox=AGAIN + 20),
    ]
    shared = (
        workloads.claim("one", "stale", "first"),
        workloads.claim("two", "old", "stale", "retried", "second"),
        workloads.claim("three", "retried", "third"),
        workloads.claim("four", "first", "alone"),
    )
    affected, _refreshes = evaluate(found, *pods, memory=memory, shared=shared)
    assert affected == {
        "first": STALE, "second": BEFORE, "third": POSSIBLE, "old": BEFORE, "stale": BEFORE, "retried": BEFORE,
    }  # fmt: skip


def test_a_plugin_that_is_still_stale() -> None:
    """Each claim that is prepared now gets the old driver's files; a restart in progress changes nothing yet."""
    pods = (workloads.claim_pod("old", started=-9), workloads.claim_pod("new", started=AGAIN))
    assert evaluate(stale(), *pods) == ({"old": BEFORE, "new": STALE}, {})
    run = Run(stale())
    run.restart()
    assert evaluate(run.found, *pods, memory=run.memory) == ({"old": BEFORE, "new": STALE}, {})
    unknown = workloads.claim_pod("unknown", started=AGAIN, patch={"status": {"conditions": None}})
    assert evaluate(stale(), unknown)[0] == {"unknown": POSSIBLE}


def test_a_plugin_that_waited_for_its_driver() -> None:
    """The driver manager evicted it, so no plugin was stale. One whose wait began later may have replaced another."""
    pods = (
        workloads.claim_pod("old", started=-9),
        workloads.claim_pod("early", started=R, sandbox=R + 3),
        workloads.claim_pod("new", started=R + 7),
    )
    assert evaluate(cluster().only("plugin-pod", waited(-4)), *pods)[0] == {"old": BEFORE, "early": STALE}
    for plugin in (waited(R + 1), plugin_pod(), plugin_pod(waited=None)):
        assert evaluate(cluster().only("plugin-pod", plugin), *pods)[0] == {"old": BEFORE, "early": POSSIBLE}
    both = [running(name, R + 50, restarts=1) for name in ("gpus", "compute-domains")]
    crashed = merged(waited(-4), {"status": {"containerStatuses": both}})
    affected, _refreshes = evaluate(cluster().only("plugin-pod", crashed), *pods)
    assert affected == {"old": BEFORE, "early": POSSIBLE, "new": POSSIBLE}


def test_what_is_known_of_a_refresh_is_kept() -> None:
    """A plugin that started later for another reason makes no healthy pod affected."""
    found, memory = restarted()
    pods = (workloads.claim_pod("stale", started=R + 30), workloads.claim_pod("healthy", started=AGAIN + 20))
    _affected, known = evaluate(found, *pods, memory=memory)
    later = Cluster(dict(found.parts)).only("plugin-pod", named(plugin_pod(started=AGAIN + 500), "third"))
    assert evaluate(later, *pods, before=known) == ({"stale": STALE}, known)
    assert evaluate(Cluster(dict(later.parts)).drop("plugin-pod"), *pods, before=known) == ({"stale": STALE}, known)
    assert evaluate(later, *pods)[0] == {"stale": POSSIBLE, "healthy": POSSIBLE}
    # A plugin that was proven fresh stays so, although its times prove nothing.
    doubt = cluster().only("plugin-pod", plugin_pod(waited=None, started=R))
    proven = Memory(started=LATER, fresh={"plugin-gpu-0-uid": known["gpu-0"].driver_run})
    assert evaluate(doubt, *pods)[0] == {"stale": POSSIBLE, "healthy": POSSIBLE}
    assert evaluate(doubt, *pods, memory=proven)[0] == {}
    # A process that saw a later plugin first knows less than one that saw the earlier one.
    run = known["gpu-0"].driver_run
    for ours, theirs, expected in (
        (Refresh(run, at(9)), Refresh(run, at(5)), at(5)),
        (Refresh(run, at(5)), Refresh(run, at(9)), at(5)),
        (Refresh(run, at(9), at(9)), Refresh(run, at(5)), at(5)),
        (Refresh(run, at(5)), Refresh(run, at(9), at(9)), at(5)),
        (Refresh(run, at(5)), Refresh("another", at(1)), at(5)),
        (Refresh(run, at(5)), None, at(5)),
    ):
        assert ours.after(theirs) == Refresh(run, expected)


def imaged(found: Cluster, driver: Object, image: str) -> Cluster:
    """Return the same cluster with another driver pod, whose revision records an image."""
    containers = {"containers": [{"name": "nvidia-driver-ctr", "image": image}]}
    whole = Cluster(dict(found.parts)).only("driver-pod", driver)
    return whole.change("revision", {"data": {"spec": {"template": {"spec": containers}}}})


def test_a_reload_makes_earlier_refreshes_void_unless_the_image_is_the_same() -> None:
    """Pods that were healthy on the same image are only possibly affected, also once the plugin is fresh again."""
    found, memory = restarted()
    found, healthy = imaged(found, driver_pod(), "a"), workloads.claim_pod("healthy", started=AGAIN + 20)
    stale, new = workloads.claim_pod("stale", started=R + 30), workloads.claim_pod("new", started=AGAIN + 170)
    _affected, known = evaluate(found, healthy, memory=memory)
    replaced = named(driver_pod(started=AGAIN + 100, ready=AGAIN + 160), "second")
    crashed = driver_pod(started=AGAIN + 100, ready=AGAIN + 160, unloaded=-2, ended_before=AGAIN + 90, restarts=1)
    certain, doubt = {"stale": BEFORE, "healthy": BEFORE, "new": STALE}, {"healthy": POSSIBLE, "new": POSSIBLE}
    for driver, image, before, expected in (
        (replaced, "b", known, certain),
        (replaced, "", {"gpu-0": structs.replace(known["gpu-0"], image="")}, certain),
        (replaced, "a", Refreshes(), certain),
        (replaced, "a", known, {"stale": BEFORE, **doubt}),
        (crashed, "a", known, {"stale": BEFORE, **doubt}),
        (crashed, "", Refreshes(), {"stale": POSSIBLE, **doubt}),
    ):
        reloaded = imaged(found, driver, image)
        assert evaluate(reloaded, stale, healthy, new, memory=memory, before=before) == (expected, before), image
    again = imaged(found, replaced, "a").only("plugin-pod", plugin_pod(started=AGAIN + 300))
    for _turn in range(2):
        affected, known = evaluate(again, stale, healthy, new, before=known)
        assert affected == {"stale": BEFORE, **doubt}
        assert known["gpu-0"].alike == at(AGAIN + 11)


def test_nothing_is_evaluated_while_a_driver_reloads() -> None:
    """There is no driver that is loaded now. What is known of the node is kept."""
    pods = (workloads.claim_pod("old", started=-9), workloads.claim_pod("elsewhere", started=-9, node="gpu-7"))
    known = {"gpu-0": Refresh("run", at(5))}
    nameless = {"spec": {"containers": [{"name": "x"}]}, "status": {"containerStatuses": [running("x", 0)]}}
    for found in (
        cluster().drop("driver-pod"),
        cluster().change("driver-pod", patches.NOT_READY),
        cluster().change("driver-pod", patches.DELETING),
        cluster().put("driver-pod", named(driver_pod(), "second")),
        cluster().change("driver-pod", nameless),
    ):
        assert evaluate(found, *pods, before=known) == ({}, known)


def test_a_plugin_that_another_account_replaces() -> None:
    """For a moment no plugin is fresh. That makes no pod affected that is newer than the driver."""
    pods = (workloads.claim_pod("old", started=-9), workloads.claim_pod("new", started=R + 30))
    starting = merged(plugin_pod(), {"status": {"containerStatuses": []}})
    for found in (cluster().drop("plugin-pod"), cluster().only("plugin-pod", starting)):
        assert evaluate(found, *pods)[0] == {"old": BEFORE}


def test_other_clients_and_refused_restarts_refresh_nothing() -> None:
    """Only the plugin prepares claims, and only a restart that happened shows when it was refreshed."""
    other = merged(obj("plugin-daemonset"), {"metadata": {"name": "exporter", "uid": "exporter-ds"}})
    owned = {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "uid": "exporter-ds", "controller": True}]}}
    found = cluster().put("daemonset", other).only("plugin-pod", merged(stale_plugin(), owned))
    new = workloads.claim_pod("new", started=R + 30)
    assert evaluate(found, new) == ({}, {})
    refused = Run(stale()).record("gpu-0", refused="no")
    refused.found.only("plugin-pod", named(plugin_pod(started=AGAIN), "by-hand"))
    assert evaluate(refused.found, new, memory=refused.memory)[0] == {"new": POSSIBLE}


def test_a_restart_for_a_prerequisite_is_one_under_the_same_driver() -> None:
    """The recorded run names the toolkit's run, too."""
    run = Run(stale(), TOOLKIT)
    record = stale().judge().stale_pod
    assert record is not None
    longer = replace(record, driver_run=f"{record.driver_run}/toolkit-uid/0")
    memory = run.memory.asked("gpu-0", longer, LATER)
    found = stale().only("plugin-pod", named(plugin_pod(started=AGAIN + 10), "fresh"))
    pod = workloads.claim_pod("stale", started=R + 30)
    assert evaluate(found, pod, memory=memory)[0] == {"stale": STALE}
    another = replace(record, driver_run=f"{record.driver_run}0")
    assert evaluate(found, pod, memory=run.memory.asked("gpu-0", another, LATER))[0] == {"stale": POSSIBLE}


def test_only_a_plugin_that_is_older_than_the_driver_proves_anything() -> None:
    """A restart for another reason, and a new plugin that is not fresh yet, make a pod possibly affected at most."""
    record = stale().judge().stale_pod
    assert record is not None
    assert record.predates
    memory = Run(stale()).memory.asked("gpu-0", replace(record, predates=False), LATER)
    pod = workloads.claim_pod("pod", started=R + 30)
    again = stale().only("plugin-pod", named(plugin_pod(started=AGAIN + 10), "fresh"))
    assert evaluate(again, pod, memory=memory)[0] == {"pod": POSSIBLE}
    ours = Run(stale()).memory.asked("gpu-0", record, LATER)
    crashing = named(plugin_pod(started=AGAIN + 10), "new")
    crashing["status"]["containerStatuses"][0] |= {"ready": False, "started": False, "state": {"waiting": {}}}
    assert evaluate(stale().only("plugin-pod", crashing), pod, memory=ours)[0] == {"pod": POSSIBLE}


def test_pods_are_counted_by_class() -> None:
    """Those that are certainly affected get Events; the count of the others is a number of its own."""
    pods = tuple(AffectedPod("ml", f"{kind}", "uid", "gpu-0", kind, LATER, ("claim",)) for kind in Exposure)
    affected = Affected((*pods, pods[-1]))
    assert (str(pods[0]), len({kind.text for kind in Exposure})) == (f"ml/{BEFORE}", 3)
    assert affected.counts() == {BEFORE: 1, STALE: 1, POSSIBLE: 2}
    assert [pod.exposure for pod in affected.certain] == [BEFORE, STALE]
