"""What `status` finds of a controller, and what it advises."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from hook.decide.fleet import index
from hook.decide.reasons import Reason
from hook.decide.result import Decision, NodeState, NodeStatus, Phase
from hook.decide.workloads import Affected
from hook.errors import NO_ANSWER, ApiError, PermissionDeniedError
from hook.kube import leader
from hook.kube.leader import Lease, Lookup
from hook.objects.stacks import GPU_OPERATOR
from hook.run import status
from hook.settings import DeviceTaints, OnManualUpgrade, Settings
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale
from tests.fixtures.objects import obj
from tests.fixtures.statuses import NOW, lease, stale_plugin
from tests.unit.decide import patches
from tests.unit.decide.runs import failing

NOTHING_RESTARTS: Final = "nothing restarts the plugin by itself"


def found(later: float = 0, **spec: str) -> Lookup:
    """Find this Lease, so many seconds later."""
    return Lookup(NOW + timedelta(seconds=later), leader.read_lease(json.dumps(lease(**spec)).encode()))


def as_json(seen: Lookup) -> dict[str, Any]:
    """Return what programs read."""
    shown = status.controller_json(seen)
    assert shown is not None
    return dict(shown)


def test_most_clusters_have_no_controller() -> None:
    """Then there is nothing to show."""
    assert (status.controller_lines(Lookup(NOW)), status.controller_json(Lookup(NOW))) == ([], None)


@pytest.mark.parametrize(
    ("seen", "alive", "line"),
    [
        (found(), True, "controller gpu-operator/post: alive (pod-a), last renewed 2s ago"),
        (found(later=300), False, "controller gpu-operator/post: NOT ALIVE, last renewed 5m2s ago"),
        (found(holderIdentity=""), False, "controller gpu-operator/post: NOT ALIVE, last renewed 2s ago"),
        (Lookup(NOW, Lease("a", "b")), False, "controller a/b: NOT ALIVE, last renewed never"),
    ],
)
def test_whether_a_controller_is_alive(seen: Lookup, alive: bool, line: str) -> None:
    """By who holds the Lease, and when it was renewed."""
    assert [line] == status.controller_lines(seen)
    shown = as_json(seen)
    assert (alive, str(seen.lease), "") == (shown["alive"], shown["lease"], shown["problem"])
    if alive:
        assert (shown["holder"], shown["lastRenewed"]) == ("pod-a", "2026-03-01T11:59:58Z")


def test_no_terminal_obeys_a_holder() -> None:
    """An account that may write a Lease may write anything there."""
    assert "\x1b" not in status.controller_lines(found(holderIdentity="a\x1b[2J"))[0]


def node_status(state: NodeState, reason: Reason = Reason.PLUGIN_STALE, node: str = "a") -> NodeStatus:
    """Return a node's status."""
    return NodeStatus(node, state, reason, "so it is", subject=f"ns/plugin-{node}")


STALE: Final = node_status(NodeState.STALE)


def pending(*statuses: NodeStatus) -> Decision:
    """Wait for nodes."""
    due = tuple(stale_plugin(each.node) for each in statuses if each.reason is Reason.PLUGIN_STALE)
    return Decision(Phase.WAIT, Reason.NODES_PENDING, "so it is", statuses=statuses, actions=due)


def advice(*statuses: NodeStatus, seen: Lookup | None = None) -> str:
    """Return what one look advises."""
    return "\n".join(map(str, status.advice(pending(*statuses), seen or Lookup(NOW), GPU_OPERATOR)))


def test_what_is_advised_for_stale_plugins() -> None:
    """One advice for several, with the pod of the first; but for one that is not named its own, and no deletion."""
    # Nodes that reload change by themselves; one that is being restarted shows that something restarts them.
    for other, restarts in ((Reason.DRIVER_NOT_READY, False), (Reason.PLUGIN_RESTARTING, True)):
        state = NodeState.RESTARTING if restarts else NodeState.WAITING
        told = advice(STALE, node_status(state, other, "b"))
        assert ("per node is normal" in told, NOTHING_RESTARTS in told) == (True, not restarts), other
    told = advice(STALE, node_status(NodeState.STALE, Reason.PLUGIN_QUEUED, "b"))
    assert told.startswith("PluginStale (a, b): ")
    assert told.endswith("the driver pod of node a is Ready: kubectl -n ns delete pod plugin-a")
    told = advice(STALE, node_status(NodeState.STALE, Reason.UNNAMED_PLUGIN, "b"), seen=found())
    assert ["UnnamedPlugin (b)", "PluginStale (a)"] == [line.split(":")[0] for line in told.splitlines()]


