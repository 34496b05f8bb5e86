"""What the simulated nodes write into the journal: each line is one that the truth is read from."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from devcluster.client import Object
from devcluster.fleet.clients import HOLDS
from devcluster.fleet.driver import DriverLife
from devcluster.fleet.faults import OUTAGE
from devcluster.fleet.kubelet import Fleet
from devcluster.fleet.life import Life
from devcluster.fleet.node import NFD_NIC
from devcluster.fleet.operands import CONFIG, STATE
from devcluster.fleet.stack import DriverPod
from devcluster.journal import Journal
from devcluster.truth import NETWORK, Truth
from tests.simulator.ground import Ground, Obliging, at_once, pod, settle

OLD, NEW = "580.1.2", "580.2.3"
STARTED: Final = ["driver-loaded", "driver-ready", "plugin-started", "plugin-ready"]
DEPLOY: Final = "nvidia.com/gpu.deploy.dra-driver"
Story = Callable[[Ground], Awaitable[None]]
STORIES: Final[list[Story]] = []


def story(tell: Story) -> Story:
    """Mark a story of one node; its docstring says what its lines must tell."""
    STORIES.append(tell)
    return tell


def driver(name: str, version: str = OLD, digest: str = "", revision: str = "new") -> Object:
    """Make a pod of a GPU driver."""
    labels = {"controller-revision-hash": revision}
    more = {"image": f"driver:{version}-ubuntu24.04", "env": {"DRIVER_CONFIG_DIGEST": digest}, "labels": labels}
    return pod(name, "nvidia-driver-ctr", init="k8s-driver-manager", **more)


def plugin(name: str, **more: Any) -> Object:  # noqa: ANN401 - as `pod` has it
    """Make a pod of the DRA plugin."""
    return pod(name, "gpus", init="init-container", **more)


async def loaded(ground: Ground, name: str, *how: str) -> Life:
    """Start a driver pod that turns Ready."""
    return await ground.start(driver(name, *how))


@story
async def a_reload(ground: Ground) -> None:
    """Let a plugin outlive its driver: it is stale when it is deleted, and its successor is fresh."""
    first = await loaded(ground, "d1")
    outlived = await ground.start(plugin("p1"))
    await ground.end(first)
    await loaded(ground, "d2", NEW)
    await ground.end(outlived)
    await ground.end(await ground.start(plugin("p2")))
    who = "daemonset=plugin namespace=dra"
    assert ground.told() == [
        "driver-loaded version=580.1.2 load=1",
        "driver-ready pod=d1 hash=new version=580.1.2 load=1",
        f"plugin-started pod=p1 {who} version=580.1.2 load=1 driver=gpu.nvidia.com",
        f"plugin-ready pod=p1 {who} version=580.1.2 load=1",
        "driver-gone pod=d1",
        "driver-unloaded",
        "driver-loaded version=580.2.3 load=2",
        "driver-ready pod=d2 hash=new version=580.2.3 load=2",
        f"plugin-deleted pod=p1 {who} load=1 node_load=2 stale driver_ready driver_current",
        f"plugin-gone pod=p1 {who}",
        f"plugin-started pod=p2 {who} version=580.2.3 load=2 driver=gpu.nvidia.com",
        f"plugin-ready pod=p2 {who} version=580.2.3 load=2",
        f"plugin-deleted pod=p2 {who} load=2 node_load=2 driver_ready driver_current",
        f"plugin-gone pod=p2 {who}",
    ]
    assert {each.stack for each in ground.truth().entries} == {"gpu"}
    assert [each.uid for each in ground.truth().restarts()] == ["p1-uid", "p2-uid"]


@story
async def the_journal_first(ground: Ground) -> None:
    """Report Ready after the journal has it: a client may act on the report at once."""
    await loaded(ground, "d1")
    await ground.start(plugin("p1"))
    assert ground.api.ready["d1-uid"][-1] == "driver-ready"
    assert ground.api.ready["p1-uid"][-1] == "plugin-ready"


@story
async def a_remount(ground: Ground) -> None:
    """Keep a driver with the same DRIVER_CONFIG_DIGEST, whatever the image: its root is mounted anew: a load."""
    first = await loaded(ground, "d1", OLD, "same")
    held = await ground.start(plugin("p1"))
    await ground.end(first)
    await loaded(ground, "d2", NEW, "same")
    assert ground.told(since=5) == [
        "driver-unloaded",
        "driver-loaded version=580.1.2 load=2",
        "driver-ready pod=d2 hash=new version=580.1.2 load=2",
    ]
    other = ground.truth()
    assert (other.stale_now(), other.loaded_now()) == (("gpu-0",), {"gpu-0": OLD})
    await ground.end(held)
    assert ground.restarts() == {"p1": "stale"}


@story
async def a_driver_that_is_not_ready(ground: Ground) -> None:
    """Delete a plugin while a driver is loaded whose pod is not Ready: that is early."""
    await ground.end(await loaded(ground, "d1"))
    held = await ground.start(plugin("p1"))
    await ground.change(annotations={"devcluster/driver-fault": "unready"})
    await loaded(ground, "d2", NEW)
    await ground.end(held)
    (early,) = ground.truth().early_restarts()
    assert (early.stale, early.driver_ready, early.driver_current, early.node_load) == (True, False, False, 2)
    assert ground.truth().running(NEW) == set()


@story
async def a_driver_pod_that_is_deleted(ground: Ground) -> None:
    """Delete a driver pod: from the first sight of that on, no driver is Ready, and a deletion is early."""
    running = await loaded(ground, "d1")
    held = await ground.start(plugin("p1"))
    running.delete()
    held.delete()
    (early,) = ground.truth().early_restarts()
    assert (early.driver_ready, early.stale) == (False, False)


@story
async def two_driver_pods(ground: Ground) -> None:
    """Delete a pod that has lost its owner: the other one, which is Ready, stays so."""
    orphan = await loaded(ground, "d1")
    await loaded(ground, "d2", NEW)
    held = await ground.start(plugin("p1"))
    await ground.end(orphan)
    await ground.end(held)
    assert ground.truth().early_restarts() == ()
    assert ground.truth().running(NEW) == {"gpu-0"}


@story
async def a_driver_of_an_old_revision(ground: Ground) -> None:
    """Delete a plugin whose node waits for another driver: that is early."""
    await ground.start(driver("d1", OLD, "", "old"))
    await ground.end(await ground.start(plugin("p1")))
    (early,) = ground.truth().early_restarts()
    assert (early.driver_ready, early.driver_current) == (True, False)


@story
async def a_restart_in_place(ground: Ground) -> None:
    """Let a driver container exit: its driver is replaced, and the same pod is Ready again with another load."""
    running = await loaded(ground, "d1")
    assert isinstance(running, DriverLife)
    held = await ground.start(plugin("p1"))
    running.restart_container()
    await asyncio.sleep(0)
    assert ground.node.gpu.ready_driver is None
    await settle()
    assert ground.told(since=4) == [
        "driver-unloaded",
        "driver-loaded version=580.1.2 load=2",
        "driver-ready pod=d1 hash=new version=580.1.2 load=2",
    ]
    await ground.end(held)
    assert ground.restarts() == {"p1": "stale"}


@story
async def a_plugin_without_a_driver(ground: Ground) -> None:
    """Wait for a driver, and hold nothing: a deletion is needless. A holder that does not wait crashes until then."""
    waits = await ground.start(plugin("p1"))
    crashes = await ground.start(pod("x1", "exporter", annotations={HOLDS: "driver"}))
    await ground.end(waits)
    assert ground.told() == [
        "plugin-deleted pod=p1 daemonset=plugin namespace=dra",
        "plugin-gone pod=p1 daemonset=plugin namespace=dra",
    ]
    await loaded(ground, "d1")
    assert [each.pod for each in ground.truth().entries if each.event == "plugin-started"] == ["x1"]
    await ground.end(crashes)
    assert len(ground.truth().needless_restarts()) == 2


@story
async def an_unloaded_driver(ground: Ground) -> None:
    """Delete a plugin that holds what is unloaded: it is judged stale, and what is unloaded once is written once."""
    await ground.end(await loaded(ground, "d1"))
    held = await ground.start(plugin("p1"))
    ground.node.gpu.unload()
    ground.node.gpu.unload()
    await ground.end(held)
    assert ground.told(since=5)[0] == "driver-unloaded"
    assert ground.told(since=6)[0] == "plugin-deleted pod=p1 daemonset=plugin namespace=dra load=1 stale"


@story
async def a_drain(ground: Ground) -> None:
    """Pause the label that a pod was placed by: the pod is drained. One that was placed by another label is not."""
    await ground.change(labels={DEPLOY: "true", "nvidia.com/gpu.deploy.dcgm": "false"})
    await ground.end(await loaded(ground, "d1"))
    placed = await ground.start(plugin("p1", selects=[DEPLOY]))
    other = await ground.start(plugin("p2", selects=["nvidia.com/gpu.deploy.dcgm"]))
    await ground.start(driver("d2", NEW))
    assert ground.node.labels[DEPLOY] == "paused-for-driver-upgrade"
    assert ground.node.labels["nvidia.com/gpu.deploy.dcgm"] == "false"
    assert ground.truth().loaded_now() == {"gpu-0": OLD}
    await ground.end(other)
    await ground.end(placed)
    assert ground.node.labels[DEPLOY] == "true"
    assert ([each.pod for each in ground.truth().drains()], [*ground.restarts()]) == (["p1"], ["p2"])
    late = await ground.start(plugin("p3", selects=[DEPLOY]))
    await ground.end(late)
    assert [*ground.restarts()] == ["p2", "p3"]


@story
async def a_toolkit(ground: Ground) -> None:
    """Install the toolkit after a driver is Ready: each installation leaves the plugins of before it behind."""
    toolkit = pod("t1", "nvidia-container-toolkit-ctr", init="driver-validation")
    await ground.start(toolkit)
    assert ground.told() == []
    await loaded(ground, "d1")
    assert ground.told()[-1] == "toolkit-ready toolkit=1"
    held = await ground.start(plugin("p1"))
    assert ground.truth().behind_now() == ()
    again = await ground.start(toolkit)
    assert ground.truth().behind_now() == ("gpu-0",)
    await ground.end(again)
    await ground.end(held)
    fresh = await ground.start(plugin("p2"))
    assert ground.truth().behind_now() == ()
    await ground.end(fresh)
    assert ground.restarts() == {"p1": "stale", "p2": "fresh"}


@story
async def a_mig_layout(ground: Ground) -> None:
    """Apply layouts when a driver is Ready: each leaves plugins of before it behind, one that is there does not."""
    manager = pod("m1", "nvidia-mig-manager", init="toolkit-validation")
    await ground.change(labels={CONFIG: "all-1g"})
    first = await ground.start(manager)
    assert ground.told() == []
    await loaded(ground, "d1")
    assert (ground.told()[-1], ground.node.labels[STATE]) == ("mig-reconfigured mig=1", "success")
    held = await ground.start(plugin("p1"))
    await ground.change(labels={CONFIG: "all-2g"})
    assert (ground.told()[-1], ground.truth().behind_now()) == ("mig-reconfigured mig=2", ("gpu-0",))
    await ground.end(held)
    second = await ground.start(plugin("p2"))
    assert (ground.restarts(), ground.truth().behind_now()) == ({"p1": "stale"}, ())
    await ground.end(first)
    await ground.end(await ground.start(manager))
    assert (ground.truth().behind_now(), ground.node.labels[STATE]) == ((), "success")
    await ground.end(second)
    assert ground.restarts() == {"p1": "stale", "p2": "fresh"}


@story
async def a_reboot(ground: Ground) -> None:
    """Lose the drivers, and everybody's hold on them; the same pods load and start again."""
    await ground.change(labels={NFD_NIC: "true"})
    running, held = await loaded(ground, "d1"), await ground.start(plugin("p1"))
    ground.node.power_off()
    for life in (running, held):
        life.reboot()
    assert (ground.node.gpu.ready_driver, ground.node.gpu.holders, ground.node.nic.loaded) == (None, {}, None)
    await settle()
    assert ground.told()[-1] == "reboot"
    assert ground.truth(NETWORK).loaded_now() == {"gpu-0": ""}
    ground.node.boot()
    await settle()
    assert ground.told()[5:] == [
        "driver-loaded version=580.1.2 load=2",
        "driver-ready pod=d1 hash=new version=580.1.2 load=2",
        "plugin-started pod=p1 daemonset=plugin namespace=dra version=580.1.2 load=2 driver=gpu.nvidia.com",
        "plugin-ready pod=p1 daemonset=plugin namespace=dra version=580.1.2 load=2",
    ]
    assert ground.told(NETWORK) == [
        "driver-loaded version=inbox load=1",
        "reboot",
        "driver-loaded version=inbox load=2",
    ]


