"""The fleet on which costs are measured has nothing to do, and weighs what real ones do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from devcluster.bench import atrest
from devcluster.bench.busy import UPGRADING, Busy, unready
from devcluster.layout import State
from hook.config import Settings
from hook.decide.decide import decide_all
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.decide.state import Memory
from hook.objects import policies, readers
from hook.objects.views import Snapshot
from tests.fixtures.objects import at

NODES: Final = 20
YEAR: Final = 365 * 24 * 3600
READERS: Final[dict[str, Any]] = {
    "Node": readers.node,
    "Pod": readers.pod,
    "DaemonSet": readers.daemonset,
    "ControllerRevision": readers.revision,
    "ResourceSlice": readers.device_slice,
}


def decided(changed: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - a decision
    """Decide over the fleet, with some objects changed, by name."""
    uid = "policy"
    stored = {"uid": uid, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    policy = {**atrest.POLICY, "metadata": {**atrest.POLICY["metadata"], **stored}, "status": atrest.POLICY_STATUS}
    found: dict[str, list[Any]] = {}
    for number, each in enumerate(atrest.fleet(NODES, uid)):
        one = (changed or {}).get(each["metadata"]["name"], each)
        one = {**one, "metadata": {**one["metadata"], "resourceVersion": str(number + 1)}}
        part = one["kind"] + (one["metadata"]["namespace"] if one["kind"] == "Pod" else "")
        found.setdefault(part, []).append(READERS[one["kind"]](one))
    seen = Snapshot(
        policies=(policies.cluster_policy(policy),),
        nodes={node.name: node for node in found["Node"]},
        daemonsets=tuple(found["DaemonSet"]),
        revisions=tuple(found["ControllerRevision"]),
        driver_pods=tuple(found[f"Pod{atrest.OPERATOR}"]),
        plugin_pods=tuple(found[f"Pod{atrest.DRA}"]),
        slices=tuple(found["ResourceSlice"]),
    )
    decision, _memories = decide_all({"gpu": seen}, {"gpu": Memory(started=at(YEAR))}, Settings(), at(YEAR))
    return decision


def test_the_fleet_at_rest_has_nothing_to_do_and_the_busy_one_waits(tmp_path: Path) -> None:
    """Every plugin of the first is fresh and verified; what keeps the second busy fails the measurement if it fails."""
    rest = decided()
    assert [one.state for one in rest.statuses] == [NodeState.VERIFIED] * NODES
    assert rest.actions == ()
    busy = decided({each["metadata"]["name"]: each for each in unready()})
    assert len([one for one in busy.statuses if one.state is not NodeState.VERIFIED]) == UPGRADING
    assert (busy.phase, busy.actions) == (Phase.WAIT, ())
    assert busy.reason is not Reason.NOTHING_STALE
    with pytest.raises(OSError, match="etcd"), Busy(State(tmp_path), NODES):
        pass


def test_objects_weigh_what_real_ones_do(tmp_path: Path) -> None:
    """Within a hundredth, as an API server sends them; each has an identity of its own, also those that change."""
    for each, size in (
        (atrest.node(7), atrest.NODE_BYTES),
        (atrest.driver_pod(7), atrest.POD_BYTES),
        (atrest.plugin_pod(7), atrest.POD_BYTES),
    ):
        assert abs(len(json.dumps(each, separators=(",", ":"))) - size) < size / 100, each["metadata"]["name"]
    identities = [each["metadata"]["uid"] for each in atrest.fleet(NODES, "policy")]
    assert len(set(identities)) == len(identities)
    changed = list(Busy(State(tmp_path), NODES)._changed(1))
    assert {each["metadata"]["uid"] for each in changed} <= set(identities)
    assert {each["kind"] for each in changed} == {"Node", "Pod"}
