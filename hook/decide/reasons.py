"""Table of all reasons: what a row consists of, and one row per reason.

Users alert on the codes, so a code is the same in all minor versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto, unique
from typing import TYPE_CHECKING, Final

from hook.objects import names

if TYPE_CHECKING:
    from typing import Self

    from hook.objects.stacks import Stack


class Trait(Enum):
    """Property of a reason that the program acts on."""

    BLOCKED = auto()
    """The node waits for its turn or for an administrator. With any other reason it may still progress by itself."""
    WAITS_FOR_TURN = auto()
    """The upgrade controller has not restarted the driver of this node yet."""
    DRIVER_NOT_MANAGED = auto()
    """The node has no driver that the operator could reload."""
    NODE_ALONE = auto()
    """The Node object alone excludes the node. Its pods do not matter."""
    RELEASE_PENDING = auto()
    """The policy does not show the expected release: a plugin that restarts now would be stale after the reload."""
    FIRST_LOAD = auto()
    """A node that has just joined may be in this state until its first driver is loaded."""
    UPGRADE_TO_COME = auto()
    """The drivers of the release may still be reloaded, so no failure ends the run: the release needs it later."""
    FAILING = auto()
    """The node fails, but may recover: a run waits first, ``status`` reports the failure at once."""
    PLUGIN_DOWN = auto()
    """The plugin does not publish or prepare devices: it is starting, or has failed."""
    PASSING = auto()
    """The state normally lasts seconds, so it is logged at debug level only."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a reason, where to look, and what may fix it.

    Each text may contain the words of a driver stack, as ``words`` returns them. The commands and the
    precondition may also contain ``{node}``, and ``{namespace}`` and ``{name}`` of the pod that the reason is about.
    """

    meaning: str
    look: str = ""
    """A command that changes nothing."""
    fix: str = ""
    """A command that changes something."""
    precondition: str = ""
    """What must be true, or done, before the fix."""

    def __post_init__(self) -> None:
        """Reject a fix without a precondition."""
        if self.fix and not self.precondition:
            raise ValueError(f"{self.fix}: a fix needs a precondition")

    @property
    def lines(self) -> list[str]:
        """Return the text for a terminal. Each command stands on a line of its own, so that it can be copied."""
        look = ["  Look:", f"    {self.look}"] if self.look else []
        fix = [f"  To fix, {self.precondition}:", f"    {self.fix}"] if self.fix else []
        return [self.meaning, *look, *fix]

    @property
    def steps(self) -> str:
        """Return the commands with their precondition, as one text."""
        look = f"Look: {self.look}" if self.look else ""
        fix = f"To fix, {self.precondition}: {self.fix}" if self.fix else ""
        return " ".join(filter(None, (look, fix)))

    def __str__(self) -> str:
        return " ".join(filter(None, (self.meaning, self.steps)))


class Row(StrEnum):
    """Code of a reason, as in Kubernetes conditions, with its explanation and traits."""

    explanation: Explanation
    traits: frozenset[Trait]

    def __new__(cls, code: str, explanation: Explanation, traits: frozenset[Trait]) -> Self:
        """Create a member that is equal to its code."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.explanation, member.traits = explanation, traits
        return member


def row(
    code: str, meaning: str, *traits: Trait, look: str = "", fix: str = "", precondition: str = ""
) -> tuple[str, Explanation, frozenset[Trait]]:
    """Return the arguments of a ``Row``."""
    return code, Explanation(meaning, look, fix, precondition), frozenset(traits)


def remedy(reason: Row, stack: Stack, node: str = "", subject: str = "") -> str:
    """Return the explanation of a reason as one text."""
    return str(explained(reason, stack, node, subject))


def explained(reason: Row, stack: Stack, node: str = "", subject: str = "") -> Explanation:
    """Return the explanation of a reason with the names of its node and pod. Unknown names are in capitals."""
    namespace, _, name = subject.partition("/")
    about = {"node": node or "NODE", "namespace": namespace or "NAMESPACE", "name": name or "NAME"}
    known = {**words(stack), **about}
    plain = reason.explanation
    fix = plain.fix.replace("{failed_upgrade_command}", stack.failed_upgrade_command)
    return Explanation(*(text.format(**known) for text in (plain.meaning, plain.look, fix, plain.precondition)))


