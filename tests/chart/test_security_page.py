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
FOLLOWER: Final = f"{JOB}-follow"
WHOSE: Final = {"both": {JOB, FOLLOWER}, "Job": {JOB}, "follower": {FOLLOWER}}
"""The page's last column, as ServiceAccounts."""
CONDITIONS: Final[dict[str, Callable[[dict[str, Any], str], bool]]] = {
    "always": lambda _values, _account: True,
    "`stacks` has `gpu`": lambda values, _: "gpu" in values["stacks"],
    "`stacks` has `network`": lambda values, _: "network" in values["stacks"],
    "`strategy: stale-pods`": lambda values, _: values["strategy"] == "stale-pods" and not values["dryRun"],
    "`strategy: rollout`": lambda values, _: values["strategy"] == "rollout" and not values["dryRun"],
    "not `dryRun`": lambda values, _: not values["dryRun"],
    "`regarding`": lambda values, _: bool(values.get("regarding")) and not values["dryRun"],
    "`hook.wait: handover`": lambda values, _: values["hook.wait"] == "handover",
    "not `hook.wait: handover`": lambda values, account: account == FOLLOWER or values["hook.wait"] != "handover",
}
"""What the page's column before says, as a rule. A dry run has no strategy: it writes nothing."""

HOOKS: Final[list[Values]] = [
    {"stacks": stacks, "strategy": strategy, "dryRun": dry_run, "hook.wait": "complete"}
    for stacks, strategy, dry_run in itertools.product(
        (["gpu"], ["network"], ["gpu", "network"]), ("stale-pods", "rollout"), (False, True)
    )
]
REGARDING: Final[list[Values]] = [
    {**HOOKS[0], "dryRun": dry_run, "regarding": [
        {"resource": "helmreleases.helm.toolkit.fluxcd.io", "namespace": "flux-system", "name": "gpu-operator-post"}
    ]} for dry_run in (False, True)
]  # fmt: skip
"""With the deployer's own object, which adds the same right to all others."""
WITH_FOLLOWER: Final[list[Values]] = [
    {**values, "hook.wait": wait, "follow.enabled": True}
    for values in HOOKS
    for wait in ("complete", "handover")
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
    return "-".join("regarding" if name == "regarding" else str(value) for name, value in values.items())


@pytest.mark.parametrize("values", [*HOOKS, *REGARDING, *WITH_FOLLOWER], ids=_id)
def test_every_rule_is_documented_with_its_reason(helms: dict[str, Helm], values: Values) -> None:
    """For every combination and account: no right that the page does not explain, and no row without a right."""
    rendered = helms["helm4"].render(values)
    for account in (JOB, FOLLOWER) if values.get("follow.enabled") else (JOB,):
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
