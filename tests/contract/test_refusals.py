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
    "stacks": "--driver",
    "providers": "--refresh-after",
    "consumer.names": "--plugin-name",
    "consumers": "--driver-client",
    "pluginTimeout": "--plugin-timeout",
    "strategy": "--strategy",
    "whenManual": "--on-manual-upgrade",
    "whenAbsent": "--on-missing-plugin",
    "maxParallelRestarts": "--max-parallel-restarts",
    "logFormat": "--log-format",
}
JOBS: Final = {
    "expect.chartVersion": "--expect-chart-version",
    "expect.driverVersion": "--expect-driver-version",
    "timeout": "--timeout",
    "stallTimeout": "--stall-timeout",
    "onDeadline": "--on-deadline",
    "hook.wait": "--mode",
    "dryRun": "--dry-run",
    "regarding": "--event-target",
}
FOLLOWERS: Final = {
    "follow.maxUnavailable": "--max-unavailable",
    "follow.restartBackoff": "--restart-backoff",
    "follow.restartBackoffMax": "--restart-backoff-max",
    "follow.breaker.share": "--circuit-breaker-threshold",
    "follow.breaker.reset": "--circuit-breaker-reset",
}
"""By which flag the chart passes a value on: its own arguments cannot be asked where it renders none."""
STRATEGIES: Final = {"stale-pods": "delete-stale-pods", "rollout": "rollout-restart", "handover": "delegate"}
"""Values of the chart that the program has other names for."""

TOGETHER: Final[list[Values]] = [
    {"stacks": stacks, "providers": prerequisites, "expect.chartVersion": chart, "strategy": strategy}
    for stacks, prerequisites, chart, strategy in itertools.product(
        (["gpu"], ["network"], ["gpu", "network"]),
        ([], ["toolkit"]),
        ("", "v26.7.0"),
        ("stale-pods", "rollout"),
    )
]
"""Every combination of the values that may contradict each other, and of one that contradicts none."""

FOLLOWED: Final[list[Values]] = [
    {"follow.enabled": True, "job.enabled": job, "dryRun": dry_run, "hook.wait": wait}
    for job, dry_run, wait in itertools.product((True, False), (False, True), ("complete", "handover"))
] + [
    {"follow.enabled": True, "job.enabled": False, **values}
    for values in (
        {"follow.maxUnavailable": 0},
        {"follow.maxUnavailable": "0%"},
        {"follow.maxUnavailable": 1},
        {"follow.maxUnavailable": "3"},
        {"follow.maxUnavailable": "100%"},
        {"follow.maxUnavailable": "101%"},
        {"follow.maxUnavailable": 1000000},
        {"follow.maxUnavailable": 999999},
        {"follow.maxUnavailable": "half"},
        {"follow.restartBackoff": "0s"},
        {"follow.restartBackoff": "soon"},
        {"follow.restartBackoff": "2h"},
        {"follow.restartBackoff": "1h"},
        {"follow.restartBackoff": "2h", "follow.restartBackoffMax": "3h"},
        {"follow.restartBackoffMax": "30s"},
        {"follow.restartBackoffMax": "721h"},
        {"follow.breaker.share": 0},
        {"follow.breaker.share": "0%"},
        {"follow.breaker.share": "100%"},
        {"follow.breaker.share": "200%"},
        {"follow.breaker.share": -1},
        {"follow.breaker.reset": "0s"},
        {"follow.breaker.reset": "never"},
        {"strategy": "rollout"},
        {"stacks": ["network"], "providers": ["toolkit"]},
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
    {"whenManual": "skip"},
    {"whenAbsent": "fail"},
    {"logFormat": "xml"},
    {"maxParallelRestarts": -1},
    {"maxParallelRestarts": 3},
    {"stacks": ["cpu"]},
    {"providers": ["driver"]},
    {"expect.driverVersion": "580.126.20", "stacks": ["network"]},
    {"consumer.names": ["network:a"]},
    {"consumer.names": ["network:a"], "stacks": ["network"]},
    {"consumer.names": ["a" * 253]},
    {"consumer.names": ["a" * 254]},
    {"consumers": ["gpu:a/b"], "stacks": ["network"]},
    {"consumers": ["a/b", "k=v"], "stacks": ["network", "gpu"]},
    {"consumers": ["a"]},
    {"consumers": ["a=b,c"]},
    *(
        {"regarding": [{"resource": resource, "namespace": namespace, "name": name}]}
        for resource, namespace, name in (
            ("a.b", "c", "d"),
            ("a.b.c-d", "e", "f.g"),
            ("1a.1b", "1c", "1d"),
            ("jobs", "a", "b"),
            ("a.", "b", "c"),
            ("a..b", "c", "d"),
            ("A.b", "c", "d"),
            ("-a.b", "c", "d"),
            ("a.b", "c.d", "e"),
            ("a.b", "", "c"),
            ("a.b", "c", ""),
            ("a.b", "c", "d/e"),
            ("a.b", "c", "d..e"),
            ("a.b", "c", "D"),
            ("a.b", "c" * 63, "d" * 63),
            ("a.b", "c" * 64, "d"),
            ("a.b", "c", "d" * 64),
            ("a.b", "c", f"{'d' * 63}." * 3 + "e" * 61),
            ("a.b", "c", f"{'d' * 63}." * 3 + "e" * 62),
            ("a" * 64 + ".b", "c", "d"),
        )
    ),
    *(
        {"regarding": [{"resource": "a.b", "namespace": "c", "name": f"d{name}"} for name in range(count)]}
        for count in (4, 5)
    ),
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
    """Write what has several parts as the flag has it."""
    return "/".join(map(str, one.values())) if isinstance(one, dict) else STRATEGIES.get(str(one), one)


def _runs(values: Values) -> Iterator[tuple[click.Command, list[str]]]:
    """Yield each command that would run, with its arguments."""
    if values.get("job.enabled", True):
        yield run, list(_arguments(values, SHARED | JOBS))
    if values.get("follow.enabled"):
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
    if values.get("follow.enabled") and values.get("dryRun"):
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
    if rendered.returncode == 0 and "consumer.names" not in values and "consumers" not in values:
        manifests = helm.render(values, "--skip-schema-validation")
        who = (*manifests.all("Job"), *manifests.all("Deployment"))
        passed = [one["spec"]["template"]["spec"]["containers"][0]["args"] for one in who]
        for (command, wanted), given in zip(_runs(values), passed, strict=True):
            assert {command.name, *wanted} <= set(given)


@pytest.mark.parametrize("flag", sorted({*JOBS.values(), *FOLLOWERS.values(), "--api-patience", "--job-name"}))
def test_the_follower_gets_by_argument_nothing_that_has_a_value(helm: Helm, flag: str) -> None:
    """Neither what a run that never ends refuses, nor a second word for what the chart checks: it would never start."""
    assert "follow.extraArgs holds" in helm.refuse({"follow.enabled": True, "follow.extraArgs": [f"{flag}=1"]})


def test_both_answers_are_among_them() -> None:
    """A table in which nothing is refused, or everything, would show nothing."""
    assert {_program_takes(values) for values in FOLLOWED} == {True, False}
    answers = [_program_takes(values) for values in TOGETHER]
    assert {True, False} == set(answers)
    assert answers.count(False) == sum(
        values["stacks"] == ["network"] and bool(values["providers"] or values["expect.chartVersion"])
        for values in TOGETHER
    )