def words(stack: Stack) -> dict[str, str]:
    """Return the words for the parts of a driver stack in explanations."""
    annotation, configured = stack.nodes.safe_load, stack.plugin.tolerations
    counted = ", and cordoned, NotReady and failed nodes count against maxUnavailable, where the policy has it"
    return {
        "stack": stack.name,
        "operator": stack.operator.title,
        "operator_labels": stack.operator.selector,
        "policy": stack.policy.kind,
        "policies": f"{stack.policy.plural}.{stack.policy.group}",
        "present_label": stack.nodes.present,
        "state_label": stack.upgrade.state,
        "skip_label": stack.upgrade.skip,
        "lease": stack.operator.lease,
        "drivers": stack.driver.label.selector,
        "noun": stack.plugin.noun,
        "device": stack.device,
        "annotated": f" If the node has the annotation {annotation}, remove that as well." if annotation else "",
        "counted": counted if stack.upgrade.counts_unavailable else "",
        "tolerations": f" ({configured})" if configured else "",
    }


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
_STATUS: Final = f"kubectl {names.OWN_NAME} status --stack {{stack}}"
_DRAIN: Final = "kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"
_DRAINABLE: Final = (
    "if the pods of node {node} may be evicted and lose their emptyDir data (uncordon it when its plugin is verified)"
)


