"""A plan as a whole: what is planned, the answer about a window, timeouts, the table and the JSON."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from ctl.plan import plan
from ctl.plan.plan import Options, make_plan
from ctl.plan.result import Obstacle, Target
from hook.decide.reasons import Reason
from hook.settings import Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled
from tests.fixtures.modes import Pool, network, pooled
from tests.fixtures.objects import obj
from tests.fixtures.planning import CORDONED, EVERY, OLD, fleet, gpus, obstacles, only, planned, rotated, unloaded_in

DOCS: Final = Path(__file__).parents[4] / "docs"
SCHEMA: Final = json.loads((DOCS / "plan.schema.json").read_text(encoding="utf-8"))
TWO_HOURS: Final = Options(timedelta(hours=2))
OWNER: Final = {"kind": "GPUCluster", "uid": "u", "controller": True}
MANAGED: Final = {"metadata": {"name": "nvidia-dra-driver-kubelet-plugin", "ownerReferences": [OWNER]}}


# What is planned.


def test_where_there_is_nothing_to_plan_the_reason_is_given() -> None:
    """By the reasons that a run gives, too."""
    for name, found, reason in (
        ("no policy", cluster().drop("policy"), Reason.NO_POLICY),
        ("drivers of the hosts", cluster().change("policy", "spec: {driver: {enabled: false}}"),
         Reason.DRIVER_DISABLED),
        ("GPUCluster", cluster().drop("policy").only("daemonset", obj("plugin-daemonset", MANAGED)),
         Reason.OPERATOR_MANAGED),
        ("malformed policy", cluster().change("policy", "spec: {driver: null}"), Reason.MALFORMED_OBJECT),
        ("no policy and a malformed node", cluster().drop("policy").change("node", {"metadata": {"labels": 7}}),
         Reason.NO_POLICY),
        ("no node", cluster().drop("node").drop("driver-pod").drop("plugin-pod"), Reason.NO_ELIGIBLE_NODE),
    ):  # fmt: skip
        made = planned(found)
        assert ((), reason, None) == (made.pools, made.nothing and made.nothing.reason, made.window), name


def test_what_makes_no_difference_is_noted() -> None:
    """Without a plugin the upgrade takes as long, and nothing becomes stale. A malformed object does not count."""
    pool = only(fleet(2).drop("daemonset", "dra-driver-nvidia-gpu-kubelet-plugin").drop("plugin-pod"))
    assert (2, True) == (len(pool.nodes), Obstacle.NO_PLUGIN in obstacles(pool))
    pool = only(fleet(2).change("node", {"metadata": {"labels": "none"}}, "gpu-1"))
    assert "gpu-1" in obstacles(pool)[Obstacle.MALFORMED_OBJECT].message


# The answer about a window.


def answer(found: Cluster, minutes: float) -> Target:
    """Ask for a window."""
    given = only(found, Options(timedelta(minutes=minutes))).target
    assert given is not None
    return given


def in_time(found: Cluster, minutes: float) -> bool:
    """Return whether a fleet's own window fits."""
    window = only(found).window
    return window is not None and window.slow <= minutes * 60


def test_the_fewest_nodes_at_once_that_are_in_time_are_found() -> None:
    """Twenty nodes, two minutes a step; and one fewer would not be in time."""
    for minutes, at_once in ((2, 20), (3.9, 20), (4, 10), (14, 3), (20, 2), (39, 2), (40, 1), (6000, 1)):
        given = answer(fleet(20), minutes)
        assert (at_once, at_once, at_once) == (given.at_once, given.parallel, given.unavailable), minutes
        limits = {"maxParallelUpgrades": given.parallel, "maxUnavailable": given.unavailable}
        assert in_time(fleet(20, limits), minutes), minutes
        fewer = {"maxParallelUpgrades": at_once - 1, "maxUnavailable": "100%"}
        assert at_once == 1 or not in_time(fleet(20, fewer), minutes), minutes


def test_limits_that_are_just_enough_need_no_change() -> None:
    """As many at once as are asked for, or more; or none, because all nodes are cordoned and done in one turn."""
    for found, minutes, expected in (
        (fleet(20, EVERY), 60, (1, False)),
        (fleet(20), 30, (2, True)),
        (fleet(4, {"maxParallelUpgrades": 2, "maxUnavailable": "100%"}), 4, (2, False)),
        (fleet(4, {"maxParallelUpgrades": 1, "maxUnavailable": "100%"}), 4, (2, True)),
        (fleet(3).change("node", CORDONED), 2, (0, False)),
    ):
        given = answer(found, minutes)
        assert expected == (given.at_once, given.change), (minutes, expected)
    # Less than one step is impossible, and any window is without automatic upgrades: the reason shows that.
    assert (None, None) == ((given := answer(fleet(20), 1)).at_once, given.parallel)
    given = answer(fleet(20, {"autoUpgrade": False}), 60)
    assert (None, True) == (given.at_once, "autoUpgrade" in given.reason)


def test_lost_and_failed_nodes_are_added_to_the_limits() -> None:
    """A failed node keeps a place, and is cordoned; both add to what is asked for."""
    found = fleet(12, {"maxParallelUpgrades": 20, "maxUnavailable": "100%"})
    found.change("node", labelled("gpu-0", state="upgrade-failed"), "gpu-0")
    found.change("node", CORDONED, "gpu-0").change("node", CORDONED, "gpu-1")
    given = answer(found, 4)
    assert (5, 6, 7) == (given.at_once, given.parallel, given.unavailable)
    # The price is GPUs that would be away at the worst moment. The network operator has no ``maxUnavailable``.
    assert 16 == answer(fleet(4).change("node", gpus(8)).change("node", gpus(2), "gpu-0"), 4).gpus
    assert (3, None) == ((given := answer(network("a", "b", "c"), 2)).parallel, given.unavailable)


