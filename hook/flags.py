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
        "--driver",
        "stacks",
        envvar="GPU_OPERATOR_POST_DRIVER",
        multiple=True,
        type=click.Choice(list(STACKS)),
        default=DEFAULTS.stacks,
        show_default=True,
        help="Driver whose plugins are refreshed; repeatable.",
    ),
    click.option("--plugin-namespace", default="", help="Namespace of the plugins; default: any."),
    click.option(
        "--plugin-name",
        "plugin_names",
        envvar="GPU_OPERATOR_POST_PLUGIN_NAME",
        multiple=True,
        metavar="[DRIVER:]NAME",
        help="Name of a plugin's DaemonSet, instead of the known names; repeatable.",
    ),
    click.option(
        "--driver-client",
        "plugins",
        envvar="GPU_OPERATOR_POST_DRIVER_CLIENT",
        multiple=True,
        metavar="[DRIVER:]NAMESPACE/NAME|[DRIVER:]KEY=VALUE[,...]",
        help="Another DaemonSet with driver clients, by name or by labels of its pods; repeatable.",
    ),
    click.option(
        "--refresh-after",
        "prerequisites",
        envvar="GPU_OPERATOR_POST_REFRESH_AFTER",
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
    _choice(
        "--on-missing-plugin",
        DEFAULTS.on_missing_plugin,
        "If no plugin is installed: skip, or wait until the driver has settled.",
    ),
    _choice(
        "--on-manual-upgrade",
        DEFAULTS.on_manual_upgrade,
        "What to do about nodes with an outdated driver that nothing upgrades (autoUpgrade off).",
    ),
)
EXPECTED: Final = (
    click.option("--expect-chart-version", default="", help="Operator chart version to wait for."),
    click.option("--expect-driver-version", default="", help="Driver version to wait for."),
)
LIMITS: Final = (
    _duration(
        "--timeout", DEFAULTS.timeout, "Limit of the whole run, from the Job's start, including a margin to report."
    ),
    _duration("--stall-timeout", DEFAULTS.stall_timeout, "Give up if no node advances for so long; 0s: never."),
    _duration("--api-patience", DEFAULTS.api_patience, "How long the API server may be unreachable at the start."),
    _choice("--on-deadline", DEFAULTS.on_deadline, "When the time is up: exit 124, or report and exit 0."),
)
TIMES: Final = (
    _duration("--plugin-timeout", DEFAULTS.plugin_timeout, "Limit for a plugin on a settled node to become verified."),
    _duration("--operator-quiet", DEFAULTS.operator_quiet, "Time without a change of the operator before done."),
    _duration("--unknown-operator-quiet", DEFAULTS.unknown_operator_quiet, "The same where no operator is found."),
    _duration("--policy-grace", DEFAULTS.policy_grace, "How long a policy that is not ready may delay done."),
    _duration("--failed-grace", DEFAULTS.failed_grace, "How long a failed driver upgrade may take to clear by itself."),
    _duration("--not-ready-grace", DEFAULTS.not_ready_grace, "How long to wait for a NotReady node."),
)
RESTARTS: Final = (
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
)
JOB: Final = (
    _choice("--mode", DEFAULTS.mode, "Wait until all plugins are verified, or delegate to the controller."),
    click.option("--dry-run", is_flag=True, help="Evaluate once and report; write nothing."),
    click.option(
        "--job-name", default="", help="Name of this program's Job: the timeout begins at its start, Events go there."
    ),
    click.option("--job-namespace", default="", help="Namespace of that Job; default: the ServiceAccount's."),
    click.option(
        "--event-target",
        "event_targets",
        envvar="GPU_OPERATOR_POST_EVENT_TARGET",
        multiple=True,
        metavar="RESOURCE.GROUP/NAMESPACE/NAME",
        help="An object of the deployment tool, such as a HelmRelease, that also gets Events; repeatable.",
    ),
)
CONTROLLER: Final = (
    _duration(
        "--restart-backoff",
        DEFAULTS.restart_backoff,
        "Pause after a restart that did not help; doubled after each further one.",
    ),
    _duration("--restart-backoff-max", DEFAULTS.restart_backoff_max, "The longest of these pauses."),
    click.option(
        "--circuit-breaker-threshold",
        type=Bounded(),
        default=str(DEFAULTS.circuit_breaker_threshold),
        show_default=True,
        help="Stop if more nodes become stale within a minute without a reload; 0 or 100%: never.",
    ),
    _duration(
        "--circuit-breaker-reset", DEFAULTS.circuit_breaker_reset, "Continue after this time; 0s: after a restart."
    ),
    click.option("--identity", default="", help="Leader-election identity; default: host name and a random part."),
    click.option(
        "--workload-name",
        default="",
        help="Name of the controller's Deployment, in the namespace of the Lease: Events go there.",
    ),
    click.option(
        "--listen",
        default=":8080",
        show_default=True,
        metavar="[HOST]:PORT",
        help="Address of metrics and health checks.",
    ),
)
POD: Final = (
    click.option("--lease-name", default=OWN_NAME, show_default=True, help="Name of the controller's Lease."),
    click.option("--lease-namespace", default="", help="Namespace of the Lease; default: the ServiceAccount's."),
    click.option(
        "--termination-log",
        default="/dev/termination-log",
        show_default=True,
        help="File for the termination message; skipped if it does not exist.",
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
