"""Affected pods: those that started before the plugin of their node was refreshed for the driver that is loaded."""

from __future__ import annotations

import pytest

from hook.decide.fleet import find_plugins
from hook.decide.workloads import affected_pods, joined
from hook.objects import claim_reader, read_claim_pod
from hook.objects.stacks import GPU_OPERATOR
from hook.settings import Settings
from tests.fixtures import workloads
from tests.fixtures.cluster import Cluster, cluster, stale, stale_plugin
from tests.fixtures.objects import Object, R, driver_pod, merged, obj, plugin_pod, running
from tests.unit.decide import patches
from tests.unit.decide.runs import named

LIMIT = 300
"""Seconds from the start of the driver container, from which on a stale plugin prepares no claim."""
STARTING: Object = {"status": {"containerStatuses": []}}
CRASHED: Object = {
    "status": {"containerStatuses": [running("compute-domains", R + 6), running("gpus", R + 50, restarts=1)]},
}


def affected(found: Cluster, *pods: Object) -> list[str]:
    """Return the names of the affected pods among these, each of which has a claim of its own."""
    snapshot = found.seen()
    read = claim_reader(GPU_OPERATOR.plugin.claim_drivers)
    claims = [workloads.claim(f"{pod['metadata']['name']}-gpu", pod["metadata"]["name"]) for pod in pods]
    holders = joined(filter(None, map(read, claims)), filter(None, map(read_claim_pod, pods)))
    plugins = find_plugins(snapshot.daemonsets, Settings())
    found_pods = affected_pods(holders, snapshot, plugins, GPU_OPERATOR)
    assert all(pod.claims == (f"{pod.name}-gpu",) and str(pod) == f"team/{pod.name}" for pod in found_pods)
    return [pod.name for pod in found_pods]


def limit(found: Cluster) -> int | None:
    """Return from which start on a pod is healthy, in seconds after the start of the driver; None if no pod is."""
    starts = range(-1, LIMIT + 10)
    pods = [workloads.claim_pod(f"{start:04}", started=start) for start in starts]
    names = affected(found, *pods)
    assert names == sorted(pod["metadata"]["name"] for pod in pods[: len(names)])
    return starts[len(names)] if names else None


def test_pods_are_joined_with_their_claims() -> None:
    """A pod that no claim is reserved for holds none of these drivers' devices."""
    read = claim_reader(("gpu.nvidia.com",))
    claims = filter(None, [read(workloads.claim("b", "one", "two")), read(workloads.claim("a", "one"))])
    pods = filter(None, (read_claim_pod(workloads.claim_pod(name, started=1)) for name in ("one", "two", "three")))
    assert [(pod.name, names) for pod, names in joined(claims, pods)] == [("one", ("a", "b")), ("two", ("b",))]


@pytest.mark.parametrize(
    ("plugins", "healthy"),
    [
        ([plugin_pod(started=R + 30)], R + 31),
        ([plugin_pod(waited=5, started=6)], 7),
        ([merged(plugin_pod(), CRASHED)], R + 50),
        ([plugin_pod(started=R + 9), named(plugin_pod(started=R + 20), "second")], R + 21),
        ([plugin_pod(started=LIMIT + 50)], LIMIT),
        ([stale_plugin()], LIMIT),
        ([stale_plugin(), named(plugin_pod(started=R + 20), "second")], LIMIT),
        ([merged(plugin_pod(), STARTING)], LIMIT),
        ([merged(plugin_pod(), patches.DELETING)], LIMIT),
        ([], LIMIT),
    ],
    ids=[
        "fresh by its start", "fresh by its wait", "a container crashed", "several are fresh", "replaced much later",
        "stale", "one of two is stale", "starting", "terminating", "none",
    ],
)  # fmt: skip
def test_a_pod_is_affected_until_the_plugin_is_refreshed(plugins: list[Object], healthy: int) -> None:
    """From the start of a fresh plugin's last container on, pods are healthy, and at the latest after five minutes."""
    assert limit(cluster().only("plugin-pod", *plugins)) == healthy


@pytest.mark.parametrize(
    "found",
    [
        cluster().drop("driver-pod"),
        cluster().change("driver-pod", patches.DELETING),
        cluster().put("driver-pod", named(driver_pod(), "second")),
        cluster().change("driver-pod", {"status": {"containerStatuses": []}}),
    ],
    ids=["no driver", "an old driver terminates", "two drivers", "it has not started"],
)
def test_without_one_driver_no_pod_is_affected(found: Cluster) -> None:
    """What is loaded on the node is not known then."""
    assert limit(found) is None


def test_a_driver_that_still_loads_counts() -> None:
    """The old driver was unloaded before its container started, so a plugin that runs is stale."""
    loading = cluster().only("driver-pod", driver_pod(ready=None)).only("plugin-pod", stale_plugin())
    assert limit(loading) == LIMIT


def test_a_reload_makes_older_pods_affected() -> None:
    """Also if only the container restarted: nothing shows that the files of the two runs are alike."""
    healthy = workloads.claim_pod("healthy", started=R + 60)
    assert affected(cluster(), healthy) == []
    again = driver_pod(started=1000, ready=1100, unloaded=-2, ended_before=990, restarts=1)
    reloaded = cluster().only("driver-pod", again)
    assert affected(reloaded, healthy) == ["healthy"]
    refreshed = reloaded.only("plugin-pod", plugin_pod(started=1200))
    assert affected(refreshed, healthy, workloads.claim_pod("new", started=1201)) == ["healthy"]


def test_each_node_has_a_moment_of_its_own() -> None:
    """Pods are sorted by node. A node without a driver has none."""
    found = cluster("a", "b", "c").only("plugin-pod", stale_plugin("b"), plugin_pod("a"), plugin_pod("c"))
    pods = [workloads.claim_pod(f"on-{node}", started=R + 20, node=node) for node in "cbax"]
    assert affected(found, *pods) == ["on-b"]
    assert affected(stale("a", "b", "c"), *pods) == ["on-a", "on-b", "on-c"]


def test_other_clients_refresh_nothing() -> None:
    """Only the plugin prepares claims."""
    other = merged(obj("plugin-daemonset"), {"metadata": {"name": "exporter", "uid": "exporter-ds"}})
    owned = {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "uid": "exporter-ds", "controller": True}]}}
    found = cluster().put("daemonset", other).only("plugin-pod", merged(plugin_pod(), owned))
    assert limit(found) == LIMIT
