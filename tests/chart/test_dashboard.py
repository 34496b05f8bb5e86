"""The dashboard for Grafana: promtool evaluates each query over what the program itself exposes."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import CONFLICT, GONE, NO_ANSWER, NOT_FOUND, ApiError
from hook.kube.client import Counters
from hook.kube.events import ObjectReference
from hook.kube.informer import OutOfSync
from hook.run.telemetry import ControllerState, Telemetry
from tests.chart.promtool import promtool, write
from tests.chart.rendering import NAMESPACE, ROOT, Helm
from tests.fixtures.statuses import decision, restart, stale, stale_plugin, standing, verified

BEGAN: Final = datetime.fromtimestamp(600, UTC)
"""The first scrape. promtool counts time from 0 on."""
LATER: Final = BEGAN + timedelta(minutes=1)
"""The second scrape."""
LEADER: Final = f'namespace="{NAMESPACE}", pod="controller-a"'
STANDBY: Final = f'namespace="{NAMESPACE}", pod="controller-b"'
OWNER: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "ds")
LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")
MEMORY: Final = "process_resident_memory_bytes"
SHOWN: Final[dict[str, dict[str, float]]] = {
    "Leader": {"{}": 1},
    "Stale nodes": {"{}": 1},
    "Failed nodes": {"{}": 1},
    "Affected pods": {"{}": 2},
    "Cache out of sync": {"{}": 120},
    "Nodes by state": {'{state="Verified"}': 1, '{state="Stale"}': 1, '{state="Failed"}': 1, '{state="Excluded"}': 1},
    "What nodes wait for": {'{reason="PluginStale"}': 1, '{reason="DriverFailing"}': 1},
    "Age of the oldest stale plugin": {"{}": 60},
    "Restarts per hour": {'{result="restarted"}': 1, '{result="refused"}': 0, '{result="failed"}': 0},
    "Errors of the API server": {'{code="0"}': 0.005},
    "Memory": {f"{MEMORY}{{{LEADER}}}": 500e6, f"{MEMORY}{{{STANDBY}}}": 500e6},
    "Time since the last reconcile": {f"{{{LEADER}}}": 60},
}
"""By panel, the values at the second scrape by their labels. None is empty."""


def _dashboard(helm: Helm, docs: str = "") -> dict[str, Any]:
    on = {"controller.enabled": True, "controller.dashboard.enabled": True}
    rendered = helm.render({**on, "controller.prometheusRule.docsUrl": docs})
    maps = rendered.all("ConfigMap")
    (found,) = (each for each in maps if each["metadata"]["labels"].get("grafana_dashboard") == "1")
    return dict(json.loads(found["data"]["gpu-operator-post.json"]))


def _series() -> list[dict[str, str]]:
    """Return what two replicas expose before and after one of two stale plugins is restarted and verified."""
    with pytest.MonkeyPatch.context() as patch:  # no time passes
        for name in ("time", "monotonic"):
            patch.setattr(time, name, BEGAN.timestamp)
        found: dict[str, dict[datetime, float]] = {}
        for now, name, value in _exposed():
            found.setdefault(name, {})[now] = 500e6 if name.startswith(MEMORY) else value
    return [
        {"series": name, "values": f"_x10 {values.get(BEGAN, '_')} {values.get(LATER, 'stale')}"}
        for name, values in found.items()
    ]


def _exposed() -> Iterator[tuple[datetime, str, float]]:
    """Yield each sample with the time of its scrape."""
    counters = Counters()
    leader, standby = Telemetry(counters), Telemetry(Counters())
    leader.leading(leading=True)
    standby.leading(leading=False)
    others = [
        stale("gpu-2", BEGAN),
        standing(NodeState.FAILED, Reason.DRIVER_FAILING, "gpu-3"),
        standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, "gpu-4"),
    ]
    affected = Affected(tuple(AffectedPod("team", each, each, "gpu-2", BEGAN, ()) for each in ("one", "two")))
    lost = OutOfSync("pods", time.monotonic() - 120, "refused")
    for now, first in ((BEGAN, stale("gpu-1", BEGAN)), (LATER, verified("gpu-1"))):
        for status in (NO_ANSWER, NOT_FOUND, CONFLICT, GONE):
            counters.failed(ApiError(status, "no"), "list", "pods")
        if now == LATER:
            leader.executed(restart(stale_plugin(ready=BEGAN)), OWNER)
        leader.reconciled(ControllerState(decision([first, *others]), now, affected, lost))
        for target, telemetry in ((LEADER, leader), (STANDBY, standby)):
            for sample in (sample for family in telemetry.registry.collect() for sample in family.samples):
                labels = [target, *(f'{name}="{value}"' for name, value in sample.labels.items())]
                yield now, f"{sample.name}{{{', '.join(labels)}}}", sample.value


def test_each_panel_shows_its_value(helm: Helm, tmp_path: Path) -> None:
    """With a legend for each line. Each query selects by namespace."""
    targets = [(panel["title"], target) for panel in _dashboard(helm)["panels"] for target in panel["targets"]]
    assert SHOWN.keys() == {title for title, _ in targets}
    queries = []
    for title, target in targets:
        assert target["expr"].count("{") == target["expr"].count('{namespace=~"$namespace"'), title
        samples = [{"labels": labels, "value": value} for labels, value in SHOWN[title].items()]
        query = target["expr"].replace("$namespace", NAMESPACE)
        queries.append({"expr": query, "eval_time": "11m", "exp_samples": samples})
        assert all(f'{name}="' in labels for name in LEGEND.findall(target["legendFormat"]) for labels in SHOWN[title])
    test = {"interval": "1m", "input_series": _series(), "promql_expr_test": queries}
    promtool("test", "rules", write(tmp_path / "dashboard.yaml", {"fuzzy_compare": True, "tests": [test]}))


def test_no_panel_covers_another(helm: Helm) -> None:
    """On Grafana's grid of 24 columns, and each has an id of its own."""
    panels = _dashboard(helm)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [cell for panel in panels for cell in _cells(panel["gridPos"])]
    assert len(cells) == len(set(cells))


def _cells(position: dict[str, int]) -> list[tuple[int, int]]:
    columns, rows = (range(position[at], position[at] + position[size]) for at, size in (("x", "w"), ("y", "h")))
    assert columns.stop <= 24
    return [(column, row) for column in columns for row in rows]


def test_it_leads_to_the_documents(helm: Helm) -> None:
    """With the address that alerts use, it links runbooks and troubleshooting. Without one it links nothing."""
    links = {link["title"]: link["url"] for link in _dashboard(helm, "https://wiki.example/gpu/")["links"]}
    assert links == {
        "Runbooks": "https://wiki.example/gpu/monitoring.md#alerts",
        "Troubleshooting": "https://wiki.example/gpu/troubleshooting.md",
    }
    documents = {url.partition("#")[0].removeprefix("https://wiki.example/gpu/") for url in links.values()}
    assert {name for name in documents if not (ROOT / "docs" / name).is_file()} == set()
    assert _dashboard(helm)["links"] == []


def test_it_is_rendered_on_demand(helm: Helm) -> None:
    """With the controller only; the labels are yours."""
    on = {"controller.enabled": True, "controller.dashboard.enabled": True}
    for values, count in (({"controller.enabled": True}, 0), ({"controller.dashboard.enabled": True}, 0), (on, 1)):
        found = helm.render({**values, "controller.dashboard.labels": {"team": "gpu"}}).all("ConfigMap")
        assert len([each for each in found if each["metadata"]["labels"].get("team") == "gpu"]) == count