@unique
class Reason(Row):
    """The reasons that a node or a run can have."""

    # A node is done.
    VERIFIED = row(
        "Verified",
        "The {noun} started on the loaded driver and is Ready. If it publishes devices, it has published them.",
    )
    NOTHING_TO_REFRESH = row("NothingToRefresh", "The plugin's DaemonSet wants no pod on this node.")

    # A node is excluded.
    NODE_SKIPPED = row(
        "NodeSkipped",
        "An administrator took the node out of driver upgrades with a label. Its driver and plugin stay as they are.",
        Trait.NODE_ALONE,
        look=_DESCRIBE_NODE,
        fix="kubectl label node {node} {skip_label}-",
        precondition="if the administrator agrees that the {operator} evicts pods from it and reloads the driver",
    )
    NODE_NOT_READY = row(
        "NodeNotReady",
        "The kubelet does not report. The plugin may be stale when the node is back: then run the release again, "
        "unless a controller is active.",
        Trait.NODE_ALONE,
        look=_DESCRIBE_NODE,
    )
    NODE_JOINED = row(
        "NodeJoined",
        "The node joined after the run began, and its first driver is not loaded yet. No plugin has started there, so "
        "none is stale.",
        look=_DESCRIBE_NODE,
    )
    HOST_DRIVER = row(
        "HostDriver", "The host brings its own driver. The {operator} does not reload it.", Trait.DRIVER_NOT_MANAGED
    )
    DRIVER_NOT_DEPLOYED = row(
        "DriverNotDeployed", "The {operator} deploys no driver to this node.", Trait.DRIVER_NOT_MANAGED
    )
    NO_DRIVER_WANTED = row(
        "NoDriverWanted",
        "The node is labelled for a driver, but no driver DaemonSet wants a pod there: none tolerates its taints, or "
        "none selects it. Its devices have no driver.",
        look=_DRIVER_SETS,
    )
    VIRTUAL_MACHINE_NODE = row(
        "VirtualMachineNode",
        "The node's GPUs are passed to virtual machines, so its pods use no driver of the host.",
        Trait.DRIVER_NOT_MANAGED,
    )
    MANUAL_UPGRADE = row(
        "ManualUpgrade",
        "The {operator} does not replace driver pods here, for example because autoUpgrade is off. The outdated driver "
        "is loaded, and the plugin runs on it. To upgrade the node, replace its driver pod, then run the release "
        "again.",
        Trait.BLOCKED,
        look=_DRIVER_PODS,
        fix=f"{_DRAIN} && {_DELETE}",
        precondition=_DRAINABLE,
    )

    # A node's driver is not settled.
    MALFORMED_OBJECT = row(
        "MalformedObject",
        "The object in the message does not have the shape of its kind, so nothing is concluded from it. Correct or "
        "replace it. Drain the node before you replace a driver pod. Write the kind of a policy with its group: "
        "{policies}.",
        look="kubectl -n NAMESPACE get KIND NAME -o yaml",
    )
    NODE_NOT_READY_BRIEFLY = row(
        "NodeNotReadyBriefly",
        "The node is NotReady; it may come back.",
        Trait.NODE_ALONE,
        Trait.FIRST_LOAD,
        look=_DESCRIBE_NODE,
    )
    LABELS_MISSING = row(
        "LabelsMissing",
        "Nodes lose these labels when node-feature-discovery is down; pods show that there is {device}. A node that "
        "has no driver pod for five minutes is excluded: its device may have been taken out.",
        Trait.BLOCKED,
        look="kubectl get pods -A -l app.kubernetes.io/name=node-feature-discovery",
    )
    EXPECTATION_UNMET = row(
        "ExpectationUnmet",
        "The release of the {operator} is not applied yet, or expect.* names another version.",
        Trait.RELEASE_PENDING,
        Trait.UPGRADE_TO_COME,
        look=_POLICIES,
    )
    NOT_RENDERED = row(
        "NotRendered",
        "The {operator} has not rendered the policy into its driver DaemonSet yet.",
        Trait.UPGRADE_TO_COME,
        look=_DRIVER_SETS,
    )
    DRIVER_MISSING = row(
        "DriverMissing", "The node's driver pod is being replaced.", Trait.PASSING, Trait.FIRST_LOAD, look=_STATES
    )
    SEVERAL_DRIVER_PODS = row(
        "SeveralDriverPods",
        "Only one of them can own the driver. Wait until the old pod has ended. If it does not end, drain the node "
        "before you delete it.",
        Trait.BLOCKED,
        look=_DRIVER_PODS,
    )
    DRIVER_ORPHANED = row(
        "DriverOrphaned",
        "The DaemonSet of this driver pod was replaced, and the {operator} does not replace the pod.",
        Trait.BLOCKED,
        look=_DRIVER_PODS,
        fix=f"{_DRAIN} && {_DELETE}",
        precondition=_DRAINABLE,
    )
    DRIVER_OUTDATED = row(
        "DriverOutdated",
        "The upgrade controller has not reached this node yet. Failed nodes keep their places in "
        "maxParallelUpgrades{counted}: look for them if no node advances.",
        Trait.BLOCKED,
        Trait.WAITS_FOR_TURN,
        look=_STATES,
    )
    DRIVER_NOT_READY = row(
        "DriverNotReady",
        "The new driver is being built and loaded, which takes some minutes.",
        Trait.FIRST_LOAD,
        look=_DESCRIBE,
    )
    DRIVER_FAILING = row("DriverFailing", "The new driver cannot start.", Trait.BLOCKED, Trait.FAILING, look=_DESCRIBE)
    UPGRADE_REQUIRED = row(
        "UpgradeRequired",
        "The upgrade controller has not started the upgrade of this node yet.",
        Trait.BLOCKED,
        Trait.WAITS_FOR_TURN,
        look=_STATES,
    )
    UPGRADE_IN_PROGRESS = row(
        "UpgradeInProgress",
        "The upgrade controller waits for jobs on this node, or drains it. It restarts the driver next.",
        look=_STATES,
    )
    UPGRADE_STATE_UNKNOWN = row(
        "UpgradeStateUnknown",
        "A newer upgrade controller may use this state. An unknown state counts as an upgrade in progress.",
        Trait.BLOCKED,
        look=_STATES,
    )
    OPERANDS_PAUSED = row(
        "OperandsPaused",
        "While the driver reloads, the {operator} keeps the {noun} off the node by node labels.",
        Trait.BLOCKED,
        look="kubectl get node {node} --show-labels",
    )
    UPGRADE_FAILED = row(
        "UpgradeFailed",
        "The upgrade controller stopped the upgrade of this node. It resumes once the new driver is Ready. "
        "Its events and the log of the {operator} name the step.{annotated} If the new driver never starts, "
        "return to the previous version.",
        Trait.BLOCKED,
        Trait.FAILING,
        look="kubectl get events -A --field-selector involvedObject.kind=Node,involvedObject.name={node}",
        fix=f"{_DRAIN} && {{failed_upgrade_command}}",
        precondition=f"after removing the cause, {_DRAINABLE}",
    )
    PREREQUISITE_NOT_READY = row(
        "PrerequisiteNotReady",
        "A component in `refreshAfter` is not ready, or a MIG reconfiguration has not ended (see the log of the MIG "
        f"manager; {names.MIG_STATE_LABEL}). A plugin that starts before that prepares claims with outdated devices.",
        Trait.BLOCKED,
        look=_DESCRIBE_NODE,
    )

    # A node's plugin is not verified.
    PLUGIN_STALE = row(
        "PluginStale",
        "The {noun} started before the loaded driver: new pods on this node get files of the old driver, or cannot "
        "start.",
        Trait.PASSING,
        look=_DESCRIBE,
        fix=_DELETE,
        precondition="if the node's driver pod is Ready and neither a run nor a controller is active",
    )
    PLUGIN_QUEUED = row(
        "PluginQueued", "The plugin is restarted as soon as another one is back.", Trait.BLOCKED, look=_DESCRIBE
    )
    PLUGIN_RESTARTING = row("PluginRestarting", "The old pod is terminating.", Trait.PLUGIN_DOWN, look=_DESCRIBE)
    PLUGIN_MISSING = row(
        "PluginMissing",
        "The DaemonSet controller did not create the pod. A quota, an admission webhook or a full node may prevent it.",
        Trait.PLUGIN_DOWN,
        Trait.PASSING,
        look="kubectl -n {namespace} describe daemonset {name}",
    )
    PLUGIN_STARTING = row(
        "PluginStarting",
        "The plugin's pod has not started yet. On a full node it is not scheduled.",
        Trait.PLUGIN_DOWN,
        look=_DESCRIBE,
    )
    PLUGIN_NOT_READY = row(
        "PluginNotReady",
        "The plugin's pod is not Ready, or crashed a moment ago.",
        Trait.PLUGIN_DOWN,
        look=_LOGS,
    )
    SLICE_MISSING = row("SliceMissing", "The plugin publishes no devices.", Trait.PLUGIN_DOWN, look=_LOGS)
    SLICE_OUTDATED = row(
        "SliceOutdated",
        "The plugin published devices of another driver version than the policy asks for.",
        Trait.PLUGIN_DOWN,
        look="kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",
    )
    TAINT_NOT_TOLERATED = row(
        "TaintNotTolerated",
        "The plugin is stale. The program does not restart it, because the node has a taint that the plugin does not "
        "tolerate, so the new pod could not start there. Add the toleration where the plugin is "
        "configured{tolerations}, then run the release again.",
        Trait.BLOCKED,
        Trait.FAILING,
        look=_DESCRIBE_NODE,
        fix="kubectl taint node NODE KEY:EFFECT-",
        precondition="if the taint in the message is no longer needed",
    )
    RESTART_REFUSED = row(
        "RestartRefused",
        "An admission policy or webhook refuses to delete the plugin's pod; the message quotes its answer.",
        look="kubectl get validatingadmissionpolicies,validatingwebhookconfigurations",
    )
    RESTART_FAILING = row(
        "RestartFailing",
        "Each request to delete the plugin's pod fails; the message quotes the last answer. A webhook that does not "
        "answer or the API server may be the cause. The program tries again.",
        look="kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
    )
    RESTART_BACKED_OFF = row(
        "RestartBackedOff",
        "A restart did not lead to a verified plugin, so the controller waits longer before each further one. The "
        "message names the time.",
        look=_POD,
    )

    # The whole cluster.
    NO_PLUGIN = row(
        "NoPlugin",
        "No DaemonSet was found whose pods hold the driver. Before the first {noun} is installed this is normal.",
        look=_DAEMON_SETS,
    )
    NO_POLICY = row(
        "NoPolicy",
        "The {operator} is not installed, or not configured by a {policy}. If its drivers run, this program waits "
        "two minutes, because a tool may be replacing the {policy}.",
        look="kubectl get {policies}",
    )
    POLICY_EXPECTED = row(
        "PolicyExpected",
        "The settings (expect.*) expect a {policy}, but there is none yet: the release of the "
        "{operator} is not applied.",
        Trait.RELEASE_PENDING,
        Trait.UPGRADE_TO_COME,
        look="kubectl get {policies}",
    )
    DRIVER_DISABLED = row(
        "DriverDisabled",
        "The {policy} deploys no driver, because the hosts bring their own. If drivers of the {operator} run, the "
        "program waits two minutes, because a tool may disable the driver for a moment.",
    )
    OPERATOR_MANAGED = row("OperatorManagedPlugin", "The {operator} restarts its own plugin.", look=_DAEMON_SETS)
    NO_ELIGIBLE_NODE = row(
        "NoEligibleNode",
        "There is no driver that the {operator} could reload.",
        look="kubectl get nodes -L {present_label}",
    )
    UNNAMED_PLUGIN = row(
        "UnnamedPlugin",
        "A DaemonSet looks like a DRA kubelet plugin but is not in plugin.names, so this program does not restart "
        "its pods. It fails the run at once, unless it wants no pods. Set plugin.names to the names of all plugins: "
        "the value replaces the default names.",
        look=_DAEMON_SETS,
    )
    OPERATOR_ROLLING_OUT = row(
        "OperatorRollingOut",
        "A new operator may render the driver a second time.",
        Trait.UPGRADE_TO_COME,
        look="kubectl get deployments -A -l {operator_labels}",
    )
    OPERATOR_NOT_LEADING = row(
        "OperatorNotLeading",
        "The old operator still holds the Lease. The new one may render the driver a second time.",
        Trait.UPGRADE_TO_COME,
        look="kubectl get leases -A --field-selector metadata.name={lease}",
    )
    OPERATOR_SETTLING = row(
        "OperatorSettling",
        "If the operator renders the driver a second time, it does so within this quiet period.",
        look=_DRIVER_SETS,
    )
    UPGRADE_LABELS_PENDING = row(
        "UpgradeLabelsPending", "The upgrade controller finishes a node up to two minutes late.", look=_STATES
    )
    POLICY_NOT_READY = row(
        "PolicyNotReady",
        "A component of the {operator} (an operand) is not Ready. The run waits for it for two minutes at most.",
        look=_POLICIES,
    )
    NODES_PENDING = row("NodesPending", "Nodes reload one by one; about two minutes per node is normal.", look=_STATES)
    REFRESHED = row("Refreshed", "Every stale plugin was restarted and runs on the loaded driver.")
    NOTHING_STALE = row("NothingStale", "Every plugin already ran on the loaded driver.")
    TIME_UP = row(
        "TimeUp",
        "The upgrade takes longer than the timeout. Raise timeout (and that of the deployment tool), then run the "
        "release again: it continues where it stopped.",
        look=_STATES,
    )
    PERMISSION_MISSING = row(
        "PermissionMissing",
        "RBAC does not allow the request in the message. Grant the permission (rbac.create), then run the release "
        "again.",
        look="kubectl auth can-i --list --as system:serviceaccount:NAMESPACE:SERVICEACCOUNT",
    )
    API_UNREACHABLE = row(
        "ApiUnreachable",
        "The API server did not answer, or refused for a reason that may pass. Kubernetes starts the program again.",
        look="kubectl get --raw /readyz",
    )
    UNAUTHORIZED = row(
        "Unauthorized",
        "The API server did not accept the credentials for 15 seconds, or there are none. In a pod, check that the "
        "ServiceAccount exists, and the API server's issuer of tokens. Elsewhere, log in again.",
        look="kubectl auth whoami",
    )
    CERTIFICATE_REFUSED = row(
        "CertificateRefused",
        "The certificate of the API server, or of the proxy, is not one that the certificate authority signed for its "
        "address and that is valid now. Compare them, and the clock.",
        look="kubectl get --raw /readyz",
    )
    TERMINATED = row("Terminated", "The run was stopped. The next run continues where it stopped.", look=_STATUS)
    CONTROLLER_STOPPED = row(
        "ControllerStopped",
        "A signal stopped this controller, for example because its Deployment is being rolled out. The next leader "
        "reads the fleet and continues.",
    )
    LEASE_LOST = row(
        "LeaseLost",
        "This controller could not renew its Lease for ten seconds, or another one holds it. It exits so that two "
        "never act at once, and the kubelet restarts it. Once, while the API server restarts, this is normal.",
        look="kubectl get leases -A -l app.kubernetes.io/name=gpu-operator-post -o yaml",
    )


@unique
class EventReason(Row):
    """The reasons that only Events have. The Event at the end of a run has the reason of the run."""

    STALE_PLUGIN_RESTARTED = row(
        "StalePluginRestarted",
        "A stale plugin on a settled node was restarted. The Event is on its DaemonSet. The Job or the controller's "
        "Deployment has the number of restarts in its last Event.",
    )
    NODE_FAILED = row(
        "NodeFailed",
        "A node needs manual action; the other nodes continue. The Event is on the Job or the controller's Deployment.",
    )
    WAITING_FOR_DRIVER = row(
        "WaitingForDriver",
        "The state of the fleet, at intervals, while the driver of a node is not settled. While the program waits for "
        "other things, the Event has the reason of the wait. The Event is on the Job or the controller's Deployment.",
    )
    AFFECTED_WORKLOADS = row(
        "AffectedWorkloads",
        "Pods may hold files of an old driver. The Event is on the Job or the controller's Deployment.",
    )
