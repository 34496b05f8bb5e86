"""Settings as users write them: what is read, and which mistakes are refused with which sentence."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import msgspec
import pytest

from hook import checks
from hook.checks import bound, duration, settings_from
from hook.config import (
    ControllerSettings,
    DriverClient,
    Duration,
    EventTarget,
    LogFormat,
    LogLevel,
    Mode,
    OnDeadline,
    OnManualUpgrade,
    OnMissingPlugin,
    Settings,
    Strategy,
)
from hook.errors import SettingsError
from hook.format import Bound
from tools.settings import SCHEMAS, settings

BOUND = SCHEMAS[Bound]["pattern"]
AT_LEAST_ONE = "^([1-9][0-9]{0,5}|[1-9][0-9]?%|100%)$"
EVERYTHING: dict[str, Any] = {
    "drivers": ["network", "gpu"],
    "timeout": "1h30m",
    "stallTimeout": "0s",
    "pluginTimeout": "90s",
    "onDeadline": "report",
    "expect": {"chartVersion": "v26.7.0", "driverVersion": "580.126.20"},
    "plugin": {"namespace": "dra", "names": ["one", {"driver": "gpu", "name": "two"}, {"name": "three"}]},
    "driverClients": [
        {"namespace": "monitoring", "name": "dcgm-exporter"},
        {"driver": "gpu", "labels": {"example.com/app": "x", "empty": ""}},
    ],
    "refreshAfter": ["toolkit"],
    "strategy": "rollout-restart",
    "maxParallelRestarts": 7,
    "onManualUpgrade": "fail",
    "onMissingPlugin": "wait",
    "eventTargets": [{"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "a", "name": "b.c"}],
    "dryRun": True,
    "logFormat": "json",
    "logLevel": "debug",
    "rbac": {"namespaces": ["dra", "operator"]},
    "job": {"mode": "delegate"},
    "controller": {
        "maxUnavailable": 3,
        "restartBackoff": "2m",
        "restartBackoffMax": "3h",
        "circuitBreaker": {"threshold": "30%", "reset": "0s"},
    },
    "advanced": {
        "operatorQuiet": "1s",
        "unknownOperatorQuiet": "2s",
        "policyGrace": "3s",
        "failedGrace": "4s",
        "notReadyGrace": "5s",
        "apiPatience": "6s",
    },
}


def refusal(values: object, *, controller: bool = False) -> str:
    """Return the message with which settings are refused."""
    with pytest.raises(SettingsError) as refused:
        settings_from(values, controller=controller)
    return str(refused.value)


def test_nothing_means_the_defaults() -> None:
    """For a Job and for the controller."""
    assert Settings() == settings_from({})
    assert ControllerSettings() == settings_from({}, controller=True)


def test_every_setting_is_read() -> None:
    """By the name and path of the chart's value."""
    found = settings_from(EVERYTHING)
    advanced, limits = found.advanced, found.controller
    assert (("network", "gpu"), ("toolkit",), 7, True) == (
        found.drivers, found.refresh_after, found.max_parallel_restarts, found.dry_run,
    )  # fmt: skip
    assert (5400, 0, 90, 1, 2, 3, 4, 5, 6) == tuple(
        time.total_seconds()
        for time in (
            found.timeout, found.stall_timeout, found.plugin_timeout, advanced.operator_quiet,
            advanced.unknown_operator_quiet, advanced.policy_grace, advanced.failed_grace, advanced.not_ready_grace,
            advanced.api_patience,
        )
    )  # fmt: skip
    assert (OnDeadline.REPORT, Strategy.ROLLOUT, OnManualUpgrade.FAIL, OnMissingPlugin.WAIT, Mode.DELEGATE) == (
        found.on_deadline, found.strategy, found.on_manual_upgrade, found.on_missing_plugin, found.job.mode,
    )  # fmt: skip
    assert (LogFormat.JSON, LogLevel.DEBUG) == (found.log_format, found.log_level)
    assert ("v26.7.0", "580.126.20") == (found.expect.chart_version, found.expect.driver_version)
    assert ("dra", ("dra", "operator")) == (found.plugin.namespace, found.rbac.namespaces)
    assert (("one", "three"), ("two",)) == (found.plugin_names("network"), found.plugin_names("gpu"))
    assert (DriverClient(namespace="monitoring", name="dcgm-exporter"),) == found.clients_of("network")
    assert (DriverClient("gpu", labels={"example.com/app": "x", "empty": ""}),) == found.clients_of("gpu")
    assert (EventTarget("argoproj.io/v1alpha1", "Application", "a", "b.c"),) == found.event_targets
    assert ("3", "30%", 120, 10800, 0) == (
        limits.max_unavailable,
        limits.circuit_breaker.threshold,
        *(
            t.total_seconds()
            for t in (limits.restart_backoff, limits.restart_backoff_max, limits.circuit_breaker.reset)
        ),
    )


