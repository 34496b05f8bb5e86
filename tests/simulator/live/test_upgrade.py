"""What NVIDIA's upgrade library does to the simulated fleet: states, limits, cordons, evictions, events."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.simulator.history import recorded, versions
from tests.simulator.stage import NODES, STATE, Stage

pytestmark = pytest.mark.e2e

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
SERIAL = {"driver__upgradePolicy": {"autoUpgrade": True, "maxParallelUpgrades": 1, "maxUnavailable": "100%"}}
BEGUN = ["upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required"]
RESTARTED = ["pod-restart-required", "validation-required", "uncordon-required", "upgrade-done"]
ALL = ("upgrade-done", *BEGUN, *RESTARTED)
IDLE = {"upgrade-required", "upgrade-done"}


def history(stage: Stage, upgrade: Callable[[], object]) -> list[Any]:
    """Upgrade every driver; return each version of the nodes meanwhile."""
    with recorded(stage.cluster, "nodes") as events:

        def nodes() -> list[Any]:
            return [node for _at, node in versions(events()) if node["metadata"]["name"] in NODES]

        stage.until(lambda: len(nodes()) >= len(NODES))
        upgrade()
        stage.calm()
        stage.until(lambda: all(states(nodes(), name)[1:][-1:] == ("upgrade-done",) for name in NODES))
        return nodes()


def states(nodes: list[Any], name: str) -> tuple[str, ...]:
    """Return the upgrade states of one node, in their order."""
    mine = [node["metadata"]["labels"].get(STATE, "") for node in nodes if node["metadata"]["name"] == name]
    return (mine[0], *(after for before, after in pairwise(mine) if before != after))


def test_the_recorded_operators_passed_the_same_states() -> None:
    """On every node, in the order that the next test asks of the simulated fleet."""
    for recording in ("v26.3.3-chart-bump", "v26.3.3-driver-only", "v26.7.0-chart-bump"):
        changes = [json.loads(line) for line in (RECORDINGS / f"{recording}.jsonl").read_text().splitlines()[1:]]
        nodes = [each for each in changes if each["kind"] == "node"]
        for name in {each["name"] for each in nodes}:
            seen = [each["v"]["up"] for each in nodes if each["name"] == name]
            assert tuple(state for state, _same in groupby(seen)) == ALL, (recording, name)


def test_one_node_after_the_other(stage: Stage) -> None:
    """Each node passes every state, is cordoned on the way, and no node begins before the other is done."""
    nodes = history(stage, lambda: stage.migrate(**SERIAL))
    assert {name: states(nodes, name) for name in NODES} == dict.fromkeys(NODES, ALL)
    busy: set[str] = set()
    for node in nodes:
        name, state = node["metadata"]["name"], node["metadata"]["labels"][STATE]
        busy = busy - {name} if state in IDLE else busy | {name}
        assert len(busy) <= 1
        if state in RESTARTED[:2]:
            assert node["spec"].get("unschedulable")
    told = {f"Successfully updated node state label to {state}" for state in ALL}
    events = "/api/v1/namespaces/default/events"
    stage.until(lambda: told <= {event["message"] for event in stage.cluster.list(events)})


def test_26_7_restarts_a_driver_that_stays_loaded_without_an_eviction(stage: Stage) -> None:
    """With the same DRIVER_CONFIG_DIGEST nothing reloads, so the pods with GPUs may stay."""
    constant = {"simulate__behaviour": "26.7", "simulate__digestSalt": "same"}
    stage.operator(chartVersion="v26.7.0", **constant)
    stage.calm()
    nodes = history(stage, lambda: stage.operator(chartVersion="v26.7.1", **constant))
    expected = ("upgrade-done", "upgrade-required", *RESTARTED)
    assert {name: states(nodes, name) for name in NODES} == dict.fromkeys(NODES, expected)
