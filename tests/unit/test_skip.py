"""What makes a run pointless, and what must not be taken for that."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.config import Expect, Plugin, Rbac, Settings
from hook.decide.decide import first_look
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import LATER, Cluster, cluster, labelled, stale, without_operator
from tests.fixtures.limits import of
from tests.fixtures.objects import conditions, merged, obj, parsed, plugin_pod, waiting

if TYPE_CHECKING:
    from hook.decide.result import Decision

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
MANAGED = (
    "metadata: {name: nvidia-dra-driver-kubelet-plugin, namespace: gpu-operator, "
    "ownerReferences: [{kind: GPUCluster, uid: gc, controller: true}]}"
)
DISABLED = "spec: {driver: {enabled: false}}"
EXPECTING = Settings(expect=Expect(chart_version="v26.7.0"))
UNREADABLE_POLICY = "metadata: {uid: 7}"
WAITING_PLUGIN = merged(
    plugin_pod(),
    {
        "status": {
            "conditions": conditions(None),
            "initContainerStatuses": [waiting("init-container", "PodInitializing")],
            "containerStatuses": [],
        }
    },
)


def without_plugin() -> Cluster:
    """Give a cluster without any DRA plugin."""
    return cluster().drop("daemonset", PLUGIN).drop("plugin-pod")


def without_nodes() -> Cluster:
    """Give a cluster with neither a GPU node nor a pod of ours."""
    return cluster().drop("node").drop("driver-pod").drop("plugin-pod")


@pytest.mark.parametrize(
    ("found", "settings", "expected"),
    [
        pytest.param(without_plugin(), Settings(), Reason.NO_PLUGIN, id="no-plugin"),
        pytest.param(cluster(), Settings(plugin=Plugin(namespace="x")), Reason.NO_PLUGIN,
                     id="no-plugin-in-its-namespace"),
        pytest.param(without_plugin(), Settings(rbac=Rbac(namespaces=("gpu-operator",))), Reason.NO_PLUGIN,
                     id="no-plugin-where-it-may-look"),
        pytest.param(without_plugin(), EXPECTING, Reason.NO_PLUGIN, id="no-plugin-whatever-is-expected"),
        pytest.param(without_plugin().put("daemonset", obj("plugin-daemonset", MANAGED)), Settings(),
                     Reason.OPERATOR_MANAGED, id="operator-managed-plugin"),
        pytest.param(without_operator(cluster()), Settings(), Reason.NO_POLICY, id="no-policy"),
        pytest.param(without_operator(cluster()).unserved("policy"), Settings(), Reason.NO_POLICY, id="no-policy-kind"),
        pytest.param(cluster().change("policy", DISABLED), Settings(), Reason.DRIVER_DISABLED, id="driver-disabled"),
        pytest.param(without_nodes(), Settings(), Reason.NO_ELIGIBLE_NODE, id="no-gpu-node"),
        pytest.param(cluster().change("node", labelled(deploy_driver="pre-installed")), Settings(),
                     Reason.NO_ELIGIBLE_NODE, id="hosts-bring-their-drivers"),
        pytest.param(cluster().change("node", labelled(deploy_driver="false")), Settings(), Reason.NO_ELIGIBLE_NODE,
                     id="no-driver-deployed-anywhere"),
    ],
)  # fmt: skip
def test_a_run_with_nothing_to_protect_is_skipped(found: Cluster, settings: Settings, expected: Reason) -> None:
    """The deployer hears success, with the reason; nothing is done."""
    decision, _memory = found.decide(settings)
    assert (Phase.SKIP, expected, ()) == (decision.phase, decision.reason, decision.actions)


@pytest.mark.parametrize(
    ("found", "settings", "expected"),
    [
        pytest.param(cluster().drop("policy"), EXPECTING, Reason.POLICY_EXPECTED, id="policy-is-expected"),
        pytest.param(cluster().unserved("policy"), EXPECTING, Reason.POLICY_EXPECTED, id="policy-kind-is-expected"),
        pytest.param(cluster().change("policy", DISABLED), EXPECTING, Reason.EXPECTATION_UNMET,
                     id="disabled-in-the-policy-of-before"),
        pytest.param(without_nodes(), EXPECTING, Reason.EXPECTATION_UNMET, id="no-node-before-the-expected-policy"),
        pytest.param(without_nodes().drop("policy"), EXPECTING, Reason.POLICY_EXPECTED, id="no-node-and-no-policy-yet"),
        pytest.param(cluster().drop("policy").put("policy", obj("policy", UNREADABLE_POLICY)), Settings(),
                     Reason.MALFORMED_OBJECT, id="policy-unreadable"),
        pytest.param(without_plugin().put("daemonset", obj("plugin-daemonset", "status: {desiredNumberScheduled: x}")),
                     Settings(), Reason.MALFORMED_OBJECT, id="plugin-daemonset-unreadable"),
        pytest.param(without_nodes().put("node", obj("node", "metadata: {labels: []}")), Settings(),
                     Reason.MALFORMED_OBJECT,                     id="node-unreadable"),
        pytest.param(cluster().drop("node"), Settings(), Reason.NODES_PENDING, id="labels-vanished-pods-run"),
        pytest.param(cluster().change("node", labelled(present="false")), Settings(), Reason.NODES_PENDING,
                     id="labels-false-pods-run"),
        pytest.param(cluster().drop("daemonset", "nvidia-driver-daemonset").drop("driver-pod"), Settings(),
                     Reason.NOT_RENDERED, id="driver-daemonset-replaced"),
        pytest.param(without_nodes().put("driver-pod", obj("driver-pod", "spec: {nodeName: null}")), Settings(),
                     Reason.OPERATOR_SETTLING, id="a-driver-pod-waits-for-a-node"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_never_a_reason_to_skip(found: Cluster, settings: Settings, expected: Reason) -> None:
    """Unmet expectations, unreadable objects and vanished labels hold the run instead."""
    decision, _memory = found.change("revision", "metadata: {creationTimestamp: '2026-01-01T10:59:50Z'}").decide(
        settings
    )
    assert (Phase.WAIT, expected) == (decision.phase, decision.reason)


def fresh_install() -> Cluster:
    """Give a cluster in which plugins wait for their first driver on nodes that nobody has labelled yet."""
    found = without_nodes().only("plugin-pod", WAITING_PLUGIN).drop("revision").drop("lease").drop("deployment")
    return found.drop("daemonset", "nvidia-driver-daemonset").change("policy", "status: null")


def test_a_fresh_install_is_not_skipped_before_the_operator_labelled_its_nodes() -> None:
    """Plugins are there, and a policy that was never reconciled: labels are still to come."""
    assert fresh_install().decide()[0].phase is Phase.WAIT


def test_plugins_on_nodes_without_a_gpu_are_skipped_once_the_operator_has_spoken() -> None:
    """It reconciled, it is quiet, and it labelled no node."""
    found = fresh_install().change("policy", "status: {state: ready}")
    decision, _memory = found.decide()
    assert (Phase.SKIP, Reason.NO_ELIGIBLE_NODE) == (decision.phase, decision.reason)


def test_plugins_without_labels_wait_for_a_quiet_operator() -> None:
    """A new operator may label them."""
    found = without_nodes().only("plugin-pod", WAITING_PLUGIN).change("deployment", "status: {replicas: 2}")
    assert found.decide()[0].phase is Phase.WAIT


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(cluster(), id="drivers-settled"),
        pytest.param(cluster().drop("driver-pod"), id="drivers-missing"),
        pytest.param(without_nodes(), id="no-node"),
    ],
)
def test_a_plugin_under_another_name_fails_with_the_name(found: Cluster) -> None:
    """It is never half-handled, nor skipped: what to set is said, with exit 3."""
    found.change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN)
    decision, _memory = found.decide()
    assert (Phase.FAIL, Reason.UNNAMED_PLUGIN, True) == (
        decision.phase,
        decision.reason,
        "mine-kubelet-plugin" in decision.message,
    )


def test_a_lookalike_beside_a_named_plugin_is_a_warning() -> None:
    """The named one is served."""
    found = cluster().put("daemonset", obj("plugin-daemonset", "metadata: {name: mine, uid: mine}"))
    decision, _memory = found.decide()
    assert (Phase.DONE, 1) == (decision.phase, len(decision.warnings))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(without_plugin(), Reason.NO_PLUGIN, id="pointless"),
        pytest.param(stale(), None, id="worth-a-second-look"),
    ],
)
def test_the_first_look_needs_policies_and_daemonsets_only(found: Cluster, expected: Reason | None) -> None:
    """The rest of the cluster need not be read for a skip."""
    for part in ("node", "driver-pod", "plugin-pod", "revision", "slice", "deployment", "replicaset", "lease"):
        found.drop(part)
    looked: Decision | None = first_look(found.seen(), Settings())
    assert expected == (looked.reason if looked else None)


def test_a_skip_forgets_nothing() -> None:
    """What was asked for, and how far the nodes were, counts again when they are back."""
    before = stale().decide()[1]
    after = without_plugin().decide(memory=before, now=LATER + timedelta(minutes=1))[1]
    assert before == replace(after, first_seen=before.first_seen)


def test_a_follower_that_skips_forgets_what_is_gone() -> None:
    """It may skip for months while nodes come and go; a run with an end keeps what it knows."""
    for follow, kept in ((True, set()), (False, {"gpu-0"})):
        settings = of(Settings(), controller=follow)
        before = stale().decide(settings)[1]
        assert {"gpu-0"} == before.eligible
        later, found = LATER + timedelta(hours=1), without_plugin().only("node").drop("driver-pod").drop("plugin-pod")
        memory = replace(before, first_seen={})
        for now in (LATER, later):
            decision, memory = found.decide(settings, memory, now)
        assert (Phase.SKIP, kept) == (decision.phase, set(memory.eligible))


def unlabelled() -> Cluster:
    """Give a fleet whose labels are gone, and with them, as their DaemonSets select by label, all pods of ours."""
    labels = labelled(present="false", deploy_driver=None)
    found = cluster().change("node", labels).drop("driver-pod").drop("plugin-pod").drop("slice")
    return found.change("daemonset", "status: {desiredNumberScheduled: 0}")


VANISHED = {
    "policy-recreated": (without_operator(cluster()), Reason.NO_POLICY),
    "plugin-daemonset-recreated": (without_plugin(), Reason.NO_PLUGIN),
    "labels-and-all-pods-gone": (unlabelled(), Reason.NO_ELIGIBLE_NODE),
}


@pytest.mark.parametrize(("found", "reason"), VANISHED.values(), ids=VANISHED)
def test_a_fleet_that_vanishes_is_skipped_only_after_a_grace(found: Cluster, reason: Reason) -> None:
    """Recreated by its deployer, or unlabelled by an outage of NFD, it comes back: success would be a lie."""
    memory, told = stale().decide(memory=Memory(started=LATER))[1], []
    for seconds in (2, 301, 302):
        decision, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append((decision.phase, decision.reason, decision.actions))
    assert [(Phase.WAIT, reason, ()), (Phase.WAIT, reason, ()), (Phase.SKIP, reason, ())] == told


@pytest.mark.parametrize(("found", "reason"), VANISHED.values(), ids=VANISHED)
def test_a_fleet_that_comes_back_is_served(found: Cluster, reason: Reason) -> None:
    """And if it vanishes again, the grace starts anew."""
    memory, told = stale().decide(memory=Memory(started=LATER))[1], []
    for seconds, seen in ((2, found), (200, stale()), (250, found), (549, found), (550, found)):
        decision, memory = seen.decide(memory=memory, now=LATER + timedelta(seconds=seconds))
        told.append((decision.phase, decision.reason, len(decision.actions)))
    gone = (Phase.WAIT, reason, 0)
    back = (Phase.WAIT, Reason.NODES_PENDING, 1)
    assert [gone, back, gone, gone, (Phase.SKIP, reason, 0)] == told


def test_a_fleet_that_vanishes_at_the_end_of_the_time_is_no_success() -> None:
    """Nobody knows what became of it; the run ends when its Job does."""
    memory = stale().decide(memory=Memory(started=LATER))[1]
    early, late = (
        without_operator(cluster()).decide(memory=memory, now=LATER + timedelta(seconds=seconds))[0]
        for seconds in (25 * 60 - 31, 25 * 60 - 30)
    )
    assert (Phase.WAIT, Phase.DEADLINE) == (early.phase, late.phase)
    assert (Reason.TIME_UP, Reason.NO_POLICY) == (late.reason, late.cause)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param(fresh_install(), fresh_install().change("policy", "status: {state: ready}"),
                     Reason.NO_ELIGIBLE_NODE, id="plugins-on-nodes-without-a-gpu"),
        pytest.param(without_nodes().put("node", obj("node", "metadata: {labels: []}")), without_nodes(),
                     Reason.NO_ELIGIBLE_NODE, id="nothing-but-a-node-that-could-not-be-read"),
        pytest.param(stale(), cluster().change("policy", DISABLED), Reason.DRIVER_DISABLED, id="said-by-the-policy"),
    ],
)  # fmt: skip
def test_a_skip_that_nothing_speaks_against_is_said_at_once(before: Cluster, after: Cluster, reason: Reason) -> None:
    """The run waited for something, but no fleet was there to vanish; or somebody switched drivers off."""
    first, memory = before.decide()
    second, _memory = after.decide(memory=memory, now=LATER + timedelta(seconds=90))
    assert (Phase.WAIT, Phase.SKIP, reason) == (first.phase, second.phase, second.reason)


def test_an_unreadable_object_without_a_name_is_still_a_hold() -> None:
    """It might be the one that matters."""
    found = cluster().put("slice", merged(obj("slice"), parsed("metadata: {name: ''}")))
    assert found.decide()[0].reason is Reason.MALFORMED_OBJECT
