"""Rules of evaluating one node: what proves a plugin, which observation decides, and what does not count."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.core import freshness, parse
from hook.core.freshness import Freshness
from hook.core.memory import Memory
from hook.core.reasons import Reason
from hook.core.stacks import DRA_PLUGIN, GPU_OPERATOR
from hook.core.verdicts import DeletePod, NodeState, Verdict
from hook.settings import Settings, Wanted
from tests.fixtures.cluster import LATER, cluster, labelled, not_ready_since, reasons, stale
from tests.fixtures.modes import network, with_exporter, with_ofed
from tests.fixtures.objects import Object, R, driver_pod, finished, merged, parsed, plugin_pod

PRE_INSTALLED = labelled(deploy_driver="pre-installed")


def judged(consumer: Object, driver: Object) -> Freshness:
    """Return the freshness of a plugin pod on a node with this driver pod."""
    return freshness.judge(parse.pod(consumer), DRA_PLUGIN, parse.pod(driver), GPU_OPERATOR).freshness


# What proves a plugin.


def test_an_unloader_that_ended_in_the_second_of_the_crash_proves_nothing() -> None:
    """Times are whole seconds: the unloader may have ended before the driver container did."""
    waited = plugin_pod(waited=5, started=6)
    proofs = [judged(waited, driver_pod(unloaded=at, ended_before=-60, restarts=1)) for at in (-60, -59)]
    assert [Freshness.STALE, Freshness.FRESH] == proofs


def test_an_init_container_that_failed_has_seen_no_driver() -> None:
    """Only exit code 0 shows that the driver worked, whenever the init container ended."""
    status = {"status": {"initContainerStatuses": [finished("init-container", 5, exit_code=1)]}}
    consumer = merged(plugin_pod(waited=5, started=6), status)
    assert Freshness.STALE is judged(consumer, driver_pod())


def test_a_pod_that_was_asked_to_go_is_not_its_own_successor() -> None:
    """A pod that started in the second of the driver's readiness stays stale until another pod replaces it."""
    driver = driver_pod(restarts=1, ended_before=-1, unloaded=-300)
    found = cluster().only("driver-pod", driver).only("plugin-pod", plugin_pod(waited=-50, started=R))
    first, memory = found.decide()
    (action,) = first.actions
    assert isinstance(action, DeletePod)
    memory = memory.asked(action.node, action.pod, LATER)
    (still,) = found.decide(memory=memory)[0].judgements
    assert (NodeState.RESTARTING, Reason.PLUGIN_RESTARTING) == (still.state, still.reason)


# Which reason a node has, where several hold.


@pytest.mark.parametrize(
    ("patches", "expected"),
    [
        pytest.param([PRE_INSTALLED, not_ready_since(3599)], Reason.HOST_DRIVER, id="no-driver-before-not-ready"),
        pytest.param([PRE_INSTALLED, labelled(skip="true")], Reason.NODE_SKIPPED, id="skipped-before-no-driver"),
        pytest.param([labelled(skip="true"), not_ready_since(3599)], Reason.NODE_SKIPPED, id="skipped-before-blip"),
    ],
)
def test_a_node_is_excluded_for_the_reason_that_waiting_does_not_change(
    patches: list[Object], expected: Reason
) -> None:
    """A blip is waited for only where there is something to wait for, and a skip label counts on every node."""
    found = cluster("gpu-0", "gpu-1")
    for patch in patches:
        found.change("node", merged(patch, {"metadata": {"name": "gpu-1"}}), "gpu-1")
    decision, _memory = found.decide()
    assert (NodeState.EXCLUDED, expected) == (decision.judgements[1].state, decision.judgements[1].reason)
    assert Verdict.DONE is decision.verdict


def test_two_driver_pods_are_waited_for_also_where_upgrades_are_manual() -> None:
    """Only one of the two owns the driver, so the node is not evaluated by the one that is listed first."""
    found = cluster().change("policy", "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}")
    old = merged(driver_pod(), parsed("metadata: {name: a, uid: a, labels: {controller-revision-hash: old}}"))
    found.only("driver-pod", old, *found.of("driver-pod"))
    judgement = found.judge()
    assert (NodeState.WAITING, Reason.SEVERAL_DRIVER_PODS) == (judgement.state, judgement.reason)


def test_every_upgrade_label_that_is_not_quiet_is_reported_as_pending() -> None:
    """Also that of a failed upgrade, while the plugin there is restarted."""
    states = ("upgrade-done", "uncordon-required", "upgrade-failed")
    pending = [stale().change("node", labelled(state=state)).judge().label_pending for state in states]
    assert [False, True, True] == pending


# What does not count.


def test_the_network_driver_matters_only_where_the_policy_asks_for_rdma() -> None:
    """Without GPUDirect RDMA neither its absence nor its unreadable pods hold the GPU stack back."""
    broken = network("gpu-0").drop("daemonset").change("driver-pod", "metadata: {uid: 7}")
    namespaced = Settings(namespaces=("gpu-operator",))
    found = with_ofed(cluster(), broken)
    assert Verdict.WAIT is found.decide(namespaced)[0].verdict
    decision, _memory = found.change("policy", "spec: {driver: {rdma: {enabled: false}}}").decide(namespaced)
    assert (Verdict.DONE, ()) == (decision.verdict, decision.warnings)


def test_each_driver_client_on_a_node_has_its_own_patience() -> None:
    """A plugin that was not Ready for four minutes does not use up the patience with another one."""
    settings = Settings(consumers=(Wanted("gpu", "monitoring", "dcgm-exporter"),))
    first = with_exporter(cluster()).put("plugin-pod", plugin_pod(ready=None))
    second = with_exporter(cluster())
    not_ready = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:00:00Z"}]
    second.change("plugin-pod", {"status": {"conditions": not_ready}}, "exporter-gpu-0")
    memory = Memory(started=LATER)
    told = []
    for seconds, found in ((0, first), (240, first), (241, second), (300, second), (540, second), (541, second)):
        decision, memory = found.decide(settings, memory, LATER + timedelta(seconds=seconds))
        told.append(decision.verdict)
    assert [Verdict.WAIT] * 5 + [Verdict.FAIL] == told
    assert ["Verified", "PluginNotReady"] == reasons(decision.judgements)
