"""What the program refuses when it runs, the chart refuses when it is rendered: before anything was changed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import click
import pytest

from devcluster import binaries
from hook.cli import controller, run
from hook.config import settings_from
from hook.errors import SettingsError
from tests.chart.rendering import Helm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chart.rendering import Values

SHARED: Final = {
    "drivers": "--driver",
    "refreshAfter": "--refresh-after",
    "plugin.names": "--plugin-name",
    "driverClients": "--driver-client",
    "pluginTimeout": "--plugin-timeout",
    "strategy": "--strategy",
    "onManualUpgrade": "--on-manual-upgrade",
    "onMissingPlugin": "--on-missing-plugin",
    "maxParallelRestarts": "--max-parallel-restarts",
    "logFormat": "--log-format",
}
JOBS: Final = {
    "expect.chartVersion": "--expect-chart-version",
    "expect.driverVersion": "--expect-driver-version",
    "timeout": "--timeout",
    "stallTimeout": "--stall-timeout",
    "onDeadline": "--on-deadline",
    "job.mode": "--mode",
    "dryRun": "--dry-run",
}
FOLLOWERS: Final = {
    "controller.maxUnavailable": "--max-unavailable",
    "controller.restartBackoff": "--restart-backoff",
    "controller.restartBackoffMax": "--restart-backoff-max",
    "controller.circuitBreaker.threshold": "--circuit-breaker-threshold",
    "controller.circuitBreaker.reset": "--circuit-breaker-reset",
}
"""By which flag the chart passes a value on: its own arguments cannot be asked where it renders none."""
TOGETHER: Final[list[Values]] = [
    {"drivers": stacks, "refreshAfter": prerequisites, "expect.chartVersion": chart, "strategy": strategy}
    for stacks, prerequisites, chart, strategy in itertools.product(
        (["gpu"], ["network"], ["gpu", "network"]),
        ([], ["toolkit"]),
        ("", "v26.7.0"),
        ("delete-stale-pods", "rollout-restart"),
    )
]
"""Every combination of the values that may contradict each other, and of one that contradicts none."""

FOLLOWED: Final[list[Values]] = [
    {"controller.enabled": True, "job.enabled": job, "dryRun": dry_run, "job.mode": wait}
    for job, dry_run, wait in itertools.product((True, False), (False, True), ("complete", "delegate"))
] + [
    {"controller.enabled": True, "job.enabled": False, **values}
    for values in (
        {"controller.maxUnavailable": 0},
        {"controller.maxUnavailable": "0%"},
        {"controller.maxUnavailable": 1},
        {"controller.maxUnavailable": "3"},
        {"controller.maxUnavailable": "100%"},
        {"controller.maxUnavailable": "101%"},
        {"controller.maxUnavailable": 1000000},
        {"controller.maxUnavailable": 999999},
        {"controller.maxUnavailable": "half"},
        {"controller.restartBackoff": "0s"},
        {"controller.restartBackoff": "soon"},
        {"controller.restartBackoff": "2h"},
        {"controller.restartBackoff": "1h"},
        {"controller.restartBackoff": "2h", "controller.restartBackoffMax": "3h"},
        {"controller.restartBackoffMax": "30s"},
        {"controller.restartBackoffMax": "721h"},
        {"controller.circuitBreaker.threshold": 0},
        {"controller.circuitBreaker.threshold": "0%"},
        {"controller.circuitBreaker.threshold": "100%"},
        {"controller.circuitBreaker.threshold": "200%"},
        {"controller.circuitBreaker.threshold": -1},
        {"controller.circuitBreaker.reset": "0s"},
        {"controller.circuitBreaker.reset": "never"},
        {"strategy": "rollout-restart"},
        {"drivers": ["network"], "refreshAfter": ["toolkit"]},
        {"onDeadline": "report", "expect.chartVersion": "v26.7.0"},
        {"pluginTimeout": "30m"},
    )
]
"""The same of the follower, which has no Job beside it to be refused for the same reason."""

ALONE: Final[list[Values]] = [
    {"timeout": "0s"},
    {"timeout": "720h"},
    {"timeout": "721h"},
    {"timeout": "25"},
    {"pluginTimeout": "0s"},
    {"pluginTimeout": "5"},
    {"timeout": "720h", "pluginTimeout": "43201m"},
    {"stallTimeout": "0s"},
    {"stallTimeout": "2592001s"},
    {"stallTimeout": "soon"},
    {"strategy": "Rollout"},
    {"onDeadline": "ignore"},
    {"onManualUpgrade": "skip"},
    {"onMissingPlugin": "fail"},
    {"logFormat": "xml"},
    {"maxParallelRestarts": -1},
    {"maxParallelRestarts": 3},
    {"drivers": ["cpu"]},
    {"refreshAfter": ["driver"]},
    {"expect.driverVersion": "580.126.20", "drivers": ["network"]},
    {"plugin.names": [{"driver": "network", "name": "a"}]},
    {"plugin.names": [{"driver": "network", "name": "a"}], "drivers": ["network"]},
    {"plugin.names": ["a" * 253]},
    {"driverClients": [{"driver": "gpu", "namespace": "a", "name": "b"}], "drivers": ["network"]},
    {"driverClients": [{"namespace": "a", "name": "b"}, {"labels": {"k": "v"}}], "drivers": ["network", "gpu"]},
]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Give one real Helm; that both render alike is the chart's own test."""
    return Helm(binaries.ensure(["helm4"])["helm4"])


