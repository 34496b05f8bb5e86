"""The chart and the program know the same settings, flags and exit codes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
import pytest
import yaml

from hook import __version__
from hook.checks import settings_from
from hook.cli import controller, run
from hook.config import DEFAULTS, ControllerSettings, Duration, Settings
from hook.errors import SettingsError
from tests.chart.rendering import CHART, config_of, container_of
from tools.settings import settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chart.rendering import Helm, Values

SETTINGS: Final = settings()[0]
TARGET: Final = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "a.b"}
OF_A_RUN: Final = {"timeout", "stallTimeout", "onDeadline", "expect", "eventTargets", "dryRun", "job"}
"""Settings of a single run. The controller does not get them, so that a release does not restart it."""
BLOCKS: Final = ("expect", "plugin", "rbac", "job", "controller", "circuitBreaker", "advanced")
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
    "driverClients": [
        {"namespace": "dra", "name": "exporter"},
        {"driver": "gpu", "labels": {"app": "profiler", "tier": "node"}},
    ],
    "dryRun": True,
    "logFormat": "json",
    "logLevel": "debug",
    "eventTargets": [TARGET],
    "expect": {"chartVersion": "v26.7.0", "driverVersion": "580.126.20"},
    "plugin": {"namespace": "dra", "names": ["one", {"driver": "gpu", "name": "two"}]},
    "rbac": {"namespaces": ["dra", "operator"]},
    "job": {"mode": "delegate"},
    "controller": {
        "maxUnavailable": 3,
        "restartBackoff": "2m",
        "restartBackoffMax": "2h",
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
"""Each setting away from its default."""
RENDERED: Final = (
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


def _paths(config: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each setting in what the chart passes."""
    if isinstance(config, dict) and (not path or path[-1] in BLOCKS):
        for key, value in config.items():
            yield from _paths(value, (*path, key))
    else:
        yield path


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


def _configs(helm: Helm, values: Values, chart: Path = CHART) -> list[Values]:
    """Return what the chart passes to the Job and, if there is one, to the controller."""
    rendered = helm.render(values, chart=chart)
    return [config_of(container_of(workload)) for kind in ("Job", "Deployment") for workload in rendered.all(kind)]


def test_the_chart_passes_each_setting_and_no_other(helm: Helm) -> None:
    """A setting that only one of them knows is a mistake."""
    job, controlling = (set(_paths(config)) for config in _configs(helm, {"controller.enabled": True}))
    assert job | controlling == SETTINGS.keys()
    assert {path[0] for path in job - controlling} == OF_A_RUN
    assert {path[0] for path in controlling - job} == {"controller"}


def test_the_defaults_agree(helm: Helm) -> None:
    """The program gets its own defaults, also as a controller, and accepts them."""
    job, controlling = _configs(helm, {"controller.enabled": True})
    assert settings_from(job) == DEFAULTS
    assert settings_from(controlling, controller=True) == ControllerSettings()


def test_each_value_arrives(helm: Helm) -> None:
    """Job and controller get each value as it was given; no setting is left out of this test."""
    sample = settings_from(EVERY_SETTING)
    assert [path for path in SETTINGS if _at(sample, path) == _at(DEFAULTS, path)] == []
    for further in RENDERED:
        given = {".".join(path): _value(EVERY_SETTING, path) for path in SETTINGS} | further
        for config in _configs(helm, given):
            for path in _paths(config):
                assert _value(config, path) == given[".".join(path)], path


def _at(found: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - a setting
    """Return a setting by the path that users write."""
    for name in path:
        (field,) = [field.name for field in msgspec.structs.fields(found) if field.encode_name == name]
        found = getattr(found, field)
    return found


def _value(values: Values, path: tuple[str, ...]) -> object:
    """Return a value by its path."""
    found: Any = values
    for key in path:
        found = found[key]
    return found


def test_a_setting_that_the_template_leaves_out_is_found(helm: Helm, tmp_path: Path) -> None:
    """The comparison of the settings fails."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    template = chart / "templates" / "_config.tpl"
    text = template.read_text()
    template.write_text(text.replace('"stallTimeout" ', ""))
    (job, controlling) = (set(_paths(config)) for config in _configs(helm, {"controller.enabled": True}, chart))
    assert SETTINGS.keys() - job - controlling == {("stallTimeout",)}


def test_a_setting_that_the_program_does_not_know_is_found(helm: Helm) -> None:
    """The program refuses what the chart passes."""
    fields = [field.name for field in msgspec.structs.fields(Settings) if field.name != "stall_timeout"]
    known = [(name, Any, None) for name in fields]
    smaller = msgspec.defstruct("Smaller", known, rename="camel", forbid_unknown_fields=True)
    with pytest.raises(msgspec.ValidationError, match="unknown field `stallTimeout`"):
        msgspec.convert(helm.render().config, smaller)


def test_each_duration_is_checked_with_a_sentence(helm: Helm) -> None:
    """The chart checks the form of each duration of the program."""
    durations = [".".join(path) for path in SETTINGS if isinstance(_at(DEFAULTS, path), Duration)]
    assert durations
    message = helm.refuse(dict.fromkeys(durations, "25min"))
    assert [name for name in durations if f'{name} is "25min", which is not a duration' not in message] == []


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
    (
        "driverClients",
        [[{"labels": {"a.b/c": ""}}], [{"namespace": "a", "name": "b.c"}]],
        [
            ["a/b"],
            [{"labels": {"a": "b"}, "name": "c"}],
            [{"labels": {'a"': "b"}}],
            [{"namespace": "A", "name": "b"}],
            [{}],
            [{"namespace": "a"}],
        ],
    ),
    (
        "eventTargets",
        [[TARGET], [{**TARGET, "name": "a" * 63}]],
        [
            [{**TARGET, "apiVersion": "v1"}],
            [{**TARGET, "kind": "applications"}],
            [{**TARGET, "namespace": "a.b"}],
            [{**TARGET, "name": 'a"'}],
            [{**TARGET, "resource": "a.b"}],
            [{"kind": "A"}],
            [TARGET] * 5,
        ],
    ),
    ("timeout", ["30s", "1h30m"], ["25min", "1.5h", "", 300, True, "1m1h", "721h"]),
    ("dryRun", [True], ["yes"]),
    ("logLevel", ["debug"], ["trace"]),
)


def test_chart_and_program_accept_the_same(helm: Helm) -> None:
    """A value that the program refuses fails before anything is installed, and no other does."""
    for name, good, bad in ACCEPTED_AND_REFUSED:
        for value in [*good, *bad]:
            program, chart = _accepted({name: value}), helm.template({name: value}).returncode == 0
            assert (program, chart) == (value in good, value in good), f"{name}: {value}"


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


def test_the_image_is_the_program_s_version() -> None:
    """The chart's appVersion, which is the image's default tag, is the version of the program."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
