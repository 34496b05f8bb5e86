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
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

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
        pytest.param({"pluginTimeout": 300}, "pluginTimeout is", "which is not a duration", id="bare-seconds"),
        pytest.param({"onDeadline": "ignore"}, "at '/onDeadline'", "one of 'fail', 'report'", id="unknown-choice"),
        pytest.param({"rbac.scope": "Cluster"}, "at '/rbac/scope'", "one of 'cluster', 'namespace'", id="scope"),
        pytest.param({"drivers": ["cpu"]}, "at '/drivers/0'", "one of 'gpu', 'network'", id="unknown-driver"),
        pytest.param({"plugin.names": "one"}, "at '/plugin/names'", "want array", id="text-for-list"),
        pytest.param({"imagePullSecrets": [{"nmae": "a"}]}, "at '/imagePullSecrets/0'", "", id="pull-secret"),
        pytest.param({"podLabels": {"a": True}}, "at '/podLabels/a'", "want string", id="boolean-label"),
        pytest.param({"hook.deletePolicy": "never"}, "at '/hook/deletePolicy'", "pattern", id="delete-policy"),
        pytest.param({"job.mode": "done"}, "at '/job/mode'", "one of 'complete', 'delegate'", id="mode"),
        pytest.param({"controller.replicas": 0}, "at '/controller/replicas'", "minimum", id="no-replica"),
        pytest.param(
            {"controller.maxUnavailable": "half"}, "at '/controller/maxUnavailable'", "pattern", id="share-in-words"
        ),
        pytest.param(
            {"eventTargets": [{"namespace": "a", "name": "b"}]}, "at '/eventTargets/0'", "'kind'", id="no-kind"
        ),
        pytest.param({"image.tag": "a+b"}, "at '/image/tag'", "pattern", id="tag-of-a-chart"),
        pytest.param({"image.tag": f"x@sha256:{'a' * 64}"}, "at '/image/tag'", "pattern", id="digest-in-the-tag"),
        pytest.param({"image.digest": f"sha256:{'a' * 63}"}, "at '/image/digest'", "pattern", id="short-digest"),
        pytest.param({"image.digest": f"sha256:{'A' * 64}"}, "at '/image/digest'", "pattern", id="digest-in-capitals"),
        pytest.param({"image.repository": "Foo/Bar"}, "at '/image/repository'", "pattern", id="name-in-capitals"),
        pytest.param({"image.repository": "a/b:1"}, "at '/image/repository'", "pattern", id="tag-in-the-repository"),
        pytest.param({"image.repository": "a//b"}, "at '/image/repository'", "pattern", id="two-slashes"),
        pytest.param({"image.registry": "https://ghcr.io"}, "at '/image/registry'", "pattern", id="scheme"),
        pytest.param({"image.registry": "reg:port"}, "at '/image/registry'", "pattern", id="port-in-words"),
        pytest.param({"global.imageRegistry": "http://x"}, "at '/global/imageRegistry'", "pattern", id="global-scheme"),
        pytest.param({"controller.podMonitor.interval": "121s"}, "/interval'", "pattern", id="interval-too-long"),
        pytest.param({"controller.podMonitor.interval": "0s"}, "/interval'", "pattern", id="interval-of-nothing"),
        pytest.param({"extraArgs": ["-v"]}, "at ''", "'extraArgs' not allowed", id="no-further-arguments"),
        pytest.param({"advanced.quiet": "5s"}, "at '/advanced'", "'quiet' not allowed", id="unknown-time"),
        pytest.param({"extraEnv": [{"value": "a"}]}, "at '/extraEnv/0'", "missing property 'name'", id="nameless-env"),
        pytest.param({"extraEnv": [{"name": 5}]}, "at '/extraEnv/0/name'", "want string", id="number-for-a-name"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_reason(helm: Helm, values: Values, place: str, reason: str) -> None:
    """Helm says which value it is and what was wanted, before anything reaches a cluster."""
    message = helm.refuse(values)
    assert place in message
    assert reason in message


def test_no_value_that_the_templates_need_can_be_removed(helm: Helm) -> None:
    """Helm removes a value that is null. Without a strategy, say, no permission to restart would be rendered."""
    values = chart_docs.read_values((CHART / "values.yaml").read_text())
    accepted = []
    for value in chart_docs.leaves(values):
        if helm.template({value.name: None}).returncode == 0:
            accepted.append(value.name)
            assert value.default in ({}, [], "", None) or isinstance(value.default, dict), value.name
    assert {"trigger", "tolerations", "nodeSelector", "affinity", "ttlSecondsAfterFinished"} <= set(accepted)


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


def test_the_generated_files_are_up_to_date() -> None:
    """They are generated, and up to date."""
    assert chart_docs.main(["--check"]) == 0


def test_an_outdated_file_fails_the_check_and_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check names the file and the remedy; writing it makes the check pass."""
    chart = _copy(tmp_path, 'trigger: ""', 'trigger: "x"')
    assert chart_docs.main(["--check", f"--chart={chart}"]) == 1
    assert "README.md is out of date: run python -m tools.chart_docs" in capsys.readouterr().err
    assert chart_docs.main([f"--chart={chart}"]) == 0
    assert chart_docs.main(["--check", f"--chart={chart}"]) == 0
    assert json.loads((chart / "values.schema.json").read_text())["properties"]["trigger"]["default"] == "x"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        pytest.param(
            "# PriorityClass of the pod.\n", "\n", "priorityClassName has no comment", id="value-without-a-comment"
        ),
        pytest.param(
            "stallTimeout: 30m\n", "\n", "no value for the settings stallTimeout", id="setting-without-a-value"
        ),
        pytest.param(
            "stallTimeout: 30m\n",
            "stallTimeout: 31m\n",
            "the default of stallTimeout is not the program's",
            id="default",
        ),
        pytest.param(
            "\ntimeout: 25m\n", "\ntimeout: 25\n", "the default of timeout is refused", id="impossible-default"
        ),
        pytest.param(
            "logLevel: info\n",
            "# @schema {enum: [info]}\nlogLevel: info\n",
            "logLevel is a setting of the program, which has its schema",
            id="second-schema",
        ),
    ],
)
def test_values_that_contradict_the_program_cannot_be_generated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, sentence: str
) -> None:
    """Each value is documented, each setting has a value, and its default and schema are the program's."""
    chart = _copy(tmp_path, old, new)
    assert chart_docs.main([f"--chart={chart}"]) == 1
    assert sentence in capsys.readouterr().err


def test_the_description_of_a_setting_is_written_into_the_values(tmp_path: Path) -> None:
    """It is generated; what the chart adds stays as it is."""
    chart = _copy(tmp_path, "# The run ends if no node advances", "# Something else")
    assert chart_docs.main(["--check", f"--chart={chart}"]) == 1
    assert chart_docs.main([f"--chart={chart}"]) == 0
    assert (chart / "values.yaml").read_text() == (CHART / "values.yaml").read_text()


def test_every_value_is_in_the_readme() -> None:
    """By its whole path, in a table."""
    readme = (CHART / "README.md").read_text()
    for value in chart_docs.leaves(chart_docs.read_values((CHART / "values.yaml").read_text())):
        assert f"| `{value.name}` |" in readme


def _copy(folder: Path, old: str, new: str) -> Path:
    """Copy the chart and change its values.yaml."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    text = (chart / "values.yaml").read_text()
    assert old in text
    (chart / "values.yaml").write_text(text.replace(old, new))
    return chart
