"""What the schema accepts and refuses, and that all of it is documented."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.chart.rendering import CHART, IMAGE
from tools import chart_docs
from tools.parent_values import NESTS, ROOT_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

TARGET: Values = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "post"}
OPERATOR_VALUES: Values = {
    "driver": {"enabled": True, "version": "580.126.20", "upgradePolicy": {"maxParallelUpgrades": 2}},
    "operator": {"cleanupCRD": True},
    "daemonsets": {"tolerations": [{"operator": "Exists"}]},
    "node-feature-discovery": {"worker": {"tolerations": []}},
    "networkPolicy": {"enabled": True},
    "nfd": None,
    "_bundlerNote": "v26.7.0",
}


@pytest.mark.parametrize(
    ("values", "place", "reason"),
    [
        pytest.param({"tiemout": "5m"}, "at ''", "'tiemout' not allowed", id="unknown-root-key"),
        pytest.param({"hook.enbaled": True}, "at '/hook'", "'enbaled' not allowed", id="unknown-key-below"),
        pytest.param({"expect.driver": "5"}, "at '/expect'", "'driver' not allowed", id="no-parent-key-below"),
        pytest.param({"hook.enabled": "yes"}, "at '/hook/enabled'", "got string, want boolean", id="text-for-boolean"),
        pytest.param({"backoffLimit": "3"}, "at '/backoffLimit'", "got string, want integer", id="text-for-number"),
        pytest.param({"backoffLimit": 1.5}, "at '/backoffLimit'", "want integer", id="fraction"),
        pytest.param({"trigger": 20260101}, "at '/trigger'", "got number, want string", id="number-for-text"),
        pytest.param({"expect.driverVersion": 580.1}, "at '/expect/driverVersion'", "want string", id="float-version"),
        pytest.param({"timeout": "25 minutes"}, "at '/timeout'", "does not match pattern", id="duration-in-words"),
        pytest.param({"timeout": ""}, "at '/timeout'", "does not match pattern", id="empty-duration"),
        pytest.param({"timeout": "1m1h"}, "at '/timeout'", "does not match pattern", id="duration-in-wrong-order"),
        pytest.param({"stallTimeout": "1.5h"}, "at '/stallTimeout'", "pattern", id="fraction-of-hours"),
        pytest.param({"pluginTimeout": 300}, "at '/pluginTimeout'", "got number, want string", id="bare-seconds"),
        pytest.param({"onDeadline": "ignore"}, "at '/onDeadline'", "one of 'fail', 'report'", id="unknown-choice"),
        pytest.param(
            {"strategy": "restart"}, "at '/strategy'", "one of 'delete-stale-pods', 'rollout-restart'", id="strategy"
        ),
        pytest.param(
            {"onManualUpgrade": "skip"},
            "at '/onManualUpgrade'",
            "one of 'report', 'wait', 'fail'",
            id="on-manual-upgrade",
        ),
        pytest.param({"rbac.scope": "Cluster"}, "at '/rbac/scope'", "one of 'cluster', 'namespace'", id="scope"),
        pytest.param({"maxParallelRestarts": -1}, "at '/maxParallelRestarts'", "minimum", id="negative"),
        pytest.param({"drivers": ["cpu"]}, "at '/drivers/0'", "one of 'gpu', 'network'", id="unknown-driver"),
        pytest.param({"drivers": []}, "at '/drivers'", "minItems", id="no-driver"),
        pytest.param({"drivers": ["gpu", "gpu"]}, "at '/drivers'", "are equal", id="driver-twice"),
        pytest.param(
            {"onMissingPlugin": "fail"}, "at '/onMissingPlugin'", "one of 'skip', 'wait'", id="on-missing-plugin"
        ),
        pytest.param({"refreshAfter": ["cuda"]}, "at '/refreshAfter/0'", "'toolkit'", id="unknown-prerequisite"),
        pytest.param({"plugin.names": "one"}, "at '/plugin/names'", "want array", id="text-for-list"),
        pytest.param({"imagePullSecrets": [{"nmae": "a"}]}, "at '/imagePullSecrets/0'", "", id="pull-secret"),
        pytest.param({"podLabels": {"a": True}}, "at '/podLabels/a'", "want string", id="boolean-label"),
        pytest.param({"hook.deletePolicy": "never"}, "at '/hook/deletePolicy'", "pattern", id="delete-policy"),
        pytest.param(
            {"job.mode": "delegate"}, "at '/controller/enabled'", "must be true", id="delegate-without-controller"
        ),
        pytest.param({"job.mode": "done"}, "at '/job/mode'", "one of 'complete', 'delegate'", id="wait"),
        pytest.param({"controller.replicas": 0}, "at '/controller/replicas'", "minimum", id="no-replica"),
        pytest.param(
            {"controller.maxUnavailable": -1}, "at '/controller/maxUnavailable'", "minimum", id="negative-share"
        ),
        pytest.param(
            {"controller.maxUnavailable": "half"}, "at '/controller/maxUnavailable'", "pattern", id="share-in-words"
        ),
        pytest.param(
            {"controller.circuitBreaker.threshold": "150%"},
            "at '/controller/circuitBreaker/threshold'",
            "pattern",
            id="share-above-all",
        ),
        pytest.param({"eventTargets": "x"}, "at '/eventTargets'", "want array", id="event-target-as-text"),
        pytest.param(
            {"eventTargets": [{**TARGET, "name": name} for name in "defgh"]},
            "at '/eventTargets'",
            "maxItems",
            id="five-event-targets",
        ),
        pytest.param(
            {"eventTargets": [{"namespace": "a", "name": "b"}]}, "at '/eventTargets/0'", "'kind'", id="no-kind"
        ),
        pytest.param(
            {"eventTargets": [{**TARGET, "resource": "a.b"}]},
            "at '/eventTargets/0'",
            "'resource' not allowed",
            id="event-target-by-resource",
        ),
        pytest.param(
            {"eventTargets": [{**TARGET, "apiVersion": "v1"}]},
            "at '/eventTargets/0/apiVersion'",
            "pattern",
            id="no-group",
        ),
        pytest.param({"eventTargets": [{**TARGET, "name": 'a"'}]}, "/name'", "pattern", id="code-in-an-event-target"),
        pytest.param({"plugin.names": ["a/b"]}, "at '/plugin/names/0'", "pattern", id="namespace-in-a-plugin-name"),
        pytest.param({"plugin.names": ["a" * 254]}, "at '/plugin/names/0'", "maxLength", id="long-plugin-name"),
        pytest.param({"driverClients": ["a/b"]}, "at '/driverClients/0'", "want object", id="client-as-text"),
        pytest.param({"driverClients": [{"name": "b"}]}, "at '/driverClients/0'", "'oneOf' failed", id="no-namespace"),
        pytest.param(
            {"driverClients": [{"labels": {}}]}, "at '/driverClients/0/labels'", "minProperties", id="no-label"
        ),
        pytest.param({"extraEnv": [{"value": "a"}]}, "at '/extraEnv/0'", "missing property 'name'", id="nameless-env"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_reason(helm: Helm, values: Values, place: str, reason: str) -> None:
    """Helm says which value it is and what was wanted, before anything reaches a cluster."""
    message = helm.refuse(values)
    assert place in message
    assert reason in message


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(OPERATOR_VALUES, id="flat"),
        pytest.param({"gpu-operator": OPERATOR_VALUES}, id="nested"),
        pytest.param({"gpuoperator": OPERATOR_VALUES}, id="nested-without-hyphen"),
        pytest.param({key: {"any": ["thing"]} for key in ROOT_KEYS}, id="every-known-root-key"),
    ],
)
def test_values_of_the_operators_chart_change_nothing(helm: Helm, values: Values) -> None:
    """Bundlers pass the parent's values to every chart; one file serves both."""
    assert helm.render() == helm.render(values)


