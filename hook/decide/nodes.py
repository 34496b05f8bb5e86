"""Evaluate one node: its eligibility, its driver, then the freshness of its plugins.

The guard clauses each return a reason. Signals about the whole cluster are wrong at times (see docs/architecture.md),
so each node is evaluated by itself. A node is refreshed as soon as it is settled, not when the last node is.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hook.decide import freshness
from hook.decide.eligibility import NodeBlocker, excluded, live_pods, managed, manual, outdated
from hook.decide.explain import Trait
from hook.decide.plugins import evaluate_plugin, evaluate_unnamed
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, NodeStatus, Patience
from hook.objects import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from hook.decide.fleet import Fleet
    from hook.objects.drivers import Stack
    from hook.objects.views import Node, Pod

FAILING_TO_START: Final = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
"""Waiting reasons of a container that do not pass by themselves (K8S ``pkg/kubelet``, ``images/types.go``)."""


class Label(StrEnum):
    """Meaning of an upgrade state label. The label trails by up to two minutes: it can veto, but proves nothing."""

    QUIET = "quiet"
    BEFORE_RESTART = "before"
    AFTER_RESTART = "after"
    FAILED = "failed"
    UNKNOWN = "unknown"


def evaluate_node(name: str, fleet: Fleet, now: datetime) -> tuple[NodeStatus, ...]:
    """Return one status for each plugin on the node, or a single one if the node is excluded or not settled."""
    node = fleet.seen.nodes.get(name)
    alone = excluded(name, node, fleet, now)
    blocker = _unreadable(name, fleet, alone) or alone or _closed_by_drivers(name, node, fleet)
    label = label_meaning(node, fleet)
    if blocker is not None:
        return (_upgrade_failed(_closed(name, blocker, fleet), label, fleet),)
    driver = live_pods(fleet.driver_pods.get(name, ()))[0]
    judged = [evaluate_plugin(name, plugin, driver, fleet, now) for plugin in fleet.plugins.named]
    if not judged:
        nothing = NodeBlocker(
            NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH, f"no {fleet.stack.plugin.noun} is installed"
        )
        judged = [_closed(name, nothing, fleet)]
    if name in fleet.unnamed_pods:
        unnamed, fresh = evaluate_unnamed(name, driver, fleet)
        judged = [replace(judged[0], fresh=judged[0].fresh + fresh), *judged[1:], *unnamed]
    if (by_hand := manual(driver, fleet)) is not None:
        return _with_outdated_driver(judged, _closed(name, by_hand, fleet))
    pending = label is not Label.QUIET
    return tuple(_upgrade_failed(status.with_label_pending(pending=pending), label, fleet) for status in judged)


def _with_outdated_driver(judged: Sequence[NodeStatus], by_hand: NodeStatus) -> tuple[NodeStatus, ...]:
    """Return what plugins need on a driver that only an administrator upgrades; `by_hand` once they need nothing.

    The outdated driver is loaded, so plugins are evaluated against it.
    """
    if any(one.state is not NodeState.VERIFIED for one in judged):
        return tuple(judged)
    return (replace(by_hand, fresh=tuple(pair for one in judged for pair in one.fresh)),)


def label_meaning(node: Node | None, fleet: Fleet) -> Label:
    """Classify the upgrade state label. An undocumented value counts as an upgrade in progress."""
    value = _label(node, fleet.stack.upgrade.state)
    if value in names.STATES_QUIET:
        return Label.QUIET
    if value in names.STATES_AFTER_RESTART:
        return Label.AFTER_RESTART
    if value in names.STATES_BEFORE_RESTART:
        return Label.BEFORE_RESTART
    return Label.FAILED if value == names.STATE_FAILED else Label.UNKNOWN


def _closed(name: str, blocker: NodeBlocker, fleet: Fleet) -> NodeStatus:
    pods = [*_live_first(fleet.driver_pods.get(name, ())), *_live_first(fleet.plugin_pods.get(name, ()))]
    return NodeStatus(
        node=name,
        state=blocker.state,
        reason=blocker.reason,
        message=blocker.message,
        patience=blocker.patience,
        subject=next((str(pod) for pod in pods), ""),
    )


def _live_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: not pod.live)


def _upgrade_failed(judged: NodeStatus, label: Label, fleet: Fleet) -> NodeStatus:
    """Let a node wait for its failed upgrade if it is verified, or waits already.

    The state is not terminal: the upgrade controller leaves it once the new driver pod is Ready.
    """
    if label is not Label.FAILED or judged.state not in (NodeState.WAITING, NodeState.VERIFIED):
        return judged
    message = f"its upgrade state is {names.STATE_FAILED} ({judged.message})"
    # The remedy is for the driver pod, also if the status was that of the plugin.
    drivers = _live_first(fleet.driver_pods.get(judged.node, ()))
    driver = str(drivers[0]) if drivers else ""
    return replace(
        judged,
        state=NodeState.WAITING,
        reason=Reason.UPGRADE_FAILED,
        message=message,
        subject=driver,
        patience=Patience.DRIVER,
    )


def _unreadable(name: str, fleet: Fleet, alone: NodeBlocker | None) -> NodeBlocker | None:
    """Let a node wait while one of its objects, or a pod without a node, is malformed.

    Ignore malformed pods if the Node object alone excludes the node.
    """
    node_alone = alone is not None and Trait.NODE_ALONE in alone.reason.traits
    for malformed in fleet.malformed:
        if malformed.kind == "Pod" and malformed.node == name and node_alone:
            continue
        if name in (malformed.node, malformed.name) or (malformed.kind == "Pod" and not malformed.node):
            message = f"{malformed.kind} {malformed.namespace}/{malformed.name} cannot be read: {malformed.problem}"
            return NodeBlocker(NodeState.WAITING, Reason.MALFORMED_OBJECT, message)
    return None


def _closed_by_drivers(name: str, node: Node | None, fleet: Fleet) -> NodeBlocker | None:
    """Return the first driver or provider on this node that is not settled and that plugins must start after."""
    return _unsettled_before(name, node, fleet) or _unsettled(name, node, fleet) or _unprovided(name, node, fleet)


def _unsettled_before(name: str, node: Node | None, fleet: Fleet) -> NodeBlocker | None:
    """Let a node wait for the driver of the prior stack, if that stack has a driver there.

    Do not wait for an outdated driver that is loaded and that no controller replaces: it may stay for months.
    """
    prior = fleet.prior
    if prior is None or not _asks_for_both(name, fleet):
        return None
    live = live_pods(prior.driver_pods.get(name, ()))
    skipped = _label(node, prior.stack.upgrade.skip) == "true"
    blocker = None if skipped else _label_gate(node, prior)
    to_come = not skipped and any(outdated(pod, prior) and _is_rotated(pod, prior) for pod in live)
    ready = (len(live) == 1 and live[0].ready) or (not live and not _is_missing(name, node, prior))
    if ready and blocker is None and not to_come:
        return None
    unready = "its pod is not ready" if live else "its pod is missing or terminating"
    detail = blocker.message if blocker is not None else "it is about to be upgraded" if to_come else unready
    message = f"the {prior.stack.name} driver, which comes first here, is not settled: {detail}"
    return NodeBlocker(NodeState.WAITING, Reason.PRIOR_DRIVER_UNSETTLED, message)


def _is_rotated(pod: Pod, prior: Fleet) -> bool:
    """Return whether a controller replaces outdated driver pods. Without the policy, only the DaemonSet shows it."""
    owner = prior.drivers.get(pod.owner_uid)
    return (owner is not None and owner.rolling) or (prior.policy is not None and not prior.policy.manual)


def _is_missing(name: str, node: Node | None, prior: Fleet) -> bool:
    """Return whether a node without a live driver pod of the prior stack is about to get one.

    A pod that terminates is replaced. Without a pod, a DaemonSet with fewer pods than desired may create one here.
    """
    if prior.driver_pods.get(name):
        return True
    return bool(prior.drivers) and node is not None and managed(node, prior)


def _asks_for_both(name: str, fleet: Fleet) -> bool:
    """Return whether the node's driver must load after the driver of the prior stack. If unknown, it must."""
    intents = [fleet.intents.get(pod.owner_uid) for pod in live_pods(fleet.driver_pods.get(name, ()))]
    known = [intent for intent in intents if intent is not None]
    return any(intent.rdma for intent in known) or not known


