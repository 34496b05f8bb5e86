"""The output of a plan: the table for users, and the JSON that the schema promises."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from jsonschema import Draft202012Validator

from hook.config import Duration, Settings
from hook.decide.reasons import Reason
from hook.plan import plan
from hook.plan.plan import Options, make_plan
from hook.plan.result import Obstacle
from tests.fixtures.cluster import LATER, cluster, labelled
from tests.fixtures.modes import Pool, network, pooled
from tests.fixtures.planning import NOBODY, fleet, gpus, rotated, unloaded_in

if TYPE_CHECKING:
    from hook.plan.result import Plan
    from tests.fixtures.cluster import Cluster

DOCS: Final = Path(__file__).parents[2] / "docs"
SCHEMA: Final = json.loads((DOCS / "plan.schema.json").read_text(encoding="utf-8"))
EVERY: Final = {"maxParallelUpgrades": 0, "maxUnavailable": "100%"}
TWO_HOURS: Final = Options(timedelta(hours=2), ())


def planned(found: Cluster, asked: Options = TWO_HOURS, settings: Settings | None = None) -> Plan:
    """Plan the upgrade of a cluster."""
    given = settings or Settings(drivers=(found.stack.name,))
    return make_plan({found.stack.name: found.seen()}, given, LATER, asked)


def table(found: Cluster, asked: Options = TWO_HOURS) -> str:
    """Give what people see."""
    return "\n".join(plan.table(planned(found, asked)))


def as_json(found: Cluster, settings: Settings | None = None) -> dict[str, Any]:
    """Give what programs see, as they see it."""
    written: dict[str, Any] = json.loads(json.dumps(plan.as_json(planned(found, settings=settings))))
    return written


DECEASED: Final = cluster().drop("policy")
OLD: Final = "metadata: {labels: {controller-revision-hash: old}}"
SCENES: Final = {
    "plain": fleet(6),
    "measured": unloaded_in(rotated(fleet(4), 0, 120, 240, 365), 20),
    "blocked": fleet(4).change("node", {"spec": {"unschedulable": True}}, "gpu-0"),
    "manual": fleet(3, {"autoUpgrade": False}),
    "failed": fleet(3, EVERY).change("node", labelled("gpu-1", state="upgrade-failed"), "gpu-1"),
    "under-way": fleet(3, EVERY).change("driver-pod", OLD, "driver-gpu-1"),
    "no-limit-of-unavailable": network("a", "b"),
    "invalid": fleet(2, {"maxUnavailable": "x"}),
    "pools": pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", {"spec": {"upgradePolicy": EVERY}}),
    "nothing": DECEASED,
    "no-samples": fleet(1).change("driver-pod", {"status": {"conditions": []}}),
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_json_is_as_documented(scene: str) -> None:
    """Every field, and no other, whatever there is to say."""
    Draft202012Validator(SCHEMA).validate(as_json(SCENES[scene]))


@pytest.mark.parametrize("scene", SCENES)
def test_the_table_names_every_pool_obstacle_and_remedy(scene: str) -> None:
    """What programs are told, people are told."""
    made, shown = planned(SCENES[scene]), table(SCENES[scene])
    for pool in made.pools:
        assert f"{pool.stack}: {pool.name}" in shown
        assert all(one.obstacle in shown and one.message in shown and one.remedy in shown for one in pool.obstacles)
    assert all(one.reason in shown and one.message in shown for one in made.nothing)
    assert ("Timeouts:" in shown) is (made.window is not None)


def test_the_schema_refuses_what_is_not_documented() -> None:
    """A validator that accepts everything would promise nothing."""
    broken = as_json(SCENES["plain"])
    broken["pools"][0]["surprise"] = 1
    assert not Draft202012Validator(SCHEMA).is_valid(broken)


def test_the_page_explains_every_obstacle() -> None:
    """And none that is no more."""
    page = (DOCS / "plan.md").read_text(encoding="utf-8")
    assert {one.value for one in Obstacle} == set(re.findall(r"^\| `([A-Za-z]+)` \|", page, re.MULTILINE))


def test_the_figures_of_a_measured_fleet() -> None:
    """One line for each question, with the number of samples and the sources."""
    shown = table(SCENES["measured"].change("node", gpus(8)))
    assert "4 reload" in shown
    assert "1m10s (p90 1m10s) from the driver container's start to Ready (4 of 4 driver pods)" in shown
    assert "1m30s (p90 1m30s) with unloading (4)" in shown
    assert "2m, 2m5s if slow (measured: 3 steps of the last upgrade)" in shown
    assert "8m, 8m20s if slow (4 turns)" in shown
    assert "at most 8 of 32 GPUs unavailable at once (25.0 %), 1.1 GPU-hours in all" in shown
    assert "label nvidia.com/gpu.count: 4 nodes" in shown


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        # 120 s a node and 495 s beside them, in whole five minutes; no less than the chart's own 25 minutes.
        pytest.param(6, ("25m", "--timeout 27m", "timeout: 1620", "timeout: 27m"), id="the-default-is-enough"),
        pytest.param(8, ("25m", "--timeout 27m", "timeout: 1620", "timeout: 27m"), id="just-enough"),
        pytest.param(9, ("30m", "--timeout 32m", "timeout: 1920", "timeout: 32m"), id="not-enough-any-more"),
        pytest.param(100, ("210m", "--timeout 212m", "timeout: 12720", "timeout: 212m"), id="hours"),
    ],
)
def test_timeouts_are_the_bundles_own_arithmetic(nodes: int, expected: tuple[str, ...]) -> None:
    """Two minutes more for the deployer than for the run."""
    found = as_json(fleet(nodes))["timeouts"]
    assert (*expected, None) == tuple(found[key] for key in ("timeout", "helm", "helmfile", "flux", "argocd"))


def test_no_timeout_is_promised_where_none_would_do() -> None:
    """Nodes that nobody upgrades are waited for in vain."""
    assert as_json(SCENES["blocked"])["timeouts"] is None
    assert "no timeout is enough" in table(SCENES["blocked"])


@pytest.mark.parametrize(("stall", "expected"), [(30, None), (2, "5m"), (0, None)], ids=["longer", "shorter", "never"])
def test_a_step_longer_than_the_stall_timeout_is_told(stall: int, expected: str | None) -> None:
    """A run would give up although all is well."""
    settings = Settings(stall_timeout=Duration(minutes=stall))
    assert expected == as_json(fleet(3), settings)["timeouts"]["stallTimeout"]


@pytest.mark.parametrize(
    ("found", "window", "words"),
    [
        pytest.param(fleet(20), timedelta(minutes=14), "3 at once: set maxParallelUpgrades 3 and maxUnavailable 3",
                     id="to-be-set"),
        pytest.param(fleet(20), timedelta(hours=2), "the current limits are enough: 1 at once", id="enough"),
        pytest.param(fleet(20), timedelta(minutes=1), "no parallelism is enough", id="impossible"),
        pytest.param(network(*"abc"), timedelta(minutes=2), "set maxParallelUpgrades 3 (", id="one-limit-only"),
    ],
)  # fmt: skip
def test_the_answer_about_a_window(found: Cluster, window: timedelta, words: str) -> None:
    """What to set, and why."""
    assert words in table(found, Options(window, ()))


def test_a_plan_without_a_target_has_no_advice() -> None:
    """The table then has no line for a window."""
    assert ("in 2h" in table(SCENES["plain"]), "in 2h" in table(SCENES["plain"], NOBODY)) == (True, False)


def test_terminal_escapes_in_names_are_shown() -> None:
    """Names come from the cluster."""
    shown = table(fleet(2).change("policy", {"metadata": {"name": "evil\x1b[2J"}}))
    assert ("\x1b" in shown, "evil\\x1b[2J" in shown) == (False, True)


def test_nothing_to_plan_is_said_in_the_words_of_a_run() -> None:
    """With the reason that docs/reasons.md explains."""
    assert f"gpu: nothing to plan ({Reason.NO_POLICY})" in table(DECEASED)
