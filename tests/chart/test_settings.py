"""The chart and the program know the same settings, with the same defaults and limits."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
import yaml

from hook.errors import SettingsError
from hook.format import as_text
from hook.settings import ControllerSettings, Duration, Settings, settings_from
from tests.chart.rendering import CHART, Helm, Values, config_of, container_of
from tests.fixtures.settings import EVERY_SETTING

VALUES: Final[Values] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Final[dict[str, Any]] = json.loads((CHART / "values.schema.json").read_text())
OF_A_RUN: Final = {"timeout", "onDeadline", "expect.chartVersion", "expect.driverVersion", "dryRun"}
"""Settings of a single run. The controller does not get them, so that a release does not restart it."""
OF_TESTS: Final = "advanced."
"""Times that only tests change: the schema knows them, and values.yaml does not."""


def _flat(tree: Values, block: str = "") -> Values:
    """Return a tree of settings by path."""
    flat: Values = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{block}{key}.") if isinstance(value, dict) else {f"{block}{key}": value}
    return flat


def _as_users_write(value: object) -> str:
    return as_text(value) if isinstance(value, Duration) else str(value)


DEFAULTS: Final = _flat(msgspec.json.decode(msgspec.json.encode(Settings(), enc_hook=_as_users_write)))
"""The default of each setting of the program, by its path."""


def _blocks(schema: dict[str, Any], values: Values, path: str = "") -> list[tuple[str, set[str], set[str]]]:
    """Return for each block of the schema that lists its keys: its path, these keys, and those in values.yaml."""
    known = {key: below for key, below in schema["properties"].items() if below is not True}
    found = [(path, set(known), set(values))]
    for key, below in known.items():
        if isinstance(below, dict) and "properties" in below and key in values:
            found += _blocks(below, values[key], f"{path}{key}.")
    return found


def test_values_and_schema_have_the_same_keys() -> None:
    """Each value has a rule, and each rule a value that users can look up."""
    for path, ruled, given in _blocks(SCHEMA, VALUES):
        assert ruled - {"advanced"} == given, path or "the root"


def test_each_setting_of_the_program_is_a_value_with_its_default() -> None:
    """The program knows its defaults itself, for those who start it by hand."""
    documented = {path: default for path, default in DEFAULTS.items() if not path.startswith(OF_TESTS)}
    values = _flat(VALUES)
    assert documented == {path: values.get(path, "no such value") for path in documented}
    times = {f"{OF_TESTS}{name}" for name in SCHEMA["properties"]["advanced"]["properties"]}
    assert times == DEFAULTS.keys() - documented.keys()


def _configs(helm: Helm, values: Values) -> list[Values]:
    rendered = helm.render(values)
    return [config_of(container_of(workload)) for kind in ("Job", "Deployment") for workload in rendered.all(kind)]


def test_the_chart_passes_each_setting_and_no_other(helm: Helm) -> None:
    """A setting that only one of them knows is a mistake. The defaults are the program's, also as a controller."""
    job, deployment = _configs(helm, {"controller.enabled": True})
    assert settings_from(job) == Settings()
    assert settings_from(deployment, controller=True) == ControllerSettings()
    of_job, of_controller = set(_flat(job)), set(_flat(deployment))
    assert of_job | of_controller == {path for path in DEFAULTS if not path.startswith(OF_TESTS)}
    assert of_job - of_controller == OF_A_RUN
    assert of_controller - of_job == {"controller.maxUnavailable"}


@pytest.mark.parametrize("further", [{}, {"dryRun": False, "controller.enabled": True}], ids=["Job", "controller"])
def test_each_value_arrives(helm: Helm, further: Values) -> None:
    """Job and controller get each value as it was given; no setting is left out of this test."""
    every = _flat(EVERY_SETTING)
    assert every.keys() == DEFAULTS.keys()
    assert [path for path, value in every.items() if value == DEFAULTS[path]] == ["stack"]
    given = every | further
    for config in _configs(helm, given):
        assert [path for path, value in _flat(config).items() if value != given[path]] == []


@pytest.mark.parametrize("path", [path for path, default in DEFAULTS.items() if str(default).endswith(("s", "m", "h"))])
def test_a_time_needs_a_unit(helm: Helm, path: str) -> None:
    """The schema refuses what is no duration, with the path."""
    assert f"at '/{path.replace('.', '/')}'" in helm.refuse({path: "25min"})
    assert not _accepted(path, "25min")


ACCEPTED: Final[Values] = {
    "stack": ["network"],
    "maxParallelRestarts": [0, 7],
    "controller.maxUnavailable": [1, "3", "100%"],
    "pluginTimeout": ["1s", "0h1s", "99999h"],
    "nodeTimeout": ["0s"],
    "advanced.restartBackoff": ["1s"],
    "plugin.names": [["a" * 63], ["a.b"]],
    "plugin.namespace": [""],
    "driverClients": [[{"labels": {"a.b/c": ""}}], [{"namespace": "a", "name": "b.c"}]],
    "timeout": ["30s", "1h30m"],
}
REFUSED: Final[Values] = {
    "stack": ["", "cpu", ["gpu"]],
    "refreshAfter": ["mig", ["disk"]],
    "maxParallelRestarts": [-1, 1.5, "3"],
    "controller.maxUnavailable": [0, "0", "0%", -1, 1.5, "half", "101%", 1000000],
    "pluginTimeout": ["0s", "0h0m", "999999h"],
    "advanced.restartBackoff": ["0s"],
    "plugin.names": [["a." * 127], ["a/b"], ['x"'], ["x\n"], [{"name": "a"}], "a"],
    "plugin.namespace": ["a.b", "A"],
    "driverClients": [
        ["a/b"],
        [{"labels": {"a": "b"}, "name": "c"}],
        [{"labels": {'a"': "b"}}],
        [{"labels": {"a": "b c"}}],
        [{}],
        [{"namespace": "a"}],
    ],
    "timeout": ["25min", "1.5h", "", 300, True, "1m1h"],
    "onDeadline": ["never"],
    "onManualUpgrade": ["ask"],
    "dryRun": ["yes"],
}


def _each(rows: Values) -> list[Any]:
    return [pytest.param(path, value, id=f"{path}={value!r}") for path, values in rows.items() for value in values]


@pytest.mark.parametrize(("path", "value"), _each(ACCEPTED))
def test_chart_and_program_accept_the_same(helm: Helm, path: str, value: object) -> None:
    """No check refuses what works."""
    assert _accepted(path, value)
    assert helm.render({path: value})


@pytest.mark.parametrize(("path", "value"), _each(REFUSED))
def test_chart_and_program_refuse_the_same(helm: Helm, path: str, value: object) -> None:
    """A value that the program refuses fails before anything is installed."""
    assert not _accepted(path, value)
    assert path.partition(".")[0] in helm.refuse({path: value})


def _accepted(path: str, value: object) -> bool:
    """Return whether the program accepts a value."""
    for key in reversed(path.split(".")):
        value = {key: value}
    try:
        settings_from(value)
    except SettingsError:
        return False
    return True