@story
async def a_node_that_is_removed(ground: Ground) -> None:
    """Write nothing of what ends with a node; a pod that is gone by force before that was deleted."""
    await ground.change(labels={NFD_NIC: "true"})
    await loaded(ground, "d1")
    forced, left = [await ground.start(plugin(name)) for name in ("p1", "p2")]
    nic = await ground.start(pod("n1", "kube-sriovdp"))
    forced.vanish()
    assert [line.split()[0] for line in ground.told()[-2:]] == ["plugin-deleted", "plugin-gone"]
    ground.node.remove()
    left.vanish()
    nic.vanish()
    assert (ground.told()[-1], ground.told(NETWORK)[-1]) == ("node-removed", "node-removed")
    assert ground.truth().nodes == ()


def status(*, ready: bool, cordoned: bool = False) -> Object:
    """Return what the API says of a node, in addition to its metadata."""
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"spec": {"unschedulable": True} if cordoned else {}, "status": {"conditions": conditions}}


@story
async def a_cordon(ground: Ground) -> None:
    """Write once whether a node is Ready and whether it is cordoned, and again after each change."""
    for ready, cordoned in ((True, False), (True, False), (True, True), (False, True), (True, False)):
        ground.node.update(ground.api.change({}) | status(ready=ready, cordoned=cordoned))
    ground.node.remove()
    ground.node.update(ground.api.change({}) | status(ready=False))
    assert ground.told() == [
        "node-status node_ready",
        "node-status node_ready cordoned",
        "node-status cordoned",
        "node-status node_ready",
        "node-removed",
    ]


