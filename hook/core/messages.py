"""What a reason means and what to run next: every failure says what was seen, what it means, what to do."""

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
    """The meaning of a reason, and the command to run next."""

    meaning: str
    """May hold the words of a driver stack, as ``words`` gives them."""
    command: str = ""
    """May hold them, too, and ``{node}``, ``{namespace}`` and ``{name}`` of the pod it is about."""


_DESCRIBE: Final = "kubectl -n {namespace} describe pod {name}"
_LOGS: Final = "kubectl -n {namespace} logs {name} --all-containers --prefix --tail=50"
_STATES: Final = "kubectl get nodes -L {state_label}"
_POLICIES: Final = "kubectl get {policies} -o yaml"

EXPLANATIONS: Final[Mapping[Reason, Explanation]] = {
    Reason.VERIFIED: Explanation("The {noun} started on the driver that is loaded, {verified}."),
    Reason.NOTHING_TO_REFRESH: Explanation("The plugin's DaemonSet wants no pod on this node."),
    Reason.NODE_SKIPPED: Explanation(
        "A person took the node out of driver upgrades; its driver and plugin stay as they are.",
        "kubectl label node {node} {skip_label}-",
    ),
    Reason.NODE_NOT_READY: Explanation(
        "The kubelet does not report. A plugin there may be stale when it is back; run the release again then.",
        "kubectl describe node {node}",
    ),
    Reason.HOST_DRIVER: Explanation("The host's own driver is in use; nothing here reloads it."),
    Reason.DRIVER_NOT_DEPLOYED: Explanation("The {operator} deploys no driver to this node."),
    Reason.VIRTUAL_MACHINE_NODE: Explanation(
        "Its GPUs are passed to virtual machines, so no driver on the host serves DRA claims of pods."
    ),
    Reason.MANUAL_UPGRADE: Explanation(
        "Nobody rotates driver pods here; the old driver, and the {noun} on it, still match. Drain {users} and "
        "delete the driver pod to upgrade the node, then run the release again.",
        "kubectl -n {namespace} delete pod {name}",
    ),
    Reason.UNREADABLE: Explanation(
        "An object does not have the shape that its kind promises, so nothing is concluded from it, and nothing "
        "is called done. Read it with kubectl get -o yaml, and mend or delete it: a pod whose times contradict each "
        "other (its node's clock was set back while it started) is well again once it was replaced.",
    ),
    Reason.NODE_BLIP: Explanation("The node is NotReady; it may come back.", "kubectl describe node {node}"),
    Reason.LABELS_MISSING: Explanation(
        "Nodes lose these labels when node-feature-discovery is down; {evidence}.",
        "kubectl get pods -A -l app.kubernetes.io/name=node-feature-discovery",
    ),
    Reason.EXPECTATION_UNMET: Explanation(
        "This ran before the operator's own release was applied, or expect.* names another version.",
        _POLICIES,
    ),
    Reason.NOT_RENDERED: Explanation(
        "The {operator} has not rendered the policy into its driver DaemonSet yet.",
        "kubectl get daemonsets -A -l {drivers} -o wide",
    ),
    Reason.DRIVER_MISSING: Explanation("The node's driver pod is being replaced.", _STATES),
    Reason.SEVERAL_DRIVER_PODS: Explanation("Only one of them can own the driver; wait or delete the old one."),
    Reason.DRIVER_ORPHANED: Explanation(
        "Its DaemonSet was replaced; the pod stays until somebody drains {users} and deletes it.",
        "kubectl -n {namespace} delete pod {name}",
    ),
    Reason.DRIVER_OUTDATED: Explanation(
        "The upgrade controller has not come to this node yet. {turns}",
        _STATES,
    ),
    Reason.DRIVER_NOT_READY: Explanation("The new driver is being built and loaded; minutes are normal.", _DESCRIBE),
    Reason.DRIVER_FAILING: Explanation("The new driver cannot start.", _DESCRIBE),
    Reason.UPGRADE_IN_PROGRESS: Explanation("The upgrade controller is about to restart this node's driver.", _STATES),
    Reason.UPGRADE_STATE_UNKNOWN: Explanation(
        "A newer upgrade controller may use it; an unknown state counts as an upgrade in progress.", _STATES
    ),
    Reason.OPERANDS_PAUSED: Explanation("While the driver reloads, {paused}.", "kubectl get node {node} --show-labels"),
    Reason.UPGRADE_FAILED: Explanation(
        "The upgrade controller gave up on the node; it is not final. {failed_upgrade}", "{failed_upgrade_command}"
    ),
    Reason.PRIOR_DRIVER_UNSETTLED: Explanation(
        "GPUDirect RDMA is on, so the GPU driver follows the network driver of its node.",
        "kubectl get pods -A -l {prior_drivers} -o wide",
    ),
    Reason.PROVIDER_NOT_READY: Explanation(
        "A plugin that starts before the container toolkit prepares claims with empty device edits.",
        "kubectl get pods -A -l {providers} -o wide",
    ),
    Reason.POLICY_SAYS_NOT_READY: Explanation(
        "With wait-for policy-ready, nothing is restarted before the policy's own status says ready.", _POLICIES
    ),
    Reason.PLUGIN_STALE: Explanation("The {noun} holds a driver that is gone; {broken}."),
    Reason.PLUGIN_SUSPECT: Explanation(
        "It turned stale by its times alone. It is restarted after a minute, unless so many nodes do the same that a "
        "clock or the API is more likely to be wrong.",
        _DESCRIBE,
    ),
    Reason.PLUGIN_QUEUED: Explanation("It will be restarted as soon as another one is back."),
    Reason.PLUGIN_RESTARTING: Explanation("Its old pod is on its way out.", _DESCRIBE),
    Reason.PLUGIN_MISSING: Explanation(
        "The DaemonSet controller did not create the pod: a quota, an admission webhook or a full node.",
        "kubectl -n {namespace} describe daemonset {name}",
    ),
    Reason.PLUGIN_STARTING: Explanation("The plugin's pod does not come up.", _DESCRIBE),
    Reason.PLUGIN_NOT_READY: Explanation("The plugin's pod does not stay up.", _LOGS),
    Reason.SLICE_MISSING: Explanation("The plugin publishes no devices; look at its log.", _LOGS),
    Reason.SLICE_OUTDATED: Explanation(
        "The plugin published devices of another driver version than the policy asks for.",
        "kubectl get resourceslices --field-selector spec.nodeName={node} -o yaml",
    ),
    Reason.PLUGIN_UNWELCOME: Explanation(
        "The plugin must restart, but would not be scheduled again. Add the toleration to {tolerations}, "
        "or remove the taint, then run the release again.",
        "kubectl describe node {node}",
    ),
    Reason.RESTART_REFUSED: Explanation(
        "An admission policy or webhook refuses to delete the plugin's pod; its own words are above.",
        "kubectl get validatingadmissionpolicies,validatingwebhookconfigurations",
    ),
    Reason.RESTART_DID_NOT_HELP: Explanation(
        "By the kubelet's own times the new pod started before the driver was ready: the node's clock was set "
        "back, or the kubelet restarted and moved the driver's ready time.",
        "kubectl -n {namespace} get pod {name} -o yaml",
    ),
    Reason.RESTART_BACKED_OFF: Explanation(
        "Restarting it did not make it well, so the next try comes later each time; the message says when. If its "
        "driver did not restart since, the node's clock was set back, or the kubelet moved the driver's ready time.",
        "kubectl -n {namespace} get pod {name} -o yaml",
    ),
    Reason.ROLLOUT_IMPOSSIBLE: Explanation("Use strategy stale-pods, or set the DaemonSet to RollingUpdate."),
    Reason.NO_CONSUMER: Explanation("Nothing that was looked at holds the driver. Before {before} this is normal."),
    Reason.NO_POLICY: Explanation("The {operator} is not installed, or not configured by a {policy}."),
    Reason.POLICY_EXPECTED: Explanation("expect.* is set, so the operator's release is still to come."),
    Reason.DRIVER_DISABLED: Explanation("Drivers come with the hosts; no upgrade of the operator reloads them."),
    Reason.OPERATOR_MANAGED: Explanation("The {operator} restarts its own plugin."),
    Reason.NO_ELIGIBLE_NODE: Explanation("There is no driver for this operator to reload."),
    Reason.UNNAMED_CONSUMER: Explanation(
        "Set consumer.names to the names of all plugins to serve: the value replaces the default names, and it "
        "confines what this program may restart.",
    ),
    Reason.OPERATOR_ROLLING_OUT: Explanation("A new operator may render the driver a second time."),
    Reason.OPERATOR_NOT_LEADING: Explanation(
        "The old operator still leads; the new one may render the driver a second time.",
        "kubectl get leases -A --field-selector metadata.name={lease}",
    ),
    Reason.OPERATOR_SETTLING: Explanation("A second render would come within this time."),
    Reason.UPGRADE_LABELS_PENDING: Explanation(
        "The upgrade controller finishes a node up to two minutes late.", _STATES
    ),
    Reason.POLICY_NOT_READY: Explanation("Some operand is not ready.", _POLICIES),
    Reason.NODES_PENDING: Explanation("Nodes reload one after another; about two minutes a node is normal.", _STATES),
    Reason.BREAKER_OPEN: Explanation(
        "So many nodes turned stale at once, and no reload of their drivers was seen, that a clock or the API is more "
        "likely to be wrong than they are. Compare the nodes' clocks and what the API says of their driver pods. Then "
        "close it, and all that is stale is restarted; else it closes at the time in the message.",
        "kubectl -n NAMESPACE annotate lease -l app.kubernetes.io/name=gpu-operator-post "
        f"{names.CLOSE_BREAKER_ANNOTATION}=$(date +%s) --overwrite",
    ),
    Reason.REFRESHED: Explanation("Every stale plugin came back on the loaded driver."),
    Reason.NOTHING_STALE: Explanation("Every plugin already ran on the loaded driver."),
    Reason.DRIVER_SETTLED: Explanation(
        "No plugin is installed yet, and whenAbsent is wait: what is installed next starts on a settled driver."
    ),
    Reason.HANDED_OVER: Explanation(
        "The follower has seen this very intent and serves each node as its driver settles; "
        "gpu-operator-post status shows how far it is."
    ),
    Reason.FOLLOWER_MISSING: Explanation(
        "hook.wait is handover, but no living follower has seen this intent. Look at its Deployment, or set "
        "hook.wait to complete.",
        "kubectl get leases,deployments -A -l app.kubernetes.io/name=gpu-operator-post",
    ),
    Reason.TIME_UP: Explanation(
        "The migration takes longer than this release may. Raise timeout (and the deployer's), then run the "
        "release again: it goes on where it stopped.",
        _STATES,
    ),
    Reason.STALLED: Explanation("The migration does not move; see the nodes below for what each waits for.", _STATES),
    Reason.PERMISSION_MISSING: Explanation(
        "Grant it (rbac.create, rbac.scope), then run the release again. If an admission policy refused it, its "
        "own words are in the message.",
        "kubectl auth can-i --list --as system:serviceaccount:NAMESPACE:SERVICEACCOUNT",
    ),
    Reason.UNAUTHORIZED: Explanation(
        "The API server does not accept the credentials; a ServiceAccount's token is renewed by the kubelet.",
        "kubectl auth whoami",
    ),
    Reason.API_UNREACHABLE: Explanation(
        "The API server did not answer, or refused in a way that trying again may mend; the Job tries again.",
        "kubectl get --raw /readyz",
    ),
    Reason.TERMINATED: Explanation("The run was told to stop; the next one goes on where it stopped."),
    Reason.LEASE_LOST: Explanation(
        "This follower could not renew its Lease for ten seconds, or another one holds it: it stops before both could "
        "act, and its container is started again. Once, while the API server restarts, is normal.",
        "kubectl get leases -A -l app.kubernetes.io/name=gpu-operator-post -o yaml",
    ),
}