def test_every_setting_has_a_description() -> None:
    """The example above names all of them, with values that are not the defaults."""
    for path, setting in settings()[0].items():
        value: Any = EVERYTHING
        for name in path:
            value = value[name]
        assert setting.description, path
        assert not setting.is_default(value), path


def test_only_a_controller_has_a_limit_of_plugins_that_are_down() -> None:
    """A Job refreshes each node as soon as it is settled."""
    values = {"controller": {"maxUnavailable": "10%"}}
    assert None is settings_from(values).max_unavailable
    assert Bound("10%") == settings_from(values, controller=True).max_unavailable


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("HelmRelease", "helmreleases"),
        ("Application", "applications"),
        ("Policy", "policies"),
        ("Ingress", "ingresses"),
    ],
)
def test_the_plural_of_a_kind_is_guessed_as_kubernetes_does(kind: str, expected: str) -> None:
    """Permissions and paths name the plural."""
    target = EventTarget("a.b/v1", kind, "c", "d")
    assert (expected, f"{kind} c/d") == (target.plural, str(target))


@pytest.mark.parametrize(
    ("text", "seconds"), [("25m", 1500), ("90s", 90), ("1h30m", 5400), ("0s", 0), ("720h", 2_592_000), ("1h1m1s", 3661)]
)
def test_a_duration_has_units(text: str, seconds: int) -> None:
    """Like those of Helm and Kubernetes."""
    assert Duration(seconds=seconds) == duration(text)


