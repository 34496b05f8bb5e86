"""What a reason means, where to look, and what may fix it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hook.core import names
from hook.core.reasons import EventReason, Reason
from hook.core.stacks import GPU_OPERATOR, STACKS, selector
from hook.core.verdicts import NodeState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hook.core.stack import Stack
    from hook.core.verdicts import Decision, Judgement


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a reason, where to look, and what may fix it.

    Each text may hold the words of a driver stack, as ``words`` returns them. The commands and the precondition
    may also hold ``{node}``, and ``{namespace}`` and ``{name}`` of the pod that the reason is about.
    """

    meaning: str
    look: str = ""
    """A command that changes nothing."""
    fix: str = ""
    """A command that changes something."""
    precondition: str = ""
    """What must be true, or done, before the fix."""

    def __post_init__(self) -> None:
        """Refuse a fix that could be pasted without a thought."""
        if self.fix and not self.precondition:
            raise ValueError(f"{self.fix}: a fix needs a precondition")

    @property
    def steps(self) -> str:
        """Return the commands with their precondition, as one text."""
        look = f"Look: {self.look}" if self.look else ""
        fix = f"To fix, {self.precondition}: {self.fix}" if self.fix else ""
        return " ".join(filter(None, (look, fix)))

    def __str__(self) -> str:
        return " ".join(filter(None, (self.meaning, self.steps)))


_DESCRIBE: Final = "kubectl -n {namespace} describe pod {name}"
_DESCRIBE_NODE: Final = "kubectl describe node {node}"
_LOGS: Final = "kubectl -n {namespace} logs {name} --all-containers --prefix --tail=50"
_POD: Final = "kubectl -n {namespace} get pod {name} -o yaml"
_DELETE: Final = "kubectl -n {namespace} delete pod {name}"
_STATES: Final = "kubectl get nodes -L {state_label}"
_POLICIES: Final = "kubectl get {policies} -o yaml"
_DAEMON_SETS: Final = "kubectl get daemonsets -A"
_DRIVER_SETS: Final = "kubectl get daemonsets -A -l {drivers} -o wide"
_DRIVER_PODS: Final = "kubectl get pods -A -l {drivers} --field-selector spec.nodeName={node} -o wide"
_STATUS: Final = f"{names.OWN_NAME} status"
_DRAINED: Final = (
    "draining the node (kubectl drain {node} --ignore-daemonsets --delete-emptydir-data, which evicts its pods and "
    "deletes their emptyDir data; uncordon it when its plugin is verified)"
)

