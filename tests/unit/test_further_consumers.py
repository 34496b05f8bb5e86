"""Consumers beyond the default: any DaemonSet that holds the driver, by name or by labels of its pods."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.config import DriverClient, Plugin, Settings, Strategy
from hook.decide import clients
from hook.decide.decide import early_skip_of
from hook.decide.reasons import Reason
from hook.decide.result import DeletePod, NodeState, Phase
from hook.objects import readers
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR, OTHER_PLUGIN
from tests.fixtures.cluster import LATER, Cluster, cluster, stale, stale_plugin
from tests.fixtures.modes import network, wants, with_exporter, with_toolkit
from tests.fixtures.objects import Object, R, merged, obj, parsed, plugin_pod, running

PLUGIN = "dra-driver-nvidia-gpu-kubelet-plugin"
BY_NAME = DriverClient("gpu", "monitoring", "dcgm-exporter")
BY_LABELS = DriverClient("gpu", labels={"app.kubernetes.io/name": "dcgm-exporter", "team": "telemetry"})
KUBE_SRIOV = "{metadata: {name: kube-sriov-device-plugin, namespace: kube-system, uid: kube}}"


def serving(*wanted: DriverClient, **others: object) -> Settings:
    """Give settings with further consumers."""
    return Settings(driver_clients=wanted, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param(BY_NAME, True, id="by-name"),
        pytest.param(BY_LABELS, True, id="by-labels"),
        pytest.param(DriverClient("gpu", labels={"team": "telemetry"}), True, id="by-one-label-of-its-pods"),
        pytest.param(DriverClient("gpu", labels={"team": "other"}), False, id="another-value"),
        pytest.param(DriverClient("gpu", labels={"team": "telemetry", "tier": "x"}), False, id="one-label-too-many"),
        pytest.param(DriverClient("gpu", "elsewhere", "dcgm-exporter"), False, id="in-another-namespace"),
        pytest.param(DriverClient("network", "monitoring", "dcgm-exporter"), False, id="of-another-stack"),
    ],
)
def test_a_daemonset_is_added_beside_the_plugins(wanted: DriverClient, found: bool) -> None:
    """By exact name, or by equal labels; the plugins stay."""
    seen = with_exporter(cluster()).seen().daemonsets
    named = clients.find(seen, GPU_OPERATOR, serving(wanted)).named
    assert [PLUGIN, *(["dcgm-exporter"] if found else [])] == [one.name for one in named]


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        pytest.param(R + 1, Reason.VERIFIED, id="after-ready"),
        pytest.param(R, Reason.PLUGIN_STALE, id="in-the-same-second"),
        pytest.param(10, Reason.PLUGIN_STALE, id="between-start-and-ready"),
        pytest.param(-10, Reason.PLUGIN_STALE, id="before-the-driver"),
    ],
)
def test_it_is_fresh_by_the_same_rule(started: float, expected: Reason) -> None:
    """By time; it has no init container that could prove more, and no slice to verify."""
    decision, _memory = with_exporter(cluster(), started).drop("slice").unserved("slice").decide(serving(BY_NAME))
    assert [Reason.VERIFIED, expected] == [one.reason for one in decision.statuses]


def test_it_is_restarted_and_verified_like_a_plugin() -> None:
    """The deletion names its own pod; the sentence does not call it a plugin."""
    decision, memory = with_exporter(cluster(), -9).decide(serving(BY_LABELS))
    (action,) = decision.actions
    assert isinstance(action, DeletePod)
    assert "exporter-gpu-0" == action.pod.name
    assert decision.statuses[1].message.startswith("driver client pod exporter-gpu-0 is stale")
    memory = memory.asked(action.node, action.pod, LATER)
    done, _memory = with_exporter(cluster()).decide(serving(BY_LABELS), memory, LATER + timedelta(seconds=40))
    assert (Phase.DONE, Reason.REFRESHED) == (done.phase, done.reason)


def test_it_is_served_without_any_plugin() -> None:
    """A cluster of classic device plugins has other holders of the driver."""
    found = with_exporter(cluster(), -9).drop("daemonset", PLUGIN).drop("plugin-pod", "plugin-gpu-0")
    decision, _memory = found.decide(serving(BY_NAME))
    assert [Reason.PLUGIN_STALE] == [one.reason for one in decision.statuses]


def test_it_may_be_restarted_by_rollout() -> None:
    """The strategy is one for all."""
    decision, _memory = with_exporter(cluster(), -9).decide(serving(BY_NAME, strategy=Strategy.ROLLOUT))
    assert ["dcgm-exporter"] == [one.name for one in decision.actions if not isinstance(one, DeletePod)]


def test_what_matches_nothing_is_told() -> None:
    """A typing error must not look like success in silence."""
    decision, _memory = cluster().decide(serving(BY_NAME, BY_LABELS))
    assert (
        "no DaemonSet matches the driver client monitoring/dcgm-exporter",
        "no DaemonSet matches the driver client app.kubernetes.io/name=dcgm-exporter,team=telemetry",
    ) == decision.warnings
    assert decision.phase is Phase.DONE


def test_without_any_of_them_the_skip_names_all_that_was_looked_for() -> None:
    """Names of plugins, and what was named beside them."""
    decision, _memory = cluster().drop("daemonset", PLUGIN).drop("plugin-pod").decide(serving(BY_NAME))
    assert Reason.NO_PLUGIN is decision.reason
    assert "dra-driver-nvidia-gpu-kubelet-plugin or monitoring/dcgm-exporter in any namespace" in decision.message


def test_one_that_names_the_plugin_itself_adds_nothing() -> None:
    """It is judged once, as the plugin that it is."""
    again = DriverClient("gpu", "nvidia-dra-driver-gpu", PLUGIN)
    assert stale().decide()[0] == stale().decide(serving(again))[0]


def test_a_plugin_under_another_name_is_known_as_one() -> None:
    """Named as a further consumer it is verified by its slices all the same."""
    found = cluster().change("daemonset", "metadata: {name: mine}", PLUGIN).drop("slice")
    mine = DriverClient("gpu", "nvidia-dra-driver-gpu", "mine")
    assert Reason.SLICE_MISSING is found.decide(serving(mine))[0].statuses[0].reason


def test_the_plugins_namespace_does_not_confine_the_others() -> None:
    """It is where consumers are that are known by name alone."""
    settings = serving(BY_NAME, plugin=Plugin(namespace="nvidia-dra-driver-gpu"))
    assert 2 == len(with_exporter(cluster()).decide(settings)[0].statuses)


NEVER: dict[str, tuple[Object, dict[str, str]]] = {
    "operator-managed": (obj("plugin-daemonset", "{metadata: {name: nvidia-dra-driver-kubelet-plugin, uid: m, "
                         "ownerReferences: [{kind: GPUCluster, uid: gc, controller: true}]}}"),
                         {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}),
    "compute-domain-daemon": (
        merged(obj("plugin-daemonset"), parsed("metadata: {name: cd, uid: cd, labels: {"
               "resource.nvidia.com/computeDomain: x}}")), {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}),
    "driver": (obj("driver-daemonset"), {"app.kubernetes.io/component": "nvidia-driver"}),
    "pool-driver": (obj("pool/driver-daemonset"), {"app.kubernetes.io/component": "nvidia-driver"}),
}  # fmt: skip


@pytest.mark.parametrize(("daemonset", "labels"), NEVER.values(), ids=NEVER)
def test_some_are_never_served_whatever_was_named(daemonset: Object, labels: dict[str, str]) -> None:
    """Labels may match more than somebody thought: never the driver itself, nor what others restart."""
    view = readers.daemonset(daemonset)
    for wanted in (DriverClient("gpu", labels=labels), DriverClient("gpu", view.namespace, view.name)):
        assert () == clients.find([view], GPU_OPERATOR, serving(wanted)).named


def test_the_network_driver_is_never_served_either() -> None:
    """By an empty label value, which is a value."""
    labels = DriverClient("network", labels={"nvidia.com/ofed-driver": ""})
    view = readers.daemonset(obj("network/driver-daemonset"))
    assert () == clients.find([view], NETWORK_OPERATOR, serving(labels)).named


def test_a_driver_pod_is_never_deleted() -> None:
    """Not even where labels that every operand has were given."""
    found = cluster()
    found.put("plugin-pod", *found.of("driver-pod"))
    wanted = DriverClient("gpu", labels={"helm.sh/chart": "gpu-operator-v26.3.4"})
    decision, _memory = found.decide(serving(wanted))
    assert (Phase.DONE, ()) == (decision.phase, decision.actions)


def test_the_toolkit_is_not_restarted_for_being_a_provider() -> None:
    """It is waited for, and nobody named it."""
    found = with_toolkit(cluster(), R + 99)
    decision, _memory = found.decide(Settings(refresh_after=("toolkit",)))
    assert ["plugin-gpu-0"] == [one.pod.name for one in decision.actions if isinstance(one, DeletePod)]


def test_a_network_consumer_is_named_with_its_stack() -> None:
    """The standalone SR-IOV plugin selects no wait label: the operator never takes it away."""
    found = network().put("daemonset", obj("network/sriov-daemonset", KUBE_SRIOV))
    old = {"status": {"containerStatuses": [running("kube-sriovdp", -99)]}}
    pod = obj("network/sriov-pod", "{metadata: {ownerReferences: [{uid: kube, controller: true}]}}")
    found.put("plugin-pod", merged(pod, old))
    settings = Settings(
        drivers=("gpu", "network"), driver_clients=(DriverClient("network", "kube-system", "kube-sriov-device-plugin"),)
    )
    assert [Reason.VERIFIED, Reason.PLUGIN_STALE] == [one.reason for one in found.decide(settings)[0].statuses]


def test_an_unknown_owner_is_another_consumer() -> None:
    """Nothing is known of it but that it holds the driver."""
    found = clients.find([], GPU_OPERATOR, Settings())
    assert OTHER_PLUGIN == found.of_kind("nobody")


def test_two_consumers_on_a_node_are_both_needed_for_done() -> None:
    """The node counts as served when the last one is."""
    found: Cluster = with_exporter(cluster("a", "b"), -9)
    decision, _memory = found.decide(serving(BY_NAME))
    assert decision.message.startswith("0 of 2 nodes verified")
    assert {"a", "b"} == {one.node for one in decision.actions if isinstance(one, DeletePod)}


def test_a_consumer_on_a_node_without_the_device_is_nothing_to_wait_for() -> None:
    """A profiler or an agent runs everywhere; only the stack's own plugin shows that a device is there."""
    found = with_exporter(cluster("gpu-0"))
    elsewhere: Object = {"metadata": {"name": "exporter-cpu-0", "uid": "cpu"}, "spec": {"nodeName": "cpu-0"}}
    found.put("plugin-pod", merged(found.of("plugin-pod")[-1], elsewhere)).change(
        "daemonset", wants(2), "dcgm-exporter"
    )
    decision, _memory = found.decide(serving(BY_NAME))
    assert Phase.DONE is decision.phase
    assert {"cpu-0": Reason.DRIVER_NOT_DEPLOYED} == {
        one.node: one.reason for one in decision.statuses if one.state is NodeState.EXCLUDED
    }


