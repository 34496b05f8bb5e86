"""The objects that an API server serves of a world: JSON, with times in whole seconds."""

from __future__ import annotations

from typing import Final, cast

from hook.objects import names
from hook.objects.stacks import GPU_OPERATOR
from tests.fixtures.objects import Object, finished, merged, obj, running, stamp, waiting
from tests.properties.machine import Machine
from tests.properties.pods import SECOND, DriverPod, Main, PluginPod
from tests.properties.rollout import DriverSet, PluginSet, Stage
from tests.properties.world import World

PARTS: Final = (
    "policy", "driver-daemonset", "plugin-daemonset", "revision", "node", "driver-pod", "plugin-pod",
    "slice", "deployment", "replicaset", "lease",
)  # fmt: skip
_BASE: Final = {part: obj(part) for part in PARTS}
"""As a cluster serves them; each is changed by what is true in a world."""


def policy(world: World) -> Object:
    """Show what a user wants, and what the operator says of it."""
    driver = {"version": version(world.version), "upgradePolicy": {"autoUpgrade": not world.by_hand}}
    written = [{"manager": "helm", "operation": "Apply", "time": stamp(world.touched)}]
    identity = {"uid": world.policy, "generation": world.generation, "managedFields": written}
    state = {"state": "ready" if world.says_ready else "notReady"}
    return _changed("policy", {"metadata": identity, "spec": {"driver": driver}, "status": state})


def plugin_set(daemons: PluginSet) -> Object:
    """Show the plugin's DaemonSet, whose status trails behind."""
    status = {"observedGeneration": daemons.observed, "desiredNumberScheduled": daemons.wanted}
    return _changed("plugin-daemonset", {"metadata": {"uid": daemons.uid}, "status": status})


def driver_set(daemons: DriverSet, pattern: str) -> Object:
    """Show the driver's DaemonSet, whose status trails behind."""
    image = pattern.format(tag=f"{version(daemons.template[0])}-ubuntu22.04", digest=f"{daemons.template[0]:064x}")
    status = {"observedGeneration": daemons.observed, "desiredNumberScheduled": daemons.desired}
    template = {"spec": {"containers": [{"name": GPU_OPERATOR.driver.container, "image": image}]}}
    identity = {"uid": daemons.uid, "generation": daemons.generation}
    spec = {"template": template, "updateStrategy": {"type": "RollingUpdate" if daemons.rolling else "OnDelete"}}
    return _changed("driver-daemonset", {"metadata": identity, "spec": spec, "status": status})


def revision(daemons: DriverSet, template: tuple[int, ...]) -> Object:
    """Show one ControllerRevision; an old one that is taken up again has a new number and its old age."""
    number, made = daemons.revisions[template]
    identity = {
        "name": f"driver-{_hash(template)}",
        "creationTimestamp": stamp(made),
        "labels": {names.REVISION_HASH_LABEL: _hash(template)},
        "ownerReferences": _owner(daemons.uid),
    }
    return _changed("revision", {"metadata": identity, "revision": number})


def node(machine: Machine) -> Object:
    """Show a node. Where NFD is down it says that there is no GPU."""
    labels = {
        GPU_OPERATOR.nodes.present: str(machine.labelled).lower(),
        GPU_OPERATOR.nodes.deploy: "true" if machine.labelled else None,
        GPU_OPERATOR.upgrade.state: machine.label,
        GPU_OPERATOR.upgrade.skip: "true" if machine.skipped else None,
    }
    ready = {"type": "Ready", "status": "True" if machine.reports else "Unknown"}
    conditions = [{**ready, "lastTransitionTime": stamp(machine.reports_since)}]
    return _changed(
        "node", {"metadata": {"name": machine.name, "labels": labels}, "status": {"conditions": conditions}}
    )