EVENTS: Final[Mapping[EventReason, str]] = {
    EventReason.STALE_PLUGIN_RESTARTED: "A stale plugin on a settled node was restarted; on its DaemonSet, and on the "
    "Job, or the follower's Deployment.",
    EventReason.NODE_FAILED: "A node needs a person; the others are still served. On the Job, or the follower's "
    "Deployment.",
    EventReason.WAITING_FOR_DRIVER: "Where it stands while it waits, now and then; on the Job, or the follower's "
    "Deployment.",
    EventReason.BREAKER_CLOSED: "A follower's circuit breaker closed; on its Deployment and the DaemonSets.",
}


def remedy(reason: Reason, node: str = "", subject: str = "", stack: Stack = GPU_OPERATOR) -> str:
    """Say what a reason means and what to run, with the names of what it is about."""
    explanation = EXPLANATIONS[reason]
    meaning = explanation.meaning.format(**words(stack))
    if not explanation.command:
        return meaning
    namespace, _, name = subject.partition("/")
    about = {"node": node or "NODE", "namespace": namespace or "NAMESPACE", "name": name or "NAME"}
    return f"{meaning} Next: {command(explanation, stack, about)}"


def command(explanation: Explanation, stack: Stack, about: Mapping[str, str]) -> str:
    """Give the command to run next. A stack's own remedy is filled in first, and then names what it is about."""
    return explanation.command.format(**{**words(stack, about), **about})


def words(stack: Stack, about: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Give what sentences and commands call the parts of a driver stack."""
    prior = STACKS.get(stack.after, stack)
    providers = (provider.label for provider in stack.providers.values())
    return {
        "operator": stack.operator.title,
        "policy": stack.policy.kind,
        "policies": stack.policy.plural,
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
    """Give the one line that says how a run stands."""
    return f"{decision.verdict} ({decision.reason}): {decision.message}"


def in_need(decision: Decision) -> list[Judgement]:
    """List the nodes that a failing run must name, those that need a person first."""
    if not decision.unhappy:
        return []
    failed = [one for one in decision.judgements if one.state is NodeState.FAILED]
    calm = (NodeState.FAILED, NodeState.VERIFIED, NodeState.EXCLUDED)
    return failed + [one for one in decision.judgements if one.state not in calm]