EXPLANATIONS: Final[Mapping[Reason, Explanation]] = {
    Reason.VERIFIED: Explanation("The {noun} started on the driver that is loaded, {verified}."),
    Reason.NOTHING_TO_REFRESH: Explanation("The plugin's DaemonSet wants no pod on this node."),
    Reason.NODE_SKIPPED: Explanation(
        "An administrator took the node out of driver upgrades with a label. Its driver and plugin stay as they are.",
        look=_DESCRIBE_NODE,
        fix="kubectl label node {node} {skip_label}-",
        precondition="if the administrator agrees that the {operator} evicts {users} and reloads the driver",
    ),
    Reason.NODE_NOT_READY: Explanation(
        "The kubelet does not report. The plugin may be stale when the node is back: then run the release again, "
        "unless a controller is active.",
        look=_DESCRIBE_NODE,
    ),
    Reason.HOST_DRIVER: Explanation("The host's own driver is in use. The {operator} does not reload it."),
    Reason.DRIVER_NOT_DEPLOYED: Explanation("The {operator} deploys no driver to this node."),
    Reason.VIRTUAL_MACHINE_NODE: Explanation(
        "The node's GPUs are passed to virtual machines, so its pods use no driver of the host."
    ),
    Reason.MANUAL_UPGRADE: Explanation(
        "No controller replaces driver pods here. The outdated driver is loaded, and the plugin runs on it. To upgrade "
        "the node, replace its driver pod, then run the release again.",
        look=_DRIVER_PODS,
        fix=_DELETE,
        precondition=f"after {_DRAINED}",
    ),
    Reason.UNREADABLE: Explanation(
        "The object in the message does not have the shape of its kind, so nothing is concluded from it. Correct or "
        "replace it. The times of a pod contradict each other if its node's clock was set back while it started: a "
        "new pod is readable. Drain the node before you replace a driver pod.",
        look="kubectl -n NAMESPACE get KIND NAME -o yaml",
    ),
    Reason.NODE_BLIP: Explanation("The node is NotReady; it may come back.", look=_DESCRIBE_NODE),
    Reason.LABELS_MISSING: Explanation(
        "Nodes lose these labels when node-feature-discovery is down; {evidence}. A node that has no driver pod for "
        "five minutes is excluded: its device may have been taken out.",
        look="kubectl get pods -A -l app.kubernetes.io/name=node-feature-discovery",
    ),
    Reason.EXPECTATION_UNMET: Explanation(
        "The release of the {operator} is not applied yet, or expect.* names another version.", look=_POLICIES
    ),
    Reason.NOT_RENDERED: Explanation(
        "The {operator} has not rendered the policy into its driver DaemonSet yet.", look=_DRIVER_SETS
    ),
    Reason.DRIVER_MISSING: Explanation("The node's driver pod is being replaced.", look=_STATES),
    Reason.SEVERAL_DRIVER_PODS: Explanation(
        "Only one of them can own the driver. Wait until the old pod has ended. If it does not end, drain the node "
        "before you delete it.",
        look=_DRIVER_PODS,
    ),
    Reason.DRIVER_ORPHANED: Explanation(
        "The DaemonSet of this driver pod was replaced, and no controller replaces the pod.",
        look=_DRIVER_PODS,
        fix=_DELETE,
        precondition=f"after {_DRAINED}",
    ),
    Reason.DRIVER_OUTDATED: Explanation(
        "The upgrade controller has not reached this node yet. {turns}",
        look=_STATES,
    ),
    Reason.DRIVER_NOT_READY: Explanation(
        "The new driver is being built and loaded, which takes some minutes.", look=_DESCRIBE
    ),
    Reason.DRIVER_FAILING: Explanation("The new driver cannot start.", look=_DESCRIBE),
    Reason.UPGRADE_IN_PROGRESS: Explanation(
        "The upgrade controller is about to restart this node's driver.", look=_STATES
    ),
    Reason.UPGRADE_STATE_UNKNOWN: Explanation(
        "A newer upgrade controller may use this state. An unknown state counts as an upgrade in progress.",
        look=_STATES,
    ),
    Reason.OPERANDS_PAUSED: Explanation(
        "While the driver reloads, {paused}.", look="kubectl get node {node} --show-labels"
    ),
    Reason.UPGRADE_FAILED: Explanation(
        "The upgrade controller gave up on the node. It resumes by itself if the new driver becomes Ready. "
        "{failed_upgrade}",
        look="kubectl get events -A --field-selector involvedObject.kind=Node,involvedObject.name={node}",
        fix="{failed_upgrade_command}",
        precondition=f"after removing the cause and {_DRAINED}",
    ),
    Reason.PRIOR_DRIVER_UNSETTLED: Explanation(
        "GPUDirect RDMA is on, so the GPU driver follows the network driver of its node.",
        look="kubectl get pods -A -l {prior_drivers} -o wide",
    ),
    Reason.PROVIDER_NOT_READY: Explanation(
        "A plugin that starts before the container toolkit prepares claims with empty device edits.",
        look="kubectl get pods -A -l {providers} -o wide",
    ),
    Reason.POLICY_SAYS_NOT_READY: Explanation(
        "With wait-for policy-ready, no plugin is restarted before the policy's own status is ready.", look=_POLICIES
    ),
    Reason.PLUGIN_STALE: Explanation(
        "The {noun} holds a driver that is gone; {broken}.",
        look=_DESCRIBE,
        fix=_DELETE,
        precondition="if the node's driver pod is Ready and neither a run nor a controller is active",
    ),
    Reason.PLUGIN_SUSPECT: Explanation(
        "The plugin looks stale by its times alone. It is restarted after a minute, unless so many nodes look the "
        "same that a wrong clock or API is more likely.",
        look=_DESCRIBE,
    ),
    Reason.PLUGIN_QUEUED: Explanation("It is restarted as soon as another plugin is back.", look=_DESCRIBE),
    Reason.PLUGIN_RESTARTING: Explanation("The old pod is terminating.", look=_DESCRIBE),
    Reason.PLUGIN_MISSING: Explanation(
        "The DaemonSet controller did not create the pod: a quota, an admission webhook or a full node.",
        look="kubectl -n {namespace} describe daemonset {name}",
    ),
    Reason.PLUGIN_STARTING: Explanation("The plugin's pod has not started yet.", look=_DESCRIBE),
    Reason.PLUGIN_NOT_READY: Explanation("The plugin's pod is not Ready, or crashed a moment ago.", look=_LOGS),
    Reason.SLICE_MISSING: Explanation("The plugin publishes no devices.", look=_LOGS),
    Reason.SLICE_OUTDATED: Explanation(
        "The plugin published devices of another driver version than the policy asks for.",
        look="kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",
    ),
    Reason.PLUGIN_UNWELCOME: Explanation(
        "The plugin must restart, but would not be scheduled again. Add the toleration to {tolerations}, or remove "
        "the taint if it is no longer needed, then run the release again.",
        look=_DESCRIBE_NODE,
    ),
    Reason.RESTART_REFUSED: Explanation(
        "An admission policy or webhook refuses to delete the plugin's pod; the message quotes its answer.",
        look="kubectl get validatingadmissionpolicies,validatingwebhookconfigurations",
    ),
    Reason.RESTART_DID_NOT_HELP: Explanation(
        "By the kubelet's own times the new pod started before the driver was ready: the node's clock was set "
        "back, or the kubelet restarted and moved the driver's ready time.",
        look=_POD,
    ),
    Reason.RESTART_BACKED_OFF: Explanation(
        "A restart did not lead to a verified plugin, so each further restart comes later; the message names the "
        "time. If the driver did not restart since, the node's clock was set back, or the kubelet moved the driver's "
        "ready time.",
        look=_POD,
    ),
    Reason.ROLLOUT_IMPOSSIBLE: Explanation(
        "A rollout restarts nothing in a DaemonSet with updateStrategy OnDelete. Use strategy stale-pods, or set the "
        "DaemonSet to RollingUpdate.",
        look="kubectl -n {namespace} get daemonsets "
        "-o custom-columns=NAME:.metadata.name,STRATEGY:.spec.updateStrategy.type",
    ),
    Reason.NO_CONSUMER: Explanation(
        "No DaemonSet that was read holds the driver. Before {before} this is normal.", look=_DAEMON_SETS
    ),
    Reason.NO_POLICY: Explanation(
        "The {operator} is not installed, or not configured by a {policy}. Where its drivers run, the run waits two "
        "minutes for a {policy} that was only replaced.",
        look="kubectl get {policies}",
    ),
    Reason.POLICY_EXPECTED: Explanation(
        "expect.* is set, so the release of the {operator} is still to come.", look="kubectl get {policies}"
    ),
    Reason.DRIVER_DISABLED: Explanation("The hosts bring their drivers. No upgrade of the {operator} reloads them."),
    Reason.OPERATOR_MANAGED: Explanation("The {operator} restarts its own plugin.", look=_DAEMON_SETS),
    Reason.NO_ELIGIBLE_NODE: Explanation(
        "There is no driver that the {operator} could reload.", look="kubectl get nodes -L {present_label}"
    ),
    Reason.UNNAMED_CONSUMER: Explanation(
        "A DaemonSet looks like a DRA kubelet plugin but is not in consumer.names, so this program does not restart "
        "its pods. A stale one fails the run. Set consumer.names to the names of all plugins: the value replaces the "
        "default names.",
        look=_DAEMON_SETS,
    ),
    Reason.OPERATOR_ROLLING_OUT: Explanation(
        "A new operator may render the driver a second time.", look="kubectl get deployments -A -l {operator_labels}"
    ),
    Reason.OPERATOR_NOT_LEADING: Explanation(
        "The old operator still leads; the new one may render the driver a second time.",
        look="kubectl get leases -A --field-selector metadata.name={lease}",
    ),
    Reason.OPERATOR_SETTLING: Explanation(
        "If the operator renders the driver a second time, it does so within this time.", look=_DRIVER_SETS
    ),
    Reason.UPGRADE_LABELS_PENDING: Explanation(
        "The upgrade controller finishes a node up to two minutes late.", look=_STATES
    ),
    Reason.POLICY_NOT_READY: Explanation("An operand is not ready.", look=_POLICIES),
    Reason.NODES_PENDING: Explanation(
        "Nodes reload one after another; about two minutes per node is normal.", look=_STATES
    ),
    Reason.BREAKER_OPEN: Explanation(
        "So many nodes turned stale at once, without a reload of their drivers, that a wrong clock or API is more "
        "likely. Compare the nodes' clocks, and what the API shows of their driver pods. The message says whether and "
        "when the breaker closes by itself.",
        look="kubectl -n kube-node-lease get leases -o custom-columns=NODE:.metadata.name,RENEWED:.spec.renewTime",
        fix="kubectl -n NAMESPACE annotate lease -l app.kubernetes.io/name=gpu-operator-post "
        f"{names.CLOSE_BREAKER_ANNOTATION}=$(date +%s) --overwrite",
        precondition="if the clocks agree and the plugins are really stale (a closed breaker restarts all of them)",
    ),
    Reason.REFRESHED: Explanation("Every stale plugin came back on the loaded driver."),
    Reason.NOTHING_STALE: Explanation("Every plugin already ran on the loaded driver."),
    Reason.DRIVER_SETTLED: Explanation(
        "No plugin is installed yet, and whenAbsent is wait: a plugin that is installed next starts on a settled "
        "driver."
    ),
    Reason.HANDED_OVER: Explanation(
        "The controller has seen this intent and refreshes each node as its driver settles.", look=_STATUS
    ),
    Reason.FOLLOWER_MISSING: Explanation(
        "hook.wait is handover, but no active controller has seen this intent. Check its Deployment, or set "
        "hook.wait to complete.",
        look="kubectl get leases,deployments -A -l app.kubernetes.io/name=gpu-operator-post",
    ),
    Reason.TIME_UP: Explanation(
        "The upgrade takes longer than this release may. Raise timeout (and the deployment tool's), then run the "
        "release again: it continues where it stopped.",
        look=_STATES,
    ),
    Reason.STALLED: Explanation("No node advances; the nodes below name what each waits for.", look=_STATES),
    Reason.PERMISSION_MISSING: Explanation(
        "Grant it (rbac.create, rbac.scope), then run the release again. If an admission policy refused it, the "
        "message quotes its answer.",
        look="kubectl auth can-i --list --as system:serviceaccount:NAMESPACE:SERVICEACCOUNT",
    ),
    Reason.UNAUTHORIZED: Explanation(
        "The API server does not accept the credentials. The kubelet renews the token of a ServiceAccount.",
        look="kubectl auth whoami",
    ),
    Reason.API_UNREACHABLE: Explanation(
        "The API server did not answer, or refused for a reason that may pass; the Job tries again.",
        look="kubectl get --raw /readyz",
    ),
    Reason.TERMINATED: Explanation("The run was stopped. The next run continues where it stopped.", look=_STATUS),
    Reason.LEASE_LOST: Explanation(
        "This controller could not renew its Lease for ten seconds, or another one holds it. It stops before both "
        "could act, and its container is started again. Once, while the API server restarts, is normal.",
        look="kubectl get leases -A -l app.kubernetes.io/name=gpu-operator-post -o yaml",
    ),
}

