"""Which policy counts, who else reloads drivers, and when nobody does: several policies, GPUCluster, host drivers."""

from __future__ import annotations

import pytest

from hook.config import DriverClient, OnMissingPlugin, Plugin, Settings
from hook.decide.decide import first_look
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from tests.fixtures.cluster import Cluster, cluster, labelled, stale, stale_plugin, without_operator
from tests.fixtures.modes import network, rdma_pod, with_exporter
from tests.fixtures.objects import Object, obj

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
MANAGED = (
    "metadata: {name: nvidia-dra-driver-kubelet-plugin, namespace: gpu-operator, uid: managed, "
    "ownerReferences: [{kind: GPUCluster, uid: gc, controller: true}]}"
)


def younger(spec: str, state: str = "ignored") -> Object:
    """Give a second policy, made later."""
    created = "creationTimestamp: '2025-07-01T08:00:00Z'"
    return obj(
        "policy", f"{{metadata: {{name: a-second, uid: second, {created}}}, {spec}, status: {{state: {state}}}}}"
    )


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(younger("spec: {driver: {version: '590.1'}}"), id="asks-for-another-version"),
        pytest.param(younger("spec: {driver: {enabled: false}}"), id="asks-for-no-driver"),
        pytest.param(younger("spec: {driver: {useNvidiaDriverCRD: true}}"), id="leaves-it-to-pools"),
        pytest.param(younger("spec: {driver: {upgradePolicy: {autoUpgrade: false}}}", "''"), id="with-no-state"),
        pytest.param(younger("spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v9}}}", "ready"),
                     id="keeps-the-state-of-before"),
    ],
)  # fmt: skip
def test_a_younger_policy_is_of_no_account(second: Object) -> None:
    """The oldest is the one that the operator follows; what the others say, or do not say, changes nothing."""
    assert cluster().decide() == cluster().put("policy", second).decide()
    assert stale().decide() == stale().put("policy", second).decide()


def test_a_network_policy_of_another_name_is_of_no_account() -> None:
    """The network operator follows one name, however old another object is."""
    older = obj(
        "network/policy",
        "{metadata: {name: older, uid: o, creationTimestamp: '2020-01-01T00:00:00Z'}, spec: {ofedDriver: null}}",
    )
    assert network().decide() == network().put("policy", older).decide()
    decision, _memory = without_operator(network()).only("policy", older).decide()
    assert (Phase.SKIP, Reason.NO_POLICY) == (decision.phase, decision.reason)


def gpu_cluster(*, beside: bool = False) -> Cluster:
    """Give a cluster with a GPUCluster: no policy, and a stale plugin that the operator manages."""
    found = stale().drop("policy")
    if not beside:
        found.drop("daemonset", PLUGIN)
    found.put("daemonset", obj("plugin-daemonset", MANAGED))
    return found.only("plugin-pod", {**stale_plugin(), "metadata": {
        **stale_plugin()["metadata"], "ownerReferences": [{"uid": "managed", "controller": True}]}})  # fmt: skip


@pytest.mark.parametrize("settings", [
    pytest.param(Settings(), id="default"),
    pytest.param(Settings(on_missing_plugin=OnMissingPlugin.WAIT), id="waiting-where-absent"),
])  # fmt: skip
@pytest.mark.parametrize("found", [
    pytest.param(gpu_cluster(), id="alone"), pytest.param(gpu_cluster(beside=True), id="beside-a-chart-of-its-own"),
])  # fmt: skip
def test_a_gpu_cluster_restarts_its_own_plugin(found: Cluster, settings: Settings) -> None:
    """It is never touched, and the reason says why."""
    decision, _memory = found.decide(settings)
    assert (Phase.SKIP, Reason.OPERATOR_MANAGED, ()) == (decision.phase, decision.reason, decision.actions)
    assert "nvidia-dra-driver-kubelet-plugin is managed by the GPU operator" in decision.message


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(stale().change("policy", "spec: {driver: {enabled: false}}"), Reason.DRIVER_DISABLED,
                     id="drivers-are-off"),
        pytest.param(stale().change("node", labelled(deploy_driver="pre-installed")), Reason.NO_ELIGIBLE_NODE,
                     id="every-host-brings-its-own"),
        pytest.param(network().put("plugin-pod", rdma_pod(started=-9)).change("policy", "spec: {ofedDriver: null}"),
                     Reason.DRIVER_DISABLED, id="no-ofed-in-the-policy"),
    ],
)  # fmt: skip
def test_host_drivers_are_not_reloaded_by_anybody_here(found: Cluster, expected: Reason) -> None:
    """A plugin that is older than some driver pod is not touched."""
    decision, _memory = found.decide()
    assert (Phase.SKIP, expected, ()) == (decision.phase, decision.reason, decision.actions)


def test_a_network_operator_without_ofed_is_told_by_the_first_look() -> None:
    """The rest of the cluster need not be read."""
    found = network().change("policy", "spec: {ofedDriver: null}")
    decision = first_look(found.seen(), Settings(drivers=("network",)), found.stack)
    assert decision is not None
    assert Reason.DRIVER_DISABLED is decision.reason


OVERRIDDEN = "metadata: {name: nvidia-dra-driver-kubelet-plugin}"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(Settings(), (Phase.FAIL, Reason.UNNAMED_PLUGIN, 0), id="not-named"),
        pytest.param(Settings(plugin=Plugin(names=("nvidia-dra-driver-kubelet-plugin",))),
                     (Phase.WAIT, Reason.NODES_PENDING, 1), id="named"),
    ],
)  # fmt: skip
def test_a_plugin_that_only_has_the_operators_name_is_no_operators(
    settings: Settings, expected: tuple[Phase, Reason, int]
) -> None:
    """``nameOverride: nvidia-dra-driver`` gives it, and nobody restarts that one."""
    decision, _memory = stale().change("daemonset", OVERRIDDEN, PLUGIN).decide(settings)
    assert expected == (decision.phase, decision.reason, len(decision.actions))


def test_what_was_named_beside_a_gpu_cluster_is_not_passed_over_in_silence() -> None:
    """Without a policy nothing can be said about it, and that is said."""
    by_name = Settings(driver_clients=(DriverClient("gpu", "monitoring", "dcgm-exporter"),))
    found = gpu_cluster()
    told = with_exporter(found, -9).decide(by_name)[0].message
    assert "without a ClusterPolicy the state of monitoring/dcgm-exporter is unknown" in told
    assert "is unknown" not in gpu_cluster().decide()[0].message