def driver_pod(machine: Machine, pod: DriverPod) -> Object:
    """Show a driver pod."""
    waits_for = "CrashLoopBackOff" if pod.failing else "PodInitializing"
    status = {
        "conditions": _conditions(machine, pod.ready),
        "initContainerStatuses": [_init(GPU_OPERATOR.driver.unloader, pod.unloaded)],
        "containerStatuses": [
            _main(GPU_OPERATOR.driver.container, pod, waits_for),
            *([_main(pod.side.name, pod.side, "PodInitializing")] if pod.side is not None else []),
        ],
    }
    labels = {names.REVISION_HASH_LABEL: _hash(pod.template)}
    identity = {**_identity(pod), "labels": labels, "ownerReferences": _owner(pod.owner)}
    return _changed("driver-pod", {"metadata": identity, "spec": {"nodeName": machine.name}, "status": status})


def plugin_pod(machine: Machine, pod: PluginPod) -> Object:
    """Show a plugin's pod."""
    status = {
        "conditions": _conditions(machine, pod.ready),
        "initContainerStatuses": [_init(GPU_OPERATOR.plugin.waiter, pod.waited)],
        "containerStatuses": [_main(main.name, main, "PodInitializing") for main in pod.mains],
    }
    identity = {
        **_identity(pod),
        "creationTimestamp": stamp(pod.born // SECOND),
        "ownerReferences": _owner(pod.owner) if pod.owner else None,
    }
    return _changed("plugin-pod", {"metadata": identity, "spec": {"nodeName": machine.name}, "status": status})


def device_slice(name: str, published: int) -> Object:
    """Show the devices of a node, of the driver that their plugin found."""
    devices = [{"name": "gpu-0", "attributes": {"driverVersion": {"version": version(published)}}}]
    spec = {"nodeName": name, "pool": {"name": name}, "devices": devices}
    return _changed("slice", {"metadata": {"name": name}, "spec": spec})


def deployment(build: int, stage: Stage) -> Object:
    """Show the operator's Deployment, whose generation runs ahead of its status until the new operator is up."""
    seen = build + (stage is Stage.STARTED)
    annotations = {names.DEPLOYMENT_REVISION_ANNOTATION: str(seen)}
    identity = {"generation": build + (stage is not Stage.LEADS), "annotations": annotations}
    return _changed("deployment", {"metadata": identity, "status": {"observedGeneration": seen}})


def replicaset(build: int) -> Object:
    """Show the ReplicaSet of one operator."""
    annotations = {names.DEPLOYMENT_REVISION_ANNOTATION: str(build)}
    return _changed("replicaset", {"metadata": {"name": f"operator-{build}", "annotations": annotations}})


def lease(build: int, since: int) -> Object:
    """Show which operator leads."""
    held = {"holderIdentity": f"operator-{build}-x_1", "acquireTime": stamp(since)}
    return _changed("lease", {"spec": held})


def version(number: int) -> str:
    """Write a driver version."""
    return f"580.{number}.20"


def _changed(part: str, patch: Object) -> Object:
    return cast("Object", merged(_BASE[part], patch))


def _hash(template: tuple[int, ...]) -> str:
    return "-".join(map(str, template))


def _owner(uid: str) -> list[Object]:
    return [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "owner", "uid": uid, "controller": True}]


def _identity(pod: DriverPod | PluginPod) -> Object:
    deleted = {"deletionTimestamp": stamp(0)} if pod.deleting else {}
    return {"name": pod.uid, "uid": pod.uid, "resourceVersion": str(pod.changes), **deleted}


def _conditions(machine: Machine, ready: int | None) -> list[Object]:
    """Return both conditions. The node controller takes Ready away when a node is lost; it comes back as new."""
    since = 0 if ready is None else ready
    conditions = (("Ready", machine.reports, max(since, machine.reports_since)), ("ContainersReady", True, since))
    return [
        {"type": kind, "status": str(ready is not None and holds), "lastTransitionTime": stamp(moment)}
        for kind, holds, moment in conditions
    ]


def _init(name: str, moment: int | None) -> Object:
    return waiting(name, "PodInitializing") if moment is None else finished(name, moment)


def _main(name: str, container: DriverPod | Main, waits_for: str) -> Object:
    restarts, ended = container.restarts, container.ended
    if container.started is not None:
        return running(name, container.started, restarts=restarts, ended_before=ended)
    last = {} if ended is None else {"terminated": {"exitCode": 1, "finishedAt": stamp(ended)}}
    return {**waiting(name, waits_for), "restartCount": restarts, "lastState": last}