def _unprovided(name: str, node: Node | None, fleet: Fleet) -> NodeBlocker | None:
    """Let a node wait for each provider that the settings name and that is deployed to it."""
    for prerequisite, owners in fleet.prerequisites.items():
        if _label(node, prerequisite.deploy_label) != "true":
            continue
        if not owners:
            message = f"there is no {prerequisite.title} DaemonSet, but the settings (providers) name it"
            return NodeBlocker(NodeState.WAITING, Reason.PREREQUISITE_NOT_READY, message, Patience.DRIVER)
        live = [pod for pod in live_pods(fleet.prerequisite_pods.get(name, ())) if pod.owner_uid in owners]
        replaced = any(outdated(pod, fleet) and owners[pod.owner_uid].rolling for pod in live)
        if len(live) != 1 or freshness.provided_since(live[0]) is None or replaced:
            message = f"its {prerequisite.title} pod is missing, not ready or about to be replaced"
            return NodeBlocker(NodeState.WAITING, Reason.PREREQUISITE_NOT_READY, message)
    return None


def _unsettled(name: str, node: Node | None, fleet: Fleet) -> NodeBlocker | None:
    """Return why the node's driver is not settled.

    Settled means: exactly one live driver pod, of the newest revision of its DaemonSet, Ready, and no label vetoes.
    """
    pods = fleet.driver_pods.get(name, ())
    live = live_pods(pods)
    if not live:
        message = "its driver pod is terminating" if pods else "it has no driver pod"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_MISSING, message)
    if len(live) > 1:
        message = f"{len(live)} driver pods live on it: {', '.join(pod.name for pod in live)}"
        return NodeBlocker(NodeState.WAITING, Reason.SEVERAL_DRIVER_PODS, message)
    return _driver_gate(live[0], node, fleet) or _label_gate(node, fleet, by_hand=manual(live[0], fleet) is not None)


