"""Evaluate one node: whether it is eligible, whether its driver is settled, then the freshness of its plugins.

The guard clauses each return a reason. Signals about the whole cluster are wrong at times (see docs/how-it-works.md),
so each node is evaluated by itself. A node is refreshed as soon as it is settled, not when the last node is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from hook.decide import freshness, moments
from hook.decide.fleet import live_pods, same_driver, wanted_version
from hook.decide.freshness import CRASH_LOOP_RESTARTS, Freshness
from hook.decide.reasons import Reason, Trait
from hook.decide.result import NodeBlocker, NodeState, NodeStatus, Patience, StalePod
from hook.format import timestamp
from hook.objects import names
from hook.settings import OnManualUpgrade

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from hook.decide.fleet import Context, NodeView
    from hook.decide.freshness import Evidence
    from hook.decide.moments import Moment
    from hook.decide.record import Memory
    from hook.objects import DaemonSet, Node, Pod
    from hook.objects.stacks import PluginKind, Stack

FAILING_TO_START: Final = frozenset({
    "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
})  # fmt: skip
"""Waiting reasons of a container that do not pass by themselves (K8S ``pkg/kubelet``, ``images/types.go``)."""


class Label(StrEnum):
    """Meaning of an upgrade state label. The label trails by up to two minutes: it can veto, but proves nothing."""

    QUIET = "quiet"
    REQUIRED = "required"
    BEFORE_RESTART = "before"
    AFTER_RESTART = "after"
    FAILED = "failed"
    UNKNOWN = "unknown"


def evaluate_node(view: NodeView, context: Context, memory: Memory, now: datetime) -> tuple[NodeStatus, ...]:
    """Return one status for each plugin on the node, or a single one if the node is excluded or not settled."""
    label = label_meaning(view, context)
    ineligible = excluded(view, context)
    if blocker := _malformed(view, ineligible) or ineligible or _unsettled(view, context):
        return (_upgrade_failed(_status(view, blocker), label, view),)
    statuses = _plugin_statuses(SettledNode.of(view, context, memory), now)
    if manual := manual_upgrade(live_pods(view.driver_pods)[0], view, context):
        return _with_outdated_driver(statuses, _status(view, manual))
    if label is Label.QUIET:
        return tuple(statuses)
    return tuple(_upgrade_failed(replace(status, label_pending=True), label, view) for status in statuses)


def _plugin_statuses(settled: SettledNode, now: datetime) -> list[NodeStatus]:
    """Return the status of each plugin on a node whose driver is settled, and of each stale pod of unnamed plugins."""
    view, context = settled.view, settled.context
    statuses = [evaluate_plugin(daemonset, settled, now) for daemonset in context.plugins.named]
    if not statuses:
        message = f"no {context.stack.plugin.noun} is installed"
        nothing = NodeBlocker(NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH, message)
        statuses = [_status(view, nothing)]
    if not view.unnamed_pods:
        return statuses
    unnamed, fresh = evaluate_unnamed(settled)
    return [replace(statuses[0], fresh=statuses[0].fresh + fresh), *statuses[1:], *unnamed]


def _with_outdated_driver(statuses: Sequence[NodeStatus], manual: NodeStatus) -> tuple[NodeStatus, ...]:
    """Return what plugins need on a driver that only an administrator upgrades; `manual` once they need nothing.

    The outdated driver is loaded, so plugins are evaluated against it.
    """
    if any(status.state is not NodeState.VERIFIED for status in statuses):
        return tuple(statuses)
    return (replace(manual, fresh=tuple(proof for status in statuses for proof in status.fresh)),)


def label_meaning(view: NodeView, context: Context) -> Label:
    """Classify the upgrade state label. An undocumented value counts as an upgrade in progress."""
    value = view.label(context.stack.upgrade.state)
    if value in names.STATES_QUIET:
        return Label.QUIET
    if value in names.STATES_AFTER_RESTART:
        return Label.AFTER_RESTART
    if value == names.STATE_REQUIRED:
        return Label.REQUIRED
    if value in names.STATES_BEFORE_RESTART:
        return Label.BEFORE_RESTART
    return Label.FAILED if value == names.STATE_FAILED else Label.UNKNOWN


def _status(view: NodeView, blocker: NodeBlocker) -> NodeStatus:
    pods = [*_live_first(view.driver_pods), *_live_first(view.plugin_pods)]
    return NodeStatus(
        node=view.name,
        state=blocker.state,
        reason=blocker.reason,
        message=blocker.message,
        patience=blocker.patience,
        subject=str(pods[0]) if pods else "",
    )


def _live_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: not pod.live)


def _upgrade_failed(status: NodeStatus, label: Label, view: NodeView) -> NodeStatus:
    """Let a node wait for its failed upgrade if it is verified, or waits already.

    The state is not terminal: the upgrade controller leaves it once the new driver pod is Ready.
    """
    if label is not Label.FAILED or status.state not in (NodeState.WAITING, NodeState.VERIFIED):
        return status
    # The remedy is for the driver pod, also if the status was that of the plugin.
    drivers = _live_first(view.driver_pods)
    return replace(
        status,
        state=NodeState.WAITING,
        reason=Reason.UPGRADE_FAILED,
        message=f"its upgrade state is {names.STATE_FAILED} ({status.message})",
        subject=str(drivers[0]) if drivers else "",
        patience=Patience.DRIVER,
    )


def _malformed(view: NodeView, ineligible: NodeBlocker | None) -> NodeBlocker | None:
    """Let a node wait while one of its objects, or a pod without a node, is malformed.

    Ignore malformed pods of the node if the Node object alone excludes it.
    """
    node_alone = ineligible is not None and Trait.NODE_ALONE in ineligible.reason.traits
    for malformed in view.malformed:
        if malformed.kind == "Pod" and malformed.node == view.name and node_alone:
            continue
        message = f"{malformed.kind} {malformed.namespace}/{malformed.name} cannot be read: {malformed.problem}"
        return NodeBlocker(NodeState.WAITING, Reason.MALFORMED_OBJECT, message)
    return None


# Whether the node is eligible: the Node object and its labels.


def excluded(view: NodeView, context: Context) -> NodeBlocker | None:
    """Return why a node is excluded or has to wait, as far as the Node object and its labels show it."""
    stack, node = context.stack, view.node
    if node is None or view.label(stack.nodes.present) != "true":
        return _unlabelled(view, context)
    if view.label(stack.upgrade.skip) == "true":
        return NodeBlocker(NodeState.EXCLUDED, Reason.NODE_SKIPPED, f"it carries {stack.upgrade.skip}=true")
    return _without_driver(view, context) or _not_ready(node)


def _unlabelled(view: NodeView, context: Context) -> NodeBlocker:
    """Distinguish a node that lost its labels from one without a GPU, where no driver or plugin ever started.

    The plugin's DaemonSet also selects nodes by CPU vendor (DRA), so on Grace nodes without a GPU its pod stays in
    the init container.
    """
    label = f"{context.stack.nodes.present}=true"
    # Other driver clients may run on any node. Only the stack's own plugin shows that there is a device.
    plugins = (pod for pod in view.plugin_pods if context.plugins.is_plugin(pod.owner_uid))
    running = any(container.started_at for pod in plugins for container in pod.containers)
    if not running and not view.driver_pods:
        message = f"it does not carry {label}, and neither a driver nor a plugin runs there"
        return NodeBlocker(NodeState.EXCLUDED, Reason.DRIVER_NOT_DEPLOYED, message)
    message = f"a driver or plugin runs there, but it does not carry {label} (is NFD down, or the node gone?)"
    # Without a driver pod nothing reloads there. NFD may be back in a moment, or the GPU was taken out for good. If
    # none of several nodes carries the label, NFD is down.
    patience = Patience.NODE if context.detects and not view.driver_pods else None
    return NodeBlocker(NodeState.WAITING, Reason.LABELS_MISSING, message, patience)


def _without_driver(view: NodeView, context: Context) -> NodeBlocker | None:
    """Exclude a node to which this stack deploys no driver."""
    if managed(view, context):
        return _unwanted(view, context)
    labels = context.stack.nodes
    deploy, workload = view.label(labels.deploy), view.label(labels.workload)
    if deploy == names.PRE_INSTALLED:
        message = "its host brings its own driver, which nothing reloads"
        return NodeBlocker(NodeState.EXCLUDED, Reason.HOST_DRIVER, message)
    if workload in names.VIRTUAL_MACHINE_WORKLOADS:
        message = f"its GPUs are for virtual machines ({labels.workload}={workload}), so it gets no driver for pods"
        return NodeBlocker(NodeState.EXCLUDED, Reason.VIRTUAL_MACHINE_NODE, message)
    if labels.deploy and deploy not in names.DEPLOY_VALUES and view.driver_pods:
        change = f"has the unknown value {deploy[:40]!r} as" if deploy else "lost"
        message = f"it runs a driver pod but {change} its {labels.deploy} label"
        return NodeBlocker(NodeState.WAITING, Reason.LABELS_MISSING, message)
    if not labels.deploy:
        why = "no driver DaemonSet wants a pod there"
    elif view.label(labels.operands) == "false":
        why = f"{labels.operands}=false"
    else:
        why = f"{labels.deploy}={deploy or '(none)'}"
    return NodeBlocker(NodeState.EXCLUDED, Reason.DRIVER_NOT_DEPLOYED, f"no driver is deployed to it ({why})")


def _unwanted(view: NodeView, context: Context) -> NodeBlocker | None:
    """Exclude a node that should get a driver, but on which no driver DaemonSet wants a pod.

    A DaemonSet that does not show what the operator asks for may want one there in a moment.
    """
    drivers = context.drivers.values()
    if view.driver_pods or not drivers or context.unrendered or any(map(view.is_wanted_by, drivers)):
        return None
    taints = (ds.untolerated(view.node) for ds in drivers if view.node is not None)
    taint = next((taint for taint in taints if taint is not None), None)
    why = f"none tolerates its taint {taint.key}:{taint.effect}" if taint else "none selects it"
    message = f"no driver DaemonSet wants a pod on it ({why})"
    return NodeBlocker(NodeState.EXCLUDED, Reason.NO_DRIVER_WANTED, message)


def managed(view: NodeView, context: Context) -> bool:
    """Return whether the stack deploys a driver to this node.

    Without a deploy label the DaemonSets decide.
    """
    labels = context.stack.nodes
    if view.label(labels.present) != "true":
        return False
    if not labels.deploy:
        wanted = any(view.is_wanted_by(ds) for ds in context.drivers.values())
        return bool(view.driver_pods) or wanted or not context.drivers
    return view.label(labels.deploy) == "true" and view.label(labels.operands) != "false"


def _not_ready(node: Node) -> NodeBlocker | None:
    """Let a node wait that is not ready. Its time may come from a kubelet whose clock is wrong, so it is only shown."""
    if node.ready:
        return None
    since = f" since {timestamp(node.ready_since)}" if node.ready_since is not None else ""
    message = f"it is NotReady{since}, perhaps for a moment"
    return NodeBlocker(NodeState.WAITING, Reason.NODE_NOT_READY_BRIEFLY, message, Patience.NODE)


# Whether the driver is settled: the driver that comes first, the driver itself, then the other prerequisites.


def _unsettled(view: NodeView, context: Context) -> NodeBlocker | None:
    """Return the first driver or prerequisite on this node that is not settled and that plugins must start after.

    A driver is settled if there is exactly one live driver pod, of the newest revision of its DaemonSet, Ready, and no
    label vetoes.
    """
    live = live_pods(view.driver_pods)
    if not live:
        message = "its driver pod is terminating" if view.driver_pods else "it has no driver pod"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_MISSING, message)
    if len(live) > 1:
        message = f"{len(live)} driver pods live on it: {', '.join(pod.name for pod in live)}"
        return NodeBlocker(NodeState.WAITING, Reason.SEVERAL_DRIVER_PODS, message)
    manual = manual_upgrade(live[0], view, context) is not None
    return (
        _driver_blocker(live[0], view, context)
        or _label_blocker(view, context, manual=manual)
        or moments.blocker(view, context)
    )


def manual_upgrade(driver: Pod, view: NodeView, context: Context) -> NodeBlocker | None:
    """Return the blocker of a node whose outdated driver pod only an administrator replaces; None for other nodes.

    If the DaemonSet's update strategy is RollingUpdate, the DaemonSet controller replaces the pod even if autoUpgrade
    is off.
    """
    owner = context.drivers.get(driver.owner_uid)
    if driver.uid not in view.outdated or (owner is not None and owner.rolling):
        return None
    intent = context.intents.get(driver.owner_uid) or context.policy
    if intent is None or not intent.manual:
        return None
    message = f"driver pod {driver.name} is outdated, and no controller replaces it ({intent.manual})"
    state = {
        OnManualUpgrade.REPORT: NodeState.EXCLUDED,
        OnManualUpgrade.WAIT: NodeState.WAITING,
        OnManualUpgrade.FAIL: NodeState.FAILED,
    }[context.settings.on_manual_upgrade]
    return NodeBlocker(state, Reason.MANUAL_UPGRADE, message)


def _driver_blocker(pod: Pod, view: NodeView, context: Context) -> NodeBlocker | None:
    if pod.owner_uid not in context.drivers:
        message = f"the DaemonSet of driver pod {pod.name} is gone"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_ORPHANED, message)
    if unrendered := context.unrendered.get(pod.owner_uid):
        return NodeBlocker(NodeState.WAITING, Reason.NOT_RENDERED, unrendered)
    if pod.uid in view.outdated and manual_upgrade(pod, view, context) is None:
        if label_meaning(view, context) is Label.BEFORE_RESTART:
            return _upgrading(view, context)
        newest = context.newest.get(pod.owner_uid)
        expected = newest.hash if newest is not None else "?"
        message = f"driver pod {pod.name} is of revision {pod.hash or '(none)'}, newest is {expected}"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_OUTDATED, message)
    if pod.ready and freshness.ready_since(pod, context.stack.driver.container) is not None:
        return None
    return _driver_not_ready(pod, view, context.stack)


def _driver_not_ready(pod: Pod, view: NodeView, stack: Stack) -> NodeBlocker:
    if pod.unscheduled:
        message = f"driver pod {pod.name} is not scheduled: {pod.unscheduled}"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_FAILING, message, Patience.DRIVER)
    for container in (*pod.init_containers, *pod.containers):
        if container.waiting in FAILING_TO_START:
            detail = f": {container.message}" if container.message else ""
            message = f"driver pod {pod.name}: container {container.name} is in {container.waiting}{detail}"
            return NodeBlocker(NodeState.WAITING, Reason.DRIVER_FAILING, message, Patience.DRIVER)
    if freshness.keeps_crashing(pod, stack):
        restarts = max(container.restarts for container in pod.containers)
        message = f"driver pod {pod.name} is not Ready, and its container crashed ({restarts} restarts)"
        return NodeBlocker(NodeState.WAITING, Reason.DRIVER_FAILING, message, Patience.DRIVER)
    safe_load = stack.nodes.safe_load
    draining = bool(safe_load) and view.node is not None and view.node.waits_for_drain
    cause = f", it waits until its node is drained ({safe_load})" if draining else ""
    return NodeBlocker(NodeState.WAITING, Reason.DRIVER_NOT_READY, f"driver pod {pod.name} is not Ready yet{cause}")


def _label_blocker(view: NodeView, context: Context, *, manual: bool = False) -> NodeBlocker | None:
    """Return why upgrade labels veto the node.

    Ignore the state label where upgrades are `manual`: a disabled upgrade controller leaves it behind.
    """
    meaning = Label.QUIET if manual else label_meaning(view, context)
    value = view.label(context.stack.upgrade.state)
    if meaning is Label.REQUIRED:
        return NodeBlocker(NodeState.WAITING, Reason.UPGRADE_REQUIRED, f"its upgrade state is {value}")
    if meaning is Label.BEFORE_RESTART:
        return _upgrading(view, context)
    if meaning is Label.UNKNOWN:
        message = f"its upgrade state {value!r} is unknown to this version"
        return NodeBlocker(NodeState.WAITING, Reason.UPGRADE_STATE_UNKNOWN, message)
    if paused := _paused(view, context.stack):
        message = f"its operands are paused while the driver is unloaded ({paused})"
        return NodeBlocker(NodeState.WAITING, Reason.OPERANDS_PAUSED, message)
    return None


def _upgrading(view: NodeView, context: Context) -> NodeBlocker:
    """Return that the upgrade controller works on the node. It restarts the driver next."""
    message = f"its upgrade state is {view.label(context.stack.upgrade.state)}"
    return NodeBlocker(NodeState.WAITING, Reason.UPGRADE_IN_PROGRESS, message)


def _paused(view: NodeView, stack: Stack) -> str:
    """Return the label that keeps operands off a node while its driver reloads, or ""."""
    if view.label(stack.nodes.wait) == "true":
        return f"{stack.nodes.wait}=true"
    prefix = stack.nodes.paused_prefix
    labels = view.node.labels.items() if prefix and view.node is not None else ()
    return next((key for key, text in labels if key.startswith(prefix) and names.PAUSED_FOR_UPGRADE in text), "")


# The plugins of a node whose driver is settled.


STEADY: Final = timedelta(seconds=10)
"""Time that a container must run after its first restart: the kubelet's first crash back-off.

