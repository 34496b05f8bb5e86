"""Settings: their defaults, which are read, how mistakes are refused, and what follows from them."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import pytest

from hook import settings
from hook.errors import SettingsError
from hook.format import Bound
from hook.objects.stacks import StackName
from hook.settings import ControllerSettings, Duration, Settings, bound, duration, settings_from
from tests.fixtures.settings import EVERY_SETTING

SECONDS: Final = [Duration(seconds=count) for count in range(1, 7)]
READ: Final = Settings(
    stack=StackName.GPU,
    timeout=Duration(hours=1, minutes=1, seconds=1),
    plugin_timeout=Duration(minutes=3),
    node_timeout=Duration(minutes=4),
    on_deadline=settings.OnDeadline.REPORT,
    expect=settings.Expect("v26.7.0", "580.126.20"),
    plugin=settings.Plugin("dra", ("one", "two")),
    driver_clients=(
        settings.DriverClient(namespace="dra", name="exporter"),
        settings.DriverClient(labels={"example.com/app": "profiler", "empty": ""}),
    ),
    refresh_after=("toolkit",),
    max_parallel_restarts=1234567,
    on_manual_upgrade=settings.OnManualUpgrade.WAIT,
    dry_run=True,
    log_format=settings.LogFormat.JSON,
    log_level=settings.LogLevel.DEBUG,
    affected_workloads=settings.AffectedWorkloads(enabled=False),
    device_taints=settings.DeviceTaints(enabled=True),
    controller=settings.ControllerLimits(Bound(3)),
    advanced=settings.Advanced(*SECONDS),
)


def refusal(values: object, *, controller: bool = False) -> str:
    """Return the message with which settings are refused."""
    with pytest.raises(SettingsError) as refused:
        settings_from(values, controller=controller)
    return str(refused.value)


def test_every_setting_is_read() -> None:
    """Each setting has the name and path of the chart's value. Without any, the defaults apply."""
    assert READ == settings_from(EVERY_SETTING)
    assert Settings() == settings_from({})
    assert ControllerSettings() == settings_from({}, controller=True)


def test_the_times_of_operators_follow_from_what_was_measured() -> None:
    """No value of the chart shows these. Guarantee 4 states the pauses."""
    assert settings.Advanced() == settings.Advanced(
        operator_quiet=Duration(seconds=15),
        unknown_operator_quiet=Duration(seconds=60),
        policy_grace=Duration(seconds=120),
        api_patience=Duration(seconds=60),
        restart_backoff=Duration(seconds=60),
        restart_backoff_max=Duration(seconds=3600),
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("25m", 1500), ("90s", 90), ("1h30m", 5400), ("0s", 0), ("720h", 2_592_000), ("1h1m1s", 3661), ("08m", 480)],
)
def test_a_duration_has_units(text: str, seconds: int) -> None:
    """Durations look like those of Helm and Kubernetes."""
    assert Duration(seconds=seconds) == duration(text)
    assert duration(text) == duration(duration(text))


NO_DURATIONS: Final[tuple[object, ...]] = (
    "", "25", "25min", "1.5h", "-3m", "3m5h", "5 minutes", " 5m", "5m\n", "123456s", "१m", 25, 10**30, None, True, [],
)  # fmt: skip


@pytest.mark.parametrize("value", NO_DURATIONS, ids=repr)
def test_what_is_no_duration_is_refused(value: object) -> None:
    """The message shows one that works, and the path."""
    assert refusal({"timeout": value}).endswith(
        "is not a duration; use units, such as 25m, 90s or 1h30m - at `$.timeout`"
    )


@pytest.mark.parametrize("value", [3, "3", "25%", "100%", 999_999])
def test_a_number_or_percentage_is_written_as_in_kubernetes(value: object) -> None:
    """A number and the same number in quotes are one bound."""
    assert Bound(value) == bound(value)


NO_BOUNDS: Final[tuple[object, ...]] = (
    "", "%", "-1", -1, 0, "0", "0%", "1.5", 1.5, "101%", "25 %", "a quarter", 10**6, True, None, "१", "3\n",
)  # fmt: skip


@pytest.mark.parametrize("value", NO_BOUNDS, ids=repr)
def test_what_is_no_bound_is_refused(value: object) -> None:
    """Zero would prevent every restart. The message shows one of each form."""
    message = refusal({"controller": {"maxUnavailable": value}})
    assert "is neither a number above 0 nor a percentage, such as 3 or 25%" in message
    assert message.endswith(" - at `$.controller.maxUnavailable`")


