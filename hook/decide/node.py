"""Evaluate one node: whether it is eligible, whether its driver is settled, then the freshness of its plugins.

The guard clauses each return a reason. Signals about the whole cluster are wrong at times (see docs/how-it-works.md),
so each node is evaluated by itself. A node is refreshed as soon as it is settled, not when the last node is.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from hook.decide import freshness, moments
from hook.decide.fleet import live_pods, same_driver
from hook.decide.freshness import CRASH_LOOP_RESTARTS, Freshness
from hook.decide.reasons import Reason, Trait
from hook.decide.result import Condition, NodeState, NodeStatus, Patience, StalePlugin, waiting
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
    from hook.decide.result import Blocker
    from hook.objects import DaemonSet, Node, Pod
    from hook.objects.stacks import Stack

FAILING_TO_START: Final = frozenset({
    "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
})  # fmt: skip
"""Waiting reasons of a container that do not pass by themselves (K8S ``pkg/kubelet``, ``images/types.go``)."""
STEADY: Final = timedelta(seconds=10)
"""Time that a container must run after its first restart: the kubelet's first crash back-off.

K8S ``pkg/kubelet/kubelet.go``: initially 10 s.
"""
STEADY_AFTER_CRASHES: Final = timedelta(seconds=60)
"""Time that a container must run after a further restart: longer than most crash loops run."""
UNPUBLISHED: Final = "by start and readiness: no devices are published"
"""What *verified* rests on in ComputeDomain-only mode. ResourceSlices then show no version of the driver."""


def evaluate_node(view: NodeView, context: Context, memory: Memory, now: datetime) -> tuple[NodeStatus, ...]:
    """Return one status for each plugin on the node, or a single one if the node is excluded or not settled."""
    if blocker := _blocker(view, context):
        status = replace(_status(view, blocker), exposed=_exposed(view, context, memory))
        return (_upgrade_failed(_without_joined(status, view, context, memory), view, context),)
    node = SettledNode.of(view, context, memory)
    statuses = [evaluate_plugin(daemonset, node, now) for daemonset in context.plugins.named]
    if not statuses:
        message = f"no {context.stack.plugin.noun} is installed"
        statuses = [_status(view, Condition(NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH, message))]
    if manual := manual_upgrade(node.driver, context):
        return _with_outdated_driver(statuses, _status(view, manual))
    if view.label(context.stack.upgrade.state) in names.STATES_QUIET:
        return tuple(statuses)
    return tuple(_upgrade_failed(replace(status, label_pending=True), view, context) for status in statuses)


def _blocker(view: NodeView, context: Context) -> Condition | None:
    """Return why a node is excluded, or must wait until its plugins can be evaluated.

    A malformed object holds its node, unless the Node object alone excludes it.
    """
    ineligible, found = excluded(view, context), view.malformed
    if found is not None and (ineligible is None or Trait.NODE_ALONE not in ineligible.reason.traits):
        message = f"{found.kind} {found.namespace}/{found.name} cannot be read: {found.problem}"
        return waiting(Reason.MALFORMED_OBJECT, message)
    return ineligible or _unsettled(view, context)


def _status(view: NodeView, blocker: Condition) -> NodeStatus:
    pods = [*_live_first(view.driver_pods), *_live_first(view.plugin_pods)]
    return NodeStatus(
        node=view.name,
        state=blocker.state,
        reason=blocker.reason,
        message=blocker.message,
        patience=blocker.patience,
        subject=str(pods[0]) if pods else "",
    )


def _exposed(view: NodeView, context: Context, memory: Memory) -> Reason | None:
    """Return why a new claim could meet an old driver on a node that is not evaluated further.

    Whatever the labels say: only the driver pod and the plugins count. On a silent node, R stays as it was.
    """
    live = live_pods(view.driver_pods)
    if len(live) != 1:
        return Reason.SEVERAL_DRIVER_PODS if live else Reason.DRIVER_MISSING
    if freshness.ready_since(live[0], context.stack.driver.container) is None:
        return Reason.DRIVER_NOT_READY
    node = SettledNode.of(view, context, memory)
    preparing = (plugin for plugin in context.plugins.named if context.plugins.is_plugin(plugin.uid))
    pods = ((pod, plugin) for plugin in preparing for pod in live_pods(view.plugins.get(plugin.uid, ())))
    stale = any(_evidence(pod, plugin, node).freshness is Freshness.STALE for pod, plugin in pods)
    return Reason.PLUGIN_STALE if stale else None


def _live_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: not pod.live)


def _without_joined(status: NodeStatus, view: NodeView, context: Context, memory: Memory) -> NodeStatus:
    """Exclude a node that joined after the run began, while its first driver is loaded and no plugin has started.

    Nothing there can be stale, and a fleet may get a new node each minute. A controller has no end to wait for.
    """
    if Trait.FIRST_LOAD not in status.reason.traits or context.settings.is_controller or view.node is None:
        return status
    started = any(container.started_at for pod in view.plugin_pods for container in pod.containers)
    if started or view.node.created is None or view.node.created <= memory.started:
        return status
    return replace(status, state=NodeState.EXCLUDED, reason=Reason.NODE_JOINED, patience=None)


def _upgrade_failed(status: NodeStatus, view: NodeView, context: Context) -> NodeStatus:
    """Let a node wait for its failed upgrade if it is verified, or waits already.

    The state is not terminal: the upgrade controller leaves it once the new driver pod is Ready.
    """
    failed = view.label(context.stack.upgrade.state) == names.STATE_FAILED
    if not failed or status.state not in (NodeState.WAITING, NodeState.VERIFIED):
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


def _with_outdated_driver(statuses: Sequence[NodeStatus], manual: NodeStatus) -> tuple[NodeStatus, ...]:
    """Return what plugins need on a driver that only an administrator upgrades; `manual` once they need nothing.

    The outdated driver is loaded, so plugins are evaluated against it.
    """
    if any(status.state is not NodeState.VERIFIED for status in statuses):
        return tuple(statuses)
    return (replace(manual, fresh=tuple(proof for status in statuses for proof in status.fresh)),)


# Whether the node is eligible: the Node object and its labels.


def excluded(view: NodeView, context: Context) -> Condition | None:
    """Return why a node is excluded or has to wait, as far as the Node object and its labels show it."""
    stack, node = context.stack, view.node
    if node is None or view.label(stack.nodes.present) != "true":
        return _unlabelled(view, context)
    if view.label(stack.upgrade.skip) == "true":
        return Condition(NodeState.EXCLUDED, Reason.NODE_SKIPPED, f"it carries {stack.upgrade.skip}=true")
    return _without_driver(view, context) or _not_ready(node)


def _unlabelled(view: NodeView, context: Context) -> Condition:
    """Distinguish a node that lost its labels from one without a GPU, where no driver or plugin ever started.

    The plugin's DaemonSet also selects nodes by CPU vendor (DRA), so on Grace nodes without a GPU its pod stays in
    the init container.
    """
    label = f"{context.stack.nodes.present}=true"
    # Other driver clients may run on any node. Only the stack's own plugin shows that there is a device.
    plugins = (pod for uid, pods in view.plugins.items() if context.plugins.is_plugin(uid) for pod in pods)
    runs = bool(view.driver_pods) or any(container.started_at for pod in plugins for container in pod.containers)
    if not runs and not view.was_eligible:
        message = f"it does not carry {label}, and neither a driver nor a plugin runs there"
        return Condition(NodeState.EXCLUDED, Reason.DRIVER_NOT_DEPLOYED, message)
    if view.node is not None and (silent := _not_ready(view.node)):
        return silent
    message = f"a driver or plugin runs there, but it does not carry {label} (is NFD down, or the node gone?)"
    if not runs:
        message = f"it was eligible before, and lost {label} with its driver and its plugin (is NFD down?)"
    # Without a driver pod nothing reloads there. NFD may be back in a moment, or the GPU was taken out for good.
    patience = None if view.driver_pods else Patience.NODE
    return waiting(Reason.LABELS_MISSING, message, patience)


def _without_driver(view: NodeView, context: Context) -> Condition | None:
    """Exclude a node to which this stack deploys no driver."""
    if managed(view, context):
        return _unwanted(view, context)
    labels = context.stack.nodes
    deploy, workload = view.label(labels.deploy), view.label(labels.workload)
    if deploy == names.PRE_INSTALLED:
        message = "its host brings its own driver, which nothing reloads"
        return Condition(NodeState.EXCLUDED, Reason.HOST_DRIVER, message)
    if workload in names.VIRTUAL_MACHINE_WORKLOADS:
        message = f"its GPUs are for virtual machines ({labels.workload}={workload}), so it gets no driver for pods"
        return Condition(NodeState.EXCLUDED, Reason.VIRTUAL_MACHINE_NODE, message)
    if labels.deploy and deploy not in names.DEPLOY_VALUES and view.driver_pods:
        change = f"has the unknown value {deploy[:40]!r} as" if deploy else "lost"
        return waiting(Reason.LABELS_MISSING, f"it runs a driver pod but {change} its {labels.deploy} label")
    if not labels.deploy:
        why = "no driver DaemonSet wants a pod there"
    elif view.label(labels.operands) == "false":
        why = f"{labels.operands}=false"
    else:
        why = f"{labels.deploy}={deploy or '(none)'}"
    return Condition(NodeState.EXCLUDED, Reason.DRIVER_NOT_DEPLOYED, f"no driver is deployed to it ({why})")


def _unwanted(view: NodeView, context: Context) -> Condition | None:
    """Exclude a node that should get a driver, but on which no driver DaemonSet wants a pod.

    A DaemonSet that does not show what the operator asks for may want one there in a moment.
    """
    drivers = [driver.daemonset for driver in context.drivers.values()]
    if view.driver_pods or not drivers or context.unrendered or any(map(view.is_wanted_by, drivers)):
        return None
    taint = next(filter(None, (untolerated(view, daemonset) for daemonset in drivers)), "")
    why = f"none tolerates its taint {taint}" if taint else "none selects it"
    message = f"no driver DaemonSet wants a pod on it ({why})"
    return Condition(NodeState.EXCLUDED, Reason.NO_DRIVER_WANTED, message)


def managed(view: NodeView, context: Context) -> bool:
    """Return whether the stack deploys a driver to this node.

    Without a deploy label the DaemonSets decide.
    """
    labels = context.stack.nodes
    if view.label(labels.present) != "true":
        return False
    if not labels.deploy:
        wanted = any(view.is_wanted_by(driver.daemonset) for driver in context.drivers.values())
        return bool(view.driver_pods) or wanted or not context.drivers
    return view.label(labels.deploy) == "true" and view.label(labels.operands) != "false"


def untolerated(view: NodeView, daemonset: DaemonSet) -> str:
    """Return the taint that keeps the pods of a DaemonSet off a node, or ""."""
    taint = daemonset.untolerated(view.node) if view.node is not None else None
    return f"{taint.key}:{taint.effect}" if taint is not None else ""


def _not_ready(node: Node) -> Condition | None:
    """Let a node wait that is not ready. Its time may come from a kubelet whose clock is wrong, so it is only shown."""
    if node.ready:
        return None
    since = f" since {timestamp(node.ready_since)}" if node.ready_since is not None else ""
    return waiting(Reason.NODE_NOT_READY_BRIEFLY, f"it is NotReady{since}, perhaps for a moment", Patience.NODE)


# Whether the driver is settled: the driver itself, then its upgrade labels, then the other prerequisites.


def _unsettled(view: NodeView, context: Context) -> Condition | None:
    """Return the first driver or prerequisite on this node that is not settled and that plugins must start after.

    A driver is settled if there is exactly one live driver pod, of the newest revision of its DaemonSet, Ready, and no
    label vetoes.
    """
    live = live_pods(view.driver_pods)
    if not live:
        message = "its driver pod is terminating" if view.driver_pods else "it has no driver pod"
        return waiting(Reason.DRIVER_MISSING, message)
    if len(live) > 1:
        message = f"{len(live)} driver pods live on it: {', '.join(pod.name for pod in live)}"
        return waiting(Reason.SEVERAL_DRIVER_PODS, message)
    blocker = _driver_blocker(live[0], view, context) or _label_blocker(live[0], view, context)
    return moments.blocker(view, context) if blocker is None and context.prerequisites else blocker


def manual_upgrade(driver: Pod, context: Context) -> Condition | None:
    """Return the blocker of a node whose driver is settled and outdated: only an administrator replaces its pod."""
    if not context.is_outdated(driver):
        return None
    why = context.drivers[driver.owner_uid].manual
    message = f"driver pod {driver.name} is outdated, and no controller replaces it ({why})"
    state = {
        OnManualUpgrade.REPORT: NodeState.EXCLUDED,
        OnManualUpgrade.WAIT: NodeState.WAITING,
        OnManualUpgrade.FAIL: NodeState.FAILED,
    }[context.settings.on_manual_upgrade]
    return Condition(state, Reason.MANUAL_UPGRADE, message)


def _driver_blocker(pod: Pod, view: NodeView, context: Context) -> Condition | None:
    owner = context.drivers.get(pod.owner_uid)
    if owner is None:
        return waiting(Reason.DRIVER_ORPHANED, f"the DaemonSet of driver pod {pod.name} is gone")
    if owner.unrendered:
        return waiting(Reason.NOT_RENDERED, owner.unrendered)
    if context.is_outdated(pod) and not owner.manual:
        state = view.label(context.stack.upgrade.state)
        if state in names.STATES_BEFORE_RESTART:
            return waiting(Reason.UPGRADE_IN_PROGRESS, f"its upgrade state is {state}")
        newest = context.newest.get(pod.owner_uid)
        expected = newest.hash if newest is not None else "?"
        message = f"driver pod {pod.name} is of revision {pod.hash or '(none)'}, newest is {expected}"
        return waiting(Reason.DRIVER_OUTDATED, message)
    if pod.ready and freshness.ready_since(pod, context.stack.driver.container) is not None:
        return None
    return _driver_not_ready(pod, view, context.stack)


def _driver_not_ready(pod: Pod, view: NodeView, stack: Stack) -> Condition:
    if failure := _driver_failure(pod, stack):
        return waiting(Reason.DRIVER_FAILING, f"driver pod {pod.name}{failure}", Patience.DRIVER)
    safe_load = stack.nodes.safe_load
    draining = bool(safe_load) and view.node is not None and view.node.waits_for_drain
    cause = f", it waits until its node is drained ({safe_load})" if draining else ""
    return waiting(Reason.DRIVER_NOT_READY, f"driver pod {pod.name} is not Ready yet{cause}")


def _driver_failure(pod: Pod, stack: Stack) -> str:
    """Return what is wrong with a driver pod that will not become Ready by itself, or ""."""
    if pod.unscheduled:
        return f" is not scheduled: {pod.unscheduled}"
    for container in (*pod.init_containers, *pod.containers):
        if container.waiting in FAILING_TO_START:
            detail = f": {container.message}" if container.message else ""
            return f": container {container.name} is in {container.waiting}{detail}"
    if freshness.keeps_crashing(pod, stack):
        restarts = max(container.restarts for container in pod.containers)
        return f" is not Ready, and its container crashed ({restarts} restarts)"
    return ""


def _label_blocker(driver: Pod, view: NodeView, context: Context) -> Condition | None:
    """Return why upgrade labels veto the node. They trail by up to two minutes: they can veto, but prove nothing.

    An unknown value counts as an upgrade in progress. Ignore the state label where nothing upgrades the driver: the
    upgrade controller leaves it behind if it is disabled, or if the policy is gone.
    """
    state = view.label(context.stack.upgrade.state)
    if context.governed and manual_upgrade(driver, context) is None:
        if state == names.STATE_REQUIRED:
            return waiting(Reason.UPGRADE_REQUIRED, f"its upgrade state is {state}")
        if state in names.STATES_BEFORE_RESTART:
            return waiting(Reason.UPGRADE_IN_PROGRESS, f"its upgrade state is {state}")
        if state not in {*names.STATES_QUIET, *names.STATES_AFTER_RESTART, names.STATE_FAILED}:
            return waiting(Reason.UPGRADE_STATE_UNKNOWN, f"its upgrade state {state!r} is unknown to this version")
    if paused := _paused(view, context.stack):
        return waiting(Reason.OPERANDS_PAUSED, f"its operands are paused while the driver is unloaded ({paused})")
    return None


def _paused(view: NodeView, stack: Stack) -> str:
    """Return the label that keeps operands off a node while its driver reloads, or ""."""
    if view.label(stack.nodes.wait) == "true":
        return f"{stack.nodes.wait}=true"
    prefix = stack.nodes.paused_prefix
    labels = view.node.labels.items() if prefix and view.node is not None else ()
    return next((key for key, text in labels if key.startswith(prefix) and names.PAUSED_FOR_UPGRADE in text), "")


# The plugins of a node whose driver is settled.


class SettledNode(msgspec.Struct, frozen=True):
    """A node with one driver pod that is ready, and the load of the driver that its plugins must start after."""

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
        driver = live_pods(view.driver_pods)[0]
        after = list(moments.of(view, context)) if context.prerequisites else []
        load = freshness.load_of(driver, context.stack)
        for moment in after:
            load = f"{load}/{moment.run}"
        return cls(view, context, memory, driver, after, load)


def evaluate_plugin(plugin: DaemonSet, node: SettledNode, now: datetime) -> NodeStatus:
    """Evaluate the pods of one plugin on a node whose driver is settled."""
    pods = node.view.plugins.get(plugin.uid, ())
    if live := live_pods(pods):
        return _evaluate_live(plugin, live, node, now)
    if pods:
        end = "is terminating" if pods[0].deleting else "has ended"
        message = f"{_title(plugin, pods[0], node)} {end}"
        return _of_plugin(plugin, node, Condition(NodeState.RESTARTING, Reason.PLUGIN_RESTARTING, message), pods[0])
    return _evaluate_absent(plugin, node)


def _of_plugin(
    plugin: DaemonSet,
    node: SettledNode,
    found: Condition,
    subject: Pod | DaemonSet | None = None,
    fresh: tuple[tuple[str, str], ...] = (),
) -> NodeStatus:
    """Return the status of a plugin. One that may become verified by itself has a grace period."""
    return NodeStatus(
        node=node.view.name,
        state=found.state,
        reason=found.reason,
        message=found.message,
        subject=str(subject) if subject is not None else "",
        plugin=str(plugin),
        daemonset_uid=plugin.uid,
        patience=None if found.state in (NodeState.VERIFIED, NodeState.STALE) else Patience.PLUGIN,
        fresh=fresh,
    )


def _title(plugin: DaemonSet, pod: Pod, node: SettledNode) -> str:
    return f"{node.context.plugins.of_kind(plugin.uid).noun} pod {pod.name}"


def _evaluate_absent(plugin: DaemonSet, node: SettledNode) -> NodeStatus:
    """Evaluate a node without a plugin pod. It is done only if the DaemonSet wants none here."""
    if not node.view.is_wanted_by(plugin):
        message = f"{plugin} wants no pod here"
        return _of_plugin(plugin, node, Condition(NodeState.VERIFIED, Reason.NOTHING_TO_REFRESH, message))
    message = f"no pod of {plugin} is here, although it wants one"
    return _of_plugin(plugin, node, waiting(Reason.PLUGIN_MISSING, message), plugin)


def _evaluate_live(plugin: DaemonSet, live: list[Pod], node: SettledNode, now: datetime) -> NodeStatus:
    """Evaluate every live pod; there may be two for a moment. Return the status of the least proven one."""
    evaluated = [(pod, _evidence(pod, plugin, node)) for pod in live]
    fresh = tuple((pod.uid, node.load) for pod, evidence in evaluated if evidence.freshness is Freshness.FRESH)
    for pod, evidence in evaluated:
        if evidence.freshness is Freshness.STALE:
            return replace(_stale(plugin, pod, live, evidence, node), fresh=fresh)
    for pod, evidence in evaluated:
        if evidence.freshness is Freshness.STARTING:
            message = f"{_title(plugin, pod, node)}: {evidence.because}"
            found = Condition(NodeState.VERIFYING, Reason.PLUGIN_STARTING, message)
            return _of_plugin(plugin, node, found, pod, fresh)
    for pod in live:
        if unverified := _not_steady(pod, now) or _unproven(pod, plugin, node):
            reason, why = unverified
            found = Condition(NodeState.VERIFYING, reason, f"{_title(plugin, pod, node)}{why}")
            return _of_plugin(plugin, node, found, pod, fresh)
    return _of_plugin(plugin, node, _verified(plugin, live[0], node), live[0], fresh)


def _evidence(pod: Pod, plugin: DaemonSet, node: SettledNode) -> Evidence:
    """Return whether a pod is fresh, with the observation. A proof without times counts for one load of the driver."""
    if node.memory.fresh.get(pod.uid) == node.load or _is_successor(pod, plugin, node):
        return freshness.running(pod)
    kind = node.context.plugins.of_kind(plugin.uid)
    return freshness.evaluate(pod, kind, node.driver, node.context.stack, node.moments)


def _is_successor(pod: Pod, plugin: DaemonSet, node: SettledNode) -> bool:
    """Return whether a pod replaced one that this program restarted under this load of the driver.

    The driver was ready before the restart, so the new pod started on it, whatever times the kubelet reports.
    """
    return node.memory.of(node.view.name, plugin.uid).follows(pod, node.load)


def _stale(plugin: DaemonSet, pod: Pod, live: list[Pod], evidence: Evidence, node: SettledNode) -> NodeStatus:
    """Return the status of a stale pod. If its node has a taint that the plugin does not tolerate, none replaces it."""
    message = f"{_title(plugin, pod, node)} is stale: {evidence.because}"
    # Other driver clients prepare no claims.
    exposed = Reason.PLUGIN_STALE if node.context.plugins.is_plugin(plugin.uid) else None
    if taint := untolerated(node.view, plugin):
        message = f"{message}; once deleted it would not come back: it does not tolerate the taint {taint}"
        found = waiting(Reason.TAINT_NOT_TOLERATED, message)
        return replace(_of_plugin(plugin, node, found, pod), exposed=exposed)
    stale = StalePlugin(
        node=node.view.name,
        pod=pod,
        daemonset_uid=plugin.uid,
        because=evidence.because,
        load=node.load,
        driver_ready=node.driver.containers_ready_since,
        others=frozenset(other.uid for other in live if other is not pod),
    )
    status = _of_plugin(plugin, node, Condition(NodeState.STALE, Reason.PLUGIN_STALE, message), pod)
    return replace(status, stale=stale, exposed=exposed)


def _verified(plugin: DaemonSet, pod: Pod, node: SettledNode) -> Condition:
    """Return that the pods of a plugin are fresh and Ready, and publish devices of the expected driver."""
    kind = node.context.plugins.of_kind(plugin.uid)
    proof = f" ({UNPUBLISHED})" if kind.publisher and not _publishes(pod, kind.publisher) else ""
    message = f"{_title(plugin, pod, node)} runs on the loaded driver{proof}"
    return Condition(NodeState.VERIFIED, Reason.VERIFIED, message)


def _not_steady(pod: Pod, now: datetime) -> Blocker | None:
    if not pod.ready:
        return Reason.PLUGIN_NOT_READY, f" is fresh but not Ready{crashing(pod)}"
    if restarted := just_crashed(pod, now):
        return Reason.PLUGIN_NOT_READY, f": {restarted}"
    return None


def crashing(pod: Pod) -> str:
    """Return the name of a container that crash-loops, also while it runs between two crashes; or ""."""
    worst = max(pod.containers, key=lambda container: container.restarts)
    if worst.restarts < CRASH_LOOP_RESTARTS:
        return ""
    return f": container {worst.name} is in CrashLoopBackOff ({worst.restarts} restarts)"


def just_crashed(pod: Pod, now: datetime) -> str:
    """Return which container restarted a moment ago, or "": a crash-looping one is Ready between two crashes.

    Ignore a start that is further in the future: the clocks differ, and the time proves nothing.
    """
    for container in pod.containers:
        steady = STEADY if container.restarts < CRASH_LOOP_RESTARTS else STEADY_AFTER_CRASHES
        if container.restarts and container.started_at and abs(now - container.started_at) < steady:
            restarts = f"{container.restarts} restarts, the last one a moment ago"
            return f"container {container.name} has {restarts}"
    return ""


def is_timed(view: NodeView, now: datetime) -> bool:
    """Return whether a plugin restarted a moment ago, or will have: the clock of its node may be ahead."""
    containers = (container for pod in view.plugin_pods for container in pod.containers if container.restarts)
    return any(each.started_at and now - each.started_at < STEADY_AFTER_CRASHES for each in containers)


def _publishes(pod: Pod, publisher: str) -> bool:
    """Return whether a pod publishes devices, with the version of the driver."""
    return any(container.name == publisher for container in pod.containers)


def _unproven(pod: Pod, plugin: DaemonSet, node: SettledNode) -> Blocker | None:
    """Return what the ResourceSlices of the node do not show yet, for a plugin that publishes devices."""
    context, driver = node.context, node.driver
    kind = context.plugins.of_kind(plugin.uid)
    if not context.slices_served or not _publishes(pod, kind.publisher):
        return None
    slices = [device_slice for device_slice in node.view.slices if device_slice.devices > 0]
    if not slices:
        return Reason.SLICE_MISSING, ": it is fresh, but its node has no ResourceSlice with devices"
    if context.is_outdated(driver):  # loaded until an administrator replaces it: the policy names another version
        return None
    wanted = context.drivers[driver.owner_uid].version
    for version in sorted({version for device_slice in slices for version in device_slice.driver_versions}):
        if not same_driver(version, wanted):
            message = f": its node's ResourceSlice shows driver {version}, expected {wanted}"
            return Reason.SLICE_OUTDATED, message
    return None
