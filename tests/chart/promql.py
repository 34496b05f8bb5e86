"""Evaluate alerts with Prometheus' own engine, over series that a test defines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from devcluster import binaries

SECONDS: Final = 60.0
"""A question is answered in milliseconds; a machine that has no turn for us in a minute is broken."""
UNITS: Final = {"s": 1, "m": 60, "h": 3600}

Labels = frozenset[tuple[str, str]]
"""Of one alert that fires."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Prometheus' parser and engine, over series with a sample every minute from 0 on."""

    binary: str
    interval: int = 60
    series: tuple[str, ...] = field(default=())

    def selectors(self, expr: str) -> list[dict[str, Any]]:
        """Return what an expression selects: metrics, and the values of their labels."""
        return list(self._ask(expr, [])["selectors"])

    def firing(self, rule: Mapping[str, Any], until: float) -> dict[float, set[Labels]]:
        """Evaluate an alert every interval, as Prometheus does: it fires once it has been active for long enough."""
        times = [float(at) for at in range(0, int(until) + 1, self.interval)]
        wanted = seconds(rule.get("for", "0s"))
        active: dict[Labels, float] = {}
        fires: dict[float, set[Labels]] = {}
        for result in self._ask(str(rule["expr"]), times)["results"]:
            found = {frozenset(sample["labels"].items()) for sample in result["samples"]}
            active = {labels: active.get(labels, result["at"]) for labels in found}
            fires[result["at"]] = {labels for labels, since in active.items() if result["at"] - since >= wanted}
        return fires

    def _ask(self, expr: str, at: Sequence[float]) -> dict[str, Any]:
        question = {"interval": self.interval, "series": self.series, "queries": [{"expr": expr, "at": at}]}
        done = subprocess.run(
            [self.binary], input=json.dumps(question), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)["answers"][0]
        assert answer["error"] == "", f"{expr}: {answer['error']}"
        return answer


def engine(series: Iterable[str] = ()) -> Engine:
    """Find or build the engine, and load these series."""
    return Engine(str(binaries.ensure(["promql"])["promql"]), series=tuple(series))


def seconds(duration: str) -> int:
    """Read a duration of a single unit, as our rules have them."""
    return int(duration[:-1]) * UNITS[duration[-1]]