def test_the_stacks_own_plugin_on_such_a_node_is_waited_for() -> None:
    """There was a device when it came up: the node lost its labels."""
    found = cluster("gpu-0").put("plugin-pod", plugin_pod("gpu-1")).change("daemonset", wants(2), PLUGIN)
    assert Reason.LABELS_MISSING is found.decide(serving(BY_NAME))[0].statuses[-1].reason


@pytest.mark.parametrize("settings", [Settings(), serving(BY_NAME)], ids=["alone", "beside-a-named-consumer"])
def test_a_plugin_under_an_unknown_name_needs_a_person_whatever_else_is_named(settings: Settings) -> None:
    """That an exporter is served says nothing about the plugin, which is stale and would stay so."""
    found = with_exporter(cluster()).change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN)
    decision, _memory = found.put("plugin-pod", stale_plugin()).decide(settings)
    assert (Phase.FAIL, Reason.UNNAMED_PLUGIN) == (decision.phase, decision.reason)


def test_a_consumer_that_was_refused_is_told_although_there_is_nothing_to_protect() -> None:
    """In the first look, too, which ends the run before anything else is read."""
    wanted = DriverClient("gpu", labels={"app.kubernetes.io/component": "nvidia-driver"})
    found = cluster().drop("daemonset", PLUGIN).drop("plugin-pod")
    first = early_skip_of(found.seen(), serving(wanted))
    assert first is not None
    for decision in (first, found.decide(serving(wanted))[0]):
        assert (Phase.SKIP, Reason.NO_PLUGIN) == (decision.phase, decision.reason)
        assert any("gpu-operator/nvidia-driver-daemonset loads a driver" in one for one in decision.warnings)
