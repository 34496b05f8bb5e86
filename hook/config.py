"""Settings of the program: defaults, and the checks of what users give."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from hook.errors import SettingsError
from hook.format import Bound
from hook.objects.drivers import STACKS

if TYPE_CHECKING:
    from collections.abc import Iterable


class OnDeadline(StrEnum):
    """Which exit code a run ends with when the time is up."""

    FAIL = "fail"
    REPORT = "report"


class Strategy(StrEnum):
    """How stale plugins are restarted."""

    STALE_PODS = "delete-stale-pods"
    ROLLOUT = "rollout-restart"


class OnManualUpgrade(StrEnum):
    """What to do about nodes whose driver pods nothing rotates (``autoUpgrade: false``)."""

    REPORT = "report"
    WAIT = "wait"
    FAIL = "fail"


class OnMissingPlugin(StrEnum):
    """What to do while no plugin is installed."""

    SKIP = "skip"
    WAIT = "wait"
    """Wait until the driver has settled, so that later releases start on a settled driver."""


class Mode(StrEnum):
    """What a Job does in a cluster with a controller."""

    COMPLETE = "complete"
    """Restart stale plugins, until every plugin is verified."""
    DELEGATE = "delegate"
    """Only read, until an active controller has observed the same spec."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """DaemonSets that the user selected: by name, or by labels of their pod template."""

    stack: str
    namespace: str = ""
    """Empty: any."""
    name: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        labels = ",".join(f"{key}={value}" for key, value in self.labels)
        return labels or "/".join(filter(None, (self.namespace, self.name)))


@dataclass(frozen=True, slots=True)
class EventTarget:
    """An object of the deployment tool, on which Events record the outcome of a run."""

    resource: str
    """In the plural, as permissions name it."""
    group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}/{self.namespace}/{self.name}"


MARGIN_SHARE: Final = 20
MARGIN_CEILING: Final = timedelta(seconds=30)
MARGIN_FLOOR: Final = timedelta(seconds=5)
"""The last decision, Events and report, and the end of the pod, must fit between our deadline and the deadline of the
Job. Two seconds were not enough on a loaded machine."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a decision depends on in addition to the cluster."""

    timeout: timedelta = timedelta(minutes=25)
    """From the start of the Job. A serial upgrade takes about two minutes per node: raise this for large fleets."""
    stall_timeout: timedelta = timedelta(minutes=30)
    """Give up if no node advances for so long. Longer than the start-up probe of the driver, 21 minutes
    (60 s + 120 times 10 s). Zero: never."""
    plugin_timeout: timedelta = timedelta(minutes=5)
    """For one plugin on a settled node to become verified. A healthy plugin takes 10 to 40 s."""
    on_deadline: OnDeadline = OnDeadline.FAIL
    strategy: Strategy = Strategy.STALE_PODS
    max_parallel_restarts: int = 0
    """Plugins that may be down at once because this program restarts them. Zero: no bound."""
    max_unavailable: Bound | None = None
    """Plugins that may be down at once for any cause. None: no bound."""
    on_manual_upgrade: OnManualUpgrade = OnManualUpgrade.REPORT
    expect_chart_version: str = ""
    """The operator chart version that the ClusterPolicy must show. Empty: any."""
    expect_driver_version: str = ""
    stacks: tuple[str, ...] = ("gpu",)
    """Names of driver stacks, from ``stacks.STACKS``."""
    plugin_namespace: str = ""
    """Namespace of the plugins that are selected by name alone. Empty: any."""
    plugin_names: tuple[Wanted, ...] = ()
    """Names that replace the known names of their stack."""
    plugins: tuple[Wanted, ...] = ()
    """Further DaemonSets with driver clients."""
    prerequisites: tuple[str, ...] = ()
    """What a plugin must start after, in addition to the driver: names from ``stacks.STACKS``."""
    on_missing_plugin: OnMissingPlugin = OnMissingPlugin.SKIP
    namespaces: tuple[str, ...] = ()
    """Read namespaced objects only here. Empty: everywhere."""
    event_targets: tuple[EventTarget, ...] = ()
    """Objects of the deployment tool, on which its users look for Events."""
    dry_run: bool = False
    operator_quiet: timedelta = timedelta(seconds=15)
    """How long the operator's leader and the driver's revisions must be unchanged. A new operator renders about one
    Lease duration after the old one (measured: 22 s after the first render, 0.7 s after acquiring the Lease)."""
    unknown_operator_quiet: timedelta = timedelta(seconds=60)
    """The same where no Deployment or Lease is found, as under OLM."""
    policy_grace: timedelta = timedelta(minutes=2)
    """How long a ``notReady`` policy may delay the end of a run. The upgrade controller requeues every 2 minutes, and
    some policies (with a skipped or unreachable node) stay ``notReady``."""
    failed_grace: timedelta = timedelta(minutes=5)
    """An ``upgrade-failed`` state was observed to clear by itself after 240 s."""
    not_ready_grace: timedelta = timedelta(minutes=5)
    """Kubernetes evicts from a NotReady node after 300 s. Until then the node may come back soon."""
    api_patience: timedelta = timedelta(minutes=1)
    """How long the API server may be unreachable at the start. After that the Job starts another pod."""

    mode: Mode = Mode.COMPLETE
    follow: bool = False
    """Run as controller, without an end. A node that requires manual action does not delay the others."""
    restart_backoff: timedelta = timedelta(minutes=1)
    """Between the first and the second restart of a plugin that does not become verified; doubled after each further
    restart. Longer than a healthy plugin needs (10 to 40 s). Like all settings below it is for a controller only."""
    restart_backoff_max: timedelta = timedelta(hours=1)
    """The longest of these pauses, and so the longest wait after an administrator has fixed the cause."""
    circuit_breaker_threshold: Bound = Bound(50, percent=True)
    """If more of the eligible nodes than this become stale within a minute without a reload, clocks or the API are
    wrong, and nothing is restarted. Zero, or 100 %: never."""
    circuit_breaker_reset: timedelta = timedelta(minutes=30)
    """The breaker closes by itself after this time, which is long enough for an administrator on call to look. Zero:
    only a restart of the controller closes it."""

    @property
    def margin(self) -> timedelta:
        """Return the part of the timeout that is reserved for the report."""
        share = min(self.timeout / MARGIN_SHARE, MARGIN_CEILING)
        return min(max(share, MARGIN_FLOOR), self.timeout / 2)

    def deadline(self, started: datetime) -> datetime:
        """Return when a run must begin to report. A controller has no deadline."""
        if self.follow:
            return datetime.max.replace(tzinfo=UTC)
        return started + self.timeout - self.margin


