"""The chart's arguments and the program's flags are one list, kept in two places."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, Final

import click
import pytest
import yaml

from devcluster import binaries
from hook.cli import CONTEXT, EXIT_USAGE, controller, run
from hook.config import (
    EventTarget,
    Mode,
    OnDeadline,
    OnManualUpgrade,
    OnMissingPlugin,
    Settings,
    Strategy,
    Wanted,
    settings_from,
)
from hook.decide.clients import plugin_names
from hook.format import Bound
from hook.objects.drivers import STACKS
from hook.run.job import EXIT_DEADLINE, EXIT_FAILED
from tests.chart.rendering import CHART, Helm, Values

EVERY_VALUE: Final[Values] = {
    "timeout": "1h1m1s",
    "stallTimeout": "2m",
    "pluginTimeout": "3m",
    "onDeadline": "report",
    "strategy": "rollout-restart",
    "maxParallelRestarts": 7,
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
    "eventTargets": [
        {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "flux-system", "name": "post"},
        {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "namespace": "argocd", "name": "a.b"},
    ],
    "expect": {"chartVersion": "v26.7.0", "driverVersion": "580.126.20"},
    "plugin": {"namespace": "dra", "names": ["one", {"driver": "gpu", "name": "two"}]},
    "rbac": {"scope": "namespace", "namespaces": ["dra", "operator"]},
}
"""Each value that becomes an argument, away from its default."""

FOLLOWED: Final[Values] = {
    **EVERY_VALUE,
    "dryRun": False,
    "job.mode": "delegate",
    "controller": {
        "enabled": True,
        "maxUnavailable": 3,
        "restartBackoff": "2m",
        "restartBackoffMax": "2h",
        "circuitBreaker": {"threshold": "30%", "reset": "0s"},
    },
}
"""The same with a follower, to which the Job hands over; but dryRun, which refuses one."""

NOT_IN_THE_CHART: Final = {
    "--kubeconfig": "for a person's shell; the pod has a ServiceAccount",
    "--context": "for a person's shell",
    "--service-account-dir": "every kubelet mounts it in the same place; for tests",
    "--termination-log": "the kubelet's own default place; for tests",
    "--identity": "derived from the pod's name, and different in each process",
    "--verbose": "by extraArgs, when something is looked for",
    "--operator-quiet": "advanced: derived from the operator's own timing; by extraArgs",
    "--unknown-operator-quiet": "advanced: the same under OLM; by extraArgs",
    "--policy-grace": "advanced: derived from the operator's requeue; by extraArgs",
    "--failed-grace": "advanced: derived from the upgrade controller; by extraArgs",
    "--not-ready-grace": "advanced: Kubernetes' own eviction time; by extraArgs",
    "--api-patience": "advanced: the Job tries again anyway; by extraArgs",
    "--help": "for people",
}
"""Flags of ``run`` and ``controller`` that no value of the chart sets, and why."""


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Give one real Helm; that both render alike is the chart's own test."""
    return Helm(binaries.ensure(["helm4"])["helm4"])


def _context(command: click.Command = run) -> click.Context:
    return click.Context(command, info_name=command.name, auto_envvar_prefix=str(CONTEXT["auto_envvar_prefix"]))


def _flags(command: click.Command) -> dict[str, click.Parameter]:
    """Return every long flag of a command."""
    parameters = command.get_params(_context(command))
    return {flag: parameter for parameter in parameters for flag in parameter.opts if flag.startswith("--")}


def _names(args: list[str]) -> set[str]:
    return {arg.partition("=")[0] for arg in args if arg.startswith("--")}


def _parsed(args: list[str]) -> dict[str, Any]:
    name, *rest = args
    command = {"run": run, "controller": controller}[name]
    return dict(command.make_context(name, rest, auto_envvar_prefix="NOBODY_SETS_THIS").params)


def _given(helm: Helm) -> dict[click.Command, set[str]]:
    """Return every flag that the chart gives to Job and controller, with every value set."""
    followed = helm.render(FOLLOWED)
    job = _names(helm.render(EVERY_VALUE).args) | _names(followed.args)
    return {run: job, controller: _names(followed.follower_container["args"])}


def test_every_argument_of_the_chart_is_a_flag(helm: Helm) -> None:
    """With every value set, each command knows each of its arguments."""
    for command, given in _given(helm).items():
        assert given <= _flags(command).keys()


def test_every_flag_is_set_by_the_chart_or_left_out_for_a_reason(helm: Helm) -> None:
    """A flag that nobody can reach is a mistake in one of the two places."""
    given = _given(helm)
    left_out = (_flags(command).keys() - given[command] for command in given)
    assert set().union(*left_out) - given[controller] == NOT_IN_THE_CHART.keys()