@story
async def an_outage(ground: Ground) -> None:
    """Begin and end an outage once: it ends when the node is Ready again."""
    ready = status(ready=True)
    before = ground.api.change({}) | ready
    await ground.change(labels={OUTAGE: "true"})
    await ground.change(labels={"any": "change"})
    ground.node.update(before)
    await ground.change(labels={OUTAGE: ""})
    assert ground.told() == ["node-outage"]
    ground.node.update(ground.api.change({}) | status(ready=False))
    for _ in range(2):
        ground.node.update(ground.api.change({}) | ready)
    assert ground.told() == ["node-outage", "node-status", "node-status node_ready", "node-back"]


@story
async def a_deletion_that_is_seen_twice(ground: Ground) -> None:
    """Judge a deletion once, when it is first seen; the pod goes once."""
    await loaded(ground, "d1")
    held = await ground.start(plugin("p1"))
    held.delete()
    held.delete()
    await settle()
    held.vanish()
    assert [line.split()[0] for line in ground.told(since=4)] == ["plugin-deleted", "plugin-gone"]


@story
async def a_network_driver(ground: Ground) -> None:
    """Replace the system's driver, and put it back when the pod is stopped, in lines of the other stack."""
    await ground.change(labels={NFD_NIC: "true"})
    await ground.change(labels={"any": "change"})
    image = "doca:doca3.2.0-25.10-ubuntu24.04-amd64"
    running = await ground.start(pod("o1", "mofed-container", image=image))
    held = await ground.start(pod("n1", "kube-sriovdp"))
    await ground.end(running)
    await ground.end(held)
    who = "daemonset=plugin namespace=dra"
    assert ground.told(NETWORK) == [
        "driver-loaded version=inbox load=1",
        "driver-unloaded",
        "driver-loaded version=doca3.2.0-25.10 load=2",
        "driver-ready pod=o1 version=doca3.2.0-25.10 load=2",
        f"plugin-started pod=n1 {who} version=doca3.2.0-25.10 load=2",
        f"plugin-ready pod=n1 {who} version=doca3.2.0-25.10 load=2",
        "driver-unloaded",
        "driver-loaded version=inbox load=3",
        "driver-gone pod=o1",
        f"plugin-deleted pod=n1 {who} load=2 node_load=3 stale",
        f"plugin-gone pod=n1 {who}",
    ]
    assert ground.told() == []
    orphan = await ground.start(pod("o2", "mofed-container", image=image))
    await ground.start(pod("o3", "mofed-container", image=image))
    await ground.end(orphan)
    assert ground.truth(NETWORK).loaded_now() == {"gpu-0": "doca3.2.0-25.10"}


