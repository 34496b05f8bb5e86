"""Write messages.txt: every sentence that a decision shows, by the state of a cluster.

A review sees in it what a change does to the words of users: ``python -m tests.unit.decide.messages``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import structs

from hook.decide.reasons import Reason
from hook.decide.result import Decision
from hook.objects import names
from hook.settings import DriverClient, Expect, Plugin, Settings
from tests.fixtures.cluster import (
    LATER,
    Cluster,
    cluster,
    labelled,
    not_ready_since,
    stale,
    stale_plugin,
    without_operator,
)
from tests.fixtures.limits import FOLLOWING, down
from tests.fixtures.modes import (
    Pool,
    avoiding,
    network,
    openshift,
    pooled,
    with_exporter,
    with_mig,
    with_toolkit,
)
from tests.fixtures.objects import Object, R, driver_pod, finished, merged, obj, plugin_pod, running, stamp, waiting
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, EXPORTER, JOB, MIG, PLUGIN, TOOLKIT, Run, failing, named, unlabelled, unnamed

FILE: Final = Path(__file__).parents[2] / "fixtures" / "messages.txt"
CLIENTS: Final = Settings(driver_clients=(EXPORTER,))
EXPECTED: Final = Settings(expect=Expect("v26.7.0", "590.1.2"))
CORDONED: Final[Object] = {"spec": {"unschedulable": True}}
CLIENT: Final = "spec: {template: {spec: {nodeSelector: {nvidia.com/gpu.deploy.client: 'true'}}}}"
ELSEWHERE: Final = "spec: {template: {spec: {nodeSelector: {example.com/dra: 'true'}}}}"
EVICTING: Final = """spec: {driver: {manager: {env: [
{name: NODE_LABEL_FOR_GPU_POD_EVICTION, value: example.com/dra}]}}}"""
MANAGED: Final = """metadata: {name: nvidia-dra-driver-kubelet-plugin, uid: managed,
ownerReferences: [{kind: GPUCluster, uid: gc, controller: true}]}"""
MINE: Final = "metadata: {name: mine, uid: mine}"
TEN: Final = tuple("abcdefghij")


def node(**values: str | None) -> Cluster:
    """Return a cluster whose node has other labels."""
    return cluster().change("node", labelled("gpu-0", **values))


def bare() -> Cluster:
    """Return a cluster without a plugin."""
    return cluster().drop("daemonset", PLUGIN).drop("plugin-pod").drop("slice")


def plugin(**history: float | None) -> Cluster:
    """Return a cluster whose plugin has a history."""
    return cluster().put("plugin-pod", plugin_pod(**history))  # type: ignore[arg-type]


def containers(*statuses: Object, init: Object | None = None) -> Cluster:
    """Return a cluster whose plugin has these containers, and is not ready."""
    status = {"containerStatuses": [*statuses], **({"initContainerStatuses": [init]} if init else {})}
    return cluster().put("plugin-pod", merged(plugin_pod(ready=None), {"status": status}))


def published(version: str) -> Cluster:
    """Return a cluster whose slice shows a driver version."""
    return cluster().change("slice", patches.publishing(version))


def selecting(selector: str) -> Cluster:
    """Return two nodes of which the plugin selects one."""
    found = cluster("a", "b").change("daemonset", selector, PLUGIN)
    found.change("node", {"metadata": {"labels": {"nvidia.com/gpu.deploy.client": "true"}}}, "a")
    return found.drop("plugin-pod", "plugin-b")


def nowhere() -> Cluster:
    """Return a cluster whose plugin is wanted on no node."""
    found = cluster().drop("plugin-pod").change("daemonset", avoiding("gpu-0"), PLUGIN)
    return found.change("daemonset", patches.NONE_WANTED, PLUGIN)


def joining(**metadata: str) -> Cluster:
    """Return two nodes of which the second one loads its first driver."""
    found = cluster("a", "b").put("driver-pod", driver_pod("b", ready=None)).drop("plugin-pod", "plugin-b")
    return found.change("node", {"metadata": metadata}, "b")


STATES: Final[dict[str, tuple[Cluster, Settings]]] = {
    # Nodes.
    "verified": (cluster(), JOB),
    "skipped": (node(skip="true"), JOB),
    "host driver": (node(deploy_driver="pre-installed"), JOB),
    "driver not deployed": (node(deploy_driver="false"), JOB),
    "operands disabled": (node(deploy_operands="false"), JOB),
    "no deploy label": (node(deploy_driver=None).drop("driver-pod"), JOB),
    "deploy label lost": (node(deploy_driver=None), JOB),
    "deploy label unknown": (node(deploy_driver="T" * 50), JOB),
    "GPU label lost": (node(present=None), JOB),
    "no network driver wanted": (
        network().drop("driver-pod").drop("plugin-pod").change("daemonset", avoiding("nic-0")), JOB),
    "no driver wanted": (joining().drop("driver-pod", "driver-b").change("daemonset", avoiding("b"), DRIVER), JOB),
    "for virtual machines": (cluster().change("node", {"metadata": {"labels": {
        "nvidia.com/gpu.deploy.driver": None, "nvidia.com/gpu.workload.config": "vm-vgpu"}}}), JOB),
    "no device": (cluster("a").put("plugin-pod", merged(plugin_pod("b"), {"status": {"containerStatuses": []}})), JOB),
    "not ready, a moment": (cluster().change("node", not_ready_since(3590)), JOB),
    "malformed": (cluster().change("plugin-pod", "metadata: {uid: 7}"), JOB),
    "driver missing": (cluster().drop("driver-pod"), JOB),
    "driver terminating": (cluster().change("driver-pod", patches.DELETING), JOB),
    "two driver pods": (cluster().put("driver-pod", named(driver_pod(), "b")), JOB),
    "driver orphaned": (cluster().change("driver-pod", "metadata: {ownerReferences: []}"), JOB),
    "driver outdated": (cluster().change("driver-pod", patches.OUTDATED), JOB),
    "driver without revision": (cluster().change(
        "driver-pod", "metadata: {labels: {controller-revision-hash: null}}").drop("revision"), JOB),
    "driver loading": (cluster().put("driver-pod", driver_pod(ready=None)), JOB),
    "driver failing": (cluster().put("driver-pod", failing()), JOB),
    "driver failing without a message": (cluster().put("driver-pod", merged(driver_pod(ready=None), {
        "status": {"containerStatuses": [waiting("nvidia-driver-ctr", "ErrImagePull")]}})), JOB),
    "driver waits for its drain": (network().change("driver-pod", patches.NOT_READY).change("node", {"metadata": {
        "annotations": {names.OFED_SAFE_LOAD_ANNOTATION: "true"}}}), JOB),
    "driver crashing": (cluster().put(
        "driver-pod", driver_pod(ready=None, unloaded=-2, ended_before=-1, restarts=2)), JOB),
    "manual upgrade": (cluster().change("policy", patches.BY_HAND).change("driver-pod", patches.OUTDATED), JOB),
    "upgrade required": (node(state="upgrade-required"), JOB),
    "upgrade in progress": (node(state="drain-required"), JOB),
    "unknown upgrade state": (node(state="new"), JOB),
    "failed upgrade": (node(state="upgrade-failed"), JOB),
    "label not quiet": (node(state="uncordon-required"), JOB),
    "operands paused": (node(deploy_dcgm="paused-for-driver-upgrade"), JOB),
    "network operator waits": (network().change("node", {"metadata": {"labels": {
        "network.nvidia.com/operator.mofed.wait": "true"}}}), JOB),
    "toolkit not ready": (with_toolkit(cluster(), None), TOOLKIT),
    "MIG is being reconfigured": (with_mig(cluster(), "pending"), MIG),
    "MIG failed": (with_mig(cluster(), "failed"), MIG),
    "toolkit not installed": (with_toolkit(cluster()).drop("daemonset", "nvidia-container-toolkit-daemonset"), TOOLKIT),
    # Plugins.
    "stale": (stale(), JOB),
    "started before ready": (plugin(waited=None, started=R - 30), JOB),
    "started in the same second": (plugin(waited=None, started=R), JOB),
    "started with the driver": (plugin(waited=None, started=0), JOB),
    "before the toolkit": (with_toolkit(cluster(), R + 900), TOOLKIT),
    "before MIG was reconfigured": (with_mig(cluster(), written=R + 900), MIG),
    "time of MIG not known": (with_mig(cluster(), written=None), MIG),
    "restarting": (cluster().change("plugin-pod", patches.DELETING), JOB),
    "ended": (cluster().change("plugin-pod", "status: {phase: Failed}"), JOB),
    "missing": (cluster().drop("plugin-pod"), JOB),
    "none wanted": (nowhere(), JOB),
    "no containers yet": (cluster().put("plugin-pod", merged(plugin_pod(ready=None), {
        "spec": {"containers": []}, "status": {"containerStatuses": []}})), JOB),
    "waits for a driver": (containers(waiting("gpus", "PodInitializing"), init=running("init-container", 5)), JOB),
    "init not pulled": (containers(waiting("gpus", "x"), init=waiting("init-container", "ErrImagePull")), JOB),
    "one container starts": (containers(running("compute-domains", R + 6), waiting("gpus", "Creating")), JOB),
    "one container ended": (containers(running("compute-domains", R + 6), finished("gpus", R + 9)), JOB),
    "not ready": (plugin(ready=None), JOB),
    "crash-looping": (containers(running("compute-domains", R + 6), running("gpus", R + 6, restarts=2)), JOB),
    "restarted a moment ago": (cluster().change("plugin-pod", {"status": {"containerStatuses": [
        running("compute-domains", R + 6), running("gpus", 3595, restarts=1)]}}), JOB),
    "no slice": (cluster().drop("slice"), JOB),
    "old slice": (published("570.1.2"), JOB),
    "untolerated taint": (stale().change("node", patches.TAINT), JOB),
    "driver client": (with_exporter(cluster(), -9), CLIENTS),
    "unnamed": (unnamed(cluster(), stale_plugin()), JOB),
    "unnamed alone": (cluster().change("daemonset", MINE, PLUGIN), JOB),
    # Restarts.
    "queued by our limit": (stale("a", "b"), Settings(max_parallel_restarts=1)),
    "queued by any": (stale(*TEN), down(1)),
    "queued by both": (stale("a", "b"), down(1, max_parallel_restarts=1)),
    # The whole cluster.
    "no plugin": (bare(), JOB),
    "no plugin in its namespace": (cluster(), Settings(plugin=Plugin(namespace="x"))),
    "no plugin in its namespace and no client": (bare(), structs.replace(CLIENTS, plugin=Plugin(namespace="dra"))),
    "operator's own plugin": (bare().drop("policy").put("daemonset", obj("plugin-daemonset", MANAGED)), JOB),
    "and another one": (stale().drop("policy").put("daemonset", obj("plugin-daemonset", MANAGED)), JOB),
    "no policy": (without_operator(cluster()), JOB),
    "no kind of policy": (without_operator(cluster()).unserved("policy"), JOB),
    "policy deleted": (cluster().drop("policy"), JOB),
    "policy expected": (cluster().drop("policy"), EXPECTED),
    "other chart": (cluster(), Settings(expect=Expect("v26.7.0"))),
    "other driver": (cluster(), Settings(expect=Expect(driver_version="590.1.2"))),
    "other driver in pools": (pooled(Pool("a", ("x",)), Pool("b", ("y",), "570.124.06"), Pool("c", ("z",))), Settings(
        expect=Expect(driver_version="590.1.2"))),
    "driver disabled": (cluster().change("policy", patches.DISABLED), JOB),
    "no node": (cluster().drop("node").drop("driver-pod").drop("plugin-pod"), JOB),
    "not observed": (cluster().change("daemonset", "metadata: {generation: 3}", DRIVER), JOB),
    "new version": (cluster().change("policy", "spec: {driver: {version: 590.1.2}}"), JOB),
    "new chart": (cluster().change("policy", "spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v27}}}"), JOB),
    "no driver DaemonSet": (cluster().drop("daemonset", DRIVER).drop("driver-pod"), JOB),
    "pool gone": (pooled().drop("pool"), JOB),
    "operator rolls out": (cluster().change("deployment", "status: {updatedReplicas: 0}"), JOB),
    "no leader": (cluster().change("lease", "spec: {holderIdentity: null}"), JOB),
    "old leader": (cluster().change("lease", "spec: {holderIdentity: gpu-operator-old-x}"), JOB),
    "operator settles": (cluster().change("lease", "spec: {acquireTime: '2026-01-01T10:59:55Z'}"), JOB),
    "policy not ready": (cluster().change("policy", patches.ILL), JOB),
    "several things": (stale(*TEN).drop("slice", "0-gpu.nvidia.com-a").put("plugin-pod", plugin_pod("a")).change(
        "node", labelled("b", skip="true"), "b").put("plugin-pod", plugin_pod("c")), JOB),
    # Warnings.
    "cordoned": (cluster("a", "b").change("driver-pod", patches.OUTDATED, "driver-a").change(
        "node", CORDONED, "b"), JOB),
    "selector": (selecting(CLIENT), JOB),
    "label that is not read": (selecting(ELSEWHERE).change("policy", EVICTING), JOB),
    "evicted by the driver manager": (cluster().change("policy", EVICTING).change("daemonset", ELSEWHERE, PLUGIN), JOB),
    "clients not found": (cluster(), Settings(driver_clients=(EXPORTER, DriverClient(labels={"a": "b"})))),
    "client that is a driver": (cluster(), Settings(driver_clients=(DriverClient("gpu-operator", DRIVER),))),
    "no image": (openshift(), Settings(expect=Expect(driver_version="580.126.20"))),
}  # fmt: skip


def later() -> Iterator[tuple[str, Decision]]:
    """Yield decisions that depend on what was before."""
    for name, found, settings, seconds in (
        ("after its grace", cluster("a", "b").put("driver-pod", failing("a"), failing("b")), JOB, 300),
        ("out of time", cluster().drop("driver-pod"), JOB, 1470),
        ("policy not ready for long", cluster().change("policy", patches.ILL), JOB, 120),
        ("policy gone for long", cluster().drop("policy"), JOB, 120),
        ("labels gone for long", unlabelled(cluster("a", "b")), JOB, 300),
        ("node away for long", cluster("a", "b").change("node", not_ready_since(0), "b"), JOB, 300),
        ("node away for long, controller", cluster("a", "b").change("node", not_ready_since(0), "b"), FOLLOWING, 300),
        ("node joined", joining(creationTimestamp=stamp(3605)), JOB, 60),
    ):
        run = Run(found, settings)
        run.look()
        yield name, run.look(seconds)
    run = Run(stale())
    run.act()
    yield "fleet vanished", run.then(without_operator(cluster())).look(5)
    yield "out of time without a fleet", run.then(without_operator(cluster())).look(1470)
    yield "deleted", run.look(5)
    yield "refreshed", run.then(cluster()).look(40)
    yield "deleted and none wanted", run.then(STATES["none wanted"][0]).look(5)
    for settings in (JOB, FOLLOWING):
        run, refused = Run(stale(), settings), Run(stale(), settings)
        run.act()
        refused.act(refused="no")
        new = cluster().put("plugin-pod", named(stale_plugin(), "plugin-gpu-0"))
        yield "restarted", run.then(new).look(9)
        yield "refused", refused.look(9)
        reloaded = new.put("driver-pod", driver_pod(started=9, restarts=1))
        yield "driver reloaded again", run.then(reloaded).look(9)
    run = Run(stale())
    plugin = run.look().statuses[0].stale
    assert plugin is not None
    run.memory = run.memory.troubled(plugin, LATER, "no answer")
    yield "in trouble", run.look(5)


def decisions() -> Iterator[tuple[str, Decision]]:
    """Yield the decision on each state."""
    for name, (found, settings) in STATES.items():
        yield name, found.decide(settings)[0]
    yield from later()


def rendered() -> str:
    """Return the content of the file."""
    lines = ["# Written by python -m tests.unit.decide.messages"]
    for name, decision in decisions():
        lines += ["", f"{name}:", f"  {decision.phase} {decision.reason}: {decision.message}"]
        statuses = [status for status in decision.statuses if status.reason is not Reason.VERIFIED]
        shown = statuses or decision.statuses[:1]
        lines += [f"  {status.node} {status.state} {status.reason}: {status.message}" for status in shown]
        lines += [f"  warning: {text}" for text in decision.warnings]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    FILE.write_text(rendered(), encoding="utf-8")
