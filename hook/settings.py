"""What a run is asked to do: one frozen value, each default with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final


class OnDeadline(StrEnum):
    """What the exit code says when the time is up."""

    FAIL = "fail"
    REPORT = "report"


class Strategy(StrEnum):
    """How stale plugins are restarted."""

    STALE_PODS = "stale-pods"
    ROLLOUT = "rollout"


class WhenManual(StrEnum):
    """What to do about nodes whose driver pods nobody rotates (``autoUpgrade: false``)."""

    REPORT = "report"
    WAIT = "wait"
    FAIL = "fail"


class WhenAbsent(StrEnum):
    """What to do while no consumer is installed."""

    SKIP = "skip"
    WAIT = "wait"
    """Hold the release until the driver has settled: what comes after it starts on a settled driver."""


class Wait(StrEnum):
    """What a Job beside a follower waits for."""

    COMPLETE = "complete"
    """Until all is done, which it does itself."""
    HANDOVER = "handover"
    """Until a living follower has seen the same intent; it only reads."""


@dataclass(frozen=True, slots=True)
class Bound:
    """So many plugins, or so large a share of them (K8S ``intstr``)."""

    value: int
    percent: bool = False

    def of(self, total: int) -> int:
        """Give how many that is: a share is rounded up, and at least one, as ``maxUnavailable`` of a DaemonSet is."""
        return max(1, -(-total * self.value // 100)) if self.percent else self.value

    def exceeded_by(self, count: int, total: int) -> bool:
        """Whether a count is more than that, of so many; not rounded."""
        return count * 100 > total * self.value if self.percent else count > self.value

    def __str__(self) -> str:
        return f"{self.value}%" if self.percent else str(self.value)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Consumers that somebody named: by name, or by labels of their pod template."""

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
    """An object of the deployer's, on which Events tell how a run ended."""

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
"""The last decision, the events, the report and the pod's end must fit between our deadline and the
Job's: measured on a loaded machine, two seconds were not enough."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a decision depends on beside the cluster itself."""

    timeout: timedelta = timedelta(minutes=25)
    """From the Job's start. A serial upgrade takes about two minutes a node: raise it for large fleets."""
    stall_timeout: timedelta = timedelta(minutes=30)
    """No node advanced for so long. Above the driver's own start-up budget of 21 minutes
    (start-up probe: 60 s + 120 times 10 s). Zero: never."""
    plugin_timeout: timedelta = timedelta(minutes=5)
    """For one plugin on a settled node to become verified; a healthy one takes 10 to 40 s."""
    on_deadline: OnDeadline = OnDeadline.FAIL
    strategy: Strategy = Strategy.STALE_PODS
    max_parallel_restarts: int = 0
    """Plugins that may be down at once because of us. Zero: no bound (their nodes are down already)."""
    max_unavailable: Bound | None = None
    """Plugins that may be down at once, whoever took them down. None: no bound."""
    when_manual: WhenManual = WhenManual.REPORT
    expect_chart_version: str = ""
    """The operator chart version that must be seen in the ClusterPolicy. Empty: whatever is there."""
    expect_driver_version: str = ""
    stacks: tuple[str, ...] = ("gpu",)
    """Names of driver stacks, as ``stacks.STACKS`` has them."""
    consumer_namespace: str = ""
    """Where consumers are that are known by name alone. Empty: any namespace."""
    consumer_names: tuple[Wanted, ...] = ()
    """In place of the names in a stack's row; for a stack without any here, those of its row."""
    consumers: tuple[Wanted, ...] = ()
    """Further DaemonSets that hold the driver."""
    providers: tuple[str, ...] = ()
    """What a consumer must have started after beside the driver: names in the stacks' rows."""
    when_absent: WhenAbsent = WhenAbsent.SKIP
    namespaces: tuple[str, ...] = ()
    """Read namespaced objects only here. Empty: everywhere."""
    regarding: tuple[Regarded, ...] = ()
    """Objects of the deployer's, whose users read Events on them rather than on our Job."""
    dry_run: bool = False
    operator_quiet: timedelta = timedelta(seconds=15)
    """After the operator's leader or the driver's revisions changed. A new operator renders about as
    long after the old one as a lease lasts (measured: 22 s after the first render, 0.7 s after acquiring)."""
    unknown_operator_quiet: timedelta = timedelta(seconds=60)
    """The same where Deployment or Lease cannot be found, as under OLM."""
    policy_grace: timedelta = timedelta(minutes=2)
    """How long a ``notReady`` policy may veto done: the upgrade controller requeues every 2 minutes,
    and some policies (a skipped or unreachable node) stay ``notReady`` for good."""
    failed_grace: timedelta = timedelta(minutes=5)
    """``upgrade-failed`` was seen to clear by itself after 240 s."""
    not_ready_grace: timedelta = timedelta(minutes=5)
    """Kubernetes evicts from a NotReady node after 300 s; until then it may be a blip."""
    api_patience: timedelta = timedelta(minutes=1)
    """How long the API server may be out of reach before anything was read; then the Job tries again."""

    wait: Wait = Wait.COMPLETE
    follow: bool = False
    """Never end: a verdict describes the moment, and whoever needs a person does not hold up the others."""
    restart_backoff: timedelta = timedelta(minutes=1)
    """Between the first and the second restart of a plugin that does not become verified; then twice as long each
    time. Longer than a healthy plugin takes to come back (10 to 40 s). Only while following, as all below."""
    restart_backoff_max: timedelta = timedelta(hours=1)
    """The longest of these pauses. A person who mends a node's clock does not wait longer than this."""
    breaker_share: Bound = Bound(50, percent=True)
    """More of the eligible nodes than this, stale within a minute without a reload, are a fault of clocks or of the
    API: then nothing is restarted. Zero, or 100 %: never."""
    breaker_reset: timedelta = timedelta(minutes=30)
    """So long after it opened the breaker closes by itself: long enough for an administrator on call to look. Zero:
    only a restart of the controller closes it."""

    @property
    def margin(self) -> timedelta:
        """What is kept of the timeout for reporting."""
        share = min(self.timeout / MARGIN_SHARE, MARGIN_CEILING)
        return min(max(share, MARGIN_FLOOR), self.timeout / 2)

    def deadline(self, started: datetime) -> datetime:
        """When a run that started then must begin to report. One that follows never does."""
        if self.follow:
            return datetime.max.replace(tzinfo=UTC)
        return started + self.timeout - self.margin


DEFAULTS: Final = Settings()
"""What holds where nobody says anything else."""