K8S ``pkg/kubelet/kubelet.go``: initially 10 s.
"""
UNPUBLISHED: Final = "by start and readiness: no devices are published"
"""What *verified* rests on in ComputeDomain-only mode. ResourceSlices then show no version of the driver."""
STEADY_AFTER_CRASHES: Final = timedelta(seconds=60)
"""Time that a container must run after a further restart: longer than most crash loops run."""


class SettledNode(msgspec.Struct, frozen=True):
    """A node whose driver is settled, with the load of the driver that its plugins must start after."""

    view: NodeView
    context: Context
    memory: Memory
    driver: Pod
    moments: Sequence[Moment]
    """What plugins must start after in addition to the driver."""
    load: str
    """Identifier of the load of the driver, and of those of the prerequisites."""

    @classmethod
    def of(cls, view: NodeView, context: Context, memory: Memory) -> SettledNode:
        """Return the settled node with its live driver pod."""
        driver, after = live_pods(view.driver_pods)[0], list(moments.of(view, context, memory))
        further = "".join(f"/{moment.run}" for moment in after)
        load = f"{freshness.load_of(driver, context.stack)}{further}"
        return cls(view, context, memory, driver, after, load)

    @property
    def name(self) -> str:
        """Return the name of the node."""
        return self.view.name


def evaluate_plugin(plugin: DaemonSet, node: SettledNode, now: datetime) -> NodeStatus:
    """Evaluate the pods of one plugin on a node whose driver is settled."""
    pods = node.view.plugin_pods_of(plugin.uid)
    live = live_pods(pods)
    if live:
        return _evaluate_live(plugin, live, node, now)
    if pods:
        end = "is terminating" if pods[0].deleting else "has ended"
        return NodeStatus(
            node.name, NodeState.RESTARTING, Reason.PLUGIN_RESTARTING, f"{_title(pods[0], node)} {end}",
            subject=str(pods[0]), plugin=str(plugin), patience=Patience.PLUGIN,
        )  # fmt: skip
    return _evaluate_absent(plugin, node)


def evaluate_unnamed(node: SettledNode) -> tuple[list[NodeStatus], tuple[tuple[str, str], ...]]:
    """Return a status for each stale pod that looks like a plugin but is not in plugin.names.

    Also return the fresh pods, each with its load, for the memory.
    """
    kind = node.context.stack.plugin
    owners = {ds.uid: str(ds) for ds in node.context.plugins.unnamed}
    stale: list[NodeStatus] = []
    fresh: list[tuple[str, str]] = []
    for pod in live_pods(node.view.unnamed_pods):
        evidence = _evidence(pod, kind, node)
        if evidence.freshness is Freshness.FRESH:
            fresh.append((pod.uid, node.load))
        if evidence.freshness is Freshness.STALE:
            owner = owners[pod.owner_uid]
            message = f"{kind.noun} pod {pod.name} is stale: {evidence.because}; {owner} is not in plugin.names"
            stale.append(NodeStatus(
                node.name, NodeState.STALE, Reason.UNNAMED_PLUGIN, message,
                subject=str(pod), plugin=owner,
            ))  # fmt: skip
    return stale, tuple(fresh)


def _evaluate_absent(plugin: DaemonSet, node: SettledNode) -> NodeStatus:
    """Evaluate a node without a plugin pod. It is done only if the DaemonSet wants none here."""
    if not node.view.is_wanted_by(plugin):
        return NodeStatus(
            node.name, NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH, f"{plugin} wants no pod here",
            plugin=str(plugin), daemonset_uid=plugin.uid,
        )  # fmt: skip
    return NodeStatus(
        node.name, NodeState.WAITING, Reason.PLUGIN_MISSING,
        f"no pod of {plugin} is here, although it wants one",
        subject=str(plugin), plugin=str(plugin), patience=Patience.PLUGIN,
    )  # fmt: skip


def _evaluate_live(plugin: DaemonSet, live: list[Pod], node: SettledNode, now: datetime) -> NodeStatus:
    """Evaluate every live pod; there may be two for a moment. Return the status of the least proven one."""
    kind = node.context.plugins.of_kind(plugin.uid)
    evaluated = [(pod, _evidence(pod, kind, node)) for pod in live]
    for pod, evidence in evaluated:
        if evidence.freshness is Freshness.STALE:
            return _stale(plugin, pod, live, evidence, node)
    for pod, evidence in evaluated:
        if evidence.freshness is Freshness.STARTING:
            return _verifying(plugin, pod, node, Reason.PLUGIN_STARTING, f"{_title(pod, node)}: {evidence.because}")
    fresh = tuple((pod.uid, node.load) for pod in live)
    for pod in live:
        if unverified := _unready(pod, now) or _unproven(pod, node):
            reason, message = unverified
            return replace(_verifying(plugin, pod, node, reason, f"{_title(pod, node)}{message}"), fresh=fresh)
    return _verified(plugin, live[0], node, fresh)


def _evidence(pod: Pod, kind: PluginKind, node: SettledNode) -> Evidence:
    """Return whether a pod is fresh, with the observation. A proof without times counts for one load of the driver."""
    if node.memory.fresh.get(pod.uid) == node.load:
        return freshness.running(pod, "it was proven to run on this driver before")
    if _is_successor(pod, node):
        return freshness.running(pod, "it came after a restart by this program, on this driver")
    return freshness.evaluate(pod, kind, node.driver, node.context.stack, node.moments)


def _is_successor(pod: Pod, node: SettledNode) -> bool:
    """Return whether a pod replaced one that this program restarted under this load of the driver.

    The driver was ready before the restart, so the new pod started on it, whatever times the kubelet reports.
    """
    restart = node.memory.restart_of(pod.owner_uid, node.name)
    return restart is not None and not restart.refused and restart.load == node.load and restart.follows(pod)


def untolerated(view: NodeView, plugin: DaemonSet) -> str:
    """Return why a deleted pod would not come back, or "": its node has a taint that the plugin does not tolerate."""
    taint = plugin.untolerated(view.node) if view.node is not None else None
    if taint is None:
        return ""
    return f"once deleted it would not come back: it does not tolerate the taint {taint.key}:{taint.effect}"


def is_up(pod: Pod) -> bool:
    """Return whether the kubelet reports a pod as ready.

    On a silent node the node controller sets Ready to False, but leaves ContainersReady as it was.
    """
    return pod.ready or pod.containers_ready_since is not None


def _stale(plugin: DaemonSet, pod: Pod, live: list[Pod], evidence: Evidence, node: SettledNode) -> NodeStatus:
    message = f"{_title(pod, node)} is stale: {evidence.because}"
    if taint := untolerated(node.view, plugin):
        return NodeStatus(
            node.name, NodeState.WAITING, Reason.TAINT_NOT_TOLERATED, f"{message}; {taint}",
            subject=str(pod), plugin=str(plugin), patience=Patience.PLUGIN,
        )  # fmt: skip
    stale_pod = StalePod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        daemonset_uid=pod.owner_uid,
        because=evidence.because,
        load=node.load,
        driver_ready=node.driver.containers_ready_since,
        up=is_up(pod),
        others=frozenset(other.uid for other in live if other is not pod),
        orphan=pod.uid in node.view.orphans,
    )
    return NodeStatus(
        node.name, NodeState.STALE, Reason.PLUGIN_STALE, message,
        subject=str(pod), plugin=str(plugin), stale_pod=stale_pod,
    )  # fmt: skip


def _verified(plugin: DaemonSet, pod: Pod, node: SettledNode, fresh: tuple[tuple[str, str], ...]) -> NodeStatus:
    """Return the status of a plugin whose pods are fresh and Ready, and publish devices of the expected driver."""
    kind = node.context.plugins.of_kind(pod.owner_uid)
    proof = f" ({UNPUBLISHED})" if kind.publisher and not _publishes(pod, kind) else ""
    return NodeStatus(
        node.name, NodeState.VERIFIED, Reason.VERIFIED, f"{_title(pod, node)} runs on the loaded driver{proof}",
        subject=str(pod), plugin=str(plugin), daemonset_uid=plugin.uid, fresh=fresh,
    )  # fmt: skip


def _unready(pod: Pod, now: datetime) -> tuple[Reason, str] | None:
    if not pod.ready:
        return Reason.PLUGIN_NOT_READY, f" is fresh but not Ready{crashing(pod)}"
    if restarted := just_crashed(pod, now):
        return Reason.PLUGIN_NOT_READY, f": {restarted}"
    return None


def _verifying(plugin: DaemonSet, pod: Pod, node: SettledNode, reason: Reason, message: str) -> NodeStatus:
    return NodeStatus(
        node.name, NodeState.VERIFYING, reason, message,
        subject=str(pod), plugin=str(plugin), patience=Patience.PLUGIN,
    )  # fmt: skip


def _title(pod: Pod, node: SettledNode) -> str:
    return f"{node.context.plugins.of_kind(pod.owner_uid).noun} pod {pod.name}"


def crashing(pod: Pod) -> str:
    """Return the name of a container that crash-loops, also while it runs between two crashes; or ""."""
    worst = max(pod.containers, key=lambda container: container.restarts)
    if worst.restarts < CRASH_LOOP_RESTARTS:
        return ""
    return f": container {worst.name} is in CrashLoopBackOff ({worst.restarts} restarts)"


def just_crashed(pod: Pod, now: datetime) -> str:
    """Return which container restarted a moment ago, or "": a crash-looping one is Ready between two crashes.

    Ignore a start in the future: the clocks differ, and the time proves nothing.
    """
    for container in pod.containers:
        steady = STEADY if container.restarts < CRASH_LOOP_RESTARTS else STEADY_AFTER_CRASHES
        if container.restarts and container.started_at and timedelta() <= now - container.started_at < steady:
            restarts = f"{container.restarts} restarts, the last one a moment ago"
            return f"container {container.name} has {restarts}"
    return ""


def _publishes(pod: Pod, kind: PluginKind) -> bool:
    """Return whether a pod publishes devices, with the version of the driver."""
    return any(container.name == kind.publisher for container in pod.containers)


def _unproven(pod: Pod, node: SettledNode) -> tuple[Reason, str] | None:
    """Return what the ResourceSlices of the node do not show yet, for a plugin that publishes devices."""
    context, driver = node.context, node.driver
    kind = context.plugins.of_kind(pod.owner_uid)
    if not _publishes(pod, kind) or not context.slices_served:
        return None
    slices = [device_slice for device_slice in node.view.slices if device_slice.devices > 0]
    if not slices:
        return Reason.SLICE_MISSING, ": it is fresh, but its node has no ResourceSlice with devices"
    if driver.uid in node.view.outdated:  # loaded until an administrator replaces it: the policy names another version
        return None
    wanted = wanted_version(context.intents.get(driver.owner_uid), context.expected)
    for version in sorted({version for device_slice in slices for version in device_slice.driver_versions}):
        if not same_driver(version, wanted):
            message = f": its node's ResourceSlice shows driver {version}, expected {wanted}"
            return Reason.SLICE_OUTDATED, message
    return None
