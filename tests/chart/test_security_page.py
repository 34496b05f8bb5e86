"""docs/security.md lists the permissions that the chart renders: all of them, and when."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.chart.rendering import ROOT
from tests.chart.test_rbac import Right, rights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.chart.rendering import Helm, Values

PAGE: Final = ROOT / "docs" / "security.md"
JOB: Final = "gpu-operator-post"
FOLLOWER: Final = f"{JOB}-controller"
WHOSE: Final = {"both": {JOB, FOLLOWER}, "Job": {JOB}, "controller": {FOLLOWER}}
"""The page's last column, as ServiceAccounts."""
CONDITIONS: Final[dict[str, Callable[[dict[str, Any], str], bool]]] = {
    "always": lambda _values, _account: True,
    "`drivers` has `gpu`": lambda values, _: "gpu" in values["drivers"],
    "`drivers` has `network`": lambda values, _: "network" in values["drivers"],
    "`strategy: delete-stale-pods`": lambda values, _: (
        values["strategy"] == "delete-stale-pods" and not values["dryRun"]
    ),
    "`strategy: rollout-restart`": lambda values, _: values["strategy"] == "rollout-restart" and not values["dryRun"],
    "not `dryRun`": lambda values, _: not values["dryRun"],
    "`eventTargets`": lambda values, _: bool(values.get("eventTargets")) and not values["dryRun"],
    "`job.mode: delegate`": lambda values, _: values["job.mode"] == "delegate",
    "not `job.mode: delegate`": lambda values, account: account == FOLLOWER or values["job.mode"] != "delegate",
}
"""What the page's column before says, as a rule. A dry run has no strategy: it writes nothing."""

HOOKS: Final[list[Values]] = [
    {"drivers": stacks, "strategy": strategy, "dryRun": dry_run, "job.mode": "complete"}
    for stacks, strategy, dry_run in itertools.product(
        (["gpu"], ["network"], ["gpu", "network"]), ("delete-stale-pods", "rollout-restart"), (False, True)
    )
]
REGARDING: Final[list[Values]] = [
    {**HOOKS[0], "dryRun": dry_run, "eventTargets": [
        {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
         "namespace": "flux-system", "name": "gpu-operator-post"}
    ]} for dry_run in (False, True)
]  # fmt: skip
"""With the deployer's own object, which adds the same right to all others."""
WITH_FOLLOWER: Final[list[Values]] = [
    {**values, "job.mode": wait, "controller.enabled": True}
    for values in HOOKS
    for wait in ("complete", "delegate")
    if not values["dryRun"]
]
"""But those that the chart refuses: a controller writes."""


ROW: Final = re.compile(r"^\| `([^`]+)` \| `([a-z]+)` \| ([a-z, ]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the page's table."""

    rights: frozenset[Right]
    reason: str
    conditions: frozenset[str]
    accounts: frozenset[str]


def _rows() -> Iterator[Row]:
    """Read the page's table."""
    for group, resource, verbs, reason, when, whose in ROW.findall(PAGE.read_text()):
        granted = frozenset(Right("" if group == '""' else group, resource, verb) for verb in verbs.split(", "))
        conditions = frozenset(one.strip() for one in when.split(","))
        yield Row(granted, reason.strip(), conditions, frozenset(WHOSE[whose.strip()]))


def _id(values: Values) -> str:
    return "-".join("eventTargets" if name == "eventTargets" else str(value) for name, value in values.items())


@pytest.mark.parametrize("values", [*HOOKS, *REGARDING, *WITH_FOLLOWER], ids=_id)
def test_every_rule_is_documented_with_its_reason(helms: dict[str, Helm], values: Values) -> None:
    """For every combination and account: no right that the page does not explain, and no row without a right."""
    rendered = helms["helm4"].render(values)
    for account in (JOB, FOLLOWER) if values.get("controller.enabled") else (JOB,):
        granted = rights(*rendered.roles_of(account))
        rows = [
            row
            for row in _rows()
            if account in row.accounts and all(CONDITIONS[one](values, account) for one in row.conditions)
        ]
        assert sum(len(row.rights) for row in rows) == len(granted)
        assert granted == {right for row in rows for right in row.rights}


def test_every_rule_has_a_reason_and_every_condition_a_rule() -> None:
    """Whole sentences; and no condition that a typing error has orphaned."""
    assert all(row.reason.endswith(".") for row in _rows())
    assert CONDITIONS.keys() == {condition for row in _rows() for condition in row.conditions}
