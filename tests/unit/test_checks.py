"""Settings as users write them: which are read, and the sentence with which each mistake is refused."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Final

import pytest

from hook import checks, config
from hook.checks import bound, duration, settings_from
from hook.config import ControllerSettings, Duration, Settings
from hook.errors import SettingsError
from hook.format import Bound
from hook.objects.drivers import StackName
from tests.fixtures.settings import EVERY_SETTING

SECONDS: Final = [Duration(seconds=count) for count in range(1, 7)]
READ: Final = Settings(
    stack=StackName.GPU, timeout=Duration(hours=1, minutes=1, seconds=1),
    plugin_timeout=Duration(minutes=3), max_parallel_restarts=1234567, refresh_after=("toolkit",), dry_run=True,
    on_deadline=config.OnDeadline.REPORT, on_manual_upgrade=config.OnManualUpgrade.WAIT,
    expect=config.Expect("v26.7.0", "580.126.20"),
    plugin=config.Plugin("dra", ("one", "two")),
    driver_clients=(config.DriverClient(namespace="dra", name="exporter"),
                    config.DriverClient(labels={"example.com/app": "profiler", "empty": ""})),
    affected_workloads=config.AffectedWorkloads(enabled=False),
    log_format=config.LogFormat.JSON, log_level=config.LogLevel.DEBUG, node_timeout=Duration(minutes=4),
    advanced=config.Advanced(*SECONDS),
    controller=config.ControllerLimits(Bound(3)),
)  # fmt: skip


def refusal(values: object, *, controller: bool = False) -> str:
    """Return the message with which settings are refused."""
    with pytest.raises(SettingsError) as refused:
        settings_from(values, controller=controller)
    return str(refused.value)


def test_every_setting_is_read() -> None:
    """Each setting has the name and path of the chart's value. Without any, the defaults apply."""
    assert READ == settings_from(EVERY_SETTING)
    assert Settings() == settings_from({})
    assert Settings(stack=StackName.NETWORK) == settings_from({"stack": "network"})
    assert ControllerSettings() == settings_from({}, controller=True)


def test_a_duration_has_units() -> None:
    """Durations look like those of Helm and Kubernetes. The message shows one that works."""
    for text, seconds in {"25m": 1500, "90s": 90, "1h30m": 5400, "0s": 0, "720h": 2_592_000, "1h1m1s": 3661}.items():
        assert Duration(seconds=seconds) == duration(text), text
    wrong: tuple[object, ...] = (
        "", "25", "25min", "1.5h", "-3m", "3m5h", "5 minutes", " 5m", 25, None, True, [],
        "9" * 5000 + "s", "123456s", "१m",
    )  # fmt: skip
    for value in wrong:
        message = refusal({"timeout": value})
        assert message.endswith("is not a duration; use units, such as 25m, 90s or 1h30m"), value


def test_a_number_or_percentage_is_written_as_in_kubernetes() -> None:
    """A number and the same number in quotes are one bound. The message shows one of each."""
    for value, expected in ((3, "3"), ("3", "3"), ("25%", "25%"), (0, "0"), ("100%", "100%"), ("007", "7")):
        assert (Bound(expected), expected) == (bound(value), str(bound(value))), value
    wrong: tuple[object, ...] = ("", "%", "-1", -1, "1.5", 1.5, "101%", "25 %", "a quarter", 10**6, True, None, "१")
    for refused in wrong:
        message = refusal({"controller": {"maxUnavailable": refused}})
        assert message.startswith("controller.maxUnavailable: "), refused
        assert message.endswith("is neither a number nor a percentage up to 100%, such as 3 or 25%"), refused