def test_the_follower_s_values_arrive(helm: Helm) -> None:
    """What it shares with the Job, and what is its own; the Job hears of the Lease, and of nothing else."""
    rendered = helm.render(FOLLOWED)
    values = _parsed(rendered.follower_container["args"])
    settings, job = settings_from(values, controller=True), settings_from(_parsed(rendered.args))
    backoff = (settings.restart_backoff, settings.restart_backoff_max, settings.circuit_breaker_reset)
    assert (120, 7200, 0) == tuple(int(one.total_seconds()) for one in backoff)
    assert (Bound(3), Bound(30, percent=True)) == (settings.max_unavailable, settings.circuit_breaker_threshold)
    assert (True, False) == (settings.follow, job.follow)
    assert (Mode.COMPLETE, Mode.DELEGATE) == (settings.mode, job.mode)
    assert (values["workload_name"], values["listen"]) == ("gpu-operator-post-controller", ":8080")
    for which in ("lease_name", "lease_namespace"):
        assert values[which] == _parsed(rendered.args)[which]
    own = {"follow", "mode", "max_unavailable", "restart_backoff", "restart_backoff_max"}
    runs = {"timeout", "stall_timeout", "on_deadline", "event_targets"}
    runs |= {"expect_chart_version", "expect_driver_version", "circuit_breaker_threshold", "circuit_breaker_reset"}
    shared = {one.name for one in fields(Settings)} - own - runs
    assert [name for name in sorted(shared) if getattr(settings, name) != getattr(job, name)] == []


def test_the_follower_s_defaults_agree(helm: Helm) -> None:
    """But for how many may be down at once: a hook does what was asked for, a follower asks nobody."""
    rendered = helm.render({"controller.enabled": True, "job.enabled": False})
    settings = settings_from(_parsed(rendered.follower_container["args"]), controller=True)
    expected = Settings(follow=True, max_unavailable=Bound(25, percent=True))
    assert replace(settings, plugin_names=()) == expected


def test_the_chart_s_values_arrive(helm: Helm) -> None:
    """What the chart passes on means to the program what it means in the values."""
    values = _parsed(helm.render(EVERY_VALUE).args)
    settings = settings_from(values)
    assert (3661, 120, 180) == tuple(
        int(one.total_seconds()) for one in (settings.timeout, settings.stall_timeout, settings.plugin_timeout)
    )
    assert (OnDeadline.REPORT, Strategy.ROLLOUT, OnManualUpgrade.WAIT, OnMissingPlugin.WAIT) == (
        settings.on_deadline,
        settings.strategy,
        settings.on_manual_upgrade,
        settings.on_missing_plugin,
    )
    assert (7, True) == (settings.max_parallel_restarts, settings.dry_run)
    assert ("v26.7.0", "580.126.20") == (settings.expect_chart_version, settings.expect_driver_version)
    assert (("network", "gpu"), ("toolkit",)) == (settings.stacks, settings.prerequisites)
    assert settings.plugin_namespace == "dra"
    assert (Wanted("network", name="one"), Wanted("gpu", name="two")) == settings.plugin_names
    assert settings.plugins == (
        Wanted("network", namespace="dra", name="exporter"),
        Wanted("gpu", labels=(("app", "profiler"), ("tier", "node"))),
    )
    assert settings.namespaces == ("dra", "operator")
    assert settings.event_targets == (
        EventTarget("helmreleases", "helm.toolkit.fluxcd.io", "flux-system", "post"),
        EventTarget("applications", "argoproj.io", "argocd", "a.b"),
    )
    assert ("gpu-operator-post", "gpu-operator", "json") == (
        values["job_name"],
        values["job_namespace"],
        values["log_format"],
    )


def test_defaults_agree(helm: Helm) -> None:
    """The chart's defaults are the program's: whoever leaves a value out gets what the documentation says."""
    settings = settings_from(_parsed(helm.render().args))
    assert replace(settings, plugin_names=()) == Settings()


@pytest.mark.parametrize("stack", STACKS)
def test_the_default_names_of_a_stack_agree(helm: Helm, stack: str) -> None:
    """The chart names them, so that the guard has them too; the program knows the same without it."""
    settings = settings_from(_parsed(helm.render({"drivers": [stack]}).args))
    assert plugin_names(STACKS[stack], settings) == plugin_names(STACKS[stack], Settings())


def test_the_chart_knows_every_stack_and_provider() -> None:
    """The schema's choices are the program's, in the same words."""
    properties = json.loads((CHART / "values.schema.json").read_text())["properties"]
    assert list(STACKS) == properties["drivers"]["items"]["enum"]
    prerequisites = {name for stack in STACKS.values() for name in stack.prerequisites}
    assert prerequisites == set(properties["refreshAfter"]["items"]["enum"])


@pytest.mark.parametrize("flag", sorted(_flags(run).keys() - {"--help"}))
def test_every_flag_is_an_environment_variable(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``GPU_OPERATOR_POST_<FLAG>`` is looked at, named exactly as the flag is."""
    variable = f"GPU_OPERATOR_POST_{flag.removeprefix('--').upper().replace('-', '_')}"
    monkeypatch.setenv(variable, "given")
    assert _flags(run)[flag].resolve_envvar_value(_context()) == "given"


def test_exit_codes_that_end_the_job(helm: Helm) -> None:
    """The Job gives up at once on exactly the exit codes that another try would not change."""
    rules = helm.render().job["spec"]["podFailurePolicy"]["rules"]
    (codes,) = [rule["onExitCodes"] for rule in rules if rule["action"] == "FailJob"]
    assert {EXIT_USAGE, EXIT_FAILED, EXIT_DEADLINE} == set(codes["values"])
    assert codes["containerName"] == helm.render().container["name"]


def test_the_image_is_the_program_s_version() -> None:
    """The chart's appVersion, which is the image's default tag, is the version that the program says it has."""
    with (CHART / "Chart.yaml").open() as file:
        chart = yaml.safe_load(file)
    from hook import __version__  # noqa: PLC0415 - beside what it is compared with

    assert chart["appVersion"] == __version__
