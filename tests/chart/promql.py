"""Evaluate alerts and dashboards with Prometheus' own engine, over series that a test defines or a program exposes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bundler.values import seconds
from devcluster.build import binaries

SECONDS: Final = 60.0
"""A question is answered in milliseconds; a machine that has no turn for us in a minute is broken."""
INTERVAL: Final = 60
"""Seconds from one sample of a series to the next."""

Scrape = Mapping[str, object]
"""What a target exposes, as `text`, `at` a time, and the `labels` that Prometheus adds to it."""
Labels = frozenset[tuple[str, str]]
"""Of one alert that fires."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Prometheus' parser and engine, over series with a sample every minute from 0 on, and over scrapes."""

    binary: str
    series: tuple[str, ...]
    scrapes: tuple[Scrape, ...]

    def selectors(self, expr: str) -> list[dict[str, Any]]:
        """Return what an expression selects: metrics, and the values of their labels."""
        return list(self._ask(expr, [])["selectors"])

    def firing(self, rule: Mapping[str, Any], until: float) -> dict[float, set[Labels]]:
        """Evaluate an alert every minute, as Prometheus does: it fires once it has been active for long enough."""
        times = [float(at) for at in range(0, int(until) + 1, INTERVAL)]
        wanted = seconds(rule.get("for", "0s"))
        active: dict[Labels, float] = {}
        fires: dict[float, set[Labels]] = {}
        for result in self._ask(str(rule["expr"]), times)["results"]:
            found = {frozenset(sample["labels"].items()) for sample in result["samples"]}
            active = {labels: active.get(labels, result["at"]) for labels in found}
            fires[result["at"]] = {labels for labels, since in active.items() if result["at"] - since >= wanted}
        return fires

    def values(self, expr: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Evaluate a query once. Return the labels and the value of each sample."""
        (result,) = self._ask(expr, [at])["results"]
        return [(sample["labels"], float(sample["value"])) for sample in result["samples"]]

    def _ask(self, expr: str, at: Sequence[float]) -> dict[str, Any]:
        known = {"series": self.series, "scrapes": self.scrapes}
        question = {"interval": INTERVAL, **known, "queries": [{"expr": expr, "at": at}]}
        done = subprocess.run(
            [self.binary], input=json.dumps(question), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)["answers"][0]
        assert answer["error"] == "", f"{expr}: {answer['error']}"
        return answer


def engine(series: Iterable[str] = (), scrapes: Iterable[Scrape] = ()) -> Engine:
    """Find the engine, and load these series and scrapes."""
    return Engine(str(binaries.ensure(["promql"])["promql"]), tuple(series), tuple(scrapes))
