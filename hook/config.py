"""Settings of the program: one tree with the type, default, bounds and documentation of each setting.

The chart's values have the same names and paths. ``checks.py`` builds settings from what users write.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from msgspec import Meta, Struct

from hook.format import Bound
from hook.objects.drivers import STACKS, StackName


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
NAME: Final = f"^{_SUBDOMAIN}$"
"""K8S ``apimachinery/pkg/util/validation``: DNS-1123 subdomain. The patterns below have the same source."""
NAMESPACE_OR_ANY: Final = f"^({_DNS_LABEL})?$"
NAME_OR_NONE: Final = f"^({_SUBDOMAIN})?$"
LABEL_KEY: Final = f"^({_SUBDOMAIN}/)?{_QUALIFIED}$"
LABEL_VALUE: Final = f"^({_QUALIFIED})?$"
LONGEST: Final = 253
"""Characters of a name. Same source."""

Name = Annotated[str, Meta(pattern=NAME, max_length=LONGEST)]
Prerequisite = Annotated[
    str, Meta(extra_json_schema={"enum": sorted({name for stack in STACKS.values() for name in stack.prerequisites})})
]
Count = Annotated[int, Meta(ge=0)]


class Section(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the settings. Users write its fields in camelCase."""


class Expect(Section, frozen=True):
    """What the policy must show before nodes are evaluated."""

    chart_version: Annotated[
        str, Meta(description="Chart version of the operator that the ClusterPolicy must show. Empty: any.")
    ] = ""
    driver_version: Annotated[str, Meta(description="Driver version that the policy must name. Empty: any.")] = ""


class Plugin(Section, frozen=True):
    """The plugins that are refreshed."""

    namespace: Annotated[
        str, Meta(pattern=NAMESPACE_OR_ANY, description="Namespace of the plugins. Empty: any namespace.")
    ] = ""
    names: Annotated[
        tuple[Name, ...],
        Meta(description="DaemonSets of the plugins, instead of the known names of the stack's plugins."),
    ] = ()


class DriverClient(Section, frozen=True):
    """DaemonSets that hold the driver: one by name, or several by labels of their pod template."""

    namespace: Annotated[str, Meta(pattern=NAMESPACE_OR_ANY)] = ""
    name: Annotated[str, Meta(pattern=NAME_OR_NONE, max_length=LONGEST)] = ""
    labels: dict[Annotated[str, Meta(pattern=LABEL_KEY)], Annotated[str, Meta(pattern=LABEL_VALUE)]] = {}

    def __str__(self) -> str:
        labels = ",".join(f"{key}={value}" for key, value in self.labels.items())
        return labels or f"{self.namespace}/{self.name}"


class AffectedWorkloads(Section, frozen=True):
    """The report of pods that may hold files of an old driver."""

    enabled: Annotated[bool, Meta(description="Report pods that may hold files of an old driver.")] = True


class ControllerLimits(Section, frozen=True):
    """Limits of the controller."""

    max_unavailable: Annotated[
        Bound,
        Meta(
            extra_json_schema={"minimum": 1, "pattern": "^([1-9][0-9]{0,5}|[1-9][0-9]?%|100%)$"},
            description="Plugins that may be down at once for any cause: a number, or a percentage of the eligible "
            "nodes, which means at least one.",
        ),
    ] = Bound("25%")


class Advanced(Section, frozen=True):
    """Times that follow from the operators and from Kubernetes."""

    # A new operator renders about one Lease duration after the old one (measured: 22 s after the first render, 0.7 s
    # after acquiring the Lease).
    operator_quiet: Annotated[
        Duration, Meta(description="How long the operator's leader and the driver's revisions must be unchanged.")
    ] = Duration(seconds=15)
    unknown_operator_quiet: Annotated[
        Duration, Meta(description="The same where no Deployment or Lease of the operator is found, as under OLM.")
    ] = Duration(seconds=60)
    # The upgrade controller requeues every 2 minutes. With a skipped or lost node, some policies stay notReady.
    policy_grace: Annotated[Duration, Meta(description="How long a `notReady` policy may delay the end of a run.")] = (
        Duration(minutes=2)
    )
    api_patience: Annotated[
        Duration,
        Meta(description="How long the API server may be unreachable at the start. Then the Job starts another pod."),
    ] = Duration(minutes=1)
    restart_backoff: Annotated[
        Duration,
        Meta(
            description="Pause between the first and the second restart of a plugin that does not become verified. "
            "It doubles after each further restart."
        ),
    ] = Duration(minutes=1)
    restart_backoff_max: Annotated[
        Duration,
        Meta(description="The longest of these pauses, and the longest wait after you have fixed the cause."),
    ] = Duration(hours=1)


