"""The chart and the program know the same settings, flags and exit codes."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import click

from hook.checks import settings_from
from hook.cli import controller, run
from hook.config import DEFAULTS, ControllerSettings
from hook.errors import SettingsError
from tests.chart.rendering import config_of, container_of
from tools.settings import settings

if TYPE_CHECKING:
    from tests.chart.rendering import Helm, Values

SETTINGS: Final = {".".join(path): setting for path, setting in settings()[0].items()}
TARGET: Final = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "a.b"}
OF_A_RUN: Final = {"timeout", "stallTimeout", "onDeadline", "expect", "eventTargets", "dryRun", "job"}
"""Settings of a single run. The controller does not get them, so that a release does not restart it."""
BLOCKS: Final = ("expect", "plugin", "rbac", "job", "controller", "circuitBreaker", "advanced", "affectedWorkloads")
EVERY_SETTING: Final[Values] = {
    "timeout": "1h1m1s",
    "stallTimeout": "2m",
    "pluginTimeout": "3m",
    "onDeadline": "report",
    "strategy": "rollout-restart",
    "maxParallelRestarts": 1234567,
    "onManualUpgrade": "wait",
    "onMissingPlugin": "wait",
    "drivers": ["network", "gpu"],
    "refreshAfter": ["toolkit"],
    "driverClients": [{"namespace": "dra", "name": "a"}, {"driver": "gpu", "labels": {"app": "b", "tier": "c"}}],
    "dryRun": True,
    "logFormat": "json",
    "logLevel": "debug",
    "eventTargets": [TARGET],
    "expect.chartVersion": "v26.7.0",
    "expect.driverVersion": "580.126.20",
    "plugin.namespace": "dra",
    "plugin.names": ["one", {"driver": "gpu", "name": "two"}],
    "rbac.namespaces": ["dra", "operator"],
    "affectedWorkloads.enabled": False,
    "job.mode": "delegate",
    "controller.maxUnavailable": 3,
    "controller.restartBackoff": "2m",
    "controller.restartBackoffMax": "2h",
    "controller.circuitBreaker.threshold": "30%",
    "controller.circuitBreaker.reset": "0s",
    "advanced.operatorQuiet": "1s",
    "advanced.unknownOperatorQuiet": "2s",
    "advanced.policyGrace": "3s",
    "advanced.failedGrace": "4s",
    "advanced.notReadyGrace": "5s",
    "advanced.apiPatience": "6s",
}
"""Each setting away from its default."""
RENDERED: Final[tuple[Values, ...]] = (
    {"rbac.scope": "namespace", "job.mode": "complete"},
    {"rbac.scope": "namespace", "dryRun": False, "controller.enabled": True},
)
"""The chart renders them in two steps, because a controller has no dry run."""
NOT_IN_THE_CHART: Final = {
    "--config": "for a shell: the chart passes the settings in the environment",
    "--driver": "for a shell: a setting",
    "--namespace": "for a shell: a setting",
    "--plugin-namespace": "for a shell: a setting",
    "--plugin-name": "for a shell: a setting",
    "--timeout": "for a shell: a setting",
    "--dry-run": "for a shell: a setting",
    "--log-format": "for a shell: a setting",
    "--verbose": "for a shell: the setting logLevel",
    "--kubeconfig": "for a shell: the pod has a ServiceAccount",
    "--context": "for a shell",
    "--service-account-dir": "for tests: each kubelet mounts it in the same place",
    "--termination-log": "for tests: the kubelet's default place",
    "--identity": "derived from the pod's name, and different in each process",
    "--help": "for a shell",
}
"""Flags of ``run`` and ``controller`` that the chart does not pass, and why."""


def _flat(config: Values, block: str = "") -> Values:
    """Return settings by ``a.b``."""
    flat: Values = {}
    for key, value in config.items():
        flat |= _flat(value, f"{block}{key}.") if key in BLOCKS else {f"{block}{key}": value}
    return flat


def _nested(values: Values) -> Values:
    """Return values by ``a.b`` as a tree."""
    tree: Values = {}
    for name, value in values.items():
        *blocks, key = name.split(".")
        block = tree
        for one in blocks:
            block = block.setdefault(one, {})
        block[key] = {**block.get(key, {}), **value} if isinstance(value, dict) else value
    return tree


def _configs(helm: Helm, values: Values) -> list[Values]:
    """Return what the chart passes to the Job and, if there is one, to the controller."""
    rendered = helm.render(values)
    return [config_of(container_of(workload)) for kind in ("Job", "Deployment") for workload in rendered.all(kind)]


def test_the_chart_passes_each_setting_and_no_other(helm: Helm) -> None:
    """A setting that only one of them knows is a mistake."""
    job, deployment = (set(_flat(config)) for config in _configs(helm, {"controller.enabled": True}))
    assert job | deployment == SETTINGS.keys()
    assert {name.partition(".")[0] for name in job - deployment} == OF_A_RUN
    assert {name.partition(".")[0] for name in deployment - job} == {"controller"}


def test_the_defaults_agree(helm: Helm) -> None:
    """The program gets its own defaults, also as a controller, and accepts them."""
    job, deployment = _configs(helm, {"controller.enabled": True})
    assert settings_from(job) == DEFAULTS
    assert settings_from(deployment, controller=True) == ControllerSettings()


def test_each_value_arrives(helm: Helm) -> None:
    """Job and controller get each value as it was given; no setting is left out of this test."""
    assert EVERY_SETTING.keys() == SETTINGS.keys()
    assert [name for name, value in EVERY_SETTING.items() if SETTINGS[name].is_default(value)] == []
    settings_from(_nested(EVERY_SETTING))
    for further in RENDERED:
        given = EVERY_SETTING | further
        for config in _configs(helm, given):
            assert [name for name, value in _flat(config).items() if value != given[name]] == []


def test_each_duration_is_checked_with_a_sentence(helm: Helm) -> None:
    """The chart checks the form of each duration of the program."""
    durations = [name for name, setting in SETTINGS.items() if not setting.schema]
    assert {"timeout", "advanced.apiPatience"} <= set(durations)
    message = helm.refuse(dict.fromkeys(durations, "25min"))
    assert [name for name in durations if f'{name} is "25min", which is not a duration' not in message] == []


CLIENTS: Final[list[object]] = [
    ["a/b"],
    [{"labels": {"a": "b"}, "name": "c"}],
    [{"labels": {'a"': "b"}}],
    [{"namespace": "A", "name": "b"}],
    [{}],
    [{"namespace": "a"}],
]
WRONG: Final = {"apiVersion": "v1", "kind": "applications", "namespace": "a.b", "name": 'a"', "resource": "a.b"}
TARGETS: Final = [*({**TARGET, key: value} for key, value in WRONG.items()), {"kind": "A"}]
ACCEPTED_AND_REFUSED: Final[tuple[tuple[str, list[object], list[object]], ...]] = (
    ("drivers", [["network"]], [[], ["cpu"], "gpu"]),
    ("strategy", ["rollout-restart"], ["rollout", 1]),
    ("maxParallelRestarts", [0, 7], [-1, 1.5, "3"]),
    ("controller.maxUnavailable", [1, "3", "100%"], [0, "0", "0%", -1, 1.5, "half", "101%", 1000000]),
    ("controller.circuitBreaker.threshold", [0, "0%", "100%"], [-1, "101%"]),
    ("controller.restartBackoff", ["1s"], ["0s", "721h"]),
    ("pluginTimeout", ["1s"], ["0s", "31d", "900000h"]),
    ("plugin.names", [["a" * 63], [{"name": "a.b"}]], [["a." * 127], ["a/b"], ['x"]'], [{"driver": "gpu"}], "a"]),
    ("plugin.namespace", [""], ["a.b", "A"]),
    ("driverClients", [[{"labels": {"a.b/c": ""}}], [{"namespace": "a", "name": "b.c"}]], CLIENTS),
    ("eventTargets", [[TARGET], [{**TARGET, "name": "a" * 63}]], [*([target] for target in TARGETS), [TARGET] * 5]),
    ("timeout", ["30s", "1h30m"], ["25min", "1.5h", "", 300, True, "1m1h", "721h"]),
    ("dryRun", [True], ["yes"]),
    ("logLevel", ["debug"], ["trace"]),
)


def test_chart_and_program_accept_the_same(helm: Helm) -> None:
    """A value that the program refuses fails before anything is installed, and no other does."""
    for name, good, bad in ACCEPTED_AND_REFUSED:
        assert [value for value in good if not _accepted({name: value})] == [], name
        assert [value for value in bad if _accepted({name: value})] == [], name
        assert [value for value in bad if helm.template({name: value}).returncode == 0] == [], name
    for row in zip_longest(*(good for _, good, _ in ACCEPTED_AND_REFUSED)):
        names = (name for name, _, _ in ACCEPTED_AND_REFUSED)
        assert helm.render({name: value for name, value in zip(names, row, strict=True) if value is not None})


def _accepted(values: Values) -> bool:
    """Return whether the program accepts values."""
    try:
        settings_from(_nested(values))
    except SettingsError:
        return False
    return True


def test_chart_and_program_guess_the_same_plural(helm: Helm) -> None:
    """The chart grants what the program asks for."""
    targets = [{**TARGET, "kind": kind} for kind in ("Application", "HelmRelease", "Proxy", "Ingress")]
    rendered = helm.render({"eventTargets": targets})
    rules = [rule for role in rendered.all("ClusterRole") for rule in role["rules"] if rule["verbs"] == ["get"]]
    granted = [resource for rule in rules for resource in rule["resources"]]
    expected = [target.plural for target in settings_from({"eventTargets": targets}).event_targets]
    assert granted == expected == ["applications", "helmreleases", "proxies", "ingresses"]


def _flags(command: click.Command) -> set[str]:
    """Return the long flags of a command."""
    parameters = command.get_params(click.Context(command, info_name=command.name))
    return {
        flag
        for parameter in parameters
        if not getattr(parameter, "hidden", False)
        for flag in parameter.opts
        if flag.startswith("--")
    }


def test_each_flag_is_passed_by_the_chart_or_left_out_for_a_reason(helm: Helm) -> None:
    """The chart passes no unknown flag, and no other flag is unreachable."""
    rendered = helm.render({"controller.enabled": True, "job.mode": "delegate"})
    given = {run: rendered.container["args"], controller: container_of(rendered.controller)["args"]}
    reachable = set(NOT_IN_THE_CHART)
    for command, (name, *args) in given.items():
        passed = {arg.partition("=")[0] for arg in args}
        assert name == command.name
        assert passed <= _flags(command)
        reachable |= passed
    assert _flags(run) | _flags(controller) == reachable
