"""The dashboard for Grafana: Prometheus evaluates each query over what the program itself exposes."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from prometheus_client import generate_latest

from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.decide.workloads import Affected, AffectedPod
from hook.errors import CONFLICT, GONE, NO_ANSWER, NOT_FOUND, ApiError
from hook.kube.client import Counters
from hook.kube.events import ObjectReference
from hook.kube.informer import OutOfSync
from hook.run.telemetry import ControllerState, Telemetry
from tests.chart.promql import Scrape, engine
from tests.chart.rendering import NAMESPACE, ROOT, Helm
from tests.client.controller import decision, restart, stale, stale_pod, standing, verified

SECONDS: Final = 60
"""From the first scrape to the second."""
LEADER: Final = "controller-a"
STANDBY: Final = "controller-b"
OWNER: Final = ObjectReference("apps/v1", "DaemonSet", "dra", "plugin", "ds")
LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")
SHOWN: Final[dict[str, dict[str, Any]]] = {
    "Leader": {"": 1},
    "Stale nodes": {"": 1},
    "Failed nodes": {"": 1},
    "Affected pods": {"": 2},
    "Cache out of sync": {"": 120},
    "Nodes by state": {"Verified": 1, "Stale": 1, "Failed": 1, "Excluded": 1},
    "What nodes wait for": {"PluginStale": 1, "DriverFailing": 1},
    "Age of the oldest stale plugin": {"longest": pytest.approx(SECONDS, abs=0.01)},
    "Restarts per hour": {"restarted": 1, "refused": 0, "failed": 0},
    "Errors of the API server": {"0": pytest.approx(0.005)},
    "Memory": {LEADER: pytest.approx(500e6, abs=490e6), STANDBY: pytest.approx(500e6, abs=490e6)},
    "Time since the last reconcile": {LEADER: pytest.approx(SECONDS, abs=0.01)},
}
"""By panel, the values of the fleet of `_scrapes` by their legends. None is empty."""


def _dashboard(helm: Helm, docs: str = "") -> dict[str, Any]:
    on = {"controller.enabled": True, "controller.dashboard.enabled": True}
    rendered = helm.render({**on, "controller.prometheusRule.docsUrl": docs})
    maps = rendered.all("ConfigMap")
    (found,) = (each for each in maps if each["metadata"]["labels"].get("grafana_dashboard") == "1")
    return dict(json.loads(found["data"]["gpu-operator-post.json"]))


def _scrapes(began: datetime) -> list[Scrape]:
    """Return what two replicas expose before and after one of two stale plugins is restarted and verified."""
    with pytest.MonkeyPatch.context() as patch:  # no time passes
        for name in ("time", "monotonic"):
            patch.setattr(time, name, began.timestamp)
        return _exposed(began)


def _exposed(began: datetime) -> list[Scrape]:
    counters = Counters()
    replicas = {LEADER: Telemetry(counters), STANDBY: Telemetry(Counters())}
    for name, telemetry in replicas.items():
        telemetry.leading(leading=name == LEADER)
    others = [
        stale("gpu-2", began),
        standing(NodeState.FAILED, Reason.DRIVER_FAILING, "gpu-3"),
        standing(NodeState.EXCLUDED, Reason.NODE_SKIPPED, "gpu-4"),
    ]
    affected = Affected(tuple(AffectedPod("team", each, each, "gpu-2", began, ()) for each in ("one", "two")))
    lost = OutOfSync("pods", time.monotonic() - 120, "refused")
    found: list[Scrape] = []
    for now, first in ((began, stale("gpu-1", began)), (began + timedelta(seconds=SECONDS), verified("gpu-1"))):
        for status in (NO_ANSWER, NOT_FOUND, CONFLICT, GONE):
            counters.failed(ApiError(status, "no"), "list", "pods")
        if now > began:
            replicas[LEADER].executed(restart(stale_pod(ready=began)), OWNER)
        state = ControllerState(decision([first, *others]), now, affected, lost)
        replicas[LEADER].reconciled(state)
        for name, telemetry in replicas.items():
            text = generate_latest(telemetry.registry).decode()
            found.append({"at": now.timestamp(), "labels": {"namespace": NAMESPACE, "pod": name}, "text": text})
    return found


def test_each_panel_shows_its_value(helm: Helm) -> None:
    """With a legend for each line. Each query selects by namespace, and no panel covers another."""
    began = datetime.now(UTC)
    prometheus = engine(scrapes=_scrapes(began))
    panels = _dashboard(helm)["panels"]
    for panel in panels:
        shown = {}
        for target in panel["targets"]:
            query = target["expr"].replace("$namespace", NAMESPACE)
            assert all(selector["labels"]["namespace"] == NAMESPACE for selector in prometheus.selectors(query)), query
            for labels, value in prometheus.values(query, began.timestamp() + SECONDS):
                shown[LEGEND.sub(lambda name: labels[name[1]], target["legendFormat"])] = value  # noqa: B023
        assert shown == SHOWN[panel["title"]], panel["title"]
    assert SHOWN.keys() == {panel["title"] for panel in panels}
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
