"""Settings of the program: the type, default and bounds of each one. ``values.yaml`` of the chart documents them.

The chart's values have the same names and paths, and ``values.schema.json`` has the same rules.
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta, Struct

from hook.errors import SettingsError
from hook.format import Bound
from hook.objects.stacks import STACKS, StackName

if TYPE_CHECKING:
    from collections.abc import Iterator


class Duration(timedelta):
    """A duration, which users write with units: ``25m``, ``90s`` or ``1h30m``."""


class OnDeadline(StrEnum):
    """Which exit code a run ends with when the time is up."""

    FAIL = "fail"
    REPORT = "report"


class OnManualUpgrade(StrEnum):
    """What to do about nodes whose driver pods nothing rotates (``autoUpgrade: false``)."""

    REPORT = "report"
    WAIT = "wait"
    FAIL = "fail"


class LogFormat(StrEnum):
    """Format of the log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Least important messages in the log."""

    INFO = "info"
    DEBUG = "debug"


_DNS_LABEL: Final = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_QUALIFIED: Final = "[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
Name = Annotated[str, Meta(pattern=rf"^{_SUBDOMAIN}\Z", max_length=253)]
"""K8S ``apimachinery/pkg/util/validation``: DNS-1123 subdomain. The patterns below have the same source."""
NameOrNone = Annotated[str, Meta(pattern=rf"^({_SUBDOMAIN})?\Z", max_length=253)]
NamespaceOrAny = Annotated[str, Meta(pattern=rf"^({_DNS_LABEL})?\Z")]
LabelKey = Annotated[str, Meta(pattern=rf"^({_SUBDOMAIN}/)?{_QUALIFIED}\Z")]
LabelValue = Annotated[str, Meta(pattern=rf"^({_QUALIFIED})?\Z")]


class Section(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the settings. Users write its fields in camelCase."""


class Expect(Section, frozen=True):
    """What the policy must show before nodes are evaluated. Empty: anything."""

    chart_version: str = ""
    driver_version: str = ""


class Plugin(Section, frozen=True):
    """The plugins that are refreshed. Empty: those that the stack knows, in any namespace."""

    namespace: NamespaceOrAny = ""
    names: tuple[Name, ...] = ()


class DriverClient(Section, frozen=True):
    """DaemonSets that hold the driver: one by name, or several by labels of their pod template."""

    namespace: NamespaceOrAny = ""
    name: NameOrNone = ""
    labels: dict[LabelKey, LabelValue] = {}

    def __str__(self) -> str:
        labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
        return labels or f"{self.namespace}/{self.name}"


class AffectedWorkloads(Section, frozen=True):
    """The report of pods that may hold files of an old driver."""

    enabled: bool = True


class DeviceTaints(Section, frozen=True):
    """Whether new claims are kept away from devices while their node is not verified."""

    enabled: bool = False


class ControllerLimits(Section, frozen=True):
    """Limits of the controller."""

    max_unavailable: Bound = Bound("25%")


class Advanced(Section, frozen=True):
    """Times that follow from the operators and from Kubernetes. Only tests change them."""

    operator_quiet: Duration = Duration(seconds=15)
    """How long the operator's leader and the driver's revisions must be unchanged.

    A new operator renders about one Lease duration after the old one (measured: 22 s after the first render, 0.7 s
    after acquiring the Lease).
    """
    unknown_operator_quiet: Duration = Duration(seconds=60)
    """The same where no Deployment or Lease of the operator is found, as under OLM."""
    policy_grace: Duration = Duration(minutes=2)
    """How long a ``notReady`` policy may delay the end of a run.

    The upgrade controller requeues every 2 minutes. With a skipped or lost node, some policies stay notReady.
    """
    api_patience: Duration = Duration(minutes=1)
    """How long the API server may be unreachable at the start. Then the Job starts another pod."""
    restart_backoff: Duration = Duration(minutes=1)
    """Pause between two restarts of a plugin that does not become verified. It doubles after each restart."""
    restart_backoff_max: Duration = Duration(hours=1)
    """The longest of these pauses, and the longest wait after an administrator has fixed the cause."""


