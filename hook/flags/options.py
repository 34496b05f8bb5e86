"""Flags in groups, for whichever command has them: names, defaults and help in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from hook.cluster.api import SERVICE_ACCOUNT_DIR
from hook.core.names import OWN_NAME
from hook.core.stacks import STACKS
from hook.flags.kinds import Bounded, Duration, as_text
from hook.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from enum import StrEnum


def _duration(flag: str, default: timedelta, text: str) -> Callable[[Any], Any]:
    return click.option(flag, type=Duration(), default=as_text(default), show_default=True, help=text)


def _choice(flag: str, default: StrEnum, text: str) -> Callable[[Any], Any]:
    values = click.Choice([one.value for one in type(default)])
    return click.option(flag, type=values, default=default.value, show_default=True, help=text)


WHERE: Final = (
    click.option(
        "--kubeconfig", default="", help="Kubeconfig file; default: the pod's ServiceAccount, else as kubectl."
    ),
    click.option("--context", default="", help="Context of the kubeconfig."),
    click.option(
        "--service-account-dir",
        default=SERVICE_ACCOUNT_DIR,
        show_default=True,
        help="Where the pod's token, ca.crt and namespace are mounted.",
    ),
)
WHAT: Final = (
    click.option(
        "--stack",
        "stacks",
        envvar="GPU_OPERATOR_POST_STACK",
        multiple=True,
        type=click.Choice(list(STACKS)),
        default=DEFAULTS.stacks,
        show_default=True,
        help="Driver stack to serve; repeatable.",
    ),
    click.option("--consumer-namespace", default="", help="Serve plugins of this namespace only; default: any."),
    click.option(
        "--consumer-name",
        "consumer_names",
        envvar="GPU_OPERATOR_POST_CONSUMER_NAME",
        multiple=True,
        metavar="[STACK:]NAME",
        help="Name of a plugin's DaemonSet, in place of the known ones; repeatable.",
    ),
    click.option(
        "--consumer",
        "consumers",
        envvar="GPU_OPERATOR_POST_CONSUMER",
        multiple=True,
        metavar="[STACK:]NAMESPACE/NAME|[STACK:]KEY=VALUE[,...]",
        help="Another DaemonSet that holds the driver, by name or by labels of its pods; repeatable.",
    ),
    click.option(
        "--provider",
        "providers",
        envvar="GPU_OPERATOR_POST_PROVIDER",
        multiple=True,
        type=click.Choice(sorted({name for stack in STACKS.values() for name in stack.providers})),
        help="What a plugin must have started after beside the driver; repeatable.",
    ),
    click.option(
        "--namespace",
        "namespaces",
        envvar="GPU_OPERATOR_POST_NAMESPACE",
        multiple=True,
        help="Read namespaced objects only here (RBAC scope namespace); repeatable; default: everywhere.",
    ),
    click.option("--expect-chart-version", default="", help="Operator chart version that must be seen first."),
    click.option("--expect-driver-version", default="", help="Driver version that must be seen first."),
    _choice(
        "--when-absent",
        DEFAULTS.when_absent,
        "While no plugin is installed: skip, or wait until the driver has settled.",
    ),
    _choice(
        "--when-manual", DEFAULTS.when_manual, "Nodes with an outdated driver that nobody rotates (autoUpgrade off)."
    ),
)
TIMES: Final = (
    _duration(
        "--timeout", DEFAULTS.timeout, "For the whole run, from the Job's start; a margin is kept for reporting."
    ),
    _duration("--stall-timeout", DEFAULTS.stall_timeout, "Give up when no node advanced for so long; 0s: never."),
    _duration("--plugin-timeout", DEFAULTS.plugin_timeout, "For one plugin on a settled node to become verified."),
    _duration("--operator-quiet", DEFAULTS.operator_quiet, "Quiet needed after the operator's last change."),
    _duration("--unknown-operator-quiet", DEFAULTS.unknown_operator_quiet, "The same where no operator can be found."),
    _duration("--policy-grace", DEFAULTS.policy_grace, "How long a policy that is not ready may hold back the end."),
    _duration("--failed-grace", DEFAULTS.failed_grace, "How long a failed driver upgrade may take to clear by itself."),
    _duration("--not-ready-grace", DEFAULTS.not_ready_grace, "How long a NotReady node is waited for."),
    _duration("--api-patience", DEFAULTS.api_patience, "How long the API server may be out of reach at the start."),
)
HOW: Final = (
    _choice("--on-deadline", DEFAULTS.on_deadline, "When the time is up: exit 124, or report and exit 0."),
    _choice(
        "--strategy",
        DEFAULTS.strategy,
        "Delete stale pods, or restart the DaemonSet's rollout once all nodes are settled.",
    ),
    click.option(
        "--max-parallel-restarts",
        type=click.IntRange(min=0),
        default=DEFAULTS.max_parallel_restarts,
        show_default=True,
        help="Plugins that may be down at once because of us; 0: no bound.",
    ),
    click.option(
        "--max-unavailable",
        type=Bounded(),
        default=None,
        help="Plugins that may be down at once, whoever took them down; of a percentage, at least one.",
    ),
    _choice("--wait", DEFAULTS.wait, "Until all is done, or until a follower has seen what is to be done."),
    click.option("--follow", is_flag=True, help="Never end: serve every reload, whatever caused it."),
    _duration(
        "--restart-backoff",
        DEFAULTS.restart_backoff,
        "Following: pause after a restart that did not help; twice as long each time.",
    ),
    _duration("--restart-backoff-max", DEFAULTS.restart_backoff_max, "Following: the longest of these pauses."),
    click.option(
        "--breaker-share",
        type=Bounded(),
        default=str(DEFAULTS.breaker_share),
        show_default=True,
        help="Following: stop when more nodes turn stale within a minute without a reload; 0 or 100%: never.",
    ),
    _duration(
        "--breaker-reset",
        DEFAULTS.breaker_reset,
        "Following: continue so long after that; 0s: only after a restart of the controller.",
    ),
    click.option("--dry-run", is_flag=True, help="Decide once and report; write nothing."),
    click.option(
        "--job-name", default="", help="Our own Job: its start begins the timeout, its events tell the story."
    ),
    click.option("--job-namespace", default="", help="Namespace of our own Job; default: the ServiceAccount's."),
    click.option(
        "--regarding",
        envvar="GPU_OPERATOR_POST_REGARDING",
        multiple=True,
        metavar="RESOURCE.GROUP/NAMESPACE/NAME",
        help="An object of the deployer's, such as a HelmRelease, whose events tell failures too; repeatable.",
    ),
    click.option(
        "--termination-log",
        default="/dev/termination-log",
        show_default=True,
        help="Where the kubelet reads the termination message; skipped where it does not exist.",
    ),
)
FOLLOW: Final = (
    click.option(
        "--lease-name",
        default=OWN_NAME,
        show_default=True,
        help="Following, or handing over: the Lease that tells which follower acts.",
    ),
    click.option("--lease-namespace", default="", help="Its namespace; default: the ServiceAccount's."),
    click.option(
        "--identity", default="", help="Following: what the Lease calls this process; default: host name and chance."
    ),
    click.option(
        "--workload-name",
        default="",
        help="Following: our own Deployment, beside the Lease: its events tell the story.",
    ),
    click.option(
        "--listen",
        default=":8080",
        show_default=True,
        metavar="[HOST]:PORT",
        help="Following: where metrics and health are served.",
    ),
)
PLAN: Final = (
    click.option(
        "--target-window",
        type=Duration(),
        metavar="DURATION",
        help="Also say how many nodes at once would be done within so long.",
    ),
    click.option(
        "--workloads/--no-workloads",
        default=True,
        show_default=True,
        help="Read the cluster's pods, to find those with GPUs that would not be evicted.",
    ),
)
LOGGING: Final = (
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True),
    click.option("-v", "--verbose", is_flag=True, help="Also tell what is read."),
)


def flags(*groups: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    """Add groups of flags to a command, in this order."""

    def add(command: Any) -> Any:  # noqa: ANN401 - click's decorators are typed so
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add