def _nested(levels: int) -> object:
    found: object = 1
    for _level in range(levels):
        found = [found]
    return found


MISTAKES: Final[tuple[tuple[object, str, str], ...]] = (
    ({"expects": "x"}, "unknown field `expects`", ""),
    ({"driverClients": [{"labels": {"a": "b"}}, {"nam": "a"}]}, "unknown field `nam`", "$.driverClients[1]"),
    ({"onDeadline": "x"}, "Invalid enum value 'x'", "$.onDeadline"),
    ({"refreshAfter": "mig"}, "Expected `array`, got `str`", "$.refreshAfter"),
    ({"maxParallelRestarts": -1}, "Expected `int` >= 0", "$.maxParallelRestarts"),
    ({"expect": {"driverVersion": date(2026, 1, 1)}}, "Expected `str`", "$.expect.driverVersion"),
    ({"plugin": {"names": ["Upper"]}}, "Expected `str` matching regex", "$.plugin.names[0]"),
    ({"plugin": {"names": ["one\n"]}}, "Expected `str` matching regex", "$.plugin.names[0]"),
    ({"plugin": {"names": ["d" * 254]}}, "Expected `str` of length <= 253", "$.plugin.names[0]"),
    ({"plugin": {"namespace": "a.b"}}, "Expected `str` matching regex", "$.plugin.namespace"),
    ({"driverClients": [{"labels": {"-a": "b"}}]}, "Expected `str` matching regex", "$.driverClients[0].labels"),
    ({"driverClients": [{"labels": {"a": "b c"}}]}, "Expected `str` matching regex", "$.driverClients[0].labels[...]"),
    ({"refreshAfter": [_nested(2000)]}, "Expected `str`, got `array`", "$.refreshAfter[0]"),
    ([], "Expected `object`, got `array`", ""),
    ({1: 2}, "Expected `str`", "$"),
)


@pytest.mark.parametrize(("values", "what", "path"), MISTAKES, ids=[f"{what} {path}" for _, what, path in MISTAKES])
def test_a_mistake_is_refused_with_its_path(values: object, what: str, path: str) -> None:
    """The message is one line: what was expected, and where."""
    message = refusal(values)
    assert what in message
    assert path in message
    assert 1 == len(message.splitlines())


NO_TIME: Final = "timeout, pluginTimeout and advanced.restartBackoff must be longer than 0s"
CLIENT: Final = "driverClients[0]: set either namespace and name, or labels"
WITHOUT_EFFECT: Final[tuple[tuple[dict[str, Any], str], ...]] = (
    ({"timeout": "0s"}, NO_TIME),
    ({"pluginTimeout": "0s"}, NO_TIME),
    ({"advanced": {"restartBackoff": "0s"}}, NO_TIME),
    ({"driverClients": [{}]}, CLIENT),
    ({"driverClients": [{"name": "a"}]}, CLIENT),
    ({"driverClients": [{"namespace": "a"}]}, CLIENT),
    ({"driverClients": [{"name": "a", "labels": {"a": "b"}}]}, CLIENT),
    ({"driverClients": [{"namespace": "a", "name": "b", "labels": {"a": "b"}}]}, CLIENT),
    ({"refreshAfter": ["disk"]}, 'refreshAfter: "disk" is no component of the stack gpu (known: mig, toolkit)'),
    (
        {"stack": "network", "refreshAfter": ["toolkit"]},
        'refreshAfter: "toolkit" is no component of the stack network (known: none)',
    ),
    (
        {"stack": "network", "expect": {"chartVersion": "v1"}},
        "expect.chartVersion: a NicClusterPolicy does not name the chart that it comes from",
    ),
)


@pytest.mark.parametrize("controller", [False, True], ids=["Job", "controller"])
@pytest.mark.parametrize(("values", "expected"), WITHOUT_EFFECT)
def test_what_cannot_work_or_has_no_effect_is_refused(values: object, expected: str, *, controller: bool) -> None:
    """Users rely on each setting that they write."""
    assert expected == refusal(values, controller=controller)


def test_a_controller_has_no_dry_run() -> None:
    """A controller that never acts would look like one that does."""
    assert settings_from({"dryRun": True}).dry_run
    assert refusal({"dryRun": True}, controller=True).startswith("dryRun: the controller has no dry run")
