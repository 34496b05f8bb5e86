"""The command line's flags, once for all commands: names, defaults and help in one place."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import click

from hook.cluster.api import SERVICE_ACCOUNT_DIR
from hook.core.names import OWN_NAME
from hook.core.stacks import STACKS
from hook.errors import SettingsError
from hook.settings import Bound, OnDeadline, Settings, Wait, WaitFor, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

_DURATION: Final = re.compile(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
LONGEST_SECONDS: Final = 30 * 24 * 3600
"""No driver migration takes a month; a longer time is a typing error."""
DEFAULTS: Final = Settings()
_BOUND: Final = re.compile(r"([0-9]{1,6})(%?)")
"""K8S ``intstr``, as ``maxUnavailable`` of a DaemonSet has it; no fleet has a million nodes."""
WHOLE: Final = 100
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""K8S ``apimachinery/pkg/util/validation``, DNS-1123 subdomain."""
_LABEL: Final = re.compile(
    r"(?P<key>([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)"
    r"==?(?P<value>([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?)"
)
"""Same source: a qualified name, and a label's value."""


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


class Bounded(click.ParamType[Bound]):
    """A number of plugins, or a percentage of them."""

    name = "number|percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bound:  # noqa: ANN401
        """Read ``3`` or ``25%``."""
        if isinstance(value, Bound):
            return value
        found = _BOUND.fullmatch(str(value))
        if found is None or (found[2] and int(found[1]) > WHOLE):
            self.fail(f"{value!r} is neither a number nor a percentage up to 100%, such as 3 or 25%", param, ctx)
        return Bound(int(found[1]), percent=bool(found[2]))


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
        "--wait-for",
        DEFAULTS.wait_for,
        "Judge each node, or believe the policy's own status (which lies) and read nothing else.",
    ),
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
        "--breaker-reset", DEFAULTS.breaker_reset, "Following: go on so long after that; 0s: only a person says so."
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


def settings_from(values: dict[str, Any]) -> Settings:
    """Build settings from parsed flags; what a command does not have keeps its default."""
    enums = {
        name: type(value)
        for name in Settings.__dataclass_fields__
        if isinstance(value := getattr(DEFAULTS, name), StrEnum)
    }
    known: dict[str, Any] = {
        key: enums[key](value) if key in enums else value
        for key, value in values.items()
        if key in Settings.__dataclass_fields__
    }
    for name in ("timeout", "plugin_timeout"):
        if not known.get(name, getattr(DEFAULTS, name)):
            raise SettingsError(f"--{name.replace('_', '-')} must be longer than 0s")
    first = known.get("stacks", DEFAULTS.stacks)[0]
    known["consumer_names"] = tuple(_named(text, first) for text in known.get("consumer_names", ()))
    known["consumers"] = tuple(_consumer(text, first) for text in known.get("consumers", ()))
    settings = Settings(**known)
    _refuse_what_does_not_follow(settings)
    if stray := sorted({one.stack for one in (*settings.consumer_names, *settings.consumers)} - set(settings.stacks)):
        raise SettingsError(f"a consumer is named for stack {stray[0]}, which is not among --stack")
    _refuse_what_has_no_effect(settings)
    return settings


def _refuse_what_does_not_follow(settings: Settings) -> None:
    """Refuse what contradicts a run that never ends; and what counts for such a run alone, in any other."""
    if settings.max_unavailable is not None and not settings.max_unavailable.value:
        raise SettingsError("--max-unavailable 0 would restart nothing at all")
    if not settings.restart_backoff or settings.restart_backoff > settings.restart_backoff_max:
        raise SettingsError("--restart-backoff must be longer than 0s, and no longer than --restart-backoff-max")
    contradictions = {
        "--wait handover: it is the follower that is handed over to": settings.wait is Wait.HANDOVER,
        "--dry-run, which decides once; use status": settings.dry_run,
        "--on-deadline: it has no deadline": settings.on_deadline is not OnDeadline.FAIL,
        "--expect-chart-version: it serves whatever is asked for": bool(settings.expect_chart_version),
        "--expect-driver-version: it serves whatever is asked for": bool(settings.expect_driver_version),
        "--wait-for policy-ready: each time the policy is ready again, every plugin would look stale": (
            settings.wait_for is WaitFor.POLICY_READY
        ),
    }
    if settings.follow and (told := next((text for text, given in contradictions.items() if given), "")):
        raise SettingsError(f"--follow goes without {told}")
    alone = ("restart_backoff", "restart_backoff_max", "breaker_share", "breaker_reset")
    given = [name for name in alone if getattr(settings, name) != getattr(DEFAULTS, name)]
    if given and not settings.follow:
        raise SettingsError(f"--{given[0].replace('_', '-')} counts with --follow only")


def _refuse_what_has_no_effect(settings: Settings) -> None:
    """Refuse settings that a run would silently ignore: who set them relies on them."""
    chosen = [STACKS[name] for name in settings.stacks]
    for provider in settings.providers:
        if not any(provider in stack.providers for stack in chosen):
            raise SettingsError(f"--provider {provider} belongs to no chosen --stack")
    if settings.expect_chart_version and not any(stack.policy.carries_chart for stack in chosen):
        raise SettingsError("--expect-chart-version: no policy of the chosen --stack says which chart it comes from")
    if settings.wait_for is WaitFor.POLICY_READY:
        if settings.providers:
            raise SettingsError("--wait-for policy-ready looks at no node, so --provider cannot be waited for")
        if silent := next((stack for stack in chosen if not stack.policy.tells_since), None):
            raise SettingsError(f"--wait-for policy-ready: a {silent.policy.kind} does not say since when it is ready")


def _named(text: str, first: str) -> Wanted:
    """Read a DaemonSet's name, with the stack that it belongs to."""
    stack, name = _stack_and_rest(text, first)
    if not _NAME.fullmatch(name):
        raise SettingsError(f"--consumer-name {text!r} is no name of a DaemonSet")
    return Wanted(stack=stack, name=name)


def _consumer(text: str, first: str) -> Wanted:
    """Read another consumer: ``namespace/name``, or labels of its pod template."""
    stack, rest = _stack_and_rest(text, first)
    namespace, _, name = rest.partition("/")
    if _NAME.fullmatch(namespace) and _NAME.fullmatch(name):
        return Wanted(stack=stack, namespace=namespace, name=name)
    pairs = tuple(_LABEL.fullmatch(pair) for pair in rest.split(","))
    labels = tuple((found["key"], found["value"]) for found in pairs if found is not None)
    if not rest or len(labels) != len(pairs):
        raise SettingsError(f"--consumer {text!r} is neither NAMESPACE/NAME nor KEY=VALUE[,KEY=VALUE]")
    return Wanted(stack=stack, labels=labels)


def _stack_and_rest(text: str, first: str) -> tuple[str, str]:
    before, colon, rest = text.partition(":")
    if not colon:
        return first, text
    if before not in STACKS:
        raise SettingsError(f"{text!r} names no driver stack before the colon; known are {', '.join(STACKS)}")
    return before, rest
