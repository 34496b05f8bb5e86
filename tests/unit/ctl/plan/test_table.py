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
SCENES: Final = {
    "plain": fleet(6),
    "measured": unloaded_in(rotated(fleet(4), 0, 120, 240, 365), 20),
    "blocked": fleet(4).change("node", CORDONED, "gpu-0"),
    "manual": fleet(3, {"autoUpgrade": False}),
    "failed": fleet(3, EVERY).change("node", labelled("gpu-1", state="upgrade-failed"), "gpu-1"),
    "under way": fleet(3, EVERY).change("driver-pod", OLD, "driver-gpu-1"),
    "no limit of unavailable nodes": network("a", "b"),
    "pools": pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", {"spec": {"upgradePolicy": EVERY}}),
    "nothing": cluster().drop("policy"),
    "no samples": fleet(1).change("driver-pod", {"status": {"conditions": []}}),
}


def shown(found: Cluster, asked: Options = TWO_HOURS) -> str:
    """Return what users see."""
    return "\n".join(table(planned(found, asked)))


@pytest.mark.parametrize("name", SCENES)
def test_the_table_names_every_pool_obstacle_and_remedy(name: str) -> None:
    """What programs see, users see."""
    made, text = planned(SCENES[name], TWO_HOURS), shown(SCENES[name])
    for pool in made.pools:
        assert pool.name in text.splitlines()
        for finding in pool.obstacles:
            assert all(words in text for words in (finding.obstacle, finding.message, finding.remedy)), finding
    assert not made.nothing or (made.nothing.reason in text and made.nothing.message in text)
    assert ("Timeouts:" in text) is (made.window is not None)


def test_the_page_explains_every_obstacle() -> None:
    """And none that does not exist any more."""
    page = (REFERENCE / "obstacles.md").read_text(encoding="utf-8")
    assert {one.value for one in Obstacle} == set(re.findall(r"^\| `([A-Za-z]+)` \|", page, re.MULTILINE))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("measured", "1m30s (p90 1m30s), from 4 driver pods"),
        ("measured", "2m, 2m5s if slow (measured: 3 steps of the last upgrade)"),
        ("measured", "8m, 8m20s if slow (4 turns)"),
        ("measured", "27m (1620 s) for Helm"),
        ("no samples", "unknown: no driver pod shows it"),
        ("no samples", "2m (assumed)"),
        ("failed", "2 reload; 1 excluded"),
        ("blocked", "no timeout is enough"),
        ("blocked", "0 (maxParallelUpgrades 1, maxUnavailable 25%, 1 of 4 nodes, 1 of them already unavailable)"),
        ("no limit of unavailable nodes", "(maxParallelUpgrades 1)"),
    ],
)
def test_each_line_answers_one_question(found: str, words: str) -> None:
    """With the number of samples, and where a figure is assumed."""
    assert words in shown(SCENES[found])


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (fleet(4).change("node", gpus(8), "gpu-0"), "at most 8 of 11 GPUs unavailable at once (73 %)"),
        (fleet(2, EVERY).drop("slice", "0-gpu.nvidia.com-gpu-1"), "(100 %); unknown in gpu-1"),
        (fleet(2).drop("slice"), "unknown: no node shows how many GPUs it has"),
    ],
)
def test_the_capacity_names_what_is_unknown(found: Cluster, words: str) -> None:
    """The GPUs that are away at the worst moment are those of the largest nodes that are known."""
    assert words in shown(found)


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
