"""The dashboard for Grafana: Prometheus reads each query, and each metric and label is one of the program."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from hook.decide.result import NodeState
from tests.chart.promql import engine
from tests.chart.rendering import Helm
from tests.client.controller import exposition

VARIABLES: Final = {"$namespace": "gpu-operator"}
LEGEND: Final = re.compile(r"\{\{(\w+)\}\}")
TARGET: Final = frozenset({"namespace", "pod"})
"""Labels that a PodMonitor adds to all that it scrapes."""


def _dashboard(helm: Helm) -> dict[str, Any]:
    rendered = helm.render({"controller.enabled": True, "controller.dashboard.enabled": True})
    (found,) = (each for each in rendered.all("ConfigMap") if "grafana_dashboard" in each["metadata"]["labels"])
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    return dict(json.loads(found["data"]["gpu-operator-post.json"]))


def test_queries_are_about_metrics_of_the_program(helm: Helm) -> None:
    """Each selects by namespace, and no panel covers another."""
    families = list(text_string_to_metric_families(exposition()))
    shown = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    panels = _dashboard(helm)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"].replace("$namespace", VARIABLES["$namespace"])
            assert "$" not in query, panel["title"]
            labels = set[str]()
            for selector in engine().selectors(query):
                labels |= shown[selector["metric"]] | TARGET
                assert set(selector["labels"]) <= shown[selector["metric"]] | TARGET, query
                assert selector["labels"]["namespace"], query
                states = selector["labels"].get("state", "")
                assert set(filter(None, states.split("|"))) <= {str(state) for state in NodeState}, query
            assert set(LEGEND.findall(target["legendFormat"])) <= labels, query
    cells = [cell for panel in panels for cell in _cells(panel["gridPos"])]
    assert len(cells) == len(set(cells))


def _cells(position: dict[str, int]) -> list[tuple[int, int]]:
    columns, rows = (range(position[at], position[at] + position[size]) for at, size in (("x", "w"), ("y", "h")))
    assert columns.stop <= 24
    return [(column, row) for column in columns for row in rows]


def test_it_is_rendered_on_demand(helm: Helm) -> None:
    """With the controller only; the labels are yours."""
    on = {"controller.enabled": True, "controller.dashboard.enabled": True}
    for values, count in (({"controller.enabled": True}, 0), ({"controller.dashboard.enabled": True}, 0), (on, 1)):
        found = helm.render({**values, "controller.dashboard.labels": {"team": "gpu"}}).all("ConfigMap")
        assert len([each for each in found if each["metadata"]["labels"].get("team") == "gpu"]) == count
