"""What the chart renders for Prometheus: where to scrape, and alerts that fire when they must and not otherwise.

The real Helm renders the alerts, and Prometheus' promtool evaluates them over the series in alerts.yaml.
"""

from __future__ import annotations

import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.run import telemetry
from tests.chart.promtool import promtool, write
from tests.chart.rendering import NAMESPACE, ROOT, Helm, Values
from tests.fixtures.statuses import exposition

RULES: Final[Values] = {"controller.enabled": True, "controller.prometheusRule.enabled": True}
TESTS: Final = Path(__file__).with_name("alerts.yaml")
DOCS: Final = ROOT / "docs" / "monitoring.md"
SELECTOR: Final = re.compile(r"(\w+)\{([^}]*)\}")
MATCHER: Final = re.compile(r'(\w+)[=!]~?"([^"]*)"')
OF_THE_TARGET: Final = {"namespace": NAMESPACE, "pod": "gpu-operator-post-controller-.+"}
"""Labels that a PodMonitor adds to all that it scrapes, as each expression selects them."""
KNOWN: Final = {
    "state": {str(state) for state in NodeState},
    "reason": {str(reason) for reason in Reason},
    "code": {"404", "409", "410"},
    "result": set(telemetry.RESULTS),
}
"""The values that a label can have."""

Alerts = dict[str, dict[str, Any]]


@pytest.fixture
def groups(helm: Helm) -> Values:
    """Return the rendered rules, as Prometheus reads them."""
    return deepcopy(helm.render(RULES).one("PrometheusRule")["spec"])


@pytest.fixture
def alerts(groups: Values) -> Alerts:
    """Return the rendered alerts by their names."""
    return {alert["alert"]: alert for group in groups["groups"] for alert in group["rules"]}


def test_alerts_fire_when_they_must_and_not_otherwise(groups: Values, tmp_path: Path) -> None:
    """As alerts.yaml says, for each alert. promtool accepts the rules with the templates in their descriptions."""
    promtool("check", "rules", write(tmp_path / "rules.yaml", groups))
    for group in groups["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # a test would have to repeat them
    write(tmp_path / "rules.yaml", groups)
    promtool("test", "rules", shutil.copy(TESTS, tmp_path))


def test_each_alert_is_tested_both_ways(alerts: Alerts) -> None:
    """It fires in one test of alerts.yaml, and is quiet in another. It has the labels that its description shows."""
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    fired = {
        row["alertname"]: expected["exp_labels"].keys()
        for test in tests
        for row in test.get("alert_rule_test", ())
        for expected in row.get("exp_alerts", ())
    }
    quiet = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    assert fired.keys() == quiet == alerts.keys()
    for name, alert in alerts.items():
        assert set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["description"])) <= fired[name], name


def test_alerts_ask_for_what_the_program_shows(alerts: Alerts) -> None:
    """Each metric, label and value of an expression is one of the program's, and of this release's controller."""
    families = list(text_string_to_metric_families(exposition()))
    shown = {sample.name: sample.labels.keys() for family in families for sample in family.samples}
    for name, alert in alerts.items():
        for metric, matchers in SELECTOR.findall(alert["expr"]):
            labels = dict(MATCHER.findall(matchers))
            assert labels.items() >= OF_THE_TARGET.items(), name
            asked = {label: set(value.split("|")) for label, value in labels.items() if label not in OF_THE_TARGET}
            assert asked.keys() <= shown[metric], name
            assert all(values <= KNOWN[label] for label, values in asked.items()), name


def test_each_alert_says_what_to_do(alerts: Alerts) -> None:
    """A severity, a summary, a description and a runbook, which says what it means, how to look and what to do."""
    sections = DOCS.read_text().split("\n### ")[1:]
    runbooks = {one.partition("\n")[0]: one.partition("\n## ")[0] for one in sections if one.startswith("GPUOperator")}
    assert set(runbooks) == set(alerts)
    for name, alert in alerts.items():
        assert alert["labels"]["severity"] in {"warning", "critical"}, name
        assert alert["labels"]["namespace"] == NAMESPACE, name
        texts = alert["annotations"]
        assert len(texts["summary"]) < 70 < len(texts["description"]), name
        assert texts["runbook_url"] == f"docs/monitoring.md#{name.lower()}"
        assert all(text in runbooks[name] for text in ("**Means.**", "**Look.**", "**Do.**", "kubectl")), name
