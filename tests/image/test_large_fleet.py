"""A thousand nodes inside of the chart's default memory limit, while the cluster is anything but quiet.

To see how much it was: ``python -m pytest --capture=no tests/image/test_large_fleet.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import pytest

from devcluster.bench import atrest
from devcluster.bench.resting import create_policy
from devcluster.boot import etcd
from devcluster.kubelet import cgroups
from tests.fixtures.objects import Object, merged
from tests.image.node import NodeLab

NODES: Final = 1000
STALE: Final = range(0, NODES, 100)
LOOK_SECONDS: Final = 0.1
LIMIT: Final = 128 * 2**20
"""The chart's default."""
LEAST: Final = 20 * 2**20
"""Python alone takes more: less is a wrong reading."""
PLUGIN_PODS: Final = f"/api/v1/namespaces/{atrest.DRA}/pods"


@pytest.mark.large
def test_a_thousand_nodes_within_the_default_limit(boot: Callable[..., NodeLab]) -> None:
    """The pod survives: it reads nodes, driver pods, plugins and slices of real size, and judges all."""
    # It restarts what is stale while every node and pod changes, reads all of it again, and is done. The limit is the
    # chart's default; the kernel, not this test, watches over it.
    lab = boot(0, at_rest=True)
    policy = create_policy(lab.cluster)
    etcd.put(lab.cluster.files, _fleet(policy))
    hook = lab.start_post()
    pod = lab.next_judging()
    lab.until(lambda: _deleted(lab) == len(STALE), "the stale plugins are deleted", 120)
    etcd.put(lab.cluster.files, _changed(policy))
    group = lab.cgroup(pod)
    peaks = [cgroups.memory_peak(group)]
    _replace(lab)
    while hook.poll() is None:
        with suppress(OSError):  # The container has ended.
            peaks.append(cgroups.memory_peak(group))
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


def _deleted(lab: NodeLab) -> int:
    pods = (lab.cluster.get(f"{PLUGIN_PODS}/{_name(number)}") for number in STALE)
    return sum("deletionTimestamp" in pod["metadata"] for pod in pods)


def _replace(lab: NodeLab) -> None:
    """Do what kubelet and DaemonSet controller would: confirm the deletions, and put fresh pods in their places."""
    for number in STALE:
        lab.cluster.delete(f"{PLUGIN_PODS}/{_name(number)}", {"gracePeriodSeconds": 0})
    new = [{"metadata": {"name": f"new-{number}", "uid": f"new-{number}"}} for number in STALE]
    fresh = map(atrest.plugin_pod, STALE)
    etcd.put(lab.cluster.files, map(merged, fresh, new))


def _name(number: int) -> str:
    return str(atrest.plugin_pod(number)["metadata"]["name"])


def _fleet(policy: str) -> Iterator[Object]:
    """Return every object of the fleet; a few plugins started on the driver before."""
    yield from (atrest.plugin_pod(number, stale=True) for number in STALE)
    stale = {_name(number) for number in STALE}
    yield from (each for each in atrest.fleet(NODES, policy) if each["metadata"]["name"] not in stale)


def _changed(policy: str) -> Iterator[Object]:
    """Return nodes and pods of the fleet anew, but the stale plugins: a watch gets each of them again."""
    stale = {_name(number) for number in STALE}
    for each in atrest.fleet(NODES, policy):
        if each["kind"] in {"Node", "Pod"} and each["metadata"]["name"] not in stale:
            yield merged(each, {"metadata": {"annotations": {"devcluster/changed": "yes"}}})
