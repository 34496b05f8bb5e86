"""A thousand nodes inside of the chart's default memory limit, while the cluster is anything but quiet.

To see how much it was: ``python -m pytest --capture=no tests/image/test_large_fleet.py``.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from devcluster import etcd
from devcluster.layout import CHECKOUT
from tests.e2e.lab import OPERATOR
from tests.fixtures.objects import Object, merged, obj, plugin_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.image.node import NodeLab

NODES: Final = 1000
NODE_BYTES: Final = 28_000
POD_BYTES: Final = 24_000
"""What these objects weighed on real clusters, managed fields and all."""

STALE: Final = frozenset(f"gpu-{number}" for number in range(0, NODES, 100))
LOOK_SECONDS: Final = 0.1
LIMIT: Final = 128 * 2**20
"""The chart's default."""
LEAST: Final = 20 * 2**20
"""Python alone takes more: less is a wrong reading."""

PLUGINS: Final = "nvidia-dra-driver-gpu"
PLUGIN_PODS: Final = f"/api/v1/namespaces/{PLUGINS}/pods"
POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"


def test_a_thousand_nodes_within_the_default_limit(boot: Callable[..., NodeLab]) -> None:
    """The pod survives: it reads nodes, driver pods, plugins and slices of real size, and judges all.

    It restarts what is stale while every node and pod changes, reads all of it again, and is done. The limit is the
    chart's default; the kernel, not this test, watches over it.
    """
    lab = boot(0, at_rest=True)
    for namespace in ("gpu-operator", PLUGINS):
        lab.cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    _create_policy(lab)
    etcd.put(lab.cluster.files, _fleet())
    hook = lab.start_post()
    pod = lab.next_judging()
    lab.until(lambda: _deleted(lab) == STALE, "the stale plugins are deleted", 120)
    etcd.put(lab.cluster.files, _changed())
    peaks = [lab.memory_peak(pod)]
    _replace(lab)
    while hook.poll() is None:
        peaks.append(lab.memory_peak(pod))
        time.sleep(LOOK_SECONDS)
    lab.succeeded(hook)
    _assert_done(lab)
    sys.stdout.write(f"memory peak with {NODES} nodes: {max(peaks) / 2**20:.0f} MiB\n")
    assert LEAST < max(peaks) <= LIMIT


def _assert_done(lab: NodeLab) -> None:
    """Assert that one pod, with the default limit, saw and said everything, and restarted what was stale."""
    story = lab.story()
    assert ("Done", "Refreshed", {"Verified": NODES}) == (story["phase"], story["reason"], story["counts"])
    assert len(STALE) == story["restarted"]
    assert ["delete pods"] * len(STALE) == lab.writes()
    (end,) = lab.ends().values()
    assert (0, "Completed") == (end["exitCode"], end["reason"])
    (container,) = lab.pods()[-1]["spec"]["containers"]
    assert container["resources"]["limits"]["memory"] == f"{LIMIT // 2**20}Mi"
    lab.assert_on_the_real_node()


def _deleted(lab: NodeLab) -> set[str]:
    """Name the nodes whose plugin somebody has deleted; at rest nobody confirms that it is gone."""
    pods = (lab.cluster.get(f"{PLUGIN_PODS}/plugin-{node}") for node in STALE)
    return {pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" in pod["metadata"]}


def _changed() -> Iterator[Object]:
    """Give nodes and pods of the fleet anew, but those of stale plugins: whoever watches gets each of them again."""
    for each in _fleet():
        name = each["metadata"]["name"]
        if each["kind"] in {"Node", "Pod"} and name.removeprefix("plugin-") not in STALE:
            yield merged(each, {"metadata": {"annotations": {"devcluster/changed": "yes"}}})


def _replace(lab: NodeLab) -> None:
    """Do what kubelet and DaemonSet controller would: confirm the deletions, and put fresh pods in their places."""
    for node in sorted(STALE):
        lab.cluster.delete(f"{PLUGIN_PODS}/plugin-{node}", {"gracePeriodSeconds": 0})
    etcd.put(lab.cluster.files, (_plugin(node, "new") for node in sorted(STALE)))


def _create_policy(lab: NodeLab) -> None:
    """Create kind and policy through the API: the only objects here that are not the API server's own kinds."""
    definition = CHECKOUT / OPERATOR / "crds" / "clusterpolicies.yaml"
    lab.cluster.kubectl("apply", "-f", str(definition))
    lab.cluster.kubectl("wait", "--for=condition=Established", "crd/clusterpolicies.nvidia.com", "--timeout=60s")
    policy = obj("policy")
    created = {key: value for key, value in policy.items() if key != "status"} | {
        "metadata": {"name": "cluster-policy"}
    }
    lab.until(lambda: _served(lab), "the kind is served")
    lab.cluster.create(POLICIES, created)
    lab.cluster.patch(f"{POLICIES}/cluster-policy/status", {"status": policy["status"]})


def _served(lab: NodeLab) -> bool:
    return lab.cluster.kubectl("get", "clusterpolicies", check=False).returncode == 0


def _plugin(node: str, name: str = "plugin") -> Object:
    """Give a plugin's pod: the first one of a stale node started before its driver did, as did its init container."""
    fresh = name == "new" or node not in STALE
    pod = plugin_pod(node) if fresh else plugin_pod(node, waited=-60, started=-59, ready=-50)
    return _sized(merged(pod, {"metadata": _named(f"{name}-{node}")}), POD_BYTES)


def _fleet() -> Iterator[Object]:
    """Give every object of a fleet, a few of whose plugins are stale."""
    yield obj("revision")
    for name in ("driver-daemonset", "plugin-daemonset"):
        status = dict.fromkeys(
            ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable"), NODES
        )
        yield obj(name, {"metadata": BORN, "status": status})
    for number in range(NODES):
        name = f"gpu-{number}"
        yield _sized(
            obj("node", {"metadata": {**_named(name), "labels": {"kubernetes.io/hostname": name}}}), NODE_BYTES
        )
        pod = obj("driver-pod", {"metadata": _named(f"driver-{name}"), "spec": {"nodeName": name}})
        yield _sized(pod, POD_BYTES)
        yield _plugin(name)
        pool = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": {"name": name}}
        yield obj("slice", {"metadata": _named(f"0-gpu.nvidia.com-{name}"), "spec": pool})


BORN: Final = {"creationTimestamp": "2026-01-01T09:00:00Z"}


def _named(name: str) -> dict[str, Any]:
    """Give an object its name and identity; the version is the storage's to say."""
    return {**BORN, "name": name, "uid": f"{name}-uid", "resourceVersion": None}


def _sized(each: Object, size: int) -> Object:
    """Make an object as large as it is in reality."""
    padding = "x" * (size - len(str(each)))
    return {**each, "metadata": {**each["metadata"], "annotations": {"devcluster/padding": padding}}}