def test_no_root_value_of_ours_means_something_to_the_operators_chart() -> None:
    """A shared name would take effect by accident in one of the two charts."""
    ours = yaml.safe_load((CHART / "values.yaml").read_text()).keys()
    assert not ours & (ROOT_KEYS | NESTS).keys()


def test_other_keys_below_global_are_ignored(helm: Helm) -> None:
    """``global`` belongs to all charts of a parent."""
    assert helm.render() == helm.render({"global.storageClass": "fast"})


def test_the_defaults_fit_their_own_schema(helm: Helm) -> None:
    """Every default, given explicitly, is accepted and changes nothing."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    defaults["image"] |= {name.removeprefix("image."): value for name, value in IMAGE.items()}
    assert helm.render() == helm.render(defaults)


def test_readme_and_schema_are_generated_from_the_values() -> None:
    """Nobody edits them by hand, and nobody forgets to generate them."""
    assert chart_docs.main(["--check"]) == 0


def test_an_outdated_file_fails_the_check_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check names the file and the remedy; writing it makes the check pass."""
    chart = _copy(tmp_path, 'trigger: ""', 'trigger: "x"')
    assert chart_docs.main(["--check", f"--chart={chart}"]) == 1
    assert "README.md is out of date: run python -m tools.chart_docs" in capsys.readouterr().err
    assert chart_docs.main([f"--chart={chart}"]) == 0
    assert chart_docs.main(["--check", f"--chart={chart}"]) == 0
    assert json.loads((chart / "values.schema.json").read_text())["properties"]["trigger"]["default"] == "x"


def test_a_value_without_a_comment_cannot_be_generated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every value is documented, or there is no README."""
    chart = _copy(tmp_path, "# PriorityClass of the pod.\n", "\n")
    assert chart_docs.main([f"--chart={chart}"]) == 1
    assert "priorityClassName has no comment" in capsys.readouterr().err


def test_every_value_is_in_the_readme() -> None:
    """As a person would look for it: the whole path, in a table."""
    readme = (CHART / "README.md").read_text()
    for value in chart_docs.read_values((CHART / "values.yaml").read_text()):
        for leaf in _leaves(value):
            assert f"| `{leaf.name}` |" in readme


def _leaves(value: chart_docs.Value) -> Iterator[chart_docs.Value]:
    """Give the values below a value, or itself."""
    if not value.children:
        yield value
    for child in value.children:
        yield from _leaves(child)


def _copy(folder: Path, old: str, new: str) -> Path:
    """Copy the chart and change its values.yaml."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "values.yaml").read_text()
    assert old in text
    (chart / "values.yaml").write_text(text.replace(old, new))
    return chart
