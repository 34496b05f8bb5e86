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
CONDITIONS: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    "always": lambda _: True,
    "`stacks` has `gpu`": lambda values: "gpu" in values["stacks"],
    "`stacks` has `network`": lambda values: "network" in values["stacks"],
    "`waitFor: nodes`": lambda values: values["waitFor"] == "nodes",
    "`strategy: stale-pods`": lambda values: values["strategy"] == "stale-pods" and not values["dryRun"],
    "`strategy: rollout`": lambda values: values["strategy"] == "rollout" and not values["dryRun"],
    "not `dryRun`": lambda values: not values["dryRun"],
}
"""What the page's last column says, as a rule. A dry run has no strategy: it writes nothing."""

VARIANTS: Final[list[Values]] = [
    {"stacks": stacks, "waitFor": wait_for, "strategy": strategy, "dryRun": dry_run}
    for stacks, wait_for, strategy, dry_run in itertools.product(
        (["gpu"], ["network"], ["gpu", "network"]), ("nodes", "policy-ready"), ("stale-pods", "rollout"), (False, True)
    )
    if not (wait_for == "policy-ready" and "network" in stacks)
]
"""But those that the chart refuses: only a policy of the stack gpu says since when it is ready."""


ROW: Final = re.compile(r"^\| `([^`]+)` \| `([a-z]+)` \| ([a-z, ]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the page's table."""

    rights: frozenset[Right]
    reason: str
    conditions: frozenset[str]


def _rows() -> Iterator[Row]:
    """Read the page's table."""
    for group, resource, verbs, reason, when in ROW.findall(PAGE.read_text()):
        granted = frozenset(Right("" if group == '""' else group, resource, verb) for verb in verbs.split(", "))
        yield Row(granted, reason.strip(), frozenset(one.strip() for one in when.split(",")))


@pytest.mark.parametrize("values", VARIANTS, ids=lambda values: "-".join(map(str, values.values())))
def test_every_rule_is_documented_with_its_reason(helms: dict[str, Helm], values: Values) -> None:
    """For every combination: no right that the page does not explain, and no row without a right."""
    rendered = helms["helm4"].render(values)
    granted = rights(*rendered.all("ClusterRole"), *rendered.all("Role"))
    rows = [row for row in _rows() if all(CONDITIONS[one](values) for one in row.conditions)]
    assert sum(len(row.rights) for row in rows) == len(granted)
    assert granted == {right for row in rows for right in row.rights}


def test_every_rule_has_a_reason_and_every_condition_a_rule() -> None:
    """Whole sentences; and no condition that a typing error has orphaned."""
    assert all(row.reason.endswith(".") for row in _rows())
    assert CONDITIONS.keys() == {condition for row in _rows() for condition in row.conditions}
