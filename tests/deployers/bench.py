"""A laboratory whose releases come through a deployer, and what one chapter of its life left behind."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from devcluster.deployers.release import Release, Values
from devcluster.layout import CHECKOUT
from devcluster.settings import tree
from tests import evidence
from tests.e2e.lab import (
    CHART,
    IMAGE,
    NAMESPACE,
    OLD,
    OLD_CHART,
    OPERATOR,
    PLUGIN,
    PLUGIN_NAMESPACE,
    QUICK,
    RELEASE,
    Lab,
)
from tests.promises import promised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from devcluster.cluster import Cluster
    from devcluster.deployers.release import Outcome

NODES: Final = ["gpu-0", "gpu-1", "gpu-2"]
OPERATOR_RELEASE: Final = "gpu-operator"
PLUGIN_RELEASE: Final = "nvidia-dra-driver-gpu"
QUICK_JOB: Final[Values] = {
    "image": {"repository": IMAGE},
    "timeout": "3m",
    **tree(dict(word.split("=") for word in QUICK)),
}
OUTER_SECONDS: Final = 240
"""A minute more than the Job's own time, as the chart's notes ask."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the platform team has written down."""

    chart: str = OLD_CHART
    driver: str = OLD
    plugin: bool = True
    operator: Values = field(default_factory=dict)
    post: Values = field(default_factory=dict)
    timeout: int = OUTER_SECONDS
    """What the deployer gives our release."""
    wrapped: Path | None = None
    """A chart around plain manifests in the place of ours, as bundlers make one."""

    def releases(self) -> list[Release]:
        """Write it as releases, in their order: operator, ours, plugin."""
        driver = {"version": self.driver, **self.operator}
        values = {"chartVersion": self.chart, "driver": driver}
        post = {
            **QUICK_JOB,
            "trigger": self.chart,
            "expect": {"chartVersion": self.chart, "driverVersion": self.driver},
            **self.post,
        }
        chart, given = (self.wrapped, {}) if self.wrapped else (CHECKOUT / CHART, post)
        waits = bool(self.wrapped or self.post.get("controller"))
        ours = Release(RELEASE, NAMESPACE, chart, given, (OPERATOR_RELEASE,), self.timeout, wait=waits)
        plugin = Release(PLUGIN_RELEASE, PLUGIN_NAMESPACE, CHECKOUT / PLUGIN, {}, (RELEASE,))
        return [
            Release(OPERATOR_RELEASE, NAMESPACE, CHECKOUT / OPERATOR, values),
            ours,
            *([plugin] if self.plugin else []),
        ]


class Deployer(Protocol):
    """What a story needs of a deployer."""

    def apply(self, releases: Sequence[Release]) -> Outcome:
        """Bring the releases about in the deployer's usual way; give what it says of ours."""

    def again(self, releases: Sequence[Release]) -> Outcome:
        """Do what its documentation says after a failed hook whose cause is gone."""


def booted(folder: Path, name: str) -> AbstractContextManager[Cluster]:
    """Run a cluster with a fleet, and keep what is left of it under a name."""
    return evidence.booted(folder / "state", len(NODES), name)