@story
async def a_claim(ground: Ground) -> None:
    """Prepare a claim with what the plugin holds, right or wrong; where none runs, wait for one."""
    await ground.end(await loaded(ground, "d1"))
    await ground.start(pod("x1", "exporter", annotations={HOLDS: "driver"}))
    stale = await ground.start(plugin("p1"))
    await loaded(ground, "d2", NEW)
    served = await ground.start(pod("c1", "work", claims=True))
    assert ground.truth().holding_old_files() == ("dra/c1",)
    await ground.end(served)
    assert ground.truth().holding_old_files() == ()
    await ground.end(stale)
    unserved = await ground.start(pod("c2", "work", claims=True))
    assert "c2" not in " ".join(ground.told())
    unserved.vanish()
    await ground.start(plugin("p2"))
    await ground.start(pod("c3", "work", claims=True))
    assert ground.told()[-1] == "claim-prepared pod=c3 namespace=dra version=580.2.3 load=2"
    assert ground.truth().holding_old_files() == ()


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_what_happens_is_written(tell: Story, tmp_path: Path) -> None:
    """The journal has what the story asks of it."""

    async def live() -> None:
        with Journal(tmp_path / "truth.jsonl") as journal:
            await tell(Ground(tmp_path, journal))

    asyncio.run(live())


