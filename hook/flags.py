"""The command line's flags, once for all commands: names, defaults and help in one place."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from hook.cluster.api import SERVICE_ACCOUNT_DIR
from hook.errors import SettingsError
from hook.settings import OnDeadline, Settings, Strategy, WhenManual

if TYPE_CHECKING:
    from collections.abc import Callable

_DURATION: Final = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
LONGEST_SECONDS: Final = 30 * 24 * 3600
"""No driver migration takes a month; a longer time is a typing error."""
DEFAULTS: Final = Settings()


def as_text(duration: timedelta) -> str:
    """Write a duration as flags have it: ``1h30m``, ``90s`` becomes ``1m30s``."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


class Duration(click.ParamType[timedelta]):
    """A duration with its units, as Helm and Kubernetes write them."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:  # noqa: ANN401
        """Read ``25m``, ``90s`` or ``1h30m``; a bare number is ambiguous and refused."""
        if isinstance(value, timedelta):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration; write it with units, such as 25m, 90s or 1h30m", param, ctx)
        hours, minutes, seconds = (int(part or 0) for part in found.groups())
        total = hours * 3600 + minutes * 60 + seconds
        if total > LONGEST_SECONDS:
            self.fail(f"{value!r} is longer than 30 days", param, ctx)
        return timedelta(seconds=total)


def _duration(flag: str, default: timedelta, text: str) -> Callable[[Any], Any]:
    return click.option(flag, type=Duration(), default=as_text(default), show_default=True, help=text)


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
    click.option("--consumer-namespace", default="", help="Serve plugins of this namespace only; default: any."),
    click.option(
        "--consumer-name",
        "consumer_names",
        envvar="GPU_OPERATOR_POST_CONSUMER_NAME",
        multiple=True,
        default=DEFAULTS.consumer_names,
        show_default=True,
        help="Name of a plugin's DaemonSet; repeatable.",
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
    click.option(
        "--when-manual",
        type=click.Choice([one.value for one in WhenManual]),
        default=DEFAULTS.when_manual.value,
        show_default=True,
        help="Nodes with an outdated driver that nobody rotates (autoUpgrade off).",
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
    click.option(
        "--on-deadline",
        type=click.Choice([one.value for one in OnDeadline]),
        default=DEFAULTS.on_deadline.value,
        show_default=True,
        help="When the time is up: exit 124, or report and exit 0.",
    ),
    click.option(
        "--strategy",
        type=click.Choice([one.value for one in Strategy]),
        default=DEFAULTS.strategy.value,
        show_default=True,
        help="Delete stale pods, or restart the DaemonSet's rollout once all nodes are settled.",
    ),
    click.option(
        "--max-parallel-restarts",
        type=click.IntRange(min=0),
        default=DEFAULTS.max_parallel_restarts,
        show_default=True,
        help="Plugins that may be down at once because of us; 0: no bound.",
    ),
    click.option("--dry-run", is_flag=True, help="Decide once and report; write nothing."),
    click.option(
        "--job-name", default="", help="Our own Job: its start begins the timeout, its events tell the story."
    ),
    click.option("--job-namespace", default="", help="Namespace of our own Job; default: the ServiceAccount's."),
    click.option(
        "--termination-log",
        default="/dev/termination-log",
        show_default=True,
        help="Where the kubelet reads the termination message; skipped where it does not exist.",
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


def settings_from(values: dict[str, Any]) -> Settings:
    """Build settings from parsed flags; what a command does not have keeps its default."""
    enums = {"on_deadline": OnDeadline, "strategy": Strategy, "when_manual": WhenManual}
    known: dict[str, Any] = {
        key: enums[key](value) if key in enums else value
        for key, value in values.items()
        if key in Settings.__dataclass_fields__
    }
    for name in ("timeout", "plugin_timeout"):
        if not known.get(name, getattr(DEFAULTS, name)):
            raise SettingsError(f"--{name.replace('_', '-')} must be longer than 0s")
    return Settings(**known)