class Settings(Section, frozen=True):
    """Everything that a decision depends on in addition to the cluster."""

    is_controller: ClassVar[bool] = False
    """A controller runs without an end. A node that requires manual action does not delay the others."""

    stack: StackName = StackName.GPU
    timeout: Duration = Duration(minutes=25)
    plugin_timeout: Duration = Duration(minutes=5)
    node_timeout: Duration = Duration(minutes=5)
    """Kubernetes evicts from a NotReady node after 300 s. A failed driver upgrade cleared by itself after 240 s."""
    on_deadline: OnDeadline = OnDeadline.FAIL
    expect: Expect = Expect()
    plugin: Plugin = Plugin()
    driver_clients: tuple[DriverClient, ...] = ()
    refresh_after: tuple[str, ...] = ()
    max_parallel_restarts: Annotated[int, Meta(ge=0)] = 0
    on_manual_upgrade: OnManualUpgrade = OnManualUpgrade.REPORT
    dry_run: bool = False
    log_format: LogFormat = LogFormat.TEXT
    log_level: LogLevel = LogLevel.INFO
    affected_workloads: AffectedWorkloads = AffectedWorkloads()
    device_taints: DeviceTaints = DeviceTaints()
    controller: ControllerLimits = ControllerLimits()
    advanced: Advanced = Advanced()


class ControllerSettings(Settings, frozen=True):
    """The same settings, for the controller."""

    is_controller: ClassVar[bool] = True


def settings_from(values: object, *, controller: bool = False) -> Settings:
    """Build settings from plain values. Raises SettingsError with the path of the first mistake."""
    try:
        settings = msgspec.convert(values, ControllerSettings if controller else Settings, dec_hook=_read)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        # The second one is for half of a surrogate pair, which YAML can write and no setting can contain.
        raise SettingsError(str(error)) from error
    for mistake in _contradictions(settings):
        raise SettingsError(mistake)
    return settings


def _read(kind: type[Any], value: object) -> object:
    return duration(value) if kind is Duration else bound(value)


_DURATION: Final = re.compile("(?=[0-9])(?:([0-9]{1,5})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,5})s)?")
_BOUND: Final = re.compile("[1-9][0-9]{0,5}|[1-9][0-9]?%|100%")
"""K8S ``intstr``, like ``maxUnavailable`` of a DaemonSet; no fleet has a million nodes."""


def duration(value: object) -> Duration:
    """Read ``25m``, ``90s`` or ``1h30m``; refuse a number without a unit. Raises ValueError."""
    if isinstance(value, Duration):
        return value
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{_quoted(value)} is not a duration; use units, such as 25m, 90s or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return Duration(hours=hours, minutes=minutes, seconds=seconds)


def bound(value: object) -> Bound:
    """Read ``3`` or ``25%``. Raises ValueError."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not _BOUND.fullmatch(text):
        raise ValueError(f"{_quoted(value)} is neither a number above 0 nor a percentage, such as 3 or 25%")
    return Bound(text)


LONGEST_VALUE: Final = 80
"""Characters of a wrong value in a message."""


def _quoted(value: object) -> str:
    return f'"{value[:LONGEST_VALUE]}"' if isinstance(value, str) else "this"


def _contradictions(settings: Settings) -> Iterator[str]:
    """Yield what would restart nothing, restart too often, or have no effect although users rely on it."""
    if not settings.timeout or not settings.plugin_timeout or not settings.advanced.restart_backoff:
        yield "timeout, pluginTimeout and advanced.restartBackoff must be longer than 0s"
    if settings.is_controller and settings.dry_run:
        yield "dryRun: the controller has no dry run; use status, or run with dryRun"
    for number, client in enumerate(settings.driver_clients):
        by_name = bool(client.namespace and client.name)
        if by_name == bool(client.labels) or bool(client.namespace) != bool(client.name):
            yield f"driverClients[{number}]: set either namespace and name, or labels"
    stack = STACKS[settings.stack]
    for name in settings.refresh_after:
        if name not in stack.prerequisites:
            known = ", ".join(sorted(stack.prerequisites)) or "none"
            yield f'refreshAfter: "{name[:LONGEST_VALUE]}" is no component of the stack {stack.name} (known: {known})'
    if settings.expect.chart_version and not stack.policy.carries_chart:
        yield f"expect.chartVersion: a {stack.policy.kind} does not name the chart that it comes from"