def test_what_no_controller_restarts_is_reported_with_the_reason() -> None:
    """A controller that is dead or unknown restarts nothing; one that is alive restarts what its settings name."""
    for seen, words in (
        (Lookup(NOW), "No controller is active here, so"),
        (found(later=300), "No controller is active here, so"),
        (Lookup(NOW, problem="no"), "No controller is known to be active here (no), so"),
    ):
        told = advice(STALE, seen=seen)
        assert (words in told, NOTHING_RESTARTS in told) == (True, True), told
    told = advice(STALE, seen=found())  # nothing to delete by hand
    assert ("restarts the plugin. Its log" in told, "delete pod" in told) == (True, False)
    assert "kubectl -n gpu-operator logs" in told


UNTOLERATED: Final = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
STARTING: Final = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
MANUAL: Final = {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": False}}}}
BY_HAND: Final = cluster("a").change("driver-pod", patches.OUTDATED).change("policy", MANUAL)
UNNAMED: Final = obj("plugin-daemonset", {"metadata": {"name": "mine"}})


def looked_at(fleet: Cluster, settings: Settings) -> status.View:
    """Return what one look shows of a fleet."""
    decision, _memory = fleet.decide(settings)
    return status.View(LATER, index(fleet.seen(), settings), decision, Affected(), Lookup(LATER))


@pytest.mark.parametrize(
    ("fleet", "wrong"),
    [
        pytest.param(cluster("a"), False, id="verified"),
        pytest.param(cluster("a").change("driver-pod", STARTING), False, id="driver starting"),
        pytest.param(cluster("a").put("driver-pod", failing("a")), True, id="driver failing"),
        pytest.param(cluster("a", "b").change("node", labelled("b", skip="true"), "b"), False, id="excluded"),
        pytest.param(cluster("a", "b").put("plugin-pod", *stale("a").of("plugin-pod")), True, id="one of two stale"),
        pytest.param(stale("a").change("node", UNTOLERATED), True, id="stale and not tolerated"),
        pytest.param(
            stale("a").only("daemonset", obj("driver-daemonset"), UNNAMED), True, id="stale under another name"
        ),
        pytest.param(cluster("a").change("node", labelled("a", state="upgrade-failed")), True, id="upgrade failed"),
    ],
)
def test_whether_something_is_wrong(fleet: Cluster, wrong: bool) -> None:
    """A plugin is stale or a node has failed. What is in progress is not wrong."""
    assert looked_at(fleet, Settings()).wrong is wrong


@pytest.mark.parametrize("declared", OnManualUpgrade)
def test_an_upgrade_by_hand_is_wrong_if_the_settings_say_so(declared: OnManualUpgrade) -> None:
    """Then each node waits for an administrator."""
    assert looked_at(BY_HAND, Settings(on_manual_upgrade=declared)).wrong is (declared is OnManualUpgrade.FAIL)


DENIED: Final = PermissionDeniedError("list", "devicetaintrules.resource.k8s.io", "")


@pytest.mark.parametrize(
    ("problem", "asked", "named"),
    [
        pytest.param(DENIED, False, False, id="denied, and no rules are written"),
        pytest.param(DENIED, True, True, id="denied, and rules are written"),
        pytest.param(ApiError(NO_ANSWER, "no answer"), False, True, id="no answer"),
    ],
)
def test_rules_that_are_not_known_are_named_if_the_release_may_list_them(
    problem: ApiError, asked: bool, named: bool
) -> None:
    """A release grants that only with the setting. JSON has it in any case."""
    seen = looked_at(cluster("a"), Settings(device_taints=DeviceTaints(enabled=asked)))
    seen = replace(seen, taints=problem)
    assert any("device taint rules are not known" in line for line in seen.as_lines()) is named
    assert seen.as_json()["deviceTaints"] is None


def test_one_look_is_shown_as_it_is_asked_for() -> None:
    """For a terminal, or as JSON."""
    view = looked_at(cluster(), Settings())
    assert json.loads(view.shown("json")) == json.loads(json.dumps(view.as_json()))
    assert view.shown("text").splitlines() == "\n".join(view.as_lines()).splitlines()