EVENTS: Final[Mapping[EventReason, str]] = {
    EventReason.STALE_PLUGIN_RESTARTED: "A stale plugin on a settled node was restarted. On its DaemonSet, and on the "
    "Job or the controller's Deployment.",
    EventReason.NODE_FAILED: "A node needs manual action; the other nodes continue. On the Job or the controller's "
    "Deployment.",
    EventReason.WAITING_FOR_DRIVER: "The state of the fleet, now and then, while the program waits. On the Job or the "
    "controller's Deployment.",
    EventReason.BREAKER_CLOSED: "A controller's circuit breaker closed. On its Deployment and the DaemonSets.",
}


def remedy(reason: Reason, node: str = "", subject: str = "", stack: Stack = GPU_OPERATOR) -> str:
    """Return in one text what a reason means, where to look, and what may fix it."""
    return str(explained(reason, node, subject, stack))


def explained(reason: Reason, node: str = "", subject: str = "", stack: Stack = GPU_OPERATOR) -> Explanation:
    """Return the explanation of a reason with the names of what it is about; unknown names are in capitals."""
    namespace, _, name = subject.partition("/")
    about = {"node": node or "NODE", "namespace": namespace or "NAMESPACE", "name": name or "NAME"}
    # The stack's own command is filled in first, and then names what it is about.
    known = {**words(stack, about), **about}
    plain = EXPLANATIONS[reason]
    texts = (plain.meaning, plain.look, plain.fix, plain.precondition)
    return Explanation(*(text.format(**known) for text in texts))


