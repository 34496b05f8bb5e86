"""How long the nodes that are not served yet will take."""

from __future__ import annotations

import pytest

from hook.config import Duration, OnManualUpgrade, Settings
from hook.decide.decide import decide_all, indexed
from hook.plan.timing import about
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale, stale_plugin
from tests.fixtures.limits import down
from tests.fixtures.modes import network
from tests.fixtures.objects import driver_pod, merged, plugin_pod

SIX = tuple("abcdef")
OLD = {"metadata": {"labels": {"controller-revision-hash": "old"}}}


def remaining(found: Cluster, settings: Settings | None = None) -> int | None:
    """Estimate what is left of a cluster as it stands."""
    asked = settings or Settings(drivers=(found.stack.name,))
    decision, _memory = found.decide(asked)
    return about(indexed({found.stack.name: found.seen()}, asked), decision, asked, LATER)


def outdated(*nodes: str, at_once: str = "") -> Cluster:
    """Give six nodes of which some wait for their driver."""
    found = cluster(*SIX).put("driver-pod", *(merged(driver_pod(node), OLD) for node in nodes))
    return found.change("policy", f"spec: {{driver: {{upgradePolicy: {{{at_once}}}}}}}") if at_once else found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(cluster(*SIX), 0, id="nothing-to-do"),
        pytest.param(stale(*SIX), 40, id="stale-plugins-alone"),
        pytest.param(outdated("a"), 160, id="one-turn"),
        pytest.param(outdated("a", "b", "c"), 400, id="one-after-another"),
        pytest.param(outdated("a", "b", "c", at_once="maxParallelUpgrades: 2, maxUnavailable: 100%"), 280,
                     id="two-at-once"),
        pytest.param(outdated("a", "b", at_once="maxUnavailable: 0"), None, id="none-at-once"),
        pytest.param(outdated("a").change("node", labelled("a", state="upgrade-failed"), "a"), None, id="one-failed"),
        pytest.param(outdated("a").drop("policy"), 40, id="no-policy-to-tell"),
    ],
)  # fmt: skip
def test_by_reloads_and_parallelism(found: Cluster, expected: int | None) -> None:
    """As the plan has it, with a moment for the last plugin; none where a person is waited for."""
    assert expected == remaining(found)


def test_nodes_that_people_upgrade_cannot_be_told() -> None:
    """Nobody knows when they will."""
    found = outdated("a", at_once="autoUpgrade: false")
    assert None is remaining(found, Settings(on_manual_upgrade=OnManualUpgrade.WAIT))


def test_a_plugin_that_needs_a_person_cannot_be_told() -> None:
    """It may take for ever."""
    found = cluster("a").put("plugin-pod", plugin_pod("a", ready=None))
    settings = Settings(plugin_timeout=Duration())
    assert None is remaining(found, settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(Settings(), 40, id="all-at-once"),
        pytest.param(Settings(max_parallel_restarts=2), 120, id="two-of-ours"),
        pytest.param(down("50%"), 80, id="half-of-all"),
        pytest.param(
            down(5, max_parallel_restarts=1),
            240,
            id="the-narrower-bound",
        ),
    ],
)
def test_plugins_wait_for_their_turn(settings: Settings, expected: int) -> None:
    """As many at once as may be down."""
    assert expected == remaining(stale(*SIX), settings)


def test_stacks_take_their_time_side_by_side() -> None:
    """The longest of them counts; each judgement belongs to one."""
    gpu, nic = outdated("a", "b"), network("a")
    settings = Settings(drivers=("gpu", "network"))
    seen = {"gpu": gpu.seen(), "network": nic.seen()}
    decision, _memories = decide_all(seen, {}, settings, LATER)
    assert 280 == about(indexed(seen, settings), decision, settings, LATER)
    stale_nic = nic.put("driver-pod", merged(nic.of("driver-pod")[0], OLD))
    seen["network"] = stale_nic.seen()
    decision, _memories = decide_all(seen, {}, settings, LATER)
    assert 280 == about(indexed(seen, settings), decision, settings, LATER)


def test_a_node_that_is_stale_already_waits_for_no_driver() -> None:
    """Beside others that do."""
    found = outdated("a").put("plugin-pod", stale_plugin("b"))
    assert 160 == remaining(found)