class Bench(Lab):
    """A laboratory for one deployer."""

    def __init__(self, cluster: Cluster, *, job: str = RELEASE, helm: int = 4, own: str = "") -> None:
        super().__init__(cluster, helm)
        self.job = job
        """The name of our Job, which follows the release's."""
        self.own = own
        """The path of the object in which the deployer shows how our release stands, where it has one."""
        self._follower = f"{job}-controller"

    def runs(self) -> list[Path]:
        """List the folders of our Jobs' pods, oldest first; a plain Job has the release's usual name in its own."""
        folders = {f"{NAMESPACE}_{name}-*/pid" for name in (self.job, RELEASE)}
        followers = f"{NAMESPACE}_{self._follower}-"
        pods = self.cluster.state / "pods"
        pids = [pid for each in folders for pid in pods.glob(each) if not pid.parent.name.startswith(followers)]
        return [each.parent for each in sorted(pids, key=lambda file: file.stat().st_mtime_ns)]

    def told(self) -> list[dict[str, Any]]:
        """Give the termination messages of the runs that have ended, oldest first."""
        files = [run / f"{RELEASE}.message" for run in self.runs()]
        return [json.loads(file.read_text()) for file in files if file.exists() and file.stat().st_size]

    def all_ended(self) -> bool:
        """Whether no run is under way."""
        return len(self.told()) == len(self.runs())

    def no_job_is_active(self) -> bool:
        """Whether Kubernetes knows of every Job's end, which comes a moment after the run's last words."""
        jobs = self.cluster.list(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
        return not any(each.get("status", {}).get("active") for each in jobs)

    def serve(self, driver: str, nodes: set[str]) -> bool:
        """Whether these nodes have this driver, and a plugin that runs on it."""
        loaded = self.truth.loaded_now()
        return {loaded.get(node) for node in nodes} == {driver} and self.serving_on() >= nodes

    def follower(self) -> Follower:
        """Look at the follower as the deployer left it."""
        found = self.cluster.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{self._follower}")
        selected = {"labelSelector": "app.kubernetes.io/component=controller"}
        (pod,) = self.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/pods", **selected)
        (since,) = [each["lastTransitionTime"] for each in found["status"]["conditions"] if _available(each)]
        begun = [
            each["metadata"]["creationTimestamp"]
            for each in self.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/events")
            if (each["involvedObject"]["kind"], each["reason"]) == ("Job", "SuccessfulCreate")
        ]
        return Follower(found["metadata"]["generation"], pod["metadata"]["uid"], since <= max(begun))

    def told_by_events(self) -> list[str]:
        """List the messages of the Events on our Jobs since the chapter began."""
        return self._told_on(lambda regarding: regarding["kind"] == "Job")

    def told_beside(self) -> list[str]:
        """List those on the deployer's own object, selected as `kubectl describe` selects them."""
        if not self.own:
            return []
        uid = self.cluster.get(self.own)["metadata"]["uid"]
        return self._told_on(lambda regarding: regarding.get("uid") == uid)

    def _told_on(self, wanted: Callable[[dict[str, Any]], bool]) -> list[str]:
        return [
            str(each["message"])
            for each in self.cluster.list("/api/v1/events")
            if each.get("source", {}).get("component") == RELEASE
            and wanted(each["involvedObject"])
            and datetime.fromisoformat(each["metadata"]["creationTimestamp"]).timestamp() >= int(self.began)
        ]

    def chapter(self, act: Callable[[], Outcome]) -> Chapter:
        """Do something and note what was true when the deployer came back."""
        runs, told = len(self.runs()), len(self.told())
        self.began = time.time()
        outcome = act()
        truth, new = self.truth, self.told()[told:]
        return Chapter(
            outcome=outcome,
            runs=len(self.runs()) - runs,
            story=new[-1] if new else {},
            restarted=self.restarts(),
            stale=truth.stale_now(),
            early=[each.node for each in truth.early_restarts(since=self.began)],
            needless=[each.node for each in truth.needless_restarts(since=self.began)],
            drivers=set(truth.loaded_now().values()),
            events=self.told_by_events(),
            beside=self.told_beside(),
            messages=[each["message"] for each in self.terminated() if each["exitCode"] != 0],
        )


def _available(condition: dict[str, Any]) -> bool:
    return (condition["type"], condition["status"]) == ("Available", "True")


@dataclass(frozen=True, slots=True)
class Follower:
    """A follower that is Available."""

    generation: int
    pod: str
    """Its UID."""
    waited_for: bool
    """The latest Job's pod was created when it was Available already; times have whole seconds."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """What a deployer said and what was true, at one moment."""

    outcome: Outcome
    runs: int
    """How many pods of our Job ran."""
    story: dict[str, Any]
    """The termination message of the last of them that has ended."""
    restarted: list[str]
    stale: Sequence[str]
    early: list[str]
    needless: list[str]
    drivers: set[str]
    events: list[str]
    """What Events of this time say on our Jobs."""
    beside: list[str]
    """What they say on the deployer's own object."""
    messages: list[str]
    """The last words of our Jobs' failed pods that are still there, as the API server shows them."""

    def assert_served(self, restarted: list[str]) -> None:
        """Assert success, and the promises from the ground truth."""
        assert self.outcome.succeeded, self.outcome.said
        with promised():
            assert self.stale == ()
            assert self.early == []
            assert self.needless == []
        assert restarted == self.restarted