MARGIN_SHARE: Final = 20
MARGIN_CEILING: Final = timedelta(seconds=30)
MARGIN_FLOOR: Final = timedelta(seconds=5)
"""The report must fit between our deadline and that of the Job. Two seconds were not enough on a loaded machine."""


class Settings(Section, frozen=True):
    """Everything that a decision depends on in addition to the cluster."""

    is_controller: ClassVar[bool] = False
    """A controller runs without an end. A node that requires manual action does not delay the others."""

    stack: Annotated[
        StackName, Meta(description="Driver stack whose plugins are refreshed: `gpu` or `network`, one per release.")
    ] = StackName.GPU
    timeout: Annotated[
        Duration,
        Meta(
            description="Limit of the whole run, from the start of the Job. A serial upgrade takes about two minutes "
            "per node, so raise this for large fleets."
        ),
    ] = Duration(minutes=25)
    plugin_timeout: Annotated[
        Duration,
        Meta(
            description="Limit for a restarted plugin on a settled node to become verified. A healthy plugin takes 10 "
            "to 40 seconds."
        ),
    ] = Duration(minutes=5)
    # Kubernetes evicts from a NotReady node after 300 s. A failed driver upgrade was observed to clear by itself after
    # 240 s.
    node_timeout: Annotated[
        Duration,
        Meta(
            description="Limit for a node to recover: from NotReady (it is excluded then), from a failed driver "
            "upgrade and from a MIG reconfiguration (they need manual action then)."
        ),
    ] = Duration(minutes=5)
    on_deadline: Annotated[
        OnDeadline,
        Meta(description="When the time is up: `fail` exits with 124, `report` writes the report and exits with 0."),
    ] = OnDeadline.FAIL
    expect: Expect = Expect()
    plugin: Plugin = Plugin()
    driver_clients: Annotated[
        tuple[DriverClient, ...],
        Meta(
            description="Other DaemonSets that hold the driver: `{namespace, name}`, or `{labels}` of their pod "
            "templates."
        ),
    ] = ()
    refresh_after: Annotated[
        tuple[Prerequisite, ...],
        Meta(
            description="Components that a plugin must start after, in addition to the driver: `toolkit` (container "
            "toolkit), `mig` (MIG manager)."
        ),
    ] = ()
    max_parallel_restarts: Annotated[
        Count, Meta(description="Plugins that may be down at once for any reason. `0`: no limit.")
    ] = 0
    on_manual_upgrade: Annotated[
        OnManualUpgrade,
        Meta(
            description="What to do about nodes with an outdated driver that nothing upgrades (`autoUpgrade: false`): "
            "`report` and continue without them, `wait` for them, or `fail`."
        ),
    ] = OnManualUpgrade.REPORT
    dry_run: Annotated[bool, Meta(description="Evaluate once and report, write nothing.")] = False
    log_format: Annotated[LogFormat, Meta(description="Format of the log: `text` or `json`.")] = LogFormat.TEXT
    log_level: Annotated[LogLevel, Meta(description="Lowest level in the log: `info` or `debug`.")] = LogLevel.INFO
    affected_workloads: AffectedWorkloads = AffectedWorkloads()
    controller: ControllerLimits = ControllerLimits()
    advanced: Advanced = Advanced()

    @property
    def max_unavailable(self) -> Bound | None:
        """Return how many plugins may be down at once for any cause. None: no limit, as in every Job."""
        return self.controller.max_unavailable if self.is_controller else None

    @property
    def margin(self) -> timedelta:
        """Return the part of the timeout that is reserved for the report."""
        share = min(self.timeout / MARGIN_SHARE, MARGIN_CEILING)
        return min(max(share, MARGIN_FLOOR), self.timeout / 2)

    def deadline(self, started: datetime) -> datetime:
        """Return when a run must begin to report. A controller has no deadline."""
        if self.is_controller:
            return datetime.max.replace(tzinfo=UTC)
        return started + self.timeout - self.margin


class ControllerSettings(Settings, frozen=True):
    """The same settings, for the controller."""

    is_controller: ClassVar[bool] = True


DEFAULTS: Final = Settings()
