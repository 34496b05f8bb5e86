"""Evaluate whether a node is eligible, excluded, or has to wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hook.config import OnManualUpgrade
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Patience
from hook.objects import names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.objects.views import Node, Pod

KNOWN_DEPLOY_VALUES: Final = ("true", "false")
"""Values of the label that deploys the driver, in addition to ``names.PRE_INSTALLED``."""


@dataclass(frozen=True, slots=True)
class NodeBlocker:
    """State, reason and message of a node whose plugins must not be restarted now."""

    state: NodeState
    reason: Reason
    message: str
    patience: Patience | None = None


def excluded(name: str, node: Node | None, fleet: Fleet, now: datetime) -> NodeBlocker | None:
    """Return why a node is excluded or has to wait, judged by the Node object and its labels."""
    if node is None or node.labels.get(fleet.stack.nodes.present) != "true":
        return _unlabelled(name, fleet)
    if node.labels.get(fleet.stack.upgrade.skip) == "true":
        return NodeBlocker(NodeState.EXCLUDED, Reason.NODE_SKIPPED, f"it carries {fleet.stack.upgrade.skip}=true")
    return _without_driver(name, node, fleet) or _unreachable(node, fleet, now)


def _unlabelled(name: str, fleet: Fleet) -> NodeBlocker:
    """Distinguish a node that lost its labels from one without a GPU, where no driver or plugin ever started.

    The plugin's DaemonSet also selects nodes by CPU vendor (DRA), so on Grace nodes without a GPU its pod stays in
    the init container.
    """
    label = f"{fleet.stack.nodes.present}=true"
    # Other driver clients may run on any node. Only the stack's own plugin shows that there is a device.
    plugins = (pod for pod in fleet.plugin_pods.get(name, ()) if fleet.plugins.is_plugin(pod.owner_uid))
    running = any(container.started_at for pod in plugins for container in pod.containers)
    if not running and not fleet.driver_pods.get(name):
        message = f"it does not carry {label}, and neither a driver nor a plugin runs there"
        return NodeBlocker(NodeState.EXCLUDED, Reason.DRIVER_NOT_DEPLOYED, message)
    message = f"a driver or plugin runs there, but it does not carry {label} (is NFD down, or the node gone?)"
    # Without a driver pod nothing reloads there. NFD may be back in a moment, or the GPU was taken out for good. If
    # none of several nodes carries the label, NFD is down.
    patience = Patience.NODE if fleet.detects and not fleet.driver_pods.get(name) else None
    return NodeBlocker(NodeState.WAITING, Reason.LABELS_MISSING, message, patience)


def _without_driver(name: str, node: Node, fleet: Fleet) -> NodeBlocker | None:
    """Exclude a node to which this stack deploys no driver."""
    labels = fleet.stack.nodes
    if managed(node, fleet):
        return None
    deploy = node.labels.get(labels.deploy, "")
    if deploy == names.PRE_INSTALLED:
        return NodeBlocker(
            NodeState.EXCLUDED, Reason.HOST_DRIVER, "its host brings its own driver, which nothing reloads"
        )
    workload = node.labels.get(labels.workload, "")
    if workload in names.VIRTUAL_MACHINE_WORKLOADS:
        message = f"its GPUs are for virtual machines ({labels.workload}={workload}), so it gets no driver for pods"
        return NodeBlocker(NodeState.EXCLUDED, Reason.VIRTUAL_MACHINE_NODE, message)
    if labels.deploy and deploy not in KNOWN_DEPLOY_VALUES and fleet.driver_pods.get(name):
        lost = f"has the unknown value {deploy[:40]!r} as" if deploy else "lost"
        message = f"it runs a driver pod but {lost} its {labels.deploy} label"
        return NodeBlocker(NodeState.WAITING, Reason.LABELS_MISSING, message)
    return NodeBlocker(
        NodeState.EXCLUDED, Reason.DRIVER_NOT_DEPLOYED, f"no driver is deployed to it ({_why_not(node, fleet)})"
    )


def _why_not(node: Node, fleet: Fleet) -> str:
    labels = fleet.stack.nodes
    if not labels.deploy:
        return "no driver DaemonSet wants a pod there"
    if node.labels.get(labels.operands) == "false":
        return f"{labels.operands}=false"
    return f"{labels.deploy}={node.labels.get(labels.deploy) or '(none)'}"


def _unreachable(node: Node, fleet: Fleet, now: datetime) -> NodeBlocker | None:
    if node.ready:
        return None
    if node.ready_since is not None and now - node.ready_since >= fleet.settings.not_ready_grace:
        minutes = int((now - node.ready_since).total_seconds() // 60)
        again = "" if fleet.settings.follow else " and you run the release again"
        message = f"it has been NotReady for {minutes} min; its plugin is evaluated when it is back{again}"
        return NodeBlocker(NodeState.EXCLUDED, Reason.NODE_NOT_READY, message)
    return NodeBlocker(
        NodeState.WAITING, Reason.NODE_NOT_READY_BRIEFLY, "it is NotReady, perhaps for a moment", Patience.NODE
    )


def manual(driver: Pod, fleet: Fleet) -> NodeBlocker | None:
    """Return the gate of a node whose outdated driver pod only an administrator replaces; None for other nodes.

    If the DaemonSet's update strategy is RollingUpdate, the DaemonSet controller replaces the pod even if autoUpgrade
    is off.
    """
    owner = fleet.drivers.get(driver.owner_uid)
    if not outdated(driver, fleet) or (owner is not None and owner.rolling):
        return None
    intent = fleet.intents.get(driver.owner_uid) or fleet.policy
    if intent is None or not intent.manual:
        return None
    message = f"driver pod {driver.name} is outdated, and no controller replaces it ({intent.manual})"
    state, patience = {
        OnManualUpgrade.REPORT: (NodeState.EXCLUDED, None),
        OnManualUpgrade.WAIT: (NodeState.WAITING, None),
        OnManualUpgrade.FAIL: (NodeState.FAILED, None),
    }[fleet.settings.on_manual_upgrade]
    return NodeBlocker(state, Reason.MANUAL_UPGRADE, message, patience)


def managed(node: Node, fleet: Fleet) -> bool:
    """Return whether the stack deploys a driver to this node.

    Without a deploy label the DaemonSets decide: once they all have as many pods as desired, a node without a driver
    pod gets none.
    """
    labels = fleet.stack.nodes
    if node.labels.get(labels.present) != "true":
        return False
    if not labels.deploy:
        return bool(fleet.driver_pods.get(node.name)) or not _all_drivers_placed(fleet)
    return node.labels.get(labels.deploy) == "true" and node.labels.get(labels.operands) != "false"


def _all_drivers_placed(fleet: Fleet) -> bool:
    return bool(fleet.drivers) and fleet.drivers.keys() <= fleet.complete


def outdated(pod: Pod, fleet: Fleet) -> bool:
    """Return whether a driver pod is not of its DaemonSet's newest revision, or that revision is unknown."""
    newest = fleet.newest.get(pod.owner_uid)
    return newest is None or pod.hash != newest.hash


def live_pods(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that are neither terminating nor finished."""
    return [pod for pod in pods if pod.live]
