"""A cluster whose releases come through a deployment tool, and what one chapter of its life left behind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from devcluster.boot.cluster import Cluster
from devcluster.boot.layout import CHECKOUT
from devcluster.deployers.release import Outcome, Release, Values
from devcluster.settings import tree
from tests import evidence
from tests.e2e.lab import CHART, IMAGE, NAMESPACE, OLD, OLD_CHART, OPERATOR, PLUGIN, QUICK, RELEASE, Lab
from tests.promises import promised

NODES: Final = ["gpu-0", "gpu-1"]
OPERATOR_RELEASE: Final = "gpu-operator"
PLUGIN_RELEASE: Final = "nvidia-dra-driver-gpu"
"""Also its namespace."""
SHORT_WAITS: Final = tree(dict(word.split("=") for word in QUICK))
QUICK_JOB: Final[Values] = {"image": {"repository": IMAGE}, "timeout": "3m", **SHORT_WAITS}
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
    """What the tool gives our release."""
    wrapped: Path | None = None
    """A chart around plain manifests that replaces ours, as bundlers make one."""

    def releases(self) -> list[Release]:
        """Write it as releases, in their order: operator, ours, plugin."""
        driver = {"version": self.driver, **self.operator}
        values = {"chartVersion": self.chart, "driver": driver}
        expect = {"chartVersion": self.chart, "driverVersion": self.driver}
        post = {**QUICK_JOB, "trigger": self.chart, "expect": expect, **self.post}
        chart, given = (self.wrapped, {}) if self.wrapped else (CHECKOUT / CHART, post)
        waits = bool(self.wrapped or self.post.get("controller"))
        ours = Release(RELEASE, NAMESPACE, chart, given, (OPERATOR_RELEASE,), self.timeout, wait=waits)
        plugin = Release(PLUGIN_RELEASE, PLUGIN_RELEASE, CHECKOUT / PLUGIN, {}, (RELEASE,))
        operator = Release(OPERATOR_RELEASE, NAMESPACE, CHECKOUT / OPERATOR, values)
        return [operator, ours, *([plugin] if self.plugin else [])]


def booted(folder: Path, name: str) -> AbstractContextManager[Cluster]:
    """Run a cluster with a fleet, and keep its logs under a name."""
    return evidence.booted(folder / "state", len(NODES), name)


class Bench(Lab):
    """A cluster for one deployment tool."""

    def __init__(self, cluster: Cluster, *, job: str = RELEASE) -> None:
        super().__init__(cluster)
        self.job = job
        """The name of our Job, which starts with the release's."""
        self._deployment = f"{job}-controller"

    def runs(self) -> list[Path]:
        """List the folders of our Jobs' pods, oldest first; a plain Job has the release's usual name in its own."""
        folders = {f"{NAMESPACE}_{name}-*/pid" for name in (self.job, RELEASE)}
        controllers = f"{NAMESPACE}_{self._deployment}-"
        pods = self.cluster.state / "pods"
        pids = [pid for each in folders for pid in pods.glob(each) if not pid.parent.name.startswith(controllers)]
        return [each.parent for each in sorted(pids, key=lambda file: file.stat().st_mtime_ns)]

    def reports(self) -> list[dict[str, Any]]:
        """Return the termination messages of the runs that have ended, oldest first."""
        files = [run / f"{RELEASE}.message" for run in self.runs()]
        return [json.loads(file.read_text()) for file in files if file.exists() and file.stat().st_size]

    def all_ended(self) -> bool:
        """Whether no run is under way."""
        return len(self.reports()) == len(self.runs())

    def no_job_is_active(self) -> bool:
        """Whether Kubernetes knows of every Job's end, which comes a moment after the run's message."""
        jobs = self.cluster.list(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs")
        return not any(each.get("status", {}).get("active") for each in jobs)

    def are_fresh(self, driver: str, nodes: set[str]) -> bool:
        """Whether these nodes have this driver, and a plugin that runs on it."""
        loaded = self.truth.loaded_now()
        return {loaded.get(node) for node in nodes} == {driver} and self.serving_on() >= nodes

    def controller(self) -> tuple[int, str]:
        """Return the controller as the tool left it: its generation, and the UID of its only pod."""
        found = self.cluster.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{self._deployment}")
        selected = {"labelSelector": "app.kubernetes.io/component=controller"}
        (pod,) = self.cluster.list(f"/api/v1/namespaces/{NAMESPACE}/pods", **selected)
        return found["metadata"]["generation"], pod["metadata"]["uid"]

    def _events(self, wanted: Callable[[dict[str, Any]], bool]) -> list[str]:
        """List the messages of our Events since the chapter began, on some objects."""
        return [
            str(each["message"])
            for each in self.cluster.list("/api/v1/events")
            if each.get("source", {}).get("component") == RELEASE
            and wanted(each["involvedObject"])
            and datetime.fromisoformat(each["metadata"]["creationTimestamp"]).timestamp() >= int(self.began)
        ]

    def _described(self) -> str:
        """Return what an administrator sees who describes our Jobs."""
        selected = f"app.kubernetes.io/name={RELEASE}"
        return self.cluster.kubectl("describe", "jobs", "-n", NAMESPACE, "-l", selected).stdout

    def chapter(self, act: Callable[[], Outcome]) -> Chapter:
        """Do something and note what was true when the tool returned."""
        runs, reports = len(self.runs()), len(self.reports())
        self.began = time.time()
        outcome = act()
        truth, new = self.truth, self.reports()[reports:]
        return Chapter(
            outcome=outcome,
            runs=len(self.runs()) - runs,
            report=new[-1] if new else {},
            restarted=self.restarts(),
            stale=truth.stale_now(),
            early=[each.node for each in truth.early_restarts(since=self.began)],
            needless=[each.node for each in truth.needless_restarts(since=self.began)],
            drivers=set(truth.loaded_now().values()),
            events=self._events(lambda target: target["kind"] == "Job"),
            described=self._described(),
            messages=[each["message"] for each in self.terminated() if each["exitCode"] != 0],
        )


@dataclass(frozen=True, slots=True)
class Chapter:
    """What a tool reported and what was true, at one moment."""

    outcome: Outcome
    runs: int
    """How many pods of our Job ran."""
    report: dict[str, Any]
    """The termination message of the last of them that has ended."""
    restarted: list[str]
    stale: Sequence[str]
    early: list[str]
    needless: list[str]
    drivers: set[str]
    events: list[str]
    """The messages of this time's Events on our Jobs."""
    described: str
    """What `kubectl describe` shows of our Jobs, with their Events; the next chapter may replace them."""
    messages: list[str]
    """The messages of our Jobs' failed pods that are still there, as the API server shows them."""

    def assert_refreshed(self, restarted: list[str]) -> None:
        """Assert success, exactly these restarts, and the promises from the ground truth."""
        assert self.outcome.succeeded, self.outcome.said
        with promised():
            assert (self.stale, self.early, self.needless) == ((), [], [])
        assert self.restarted == restarted