NAME: Final = "is not a valid name of a Kubernetes object"
NAMESPACE: Final = "is not a valid name of a namespace"
CLIENT_LABELS: Final = "driverClients[0].labels: an entry"
MISTAKES: Final[tuple[tuple[object, str], ...]] = (
    ({"expects": "x"}, "expects: no such setting; did you mean expect?"),
    ({"maxUnavailable": 1}, "maxUnavailable: no such setting; did you mean controller.maxUnavailable?"),
    ({"expect": {"zzzz": 1}}, "expect.zzzz: no such setting; known are chartVersion, driverVersion"),
    ({"driverClients": [{"labels": {"a": "b"}}, {"nam": "a"}]},
     "driverClients[1].nam: no such setting; did you mean driverClients.name?"),
    ({"onDeadline": "x"}, 'onDeadline: "x" is unknown; choose fail or report'),
    ({"onManualUpgrade": 3}, "onManualUpgrade: 3 is not a text in quotes"),
    ({"stack": "disk"}, 'stack: "disk" is unknown; choose gpu or network'),
    ({"refreshAfter": "mig"}, 'refreshAfter: "mig" is not a list'),
    ({"maxParallelRestarts": -1}, "maxParallelRestarts: -1 is too small: at least 0"),
    ({"maxParallelRestarts": "3"}, 'maxParallelRestarts: "3" is not a whole number'),
    ({"dryRun": "yes"}, 'dryRun: "yes" is not true or false'),
    ({"expect": None}, "expect: null is not a block of settings"),
    ([], "the settings: [] is not a block of settings"),
    ({1: 2}, "the settings: 1 is not the name of a setting"),
    ({"timeout": "1m\n"}, 'timeout: "1m\\n" has a character that cannot be printed'),
    ({"a\x1b": 1}, 'the settings: "a\\u001b" has a character that cannot be printed'),
    ({"plugin": {"names": ["Upper"]}}, f'plugin.names[0]: "Upper" {NAME}'),
    ({"plugin": {"names": [3]}}, "plugin.names[0]: 3 is not a text in quotes"),
    ({"plugin": {"namespace": "a.b"}}, f'plugin.namespace: "a.b" {NAMESPACE}'),
    ({"driverClients": [{"labels": {"-a": "b"}}]}, f"{CLIENT_LABELS} is not a valid key of a label"),
    ({"driverClients": [{"labels": {"a": "b c"}}]}, f"{CLIENT_LABELS} is not a valid value of a label"),
    ({"driverClients": [{"labels": {"a": 3}}]}, f"{CLIENT_LABELS} is not a text in quotes"),
)  # fmt: skip


def test_a_mistake_is_refused_with_its_path_and_a_sentence() -> None:
    """The message says what is wrong and what to write."""
    for values, expected in MISTAKES:
        assert expected == refusal(values), values


def test_what_no_json_has_is_refused_too() -> None:
    """YAML has dates, long numbers and lone surrogates, and any nesting."""
    deep: object = 1
    for _level in range(2000):
        deep = [deep]
    for values, words in (
        ({"expect": {"driverVersion": date(2026, 1, 1)}}, 'expect.driverVersion: "2026-01-01" is not a text in quotes'),
        ({"timeout": 10**30}, f"timeout: {10**30} is not a duration"),
        ({"timeout": "\ud800"}, 'timeout: "\\ud800" has a character that cannot be printed'),
        ({"refreshAfter": deep}, "the settings: blocks or lists are nested too deeply"),
    ):
        assert refusal(values).startswith(words), words
    # A newer decoder may have other messages.
    assert "timeout: something else" == checks._sentence("something else - at `$.timeout`", {"timeout": 1})


def test_what_is_too_long_is_cut_in_the_message() -> None:
    """A message stays one line of a terminal."""
    message = refusal({"plugin": {"names": ["d" * 254]}})
    assert re.match(r"plugin\.names\[0\]: .* is too long: at most 253 char", message), message
    assert len(message) < 200, message


NO_RESTART: Final = "controller.maxUnavailable: 0 prevents every restart"
WITHOUT_EFFECT: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"timeout": "0s"}, "timeout: must be longer than 0s"),
    ({"pluginTimeout": "0s"}, "pluginTimeout: must be longer than 0s"),
    ({"controller": {"maxUnavailable": 0}}, NO_RESTART),
    ({"advanced": {"restartBackoff": "0s"}}, "advanced.restartBackoff: must be longer than 0s"),
    *(({"driverClients": [client]}, "driverClients[0]: set either namespace and name, or labels") for client in (
        {}, {"name": "a"}, {"namespace": "a"}, {"name": "a", "labels": {"a": "b"}},
        {"namespace": "a", "name": "b", "labels": {"a": "b"}})),
    ({"stack": "network", "refreshAfter": ["toolkit"]},
     'refreshAfter[0]: "toolkit" does not belong to the stack network'),
    ({"refreshAfter": ["disk"]},
     'refreshAfter[0]: "disk" does not belong to the stack gpu; choose from mig, toolkit'),
    ({"stack": "network", "expect": {"chartVersion": "v1"}},
     "expect.chartVersion: a NicClusterPolicy does not name the chart that it comes from"),
)  # fmt: skip


def test_what_cannot_work_or_has_no_effect_is_refused() -> None:
    """Users rely on each setting that they write."""
    for values, expected in WITHOUT_EFFECT:
        for controller in (False, True):
            assert expected == refusal(values, controller=controller), values
    for values in ({"refreshAfter": ["toolkit"]}, {"expect": {"chartVersion": "v99"}}):
        assert settings_from(values), values
    several: dict[str, Any] = {"timeout": "0s", "pluginTimeout": "0s", "refreshAfter": ["disk"]}
    assert 3 == len(refusal(several).splitlines()), "all contradictions are reported at once"
    # A controller that never acts would look like one that does.
    assert settings_from({"dryRun": True}).dry_run
    assert refusal({"dryRun": True}, controller=True).startswith("dryRun: the controller has no dry run")