def _driver_gate(pod: Pod, node: Node | None, fleet: Fleet) -> NodeBlocker | None:
    if pod.owner_uid not in fleet.drivers:
        message = f"the DaemonSet of driver pod {pod.name} is gone"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_ORPHANED, message)
    if unrendered := fleet.unrendered.get(pod.owner_uid):
        return NodeBlocker(NodeState.WAITING, Reason.NOT_RENDERED, unrendered)
    if outdated(pod, fleet) and manual(pod, fleet) is None:
        newest = fleet.newest.get(pod.owner_uid)
        message = (
            f"driver pod {pod.name} is of revision {pod.hash or '(none)'}, newest is {newest.hash if newest else '?'}"
        )
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_OUTDATED, message)
    if pod.ready and freshness.ready_since(pod, fleet.stack.driver.container) is not None:
        return None
    return _not_ready_gate(pod, node, fleet)


def _not_ready_gate(pod: Pod, node: Node | None, fleet: Fleet) -> NodeBlocker:
    for container in (*pod.init_containers, *pod.containers):
        if container.waiting in FAILING_TO_START:
            detail = f": {container.message}" if container.message else ""
            message = f"driver pod {pod.name}: container {container.name} is in {container.waiting}{detail}"
            return NodeBlocker(NodeState.WAITING, Reason.DRIVER_FAILING, message, Patience.DRIVER)
    if freshness.keeps_crashing(pod, fleet.stack):
        restarts = max(container.restarts for container in pod.containers)
        message = f"driver pod {pod.name} is not Ready, and its container crashed ({restarts} restarts)"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_FAILING, message, Patience.DRIVER)
    safe_load = fleet.stack.nodes.safe_load
    held = f", it waits until its node is drained ({safe_load})" if node and node.annotations.get(safe_load) else ""
    return NodeBlocker(NodeState.WAITING, Reason.DRIVER_NOT_READY, f"driver pod {pod.name} is not Ready yet{held}")


def _label_gate(node: Node | None, fleet: Fleet, *, by_hand: bool = False) -> NodeBlocker | None:
    """Return why upgrade labels veto the node.

    Ignore the state label where drivers are upgraded `by_hand`: a disabled upgrade controller leaves it behind.
    """
    meaning = Label.QUIET if by_hand else label_meaning(node, fleet)
    value = _label(node, fleet.stack.upgrade.state)
    if meaning is Label.BEFORE_RESTART:
        return NodeBlocker(NodeState.WAITING, Reason.UPGRADE_IN_PROGRESS, f"its upgrade state is {value}")
    if meaning is Label.UNKNOWN:
        message = f"its upgrade state {value!r} is unknown to this version"
        return NodeBlocker(NodeState.WAITING, Reason.UPGRADE_STATE_UNKNOWN, message)
    if paused := _paused(node, fleet.stack):
        message = f"its operands are paused while the driver is unloaded ({paused})"
        return NodeBlocker(NodeState.WAITING, Reason.OPERANDS_PAUSED, message)
    return None


def _paused(node: Node | None, stack: Stack) -> str:
    """Return the label that keeps operands off a node while its driver reloads, or ""."""
    labels: Mapping[str, str] = node.labels if node else {}
    if labels.get(stack.nodes.wait) == "true":
        return f"{stack.nodes.wait}=true"
    prefix = stack.nodes.paused_prefix
    paused = (key for key, text in labels.items() if key.startswith(prefix) and names.PAUSED_FOR_UPGRADE in text)
    return next(paused, "") if prefix else ""


def _label(node: Node | None, key: str) -> str:
    labels: Mapping[str, str] = node.labels if node else {}
    return labels.get(key, "")
