"""The chart and the program know the same settings."""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

from hook.checks import settings_from
from hook.config import DEFAULTS, ControllerSettings
from hook.errors import SettingsError
from tests.chart.rendering import Helm, Values, config_of, container_of
from tests.fixtures.settings import EVERY_SETTING
from tools.settings import settings

SETTINGS: Final = {".".join(path): setting for path, setting in settings()[0].items()}
OF_A_RUN: Final = {"timeout", "onDeadline", "expect", "dryRun"}
"""Settings of a single run. The controller does not get them, so that a release does not restart it."""
BLOCKS: Final = ("expect", "plugin", "controller", "advanced", "affectedWorkloads")
RENDERED: Final[tuple[Values, ...]] = (
    {},
    {"dryRun": False, "controller.enabled": True},
)
"""The chart renders them in two steps, because a controller has no dry run."""


def _flat(config: Values, block: str = "") -> Values:
    """Return settings by ``a.b``."""
    flat: Values = {}
    for key, value in config.items():
        flat |= _flat(value, f"{block}{key}.") if key in BLOCKS else {f"{block}{key}": value}
    return flat


def _configs(helm: Helm, values: Values) -> list[Values]:
    rendered = helm.render(values)
    return [config_of(container_of(workload)) for kind in ("Job", "Deployment") for workload in rendered.all(kind)]


def test_the_chart_passes_each_setting_and_no_other(helm: Helm) -> None:
    """A setting that only one of them knows is a mistake. The defaults are the program's, also as a controller."""
    job, deployment = _configs(helm, {"controller.enabled": True})
    assert settings_from(job) == DEFAULTS
    assert settings_from(deployment, controller=True) == ControllerSettings()
    of_job, of_controller = set(_flat(job)), set(_flat(deployment))
    assert of_job | of_controller == SETTINGS.keys()
    assert {name.partition(".")[0] for name in of_job - of_controller} == OF_A_RUN
    assert {name.partition(".")[0] for name in of_controller - of_job} == {"controller"}


def test_each_value_arrives(helm: Helm) -> None:
    """Job and controller get each value as it was given; no setting is left out of this test."""
    every = _flat(EVERY_SETTING)
    assert every.keys() == SETTINGS.keys()
    assert [name for name, value in every.items() if SETTINGS[name].is_default(value)] == ["stack"]
    for further in RENDERED:
        given = every | further
        for config in _configs(helm, given):
            assert [name for name, value in _flat(config).items() if value != given[name]] == []


def test_each_duration_is_checked_with_a_sentence(helm: Helm) -> None:
    """The chart checks the form of each duration of the program."""
    durations = [name for name, setting in SETTINGS.items() if not setting.schema]
    assert {"timeout", "advanced.apiPatience"} <= set(durations)
    message = helm.refuse(dict.fromkeys(durations, "25min"))
    assert [name for name in durations if f'{name} is "25min", which is not a duration' not in message] == []


CLIENTS: Final = [["a/b"], [{"labels": {"a": "b"}, "name": "c"}], [{"labels": {'a"': "b"}}], [{}], [{"namespace": "a"}]]
ACCEPTED_AND_REFUSED: Final[tuple[tuple[str, list[object], list[object]], ...]] = (
    ("stack", ["network"], ["", "cpu", ["gpu"]]),
    ("maxParallelRestarts", [0, 7], [-1, 1.5, "3"]),
    ("controller.maxUnavailable", [1, "3", "100%"], [0, "0", "0%", -1, 1.5, "half", "101%", 1000000]),
    ("advanced.restartBackoff", ["1s"], ["0s", "721h"]),
    ("pluginTimeout", ["1s"], ["0s", "31d", "900000h"]),
    ("plugin.names", [["a" * 63], ["a.b"]], [["a." * 127], ["a/b"], ['x"]'], [{"name": "a"}], "a"]),
    ("plugin.namespace", [""], ["a.b", "A"]),
    ("driverClients", [[{"labels": {"a.b/c": ""}}], [{"namespace": "a", "name": "b.c"}]], list(CLIENTS)),
    ("timeout", ["30s", "1h30m"], ["25min", "1.5h", "", 300, True, "1m1h", "721h"]),
    ("dryRun", [True], ["yes"]),
)


def test_chart_and_program_accept_the_same(helm: Helm) -> None:
    """A value that the program refuses fails before anything is installed, and no other does."""
    for name, good, bad in ACCEPTED_AND_REFUSED:
        assert [value for value in good if not _accepted(name, value)] == [], name
        assert [value for value in bad if _accepted(name, value)] == [], name
        assert [value for value in bad if helm.template({name: value}).returncode == 0] == [], name
    for row in zip_longest(*(good for _, good, _ in ACCEPTED_AND_REFUSED)):
        names = (name for name, _, _ in ACCEPTED_AND_REFUSED)
        assert helm.render({name: value for name, value in zip(names, row, strict=True) if value is not None})


def _accepted(name: str, value: object) -> bool:
    """Return whether the program accepts a value."""
    for key in reversed(name.split(".")):
        value = {key: value}
    try:
        settings_from(value)
    except SettingsError:
        return False
    return True