# The output.


def table(found: Cluster, asked: Options = TWO_HOURS) -> str:
    """Return what users see."""
    return "\n".join(plan.table(planned(found, asked)))


def as_json(found: Cluster, settings: Settings | None = None) -> dict[str, Any]:
    """Return what programs see, as they see it."""
    given = settings or Settings(stack=found.stack.name)
    made = make_plan(found.seen(), given, LATER, TWO_HOURS)
    written: dict[str, Any] = json.loads(json.dumps(plan.as_json(made)))
    return written


EMPTY: Final = cluster().drop("policy")
SCENES: Final = {
    "plain": fleet(6),
    "measured": unloaded_in(rotated(fleet(4), 0, 120, 240, 365), 20),
    "blocked": fleet(4).change("node", CORDONED, "gpu-0"),
    "manual": fleet(3, {"autoUpgrade": False}),
    "failed": fleet(3, EVERY).change("node", labelled("gpu-1", state="upgrade-failed"), "gpu-1"),
    "under way": fleet(3, EVERY).change("driver-pod", OLD, "driver-gpu-1"),
    "no limit of unavailable nodes": network("a", "b"),
    "invalid": fleet(2, {"maxUnavailable": "x"}),
    "pools": pooled(Pool("a", ("gpu-a",)), Pool("b", ("gpu-b",))).change("pool", {"spec": {"upgradePolicy": EVERY}}),
    "nothing": EMPTY,
    "no samples": fleet(1).change("driver-pod", {"status": {"conditions": []}}),
}


def test_the_json_is_as_documented() -> None:
    """Every field and no other, whatever there is to report; and the schema refuses what is not documented."""
    validator = Draft202012Validator(SCHEMA)
    for name, found in SCENES.items():
        assert [] == [error.message for error in validator.iter_errors(as_json(found))], name
    broken = as_json(SCENES["plain"])
    broken["pools"][0]["surprise"] = 1
    assert not validator.is_valid(broken)


def test_the_table_names_every_pool_obstacle_and_remedy() -> None:
    """What programs see, users see."""
    for name, found in SCENES.items():
        made, shown = planned(found, TWO_HOURS), table(found)
        for pool in made.pools:
            assert pool.name in shown.splitlines(), name
            for one in pool.obstacles:
                assert all(words in shown for words in (one.obstacle, one.message, one.remedy)), (name, one)
        assert not made.nothing or (made.nothing.reason in shown and made.nothing.message in shown), name
        assert ("Timeouts:" in shown) is (made.window is not None), name


def test_the_page_explains_every_obstacle() -> None:
    """And none that does not exist any more."""
    page = (DOCS / "reference" / "obstacles.md").read_text(encoding="utf-8")
    assert {one.value for one in Obstacle} == set(re.findall(r"^\| `([A-Za-z]+)` \|", page, re.MULTILINE))


def test_the_figures_of_a_measured_fleet() -> None:
    """One line for each question, with the number of samples and the sources."""
    shown = table(unloaded_in(rotated(fleet(4), 0, 120, 240, 365), 20).change("node", gpus(8)))
    for words in (
        "1m10s (p90 1m10s) from the driver container's start to Ready (4 of 4 driver pods)",
        "1m30s (p90 1m30s) with unloading (4)",
        "2m, 2m5s if slow (measured: 3 steps of the last upgrade)",
        "8m, 8m20s if slow (4 turns)",
        "at most 8 of 32 GPUs unavailable at once (25.0 %), 1.1 GPU-hours in all",
    ):
        assert words in shown


def test_timeouts_follow_the_bundles_own_arithmetic() -> None:
    """120 s for each node and 495 s in addition, in steps of 5 m; 25 m at least; 2 m more for the deployment tool."""
    for nodes, minutes in ((6, 25), (8, 25), (9, 30), (100, 210)):
        found, outer = as_json(fleet(nodes))["timeouts"], minutes + 2
        expected = (f"{minutes}m", f"--timeout {outer}m", f"timeout: {outer * 60}", f"timeout: {outer}m", None)
        assert expected == tuple(found[key] for key in ("timeout", "helm", "helmfile", "flux", "argocd")), nodes
    assert as_json(SCENES["blocked"])["timeouts"] is None, "nodes that nothing upgrades"
    assert "no timeout is enough" in table(SCENES["blocked"])


def test_the_table_answers_about_a_window() -> None:
    """What to set, and why. A plan without a window has no such line."""
    for found, minutes, words in (
        (fleet(20), 14, "3 at once: set maxParallelUpgrades 3 and maxUnavailable 3"),
        (fleet(20), 120, "the current limits are enough: 1 at once"),
        (fleet(20), 1, "no parallelism is enough"),
        (network(*"abc"), 2, "set maxParallelUpgrades 3 ("),
    ):
        assert words in table(found, Options(timedelta(minutes=minutes))), words
    assert ("in 2h" in table(SCENES["plain"]), "in 2h" in table(SCENES["plain"], Options())) == (True, False)
    shown = table(fleet(2).change("policy", {"metadata": {"name": "evil\x1b[2J"}}))
    assert ("\x1b" in shown, "evil\\x1b[2J" in shown) == (False, True), "names come from the cluster"
