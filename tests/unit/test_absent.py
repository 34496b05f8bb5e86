"""No consumer is installed yet: skip, or hold the release until the driver has settled."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import OnMissingPlugin, Settings
from hook.decide.decide import first_look
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, without_operator
from tests.fixtures.modes import network
from tests.fixtures.objects import driver_pod, obj

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
HOLDING = Settings(on_missing_plugin=OnMissingPlugin.WAIT)
OLD_HASH = "metadata: {labels: {controller-revision-hash: old}}"


def bare(*nodes: str) -> Cluster:
    """Give a cluster whose driver is settled, and that has no plugin yet."""
    return cluster(*nodes).drop("daemonset", PLUGIN).drop("plugin-pod").drop("slice")


@pytest.mark.parametrize(
    ("found", "phase", "expected"),
    [
        pytest.param(bare(), Phase.DONE, Reason.DRIVER_SETTLED, id="settled"),
        pytest.param(bare().change("driver-pod", OLD_HASH), Phase.WAIT, Reason.NODES_PENDING, id="rotating"),
        pytest.param(bare().put("driver-pod", driver_pod(ready=None)), Phase.WAIT, Reason.NODES_PENDING,
                     id="loading"),
        pytest.param(bare().drop("driver-pod"), Phase.WAIT, Reason.NODES_PENDING, id="between-pods"),
        pytest.param(bare().drop("driver-pod").drop("daemonset"), Phase.WAIT, Reason.NOT_RENDERED,
                     id="nothing-rendered-yet"),
        pytest.param(bare().change("node", labelled(state="upgrade-required")), Phase.WAIT, Reason.NODES_PENDING,
                     id="its-turn-comes"),
        pytest.param(bare().change("node", labelled(state="uncordon-required")), Phase.WAIT,
                     Reason.UPGRADE_LABELS_PENDING, id="labels-trail"),
        pytest.param(bare().change("policy", "status: {state: notReady}"), Phase.WAIT, Reason.POLICY_NOT_READY,
                     id="policy-not-ready"),
        pytest.param(bare().change("lease", "spec: {holderIdentity: old-operator-x}"), Phase.WAIT,
                     Reason.OPERATOR_NOT_LEADING, id="old-operator-leads"),
        pytest.param(bare().drop("policy"), Phase.WAIT, Reason.POLICY_EXPECTED, id="no-policy-yet"),
        pytest.param(without_operator(bare()).unserved("policy"), Phase.SKIP, Reason.NO_POLICY,
                     id="no-such-policy-in-the-api"),
        pytest.param(bare().change("policy", "spec: {driver: {enabled: false}}"), Phase.SKIP,
                     Reason.DRIVER_DISABLED, id="drivers-are-off"),
    ],
)  # fmt: skip
def test_the_release_is_held_until_the_driver_has_settled(found: Cluster, phase: Phase, expected: Reason) -> None:
    """What is installed after it starts on a settled driver; nothing is restarted."""
    decision, _memory = found.decide(HOLDING)
    assert (phase, expected, ()) == (decision.phase, decision.reason, decision.actions)


def test_it_is_not_held_by_default() -> None:
    """There is nothing to protect."""
    assert Reason.NO_PLUGIN is bare().decide()[0].reason
    assert first_look(bare().seen(), HOLDING) is None


def test_success_says_that_no_plugin_was_seen() -> None:
    """And what was left alone."""
    decision, _memory = bare("a", "b").change("node", labelled("b", skip="true"), "b").decide(HOLDING)
    assert "no plugin is installed yet; the driver is settled on every node; 1 nodes are excluded" == decision.message


def test_a_plugin_that_appears_meanwhile_is_served() -> None:
    """Its release was not ordered after this one: it started on the old driver."""
    memory = bare().change("driver-pod", OLD_HASH).decide(HOLDING, Memory(started=LATER))[1]
    early = cluster().put("driver-pod", driver_pod(started=200, ready=270))
    decision, _memory = early.decide(HOLDING, memory, LATER + timedelta(seconds=30))
    assert [NodeState.STALE] == [one.state for one in decision.statuses]


def test_without_any_node_it_waits_until_the_operator_is_quiet() -> None:
    """On a fresh install nobody has labelled the nodes yet."""
    found = bare().drop("node").drop("driver-pod").drop("daemonset").drop("revision")
    assert Phase.WAIT is found.change("policy", "status: null").decide(HOLDING)[0].phase
    decision, _memory = found.change("policy", "status: {state: ready}").decide(HOLDING)
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (decision.phase, decision.reason)


def test_an_unnamed_plugin_is_told_all_the_same() -> None:
    """It looks like one, so it is not taken for nothing."""
    found = bare().put("daemonset", obj("plugin-daemonset", "metadata: {name: mine, uid: mine}"))
    assert Reason.UNNAMED_PLUGIN is found.decide(HOLDING)[0].reason


def test_it_holds_for_the_network_too() -> None:
    """In that stack's own words."""
    found = network().drop("daemonset", "rdma-shared-dp-ds").drop("plugin-pod")
    decision, _memory = found.decide(Settings(drivers=("network",), on_missing_plugin=OnMissingPlugin.WAIT))
    assert (Phase.DONE, True) == (decision.phase, decision.message.startswith("no device plugin is installed yet"))