def words(stack: Stack, about: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return what sentences and commands call the parts of a driver stack."""
    prior = STACKS.get(stack.after, stack)
    providers = (provider.label for provider in stack.providers.values())
    return {
        "operator": stack.operator.title,
        "operator_labels": stack.operator.selector,
        "policy": stack.policy.kind,
        "policies": stack.policy.plural,
        "present_label": stack.nodes.present,
        "state_label": stack.upgrade.state,
        "skip_label": stack.upgrade.skip,
        "lease": stack.operator.lease,
        "drivers": selector(stack.driver.label),
        "prior_drivers": selector(prior.driver.label),
        "providers": ",".join(selector(label) for label in providers),
        "noun": stack.consumer.noun,
        **stack.words,
        "failed_upgrade_command": stack.failed_upgrade_command.format(**about) if about else "",
    }


def headline(decision: Decision) -> str:
    """Return the one line that sums up how a run stands."""
    return f"{decision.verdict} ({decision.reason}): {decision.message}"


def in_need(decision: Decision) -> list[Judgement]:
    """Return the nodes that a failing run must name, the failed ones first."""
    if not decision.unhappy:
        return []
    failed = [one for one in decision.judgements if one.state is NodeState.FAILED]
    calm = (NodeState.FAILED, NodeState.VERIFIED, NodeState.EXCLUDED)
    return failed + [one for one in decision.judgements if one.state not in calm]
