"""What the chart renders for Prometheus: where to scrape, and alerts that fire when they must and not otherwise.

The alerts are rendered by the real Helm and evaluated by Prometheus' own engine.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hook.decide.reasons import Reason
from hook.decide.result import NodeState
from hook.run import telemetry
from tests.chart.promql import engine
from tests.chart.rendering import NAMESPACE, ROOT, Helm, Values
from tests.client.controller import exposition

RULES: Final[Values] = {"controller.enabled": True, "controller.prometheusRule.enabled": True}
POD: Final = "gpu-operator-post-controller-6d5f-x2x4z"
OTHER_POD: Final = "network-operator-post-gpu-operator-post-controller-7c9d-k4m2p"
"""Of a second release in the same namespace, whose alerts are its own."""
TARGET: Final = frozenset({"namespace", "pod"})
"""Labels that a PodMonitor adds to all that it scrapes."""
DOCS: Final = ROOT / "docs" / "monitoring.md"


def _series(metric: str, values: str, pod: str = POD, **labels: str) -> str:
    """Write a series with a sample a minute, as Prometheus' own tests do."""
    given = {"namespace": NAMESPACE, "pod": pod, **labels}
    selector = ",".join(f'{key}="{value}"' for key, value in given.items())
    return f"{metric}{{{selector}}} {values}"


def _ours(metric: str, values: str, pod: str = POD, **labels: str) -> str:
    return _series(f"gpu_operator_post_{metric}", values, pod, **labels)


_leader: Final = partial(_ours, "leader")
_started: Final = partial(_series, "process_start_time_seconds")
_reconciled: Final = partial(_ours, "last_reconcile_timestamp_seconds")
_out_of_sync: Final = partial(_ours, "cache_out_of_sync_seconds")
_oldest: Final = partial(_ours, "oldest_stale_timestamp_seconds")
_restarts: Final = partial(_ours, "restarts_total", plugin="dra/plugin", result="restarted")
_exporter: Final = partial(_ours, "restarts_total", plugin="monitoring/exporter", result="restarted")
_errors: Final = partial(_ours, "api_errors_total", verb="watch", resource="pods")
PLUGINS: Final = (_restarts, _exporter)


def _nodes(state: str, reason: str, values: str) -> str:
    return _ours("nodes", values, state=state, reason=reason)


def _verified(values: str) -> str:
    return _nodes("Verified", "Verified", values)


def _affected(values: str) -> str:
    return _ours("affected_pods", values)


NODE_LOST: Final = "1x5 stale _x5 1x90"
"""A controller that is gone, and back on another node six minutes later."""
BACK_OFF: Final = "_ 1 _ 1 _ 1x3 _ 1x7 _ 1x13"
"""Seen each minute: a restart that does not help, the next one after 1, 2, 4, 8 and 16 minutes."""
FIRES: Final[dict[str, tuple[str, list[str], tuple[int, int]]]] = {
    "never-there": ("ControllerMissing", [], (10, 30)),
    "another-release-leads": ("ControllerMissing", [_leader("1x30", pod=OTHER_POD)], (10, 30)),
    "all-standby": ("ControllerMissing", [_leader("0x30")], (10, 30)),
    "six-starts-in-an-hour": ("ControllerRestarting", [_started("0+1x6 6x23"), _leader("0x9 1x20")], (6, 29)),
    "never-reconciles": ("NoProgress", [_leader("1x30"), _reconciled("0x30")], (9, 30)),
    "stops-reconciling": ("NoProgress", [_leader("1x30"), _reconciled("0+60x10 600x20")], (19, 30)),
    "blind-for-long": ("Blind", [_out_of_sync("0+60x10 0x20")], (6, 10)),
    "stale-for-long": ("PluginStale", [_oldest("0x30")], (16, 30)),
    "failed": ("NodeFailed", [_nodes("Failed", "DriverFailing", "_ 2x9 stale")], (2, 10)),
    "restarted-in-vain": ("RestartsDoNotHelp", [_nodes("Stale", "RestartBackedOff", BACK_OFF)], (16, 30)),
    "four-restarts-of-one": ("ManyRestarts", [_verified("1x40"), _restarts("0+1x4 4x35"), _exporter("0x40")], (4, 39)),
    "affected-pods": ("AffectedWorkloads", [_affected("0 2x20 0x5")], (6, 21)),
    "watch-that-never-opens": ("ApiErrors", [_errors("0+6x60", code="403")], (36, 60)),
}
"""An alert, series, and the first and the last minute in which it fires."""
QUIET: Final[dict[str, tuple[str, list[str]]]] = {
    "affected-pods-that-end-soon": ("AffectedWorkloads", [_affected("0 2x3 0x30")]),
    "moved-to-another-node": ("ControllerMissing", [_leader(NODE_LOST)]),
    "control-plane-rolls": ("ControllerRestarting", [_started("0x10 1x10 2x10 3x10"), _leader("1x43")]),
    "reconciles": ("NoProgress", [_leader("1x30"), _reconciled("0+60x30")]),
    "another-release-is-stuck": ("NoProgress", [_leader("1x30", pod=OTHER_POD), _reconciled("0x30")]),
    "is-standby": ("NoProgress", [_leader("0x30"), _reconciled("0x30")]),
    "reads-a-large-fleet": ("NoProgress", [_leader("1x30"), _reconciled("0x5 360+60x24")]),
    "outage-of-minutes": ("Blind", [_out_of_sync("0+60x4 0x20")]),
    "third-restart-helps": ("RestartsDoNotHelp", [_nodes("Stale", "RestartBackedOff", "_ 1 _ 1 stale _x20")]),
    "stale-for-a-moment": ("PluginStale", [_oldest("0x10 stale")]),
    "waits-for-its-driver": ("NodeFailed", [_nodes("Waiting", "DriverNotReady", "5x30")]),
    "failed-for-a-moment": ("NodeFailed", [_nodes("Failed", "UpgradeFailed", "1 stale")]),
    "backs-off": ("NodeFailed", [_nodes("Stale", "RestartBackedOff", BACK_OFF)]),
    "three-restarts-of-each": ("ManyRestarts", [_verified("1x70"), *(of("0+1x3 3x67") for of in PLUGINS)]),
    "a-rollout-and-a-second": ("ManyRestarts", [_verified("50x9 0x9 50x50"), _restarts("0+20x5 100x60")]),
    "a-rollout-under-a-new-leader": ("ManyRestarts", [_verified("_x9 50x50"), _restarts("0+20x5 100x60")]),
    "outage-of-the-api": ("ApiErrors", [_errors("0 150x60", code="0")]),
    "expired-watches": ("ApiErrors", [_errors("0+60x60", code="410"), _errors("0+60x60", code="404")]),
}


