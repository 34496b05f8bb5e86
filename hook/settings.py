"""The settings of a run: one frozen value, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from hook.core.sentences import Bound


class OnDeadline(StrEnum):
    """Which exit code a run ends with when the time is up."""

    FAIL = "fail"
    REPORT = "report"


class Strategy(StrEnum):
    """How stale plugins are restarted."""

    STALE_PODS = "stale-pods"
    ROLLOUT = "rollout"


class WhenManual(StrEnum):
    """What to do about nodes whose driver pods nothing rotates (``autoUpgrade: false``)."""

    REPORT = "report"
    WAIT = "wait"
    FAIL = "fail"


class WhenAbsent(StrEnum):
    """What to do while no plugin is installed."""

    SKIP = "skip"
    WAIT = "wait"
    """Wait until the driver has settled, so that later releases start on a settled driver."""


class Wait(StrEnum):
    """What a Job waits for in a cluster with a controller."""

    COMPLETE = "complete"
    """Until every plugin is verified. The Job restarts stale plugins itself."""
    HANDOVER = "handover"
    """Until an active controller has observed the same revision. The Job only reads."""


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
class Regarded:
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
    when_manual: WhenManual = WhenManual.REPORT
    expect_chart_version: str = ""
    """The operator chart version that the ClusterPolicy must show. Empty: any."""
    expect_driver_version: str = ""
    stacks: tuple[str, ...] = ("gpu",)
    """Names of driver stacks, from ``stacks.STACKS``."""
    consumer_namespace: str = ""
    """Namespace of the plugins that are selected by name alone. Empty: any."""
    consumer_names: tuple[Wanted, ...] = ()
    """Names that replace the known names of their stack."""
    consumers: tuple[Wanted, ...] = ()
    """Further DaemonSets with driver clients."""
    providers: tuple[str, ...] = ()
    """What a plugin must start after, in addition to the driver: names from ``stacks.STACKS``."""
    when_absent: WhenAbsent = WhenAbsent.SKIP
    namespaces: tuple[str, ...] = ()
    """Read namespaced objects only here. Empty: everywhere."""
    regarding: tuple[Regarded, ...] = ()
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

    wait: Wait = Wait.COMPLETE
    follow: bool = False
    """Run as controller, without an end. A node that requires manual action does not delay the others."""
    restart_backoff: timedelta = timedelta(minutes=1)
    """Between the first and the second restart of a plugin that does not become verified; doubled after each further
    restart. Longer than a healthy plugin needs (10 to 40 s). Like all settings below it is for a controller only."""
    restart_backoff_max: timedelta = timedelta(hours=1)
    """The longest of these pauses, and so the longest wait after an administrator has fixed the cause."""
    breaker_share: Bound = Bound(50, percent=True)
    """If more of the eligible nodes than this become stale within a minute without a reload, clocks or the API are
    wrong, and nothing is restarted. Zero, or 100 %: never."""
    breaker_reset: timedelta = timedelta(minutes=30)
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