@pytest.mark.parametrize(
    "value", ["", "25", "25min", "1.5h", "-3m", "3m5h", "5 minutes", " 5m", 25, None, True, [], "9" * 5000 + "s", "१m"]
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    """With an example of one that works."""
    assert refusal({"timeout": value}).endswith("is not a duration; use units, such as 25m, 90s or 1h30m")


def test_a_duration_of_months_is_refused() -> None:
    """It is a typing error."""
    assert 'stallTimeout: "721h" is longer than 30 days' == refusal({"stallTimeout": "721h"})


@pytest.mark.parametrize(
    ("value", "expected"), [(3, "3"), ("3", "3"), ("25%", "25%"), (0, "0"), ("100%", "100%"), ("007", "7")]
)
def test_a_number_or_percentage_is_written_as_in_kubernetes(value: object, expected: str) -> None:
    """Both are shown the same way."""
    assert (Bound(expected), expected) == (bound(value), str(bound(value)))


@pytest.mark.parametrize("value", ["", "%", "-1", -1, "1.5", 1.5, "101%", "25 %", "a quarter", 10**6, True, None, "१"])
def test_what_is_neither_a_number_nor_a_percentage_is_refused(value: object) -> None:
    """With examples of both."""
    told = refusal({"controller": {"circuitBreaker": {"threshold": value}}})
    assert told.startswith("controller.circuitBreaker.threshold: ")
    assert told.endswith("is neither a number nor a percentage up to 100%, such as 3 or 25%")


TARGET = {"apiVersion": "a.b/v1", "kind": "HelmRelease", "namespace": "c", "name": "d"}
NAME = "is not a valid name of a Kubernetes object"
NAMESPACE = "is not a valid name of a namespace"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"strategi": "x"}, "strategi: no such setting; did you mean strategy?", id="misspelt"),
        pytest.param({"controller": {"circuitBreaker": {"treshold": 1}}},
                     "controller.circuitBreaker.treshold: no such setting; did you mean "
                     "controller.circuitBreaker.threshold?", id="misspelt-in-a-block"),
        pytest.param({"maxUnavailable": 1}, "maxUnavailable: no such setting; did you mean controller.maxUnavailable?",
                     id="in-the-wrong-block"),
        pytest.param({"expect": {"zzzz": 1}}, "expect.zzzz: no such setting; known are chartVersion, driverVersion",
                     id="like-none"),
        pytest.param({"eventTargets": [TARGET, {"apiversion": "a.b/v1"}]},
                     "eventTargets[1].apiversion: no such setting; did you mean eventTargets.apiVersion?",
                     id="in-a-list"),
        pytest.param({"strategy": "x"}, 'strategy: "x" is unknown; choose delete-stale-pods or rollout-restart',
                     id="choice"),
        pytest.param({"onManualUpgrade": 3}, "onManualUpgrade: 3 is not a text in quotes", id="choice-that-is-no-text"),
        pytest.param({"job": {"mode": "wait"}}, 'job.mode: "wait" is unknown; choose complete or delegate',
                     id="choice-in-a-block"),
        pytest.param({"drivers": ["disk"]}, 'drivers[0]: "disk" is unknown; choose gpu or network', id="driver"),
        pytest.param({"drivers": []}, "drivers: [] is too short: at least 1 entry", id="no-driver"),
        pytest.param({"drivers": "gpu"}, 'drivers: "gpu" is not a list', id="no-list"),
        pytest.param({"maxParallelRestarts": -1}, "maxParallelRestarts: -1 is too small: at least 0", id="too-small"),
        pytest.param({"maxParallelRestarts": "3"}, 'maxParallelRestarts: "3" is not a whole number', id="no-number"),
        pytest.param({"maxParallelRestarts": 1.5}, "maxParallelRestarts: 1.5 is not a whole number", id="fraction"),
        pytest.param({"dryRun": "yes"}, 'dryRun: "yes" is not true or false', id="no-boolean"),
        pytest.param({"job": None}, "job: null is not a block of settings", id="no-block"),
        pytest.param([], "the settings: [] is not a block of settings", id="no-settings"),
        pytest.param({1: 2}, "the settings: 1 is not the name of a setting", id="name-that-is-no-text"),
        pytest.param({"timeout": "1m\n"}, 'timeout: "1m\\n" has a character that cannot be printed', id="line-break"),
        pytest.param({"a\x1b": 1}, 'the settings: "a\\u001b" has a character that cannot be printed', id="escape"),
        pytest.param({"plugin": {"names": ["Upper"]}}, f'plugin.names[0]: "Upper" {NAME}', id="plain-name"),
        pytest.param({"plugin": {"names": [{"name": "a/b"}]}}, f'plugin.names[0].name: "a/b" {NAME}', id="name"),
        pytest.param({"plugin": {"names": [3]}}, "plugin.names[0]: 3 is not a name, or a driver and a name", id="3"),
        pytest.param({"plugin": {"names": [{"driver": "gpu"}]}}, "plugin.names[0]: name is missing", id="missing"),
        pytest.param({"plugin": {"namespace": "a.b"}}, f'plugin.namespace: "a.b" {NAMESPACE}', id="dotted-namespace"),
        pytest.param({"rbac": {"namespaces": [""]}}, f'rbac.namespaces[0]: "" {NAMESPACE}', id="empty-namespace"),
        pytest.param({"driverClients": [{"namespace": "a", "name": "B"}]}, f'driverClients[0].name: "B" {NAME}',
                     id="client-by-name"),
        pytest.param({"driverClients": [{"labels": {"-a": "b"}}]},
                     "driverClients[0].labels: an entry is not a valid key of a label", id="label-key"),
        pytest.param({"driverClients": [{"labels": {"a": "b c"}}]},
                     "driverClients[0].labels: an entry is not a valid value of a label", id="label-value"),
        pytest.param({"driverClients": [{"labels": {"a": 3}}]},
                     "driverClients[0].labels: an entry is not a text in quotes",
                     id="label-value-that-is-no-text"),
        pytest.param({"eventTargets": [{**TARGET, "apiVersion": "v1"}]},
                     'eventTargets[0].apiVersion: "v1" is not GROUP/VERSION, such as argoproj.io/v1alpha1', id="group"),
        pytest.param({"eventTargets": [{**TARGET, "kind": "helmreleases"}]},
                     'eventTargets[0].kind: "helmreleases" is not a kind, such as HelmRelease', id="kind"),
        pytest.param({"eventTargets": [{**TARGET, "namespace": "../c"}]},
                     f'eventTargets[0].namespace: "../c" {NAMESPACE}',
                     id="path"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_path_and_a_sentence(values: object, expected: str) -> None:
    """The message says what is wrong and what to write."""
    assert expected == refusal(values)


def test_what_no_json_has_is_refused_too() -> None:
    """YAML has dates, long numbers and lone surrogates, and any nesting."""
    deep: object = 1
    for _level in range(2000):
        deep = [deep]
    for values, words in (
        ({"expect": {"driverVersion": date(2026, 1, 1)}}, 'expect.driverVersion: "2026-01-01" is not a text in quotes'),
        ({"timeout": 10**30}, f"timeout: {10**30} is not a duration"),
        ({"timeout": "\ud800"}, 'timeout: "\\ud800" has a character that cannot be printed'),
        ({"drivers": deep}, "the settings: blocks or lists are nested too deeply"),
    ):
        assert refusal(values).startswith(words)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"eventTargets": [TARGET] * 5}, "eventTargets: [{.*… is too long: at most 4 entries"),
        (
            {"eventTargets": [{**TARGET, "name": "d" * 254}]},
            r"eventTargets\[0\].name: .* is too long: at most 253 char",
        ),
    ],
)
def test_what_is_too_long_is_cut_in_the_message(values: object, words: str) -> None:
    """A message stays one line of a terminal."""
    told = refusal(values)
    assert re.match(words.replace("[{", r"\[\{"), told)
    assert len(told) < 200


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"timeout": "0s"}, "timeout: must be longer than 0s", id="timeout"),
        pytest.param({"pluginTimeout": "0s"}, "pluginTimeout: must be longer than 0s", id="plugin-timeout"),
        pytest.param({"controller": {"maxUnavailable": 0}}, "controller.maxUnavailable: 0 prevents every restart",
                     id="max-unavailable"),
        pytest.param({"controller": {"maxUnavailable": "0%"}}, "controller.maxUnavailable: 0 prevents every restart",
                     id="max-unavailable-percent"),
        *(pytest.param({"controller": {"restartBackoff": pause}},
                       "controller.restartBackoff: must be longer than 0s, and no longer than "
                       "controller.restartBackoffMax", id=f"pause-{pause}") for pause in ("0s", "2h")),
        *(pytest.param({"driverClients": [client]}, "driverClients[0]: set either namespace and name, or labels",
                       id=f"client-with-{'-and-'.join(client) or 'nothing'}")
          for client in ({}, {"name": "a"}, {"namespace": "a"}, {"name": "a", "labels": {"a": "b"}},
                         {"namespace": "a", "name": "b", "labels": {"a": "b"}})),
        pytest.param({"plugin": {"names": ["a", {"driver": "network", "name": "a"}]}},
                     'plugin.names[1].driver: "network" is not among drivers', id="plugin-of-another-driver"),
        pytest.param({"driverClients": [{"driver": "disk", "namespace": "a", "name": "b"}]},
                     'driverClients[0].driver: "disk" is not among drivers', id="client-of-another-driver"),
        pytest.param({"drivers": ["network"], "refreshAfter": ["toolkit"]},
                     'refreshAfter[0]: "toolkit" does not belong to any driver in drivers',
                     id="prerequisite-of-another"),
        pytest.param({"refreshAfter": ["disk"]},
                     'refreshAfter[0]: "disk" does not belong to any driver in drivers; choose from toolkit',
                     id="unknown-prerequisite"),
        pytest.param({"drivers": ["network"], "expect": {"chartVersion": "v1"}},
                     "expect.chartVersion: no policy of the drivers in drivers names the chart that it comes from",
                     id="chart-version"),
    ],
)  # fmt: skip
def test_what_cannot_work_or_has_no_effect_is_refused(values: object, expected: str) -> None:
    """Users rely on each setting that they write."""
    for controller in (False, True):
        assert expected == refusal(values, controller=controller)


