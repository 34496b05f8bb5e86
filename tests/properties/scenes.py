"""Clusters at rest and in the middle of a migration, and what the truth about them allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from hook.objects.stacks import StackName
from hook.settings import DriverClient, Settings
from tests.fixtures.cluster import Cluster, cluster, labelled, stale, stale_plugin
from tests.fixtures.modes import network, openshift, pooled, rdma_pod, with_exporter, with_mig, with_toolkit
from tests.fixtures.objects import Object, driver_pod, obj, plugin_pod, stamp

EXPORTER: Final = DriverClient("monitoring", "dcgm-exporter")


@dataclass(frozen=True)
class Scene:
    """A cluster, and what may be done to it."""

    make: Callable[[], Cluster]
    stale: frozenset[str] = frozenset()
    """UIDs of the plugin pods that are stale on a settled node: no other one may ever be restarted."""
    unfinished: bool = False
    """There is work left, so that success would be a lie."""
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster itself, made once and never changed."""
        return self.make()

    @cached_property
    def plugins(self) -> frozenset[str]:
        """UIDs of all plugin pods."""
        return frozenset(pod["metadata"]["uid"] for pod in self.cluster.of("plugin-pod"))

    @cached_property
    def places(self) -> list[tuple[str, int]]:
        """Every object: its part, and its number there."""
        cluster = self.cluster
        return [(part, number) for part in sorted(cluster.parts) for number in range(len(cluster.of(part)))]

    def changed(self, *changes: tuple[tuple[str, int], Callable[[Object], Object]]) -> Cluster:
        """Return the cluster with changed objects; what is not changed is shared."""
        found = replace(self.cluster, parts=dict(self.cluster.parts))
        for (part, number), change in changes:
            objects = found.of(part)
            found.parts[part] = [*objects[:number], change(objects[number]), *objects[number + 1 :]]
        return found


def loading() -> Cluster:
    """Return a node whose new driver is being loaded, with the old plugin on it, and one that is done."""
    found = cluster("a", "b").put("driver-pod", driver_pod("b", ready=None))
    return found.put("plugin-pod", stale_plugin("b"))


def outdated() -> Cluster:
    """Return a fleet whose driver was rendered anew, and of which no node had its turn yet."""
    found = cluster("a", "b").put("revision", obj("revision", {
        "metadata": {"name": "nvidia-driver-daemonset-newer", "creationTimestamp": stamp(3000),
                     "labels": {"controller-revision-hash": "newer"}}, "revision": 3}))  # fmt: skip
    return found.change("daemonset", {"status": {"updatedNumberScheduled": 0}}, "nvidia-driver-daemonset")


def about_to_reload() -> Cluster:
    """Return stale plugins on nodes that the upgrade controller is about to take."""
    found = stale("a", "b")
    for name in ("a", "b"):
        found.change("node", labelled(name, state="drain-required"), name)
    return found


def starting() -> Cluster:
    """Return a plugin that still waits for its driver, on a node that is settled."""
    return cluster("a", "b").put("plugin-pod", plugin_pod("b", ready=None)).drop("slice", "0-gpu.nvidia.com-b")


def reconfigurable() -> Cluster:
    """Return nodes with a MIG manager, whose drivers crashed once: only times prove their plugins fresh."""
    return with_mig(cluster("a", "b")).only(
        "driver-pod", *(driver_pod(name, unloaded=-9, ended_before=-5) for name in ("a", "b"))
    )


PLUGINS: Final = frozenset({"plugin-a-uid", "plugin-b-uid"})
SCENES: Final = {
    "done": Scene(lambda: cluster("a", "b")),
    "stale": Scene(lambda: stale("a", "b"), PLUGINS, unfinished=True),
    "loading": Scene(loading, unfinished=True),
    "outdated": Scene(outdated, unfinished=True),
    "about-to-reload": Scene(about_to_reload, PLUGINS, unfinished=True),
    "starting": Scene(starting, unfinished=True),
    "pools": Scene(lambda: pooled().put("plugin-pod", stale_plugin("gpu-0")), frozenset({"plugin-gpu-0-uid"}),
                   unfinished=True),
    "openshift": Scene(lambda: openshift("a", "b").put("plugin-pod", stale_plugin("a")), frozenset({"plugin-a-uid"}),
                       unfinished=True),
    "toolkit": Scene(lambda: with_toolkit(cluster("a", "b")), settings=Settings(refresh_after=("toolkit",))),
    "mig": Scene(reconfigurable, settings=Settings(refresh_after=("mig",))),
    "exporter": Scene(lambda: with_exporter(cluster("a", "b"), 5), frozenset({"exporter-a-uid", "exporter-b-uid"}),
                      unfinished=True, settings=Settings(driver_clients=(EXPORTER,))),
    "network": Scene(lambda: network("a", "b").put("plugin-pod", rdma_pod("b", started=-99)),
                     frozenset({"rdma-b-uid"}), unfinished=True, settings=Settings(stack=StackName.NETWORK)),
    "network-done": Scene(lambda: network("a", "b"), settings=Settings(stack=StackName.NETWORK)),
}  # fmt: skip