DEFAULTS: Final = Settings()
"""Default settings."""


_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""K8S ``apimachinery/pkg/util/validation``, DNS-1123 subdomain."""
_LABEL: Final = re.compile(
    r"(?P<key>([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)"
    r"==?(?P<value>([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?)"
)
"""Same source: qualified name, and value of a label."""


def _plugin_name(text: str, first: str) -> Wanted:
    """Parse the name of a DaemonSet, with its stack."""
    stack, name = _driver_and_rest(text, first)
    if not _NAME.fullmatch(name):
        raise SettingsError(f"--plugin-name {text!r} is not a valid name of a DaemonSet")
    return Wanted(stack=stack, name=name)


def _driver_client(text: str, first: str) -> Wanted:
    """Parse another DaemonSet: ``namespace/name``, or labels of its pod template."""
    stack, rest = _driver_and_rest(text, first)
    namespace, _, name = rest.partition("/")
    if _NAME.fullmatch(namespace) and _NAME.fullmatch(name):
        return Wanted(stack=stack, namespace=namespace, name=name)
    pairs = tuple(_LABEL.fullmatch(pair) for pair in rest.split(","))
    labels = tuple((found["key"], found["value"]) for found in pairs if found is not None)
    if not rest or len(labels) != len(pairs):
        raise SettingsError(f"--driver-client {text!r} is neither NAMESPACE/NAME nor KEY=VALUE[,KEY=VALUE]")
    return Wanted(stack=stack, labels=labels)


def _driver_and_rest(text: str, first: str) -> tuple[str, str]:
    before, colon, rest = text.partition(":")
    if not colon:
        return first, text
    if before not in STACKS:
        raise SettingsError(f"{text!r} names an unknown driver before the colon; known are {', '.join(STACKS)}")
    return before, rest


_DNS_LABEL: Final = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_EVENT_TARGET: Final = re.compile(
    rf"(?P<resource>{_DNS_LABEL})\.(?P<group>{_SUBDOMAIN})/(?P<namespace>{_DNS_LABEL})/(?P<name>{_SUBDOMAIN})"
)
"""K8S ``apimachinery/pkg/util/validation``: DNS-1123 labels, and subdomains, which consist of them."""
LONGEST: Final = 253
"""Same source."""
MOST: Final = 4
"""A deployment tool has one such object per release, and perhaps a parent. Each one delays the end of a run."""


def _event_targets(texts: Iterable[str]) -> tuple[EventTarget, ...]:
    """Parse the values of the flag, without duplicates."""
    found = tuple(dict.fromkeys(map(_event_target, texts)))
    if len(found) > MOST:
        raise SettingsError(f"--event-target names {len(found)} objects, at most {MOST} are allowed")
    return found


def _event_target(text: str) -> EventTarget:
    """Parse one value: the plural of the kind with the group, the namespace, and the name."""
    found = _EVENT_TARGET.fullmatch(text)
    if found is None or any(len(part) > LONGEST for part in text.split("/")):
        raise SettingsError(
            f"--event-target {text!r} is not RESOURCE.GROUP/NAMESPACE/NAME, such as "
            "helmreleases.helm.toolkit.fluxcd.io/flux-system/gpu-operator-post"
        )
    return EventTarget(**found.groupdict())


def settings_from(values: dict[str, Any], *, controller: bool = False) -> Settings:
    """Build settings from parsed flags; a flag that a command does not have keeps its default."""
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
    first = known.get("stacks", DEFAULTS.stacks)[0]
    known["plugin_names"] = tuple(_plugin_name(text, first) for text in known.get("plugin_names", ()))
    known["plugins"] = tuple(_driver_client(text, first) for text in known.get("plugins", ()))
    known["event_targets"] = _event_targets(known.get("event_targets", ()))
    settings = Settings(**known, follow=controller)
    _refuse_what_cannot_work(settings)
    _refuse_what_has_no_effect(settings)
    return settings


def _refuse_what_cannot_work(settings: Settings) -> None:
    """Refuse values with which nothing would be restarted, or too often."""
    for name in ("timeout", "plugin_timeout"):
        if not getattr(settings, name):
            raise SettingsError(f"--{name.replace('_', '-')} must be longer than 0s")
    if settings.max_unavailable is not None and not settings.max_unavailable.value:
        raise SettingsError("--max-unavailable 0 prevents every restart")
    if not settings.restart_backoff or settings.restart_backoff > settings.restart_backoff_max:
        raise SettingsError("--restart-backoff must be longer than 0s, and no longer than --restart-backoff-max")


def _refuse_what_has_no_effect(settings: Settings) -> None:
    """Refuse settings that a run would silently ignore, because users rely on them."""
    chosen = [STACKS[name] for name in settings.stacks]
    for client in (*settings.plugin_names, *settings.plugins):
        if client.stack not in settings.stacks:
            raise SettingsError(f"a DaemonSet is named for {client.stack}, which is not among --driver")
    for prerequisite in settings.prerequisites:
        if not any(prerequisite in stack.prerequisites for stack in chosen):
            raise SettingsError(f"--refresh-after {prerequisite} does not belong to any selected --driver")
    if settings.expect_chart_version and not any(stack.policy.carries_chart for stack in chosen):
        raise SettingsError("--expect-chart-version: no policy of the chosen --driver says which chart it comes from")