def test_all_contradictions_are_reported_at_once() -> None:
    """One line for each."""
    values = {"timeout": "0s", "pluginTimeout": "0s", "refreshAfter": ["disk"]}
    assert 3 == len(refusal(values).splitlines())


def test_a_dry_run_is_for_jobs() -> None:
    """A controller that never acts would look like one that does."""
    assert settings_from({"dryRun": True}).dry_run
    assert refusal({"dryRun": True}, controller=True).startswith("dryRun: the controller has no dry run")


@pytest.mark.parametrize("values", [{"refreshAfter": ["toolkit"]}, {"expect": {"chartVersion": "v99"}}])
def test_a_setting_needs_an_effect_on_one_driver_only(values: dict[str, Any]) -> None:
    """It need not be the first one."""
    assert settings_from({"drivers": ["network", "gpu"], **values})


def test_a_message_of_the_decoder_that_is_not_known_is_shown() -> None:
    """A newer library may have others."""
    assert "timeout: something else" == checks._sentence("something else - at `$.timeout`", {"timeout": 1})


def test_every_pattern_has_words() -> None:
    """No message shows a regular expression."""
    found, definitions = settings()
    schemas = msgspec.json.encode([[setting.schema for setting in found.values()], definitions])
    patterns = {msgspec.json.decode(text) for text in re.findall(rb'"pattern":("(?:[^"\\]|\\.)*")', schemas)}
    assert {BOUND, AT_LEAST_ONE} == patterns - checks._PATTERNS.keys()
    assert checks._PATTERNS.keys() < patterns