def test_a_journal_is_continued(tmp_path: Path) -> None:
    """A fleet that starts again writes after what is there, one line for each event."""
    for node in ("gpu-0", "gpu-1"):
        with Journal(tmp_path / "truth.jsonl") as journal:
            journal.write("node-outage", node)
    assert [each.node for each in Truth.read(tmp_path).entries] == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    ("revisions", "current"),
    [({}, False), ({"a": (1, "h"), "b": (2, "i")}, False), ({"a": (2, "h"), "b": (1, "i")}, True)],
)
def test_which_driver_pod_is_current(revisions: dict[str, tuple[int, str]], current: bool, tmp_path: Path) -> None:
    """One of the newest revision of its own DaemonSet; before any revision was seen, none is."""
    with Journal(tmp_path / "truth.jsonl") as journal:
        fleet = Fleet(Obliging(tmp_path / "truth.jsonl"), journal)
        fleet.revisions = {"owner": revisions, "another": {"z": (9, "h")}}
        assert fleet.is_current(DriverPod("uid", "owner", "h")) is current


def test_what_the_fleet_makes_of_what_it_sees(tmp_path: Path) -> None:
    """A pod waits for its node; each new value of an annotation is one reboot or restart; nothing outlives a node."""

    async def see() -> None:
        with Journal(tmp_path / "truth.jsonl") as journal:
            fleet = Fleet(Obliging(tmp_path / "truth.jsonl"), journal)
            fleet.settings = at_once()
            for life in (driver("d1"), plugin("p1")):
                life["spec"]["nodeName"] = "gpu-0"
                fleet._early.setdefault("gpu-0", {})[life["metadata"]["uid"]] = life
            assert told() == []
            fleet._see_node("gpu-0", node())
            await settle()
            assert told() == STARTED
            reboot, crash = {"devcluster/reboot": "1"}, {"devcluster/restart-driver-container": "1"}
            for annotations in (reboot, reboot, crash, crash):
                fleet._see_change(fleet.nodes["gpu-0"], node(**annotations))
                await settle()
            assert told() == [*STARTED, "reboot", *STARTED, "driver-unloaded", "driver-loaded", "driver-ready"]
            fleet._lose_node("gpu-0")
            await settle()
            assert all(life.gone for life in fleet.lives.values())
            assert told()[9:] == ["driver-unloaded", "driver-loaded", "driver-ready", "node-removed"]

    def node(**annotations: str) -> Object:
        return {"metadata": {"uid": "node-uid", "annotations": annotations, "labels": {}}}

    def told() -> list[str]:
        return [each.event for each in Truth.read(tmp_path).entries]

    asyncio.run(see())