@cache
def _alerts(helm: Helm) -> dict[str, dict[str, Any]]:
    rule = helm.render(RULES).one("PrometheusRule")
    (group,) = rule["spec"]["groups"]
    return {alert["alert"]: alert for alert in group["rules"]}


@pytest.mark.parametrize(("name", "series", "minutes"), FIRES.values(), ids=FIRES.keys())
def test_alerts_fire(helm: Helm, name: str, series: list[str], minutes: tuple[int, int]) -> None:
    """From the minute in which the threshold has been crossed for long enough, with the labels of the description."""
    first, last = minutes
    alert = _alerts(helm)[f"GPUOperatorPost{name}"]
    firing = engine(series).firing(alert, last * 60)
    assert list(range(first, last + 1)) == [at // 60 for at, labels in firing.items() if labels]
    described = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["description"]))
    assert all(described <= dict(labels).keys() for fired in firing.values() for labels in fired)


@pytest.mark.parametrize(("name", "series"), QUIET.values(), ids=QUIET.keys())
def test_alerts_stay_quiet(helm: Helm, name: str, series: list[str]) -> None:
    """Ordinary conditions that look alike raise no alert."""
    firing = engine(series).firing(_alerts(helm)[f"GPUOperatorPost{name}"], 90 * 60)
    assert [at // 60 for at, labels in firing.items() if labels] == []


def test_alerts_ask_for_what_the_program_shows(helm: Helm) -> None:
    """Each metric, label and value of an expression is one of the program's; each alert is tried both ways."""
    assert {name.removeprefix("GPUOperatorPost") for name in _alerts(helm)} == {name for name, _, _ in FIRES.values()}
    assert {name for name, _, _ in FIRES.values()} == {name for name, _ in QUIET.values()}
    families = list(text_string_to_metric_families(exposition()))
    shown = {sample.name: set(sample.labels) for family in families for sample in family.samples}
    known = {
        "state": {str(state) for state in NodeState},
        "reason": {str(reason) for reason in Reason},
        "code": {"404", "409", "410"},
        "result": set(telemetry.RESULTS),
    }
    for name, alert in _alerts(helm).items():
        for selector in engine().selectors(alert["expr"]):
            assert selector["metric"] in shown, name
            assert set(selector["labels"]) <= shown[selector["metric"]] | TARGET, name
            assert selector["labels"]["namespace"] == NAMESPACE, name
            assert selector["labels"]["pod"] == "gpu-operator-post-controller-.+", name
            for label in set(selector["labels"]) - TARGET:
                assert set(selector["labels"][label].split("|")) <= known[label], name


def test_each_alert_says_what_to_do(helm: Helm) -> None:
    """A severity, a summary, a description and a runbook, which says what it means, how to look and what to do."""
    sections = DOCS.read_text().split("\n### ")[1:]
    runbooks = {one.partition("\n")[0]: one.partition("\n## ")[0] for one in sections if one.startswith("GPUOperator")}
    assert set(runbooks) == set(_alerts(helm))
    for name, alert in _alerts(helm).items():
        assert alert["labels"]["severity"] in {"warning", "critical"}, name
        assert alert["labels"]["namespace"] == NAMESPACE, name
        texts = alert["annotations"]
        assert len(texts["summary"]) < 70 < len(texts["description"]), name
        assert texts["runbook_url"] == f"docs/monitoring.md#{name.lower()}"
        assert all(text in runbooks[name] for text in ("**Means.**", "**Look.**", "**Do.**", "kubectl")), name
