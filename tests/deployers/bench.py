"""A cluster whose releases come through a deployment tool, and what was true when the tool returned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from devcluster.boot.cluster import Cluster
from devcluster.deployers.outcome import Outcome
from devcluster.settings import tree
from tests import evidence
from tests.e2e.lab import IMAGE, NAMESPACE, QUICK, RELEASE, Lab

NODES: Final = ["gpu-0", "gpu-1"]
BROKEN: Final = "gpu-1"
"""The node whose driver does not get ready where something must fail."""
QUICK_JOB: Final[dict[str, Any]] = {
    "image": {"repository": IMAGE},
    "timeout": "3m",
    **tree(dict(word.split("=") for word in QUICK)),
}
SOON: Final = {"timeout": "60s"}
"""Time for a run that fails at its end."""


@contextmanager
def booted(folders: pytest.TempPathFactory, name: str) -> Iterator[Cluster]:
    """Run a cluster with a fleet, and keep its logs under a name."""
    with evidence.booted(folders.mktemp("cluster") / "state", len(NODES), name) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool reported and what was true, at one moment."""

    outcome: Outcome
    runs: int
    """How many pods of our Job ran."""
    report: dict[str, Any]
    """The termination message of the last of them that has ended."""
    restarted: list[str]
    stale: tuple[str, ...]
    early: list[str]
    needless: list[str]
    drivers: set[str]
    described: str
    """What `kubectl describe` shows of our Jobs, with their Events; the next deployment may replace them."""


class Bench(Lab):
    """A cluster for one deployment tool."""

    def reports(self) -> list[dict[str, Any]]:
        """Return the termination messages of the runs that have ended, oldest first."""
        files = [run / f"{RELEASE}.message" for run in self.runs()]
        return [json.loads(file.read_text()) for file in files if file.exists() and file.stat().st_size]

    def deployment(self, act: Callable[[], Outcome]) -> Result:
        """Deploy something and note what was true when the tool returned."""
        runs, reports = len(self.runs()), len(self.reports())
        self.began = time.time()
        outcome = act()
        truth, new = self.truth, self.reports()[reports:]
        selected = f"app.kubernetes.io/name={RELEASE}"
        return Result(
            outcome=outcome,
            runs=len(self.runs()) - runs,
            report=new[-1] if new else {},
            restarted=self.restarts(),
            stale=truth.stale_now(),
            early=[each.node for each in truth.early_restarts(since=self.began)],
            needless=[each.node for each in truth.needless_restarts(since=self.began)],
            drivers=set(truth.loaded_now().values()),
            described=self.cluster.kubectl("describe", "jobs", "-n", NAMESPACE, "-l", selected).stdout,
        )