def _arguments(values: Values, flags: dict[str, str]) -> Iterator[str]:
    """Write values as the chart passes them on; it leaves empty texts out."""
    for name, value in values.items():
        if name not in flags:
            continue
        if isinstance(value, bool):
            yield from [flags[name]] if value else []
            continue
        each: list[Any] = value if isinstance(value, list) else [value]
        yield from (f"{flags[name]}={_written(one)}" for one in each if one != "")


def _written(one: object) -> object:
    """Write an entry as the flag has it."""
    if not isinstance(one, dict):
        return one
    rest = one.get("name", "")
    if "namespace" in one:
        rest = f"{one['namespace']}/{rest}"
    for key, value in one.get("labels", {}).items():
        rest = f"{key}={value}"
    return f"{one['driver']}:{rest}" if "driver" in one else rest


def _runs(values: Values) -> Iterator[tuple[click.Command, list[str]]]:
    """Yield each command that would run, with its arguments."""
    if values.get("job.enabled", True):
        yield run, list(_arguments(values, SHARED | JOBS))
    if values.get("controller.enabled"):
        yield controller, list(_arguments(values, SHARED | FOLLOWERS))


def _taken(command: click.Command, arguments: list[str]) -> bool:
    try:
        parsed = command.make_context(str(command.name), arguments, auto_envvar_prefix="NOBODY_SETS_THIS").params
        settings_from(parsed, controller=command is controller)
    except (click.ClickException, SettingsError):
        return False
    return True


def _program_takes(values: Values) -> bool:
    """Return whether each command takes its settings. The chart refuses a dry run beside a controller by itself."""
    if values.get("controller.enabled") and values.get("dryRun"):
        return False
    return all(itertools.starmap(_taken, _runs(values)))


def _id(values: Values) -> str:
    return "-".join(
        "+".join(map(str, one)) if isinstance(one, list) else str(one)[:12] for one in values.values() if one
    )


@pytest.mark.parametrize("values", [*TOGETHER, *FOLLOWED, *ALONE], ids=_id)
def test_chart_and_program_refuse_the_same(helm: Helm, values: Values) -> None:
    """Both or neither. Without the schema, which some tools skip: the templates alone must know.

    Where the chart renders, its arguments are those that the program was asked about.
    """
    rendered = helm.template(values, "--skip-schema-validation")
    assert _program_takes(values) == (rendered.returncode == 0), rendered.stderr
    if rendered.returncode == 0 and "plugin.names" not in values and "driverClients" not in values:
        manifests = helm.render(values, "--skip-schema-validation")
        who = (*manifests.all("Job"), *manifests.all("Deployment"))
        passed = [one["spec"]["template"]["spec"]["containers"][0]["args"] for one in who]
        for (command, wanted), given in zip(_runs(values), passed, strict=True):
            assert {command.name, *wanted} <= set(given)


@pytest.mark.parametrize("flag", sorted({*JOBS.values(), *FOLLOWERS.values(), "--api-patience", "--job-name"}))
def test_the_follower_gets_by_argument_nothing_that_has_a_value(helm: Helm, flag: str) -> None:
    """Neither what a run that never ends refuses, nor a second word for what the chart checks: it would never start."""
    assert "controller.extraArgs holds" in helm.refuse(
        {"controller.enabled": True, "controller.extraArgs": [f"{flag}=1"]}
    )


def test_both_answers_are_among_them() -> None:
    """A table in which nothing is refused, or everything, would show nothing."""
    assert {_program_takes(values) for values in FOLLOWED} == {True, False}
    answers = [_program_takes(values) for values in TOGETHER]
    assert {True, False} == set(answers)
    assert answers.count(False) == sum(
        values["drivers"] == ["network"] and bool(values["refreshAfter"] or values["expect.chartVersion"])
        for values in TOGETHER
    )
