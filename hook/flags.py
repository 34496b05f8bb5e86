"""Command-line flags, and the types of their values."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from hook.config import DEFAULTS
from hook.format import Bound, as_text
from hook.kube.client import SERVICE_ACCOUNT_DIR
from hook.objects.drivers import STACKS
from hook.objects.names import OWN_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

_DURATION: Final = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
LONGEST_SECONDS: Final = 30 * 24 * 3600
"""No driver upgrade takes a month; a longer time is a typing error."""
_BOUND: Final = re.compile(r"([0-9]{1,6})(%?)")
"""K8S ``intstr``, like ``maxUnavailable`` of a DaemonSet; no fleet has a million nodes."""
WHOLE: Final = 100


class Duration(click.ParamType[timedelta]):
    """A duration with units, like those of Helm and Kubernetes."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ANN401
        """Parse ``25m``, ``90s`` or ``1h30m``; refuse a number without a unit."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration; use units, such as 25m, 90s or 1h30m", param, ctx)
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        total = hours * 3600 + minutes * 60 + seconds
        if total > LONGEST_SECONDS:
            self.fail(f"{value!r} is longer than 30 days", param, ctx)
        return timedelta(seconds=total)


class Bounded(click.ParamType[Bound]):
    """A number of plugins, or a percentage of them."""

    name = "number|percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bound:  # noqa: ANN401
        """Parse ``3`` or ``25%``."""
        if isinstance(value, Bound):
            return value
        found = _BOUND.fullmatch(str(value))
        if found is None or (found[2] and int(found[1]) > WHOLE):
            self.fail(f"{value!r} is neither a number nor a percentage up to 100%, such as 3 or 25%", param, ctx)
        return Bound(int(found[1]), percent=bool(found[2]))


def _duration(flag: str, default: timedelta, text: str) -> Callable[[Any], Any]:
    return click.option(flag, type=Duration(), default=as_text(default), show_default=True, help=text)


def _choice(flag: str, default: StrEnum, text: str) -> Callable[[Any], Any]:
    values = click.Choice([choice.value for choice in type(default)])
    return click.option(flag, type=values, default=default.value, show_default=True, help=text)


WHERE: Final = (
    click.option(
        "--kubeconfig", default="", help="Kubeconfig file; default: the pod's ServiceAccount, else like kubectl."
    ),
    click.option("--context", default="", help="Context in the kubeconfig."),
    click.option(
        "--service-account-dir",
        default=SERVICE_ACCOUNT_DIR,
        show_default=True,
        help="Folder with the pod's token, ca.crt and namespace.",
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
        help="Driver stack whose plugins are refreshed; repeatable.",
    ),
    click.option("--consumer-namespace", default="", help="Namespace of the plugins; default: any."),
    click.option(
        "--consumer-name",
        "consumer_names",
        envvar="GPU_OPERATOR_POST_CONSUMER_NAME",
        multiple=True,
        metavar="[STACK:]NAME",
        help="Name of a plugin's DaemonSet, instead of the known names; repeatable.",
    ),
    click.option(
        "--consumer",
        "consumers",
        envvar="GPU_OPERATOR_POST_CONSUMER",
        multiple=True,
        metavar="[STACK:]NAMESPACE/NAME|[STACK:]KEY=VALUE[,...]",
        help="Another DaemonSet with driver clients, by name or by labels of its pods; repeatable.",
    ),
    click.option(
        "--provider",
        "providers",
        envvar="GPU_OPERATOR_POST_PROVIDER",
        multiple=True,
        type=click.Choice(sorted({name for stack in STACKS.values() for name in stack.prerequisites})),
        help="What a plugin must start after, in addition to the driver; repeatable.",
    ),
    click.option(
        "--namespace",
        "namespaces",
        envvar="GPU_OPERATOR_POST_NAMESPACE",
        multiple=True,
        help="Read namespaced objects only in this namespace (RBAC scope namespace); repeatable; default: all.",
    ),
    click.option("--expect-chart-version", default="", help="Operator chart version to wait for."),
    click.option("--expect-driver-version", default="", help="Driver version to wait for."),
    _choice(
        "--when-absent",
        DEFAULTS.on_missing_plugin,
        "If no plugin is installed: skip, or wait until the driver has settled.",
    ),
    _choice(
        "--when-manual",
        DEFAULTS.on_manual_upgrade,
        "What to do about nodes with an outdated driver that nothing upgrades (autoUpgrade off).",
    ),
)
TIMES: Final = (
    _duration(
        "--timeout", DEFAULTS.timeout, "Limit of the whole run, from the Job's start, including a margin to report."
    ),
    _duration("--stall-timeout", DEFAULTS.stall_timeout, "Give up if no node advances for so long; 0s: never."),
    _duration("--plugin-timeout", DEFAULTS.plugin_timeout, "Limit for a plugin on a settled node to become verified."),
    _duration("--operator-quiet", DEFAULTS.operator_quiet, "Time without a change of the operator before done."),
    _duration("--unknown-operator-quiet", DEFAULTS.unknown_operator_quiet, "The same where no operator is found."),
    _duration("--policy-grace", DEFAULTS.policy_grace, "How long a policy that is not ready may delay done."),
    _duration("--failed-grace", DEFAULTS.failed_grace, "How long a failed driver upgrade may take to clear by itself."),
    _duration("--not-ready-grace", DEFAULTS.not_ready_grace, "How long to wait for a NotReady node."),
    _duration("--api-patience", DEFAULTS.api_patience, "How long the API server may be unreachable at the start."),
)
HOW: Final = (
    _choice("--on-deadline", DEFAULTS.on_deadline, "When the time is up: exit 124, or report and exit 0."),
    _choice(
        "--strategy",
        DEFAULTS.strategy,
        "Delete stale pods, or restart the rollout of the DaemonSet when all nodes are settled.",
    ),
    click.option(
        "--max-parallel-restarts",
        type=click.IntRange(min=0),
        default=DEFAULTS.max_parallel_restarts,
        show_default=True,
        help="Plugins that may be down at once because of these restarts; 0: no bound.",
    ),
    click.option(
        "--max-unavailable",
        type=Bounded(),
        default=None,
        help="Plugins that may be down at once for any cause; a percentage means at least one.",
    ),
    _choice("--wait", DEFAULTS.wait, "Until all plugins are verified, or until the controller has taken over."),
    click.option("--follow", is_flag=True, help="Run as controller: never end, and refresh after every reload."),
    _duration(
        "--restart-backoff",
        DEFAULTS.restart_backoff,
        "Controller: pause after a restart that did not help; doubled after each further one.",
    ),
    _duration("--restart-backoff-max", DEFAULTS.restart_backoff_max, "Controller: the longest of these pauses."),
    click.option(
        "--breaker-share",
        type=Bounded(),
        default=str(DEFAULTS.breaker_share),
        show_default=True,
        help="Controller: stop if more nodes become stale within a minute without a reload; 0 or 100%: never.",
    ),
    _duration("--breaker-reset", DEFAULTS.breaker_reset, "Controller: continue after this time; 0s: after a restart."),
    click.option("--dry-run", is_flag=True, help="Evaluate once and report; write nothing."),
    click.option(
        "--job-name", default="", help="Name of this program's Job: the timeout begins at its start, Events go there."
    ),
    click.option("--job-namespace", default="", help="Namespace of that Job; default: the ServiceAccount's."),
    click.option(
        "--regarding",
        envvar="GPU_OPERATOR_POST_REGARDING",
        multiple=True,
        metavar="RESOURCE.GROUP/NAMESPACE/NAME",
        help="An object of the deployment tool, such as a HelmRelease, that also gets Events; repeatable.",
    ),
    click.option(
        "--termination-log",
        default="/dev/termination-log",
        show_default=True,
        help="File for the termination message; skipped if it does not exist.",
    ),
)
FOLLOW: Final = (
    click.option(
        "--lease-name",
        default=OWN_NAME,
        show_default=True,
        help="Controller, or --wait handover: name of the controller's Lease.",
    ),
    click.option("--lease-namespace", default="", help="Namespace of the Lease; default: the ServiceAccount's."),
    click.option(
        "--identity", default="", help="Controller: leader-election identity; default: host name and a random part."
    ),
    click.option(
        "--workload-name",
        default="",
        help="Controller: name of its Deployment, in the namespace of the Lease: Events go there.",
    ),
    click.option(
        "--listen",
        default=":8080",
        show_default=True,
        metavar="[HOST]:PORT",
        help="Controller: address of metrics and health checks.",
    ),
)
PLAN: Final = (
    click.option(
        "--target-window",
        type=Duration(),
        metavar="DURATION",
        help="Also show how many nodes at once finish within this time.",
    ),
    click.option(
        "--workloads/--no-workloads",
        default=True,
        show_default=True,
        help="Read all pods, to find those with GPUs that cannot be evicted.",
    ),
)
LOGGING: Final = (
    click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True),
    click.option("-v", "--verbose", is_flag=True, help="Enable debug logging."),
)


def flags(*groups: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    """Add groups of flags to a command, in this order."""

    def add(command: Any) -> Any:  # noqa: ANN401 - click's decorators are typed so
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return add
