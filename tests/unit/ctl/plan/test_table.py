"""The plan as people see it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from ctl.plan.plan import Options
from ctl.plan.result import Obstacle
from ctl.plan.table import table
from tests.fixtures.cluster import Cluster, cluster, labelled
from tests.fixtures.modes import Pool, network, pooled
from tests.fixtures.planning import CORDONED, EVERY, OLD, fleet, gpus, planned, rotated, unloaded_in

REFERENCE: Final = Path(__file__).parents[4] / "docs" / "reference"
TWO_HOURS: Final = Options(timedelta(hours=2))
MEASURED: Final = unloaded_in(rotated(fleet(4), 0, 120, 240, 365), 20)
POOLS: Final = pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", {"spec": {"upgradePolicy": EVERY}})


def shown(found: Cluster, asked: Options = TWO_HOURS) -> str:
    """Return what users see."""
    return "\n".join(table(planned(found, asked)))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(fleet(6), "", id="plain"),
        pytest.param(fleet(3, {"autoUpgrade": False}), "", id="manual"),
        pytest.param(fleet(3, EVERY).change("driver-pod", OLD, "driver-gpu-1"), "", id="under way"),
        pytest.param(POOLS, "", id="pools"),
        pytest.param(cluster().drop("policy"), "", id="nothing"),
        # With the number of samples, and where a figure is assumed.
        pytest.param(MEASURED, "1m30s (p90 1m30s), from 4 driver pods", id="reload"),
        pytest.param(MEASURED, "2m, 2m5s if slow (measured: 3 steps of the last upgrade)", id="step"),
        pytest.param(MEASURED, "8m, 8m20s if slow (4 turns)", id="window"),
        pytest.param(MEASURED, "27m (1620 s) for Helm", id="timeout"),
        pytest.param(
            fleet(1).change("driver-pod", {"status": {"conditions": []}}),
            "unknown: no driver pod shows it, and it may be longer than a step\n  a step     2m (assumed)",
            id="no samples",
        ),
        pytest.param(
            fleet(3, EVERY).change("node", labelled("gpu-1", state="upgrade-failed"), "gpu-1"),
            "2 reload; 1 excluded",
            id="failed",
        ),
        pytest.param(
            fleet(4).change("node", CORDONED, "gpu-0"),
            "0 (maxParallelUpgrades 1, maxUnavailable 25%, 1 of 4 nodes, 1 of them already unavailable)",
            id="blocked",
        ),
        pytest.param(network("a", "b"), "(maxParallelUpgrades 1)", id="no limit of unavailable nodes"),
        pytest.param(
            fleet(4).change("node", gpus(8), "gpu-0"),
            "at most 8 of 11 GPUs unavailable at once (73 %)",
            id="capacity",
        ),
        pytest.param(
            fleet(2, EVERY).drop("slice", "0-gpu.nvidia.com-gpu-1"), "(100 %); unknown in gpu-1", id="half unknown"
        ),
        pytest.param(fleet(2).drop("slice"), "unknown: no node shows how many GPUs it has", id="unknown"),
    ],
)
def test_the_table_shows_what_programs_see(found: Cluster, words: str) -> None:
    """Every pool, obstacle and remedy, and one answer in each line."""
    made, text = planned(found, TWO_HOURS), shown(found)
    assert words in text
    for pool in made.pools:
        assert pool.name in text.splitlines()
        for finding in pool.obstacles:
            assert all(part in text for part in (finding.obstacle, finding.message, finding.remedy)), finding
    assert not made.nothing or (made.nothing.reason in text and made.nothing.message in text)
    ends = made.window is not None
    assert ("Timeouts:" in text, "no timeout is enough" in text) == (ends, not ends and bool(made.pools))


def test_the_page_explains_every_obstacle() -> None:
    """And none that does not exist any more."""
    page = (REFERENCE / "obstacles.md").read_text(encoding="utf-8")
    assert {one.value for one in Obstacle} == set(re.findall(r"^\| `([A-Za-z]+)` \|", page, re.MULTILINE))


@pytest.mark.parametrize(
    ("found", "minutes", "words"),
    [
        (fleet(20), 14, "3 at once: set maxParallelUpgrades 3 and maxUnavailable 3"),
        (fleet(20), 120, "the current limits are enough: 1 at once"),
        (fleet(20), 1, "no parallelism is enough"),
        (network(*"abc"), 2, "set maxParallelUpgrades 3 ("),
    ],
)
def test_the_table_answers_about_a_window(found: Cluster, minutes: int, words: str) -> None:
    """What to set, and why. A plan without a window has no such line."""
    assert words in shown(found, Options(timedelta(minutes=minutes)))
    assert ("in 2h" in shown(found), "in 2h" in shown(found, Options())) == (True, False)


def test_no_terminal_obeys_a_name() -> None:
    """Names come from the cluster."""
    text = shown(fleet(2).change("policy", {"metadata": {"name": "evil\x1b[2J"}}))
    assert ("\x1b" in text, "evil\\x1b[2J" in text) == (False, True)
