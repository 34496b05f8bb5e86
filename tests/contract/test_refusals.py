"""What the program refuses when it runs, the chart refuses when it is rendered: before anything was changed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import click
import pytest

from devcluster import binaries
from hook.cli import run
from hook.errors import SettingsError
from hook.flags import settings_from
from tests.chart.rendering import Helm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chart.rendering import Values

FLAGS: Final = {
    "stacks": "--stack",
    "waitFor": "--wait-for",
    "providers": "--provider",
    "expect.chartVersion": "--expect-chart-version",
    "expect.driverVersion": "--expect-driver-version",
    "consumer.names": "--consumer-name",
    "consumers": "--consumer",
    "timeout": "--timeout",
    "stallTimeout": "--stall-timeout",
    "pluginTimeout": "--plugin-timeout",
    "onDeadline": "--on-deadline",
    "strategy": "--strategy",
    "whenManual": "--when-manual",
    "whenAbsent": "--when-absent",
    "maxParallelRestarts": "--max-parallel-restarts",
    "logFormat": "--log-format",
}
"""By which flag the chart passes a value on: its own arguments cannot be asked where it renders none."""

TOGETHER: Final[list[Values]] = [
    {"stacks": stacks, "waitFor": wait_for, "providers": providers, "expect.chartVersion": chart, "strategy": strategy}
    for stacks, wait_for, providers, chart, strategy in itertools.product(
        (["gpu"], ["network"], ["gpu", "network"]),
        ("nodes", "policy-ready"),
        ([], ["toolkit"]),
        ("", "v26.7.0"),
        ("stale-pods", "rollout"),
    )
]
"""Every combination of the values that may contradict each other, and of one that contradicts none."""

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
    {"waitFor": "policy"},
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
]


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Give one real Helm; that both render alike is the chart's own test."""
    return Helm(binaries.ensure(["helm4"])["helm4"])


def _arguments(values: Values) -> Iterator[str]:
    """Write values as the chart passes them on; it leaves empty texts out."""
    for name, value in values.items():
        each: list[Any] = value if isinstance(value, list) else [value]
        yield from (f"{FLAGS[name]}={one}" for one in each if one != "")


def _program_takes(values: Values) -> bool:
    try:
        settings_from(run.make_context("run", list(_arguments(values)), auto_envvar_prefix="NOBODY_SETS_THIS").params)
    except (click.ClickException, SettingsError):
        return False
    return True


def _id(values: Values) -> str:
    return "-".join("+".join(one) if isinstance(one, list) else str(one)[:12] for one in values.values() if one)


@pytest.mark.parametrize("values", [*TOGETHER, *ALONE], ids=_id)
def test_chart_and_program_refuse_the_same(helm: Helm, values: Values) -> None:
    """Both or neither. Without the schema, which some tools skip: the templates alone must know.

    Where the chart renders, its arguments are those that the program was asked about.
    """
    rendered = helm.template(values, "--skip-schema-validation")
    assert _program_takes(values) == (rendered.returncode == 0), rendered.stderr
    if rendered.returncode == 0 and "consumer.names" not in values and "consumers" not in values:
        assert set(_arguments(values)) <= set(helm.render(values, "--skip-schema-validation").args)


def test_both_answers_are_among_them() -> None:
    """A table in which nothing is refused, or everything, would show nothing."""
    answers = [_program_takes(values) for values in TOGETHER]
    assert {True, False} == set(answers)
    assert answers.count(False) == sum(
        (values["waitFor"] == "policy-ready" and ("network" in values["stacks"] or bool(values["providers"])))
        or (values["stacks"] == ["network"] and bool(values["providers"] or values["expect.chartVersion"]))
        for values in TOGETHER
    )
