"""Driver clients: which DaemonSets hold the driver, and how the program treats them."""

from __future__ import annotations

import pytest

from hook.decide.fleet import find_plugins, is_prerequisite, loads_driver
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import read_daemonset
from hook.objects.stacks import GPU_OPERATOR, NETWORK_OPERATOR, OTHER_PLUGIN, STACKS, Stack
from hook.settings import DriverClient, Plugin, Settings
from tests.fixtures.cluster import cluster, reasons, stale, stale_plugin
from tests.fixtures.limits import FOLLOWING
from tests.fixtures.modes import wants, with_exporter
from tests.fixtures.objects import Object, merged, obj, plugin_pod
from tests.unit.decide.runs import EXPORTER, PLUGIN, Run, deleted, pods, unnamed

OLD_NAME = "nvidia-dra-driver-gpu-kubelet-plugin"
MANAGED = "nvidia-dra-driver-kubelet-plugin"
BY_LABELS = DriverClient(labels={"app.kubernetes.io/name": "dcgm-exporter", "team": "telemetry"})


def plugin(name: str, spec: str = "{}", labels: str = "{}", owner: str = "") -> Object:
    """Return the DaemonSet of a plugin under a name."""
    owners = f", ownerReferences: [{{kind: {owner}, uid: gc, controller: true}}]" if owner else ""
    metadata = f"{{name: {name}, uid: {name}, labels: {labels}{owners}}}"
    return obj("plugin-daemonset", f"{{metadata: {metadata}, spec: {spec}}}")


def containers(*names: str) -> str:
    """Return a DaemonSet spec with these containers, and with a selector of another component."""
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    selector = "{matchLabels: {app: mine, dra-driver-nvidia-gpu-component: null}}"
    return f"{{selector: {selector}, template: {{spec: {{containers: [{listed}]}}}}}}"


def settings(*wanted: DriverClient, **others: object) -> Settings:
    """Return settings that name driver clients."""
    return Settings(driver_clients=wanted, **others)  # type: ignore[arg-type]


def test_plugins_are_found_by_exact_name() -> None:
    """A DaemonSet that only looks like a plugin is only reported, and that of the operator is left to the operator."""
    cd_daemon = "{resource.nvidia.com/computeDomain: uid}"
    for name, daemonset, expected in (
        ("name since 0.4", plugin(PLUGIN), ([PLUGIN], [], [])),
        ("name before 0.4", plugin(OLD_NAME), ([OLD_NAME], [], [])),
        ("a name is enough", plugin(PLUGIN, containers("sidecar")), ([PLUGIN], [], [])),
        ("by its selector, to which a chart may add", plugin(
            "mine", "{selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: gpus}, {name: x}]}}}"),
         ([], ["mine"], [])),
        ("name override", plugin("mine-kubelet-plugin"), ([], ["mine-kubelet-plugin"], [])),
        ("by its containers", plugin("mine", containers("gpus", "compute-domains")), ([], ["mine"], [])),
        ("a container too many", plugin("mine", containers("gpus", "sidecar")), ([], [], [])),
        ("another kubelet plugin", plugin("mine", "{template: {spec: {containers: [{name: x}]}}}"), ([], [], [])),
        ("owned by a GPUCluster", plugin(MANAGED, owner="GPUCluster"), ([], [], [MANAGED])),
        ("another name under a GPUCluster", plugin(PLUGIN, owner="GPUCluster"), ([PLUGIN], [], [])),
        ("labelled by the operator", plugin(MANAGED, labels=f"{{app.kubernetes.io/component: {MANAGED}}}"),
         ([], [], [MANAGED])),
        ("a name override that produces the operator's name", plugin(MANAGED), ([], [MANAGED], [])),
        ("that name under another owner", plugin(MANAGED, owner="HelmRelease"), ([], [MANAGED], [])),
        ("ComputeDomain daemon of that name", plugin(PLUGIN, labels=cd_daemon), ([], [], [])),
        ("driver", obj("driver-daemonset"), ([], [], [])),
    ):  # fmt: skip
        found = find_plugins([read_daemonset(daemonset)], Settings())
        kinds = (found.named, found.unnamed, found.operator_managed)
        assert expected == tuple([one.name for one in kind] for kind in kinds), name
    assert OTHER_PLUGIN == find_plugins([], Settings()).of_kind("unknown")


def test_namespace_and_names_confine_the_plugins() -> None:
    """The namespace confines what is looked at, the names what is restarted of it."""
    old = obj("plugin-daemonset", f"metadata: {{name: {OLD_NAME}, uid: old, namespace: old}}")
    views = [read_daemonset(daemonset) for daemonset in (plugin(PLUGIN), old, plugin("mine-kubelet-plugin"))]
    for name, given, expected in (
        ("anywhere", Plugin(), (2, 1)),
        ("one namespace", Plugin(namespace="nvidia-dra-driver-gpu"), (1, 1)),
        ("another namespace", Plugin(namespace="elsewhere"), (0, 0)),
        ("another name", Plugin(names=("mine-kubelet-plugin",)), (1, 2)),
    ):
        found = find_plugins(views, Settings(plugin=given))
        assert expected == (len(found.named), len(found.unnamed)), name


def test_a_driver_client_is_added_to_the_plugins() -> None:
    """By exact name, or by equal labels of its pods."""
    seen = with_exporter(cluster()).seen().daemonsets
    for wanted, expected in (
        (EXPORTER, True),
        (BY_LABELS, True),
        (DriverClient(labels={"team": "telemetry"}), True),
        (DriverClient(labels={"team": "telemetry", "tier": "x"}), False),
        (DriverClient("elsewhere", "dcgm-exporter"), False),
    ):
        named = find_plugins(seen, settings(wanted)).named
        assert [PLUGIN, *(["dcgm-exporter"] if expected else [])] == [one.name for one in named], wanted
    # The namespace of plugins does not confine driver clients.
    given = settings(EXPORTER, plugin=Plugin(namespace="nvidia-dra-driver-gpu"))
    assert ["Verified", "Verified"] == reasons(with_exporter(cluster()).decide(given)[0].statuses)


def test_a_driver_client_is_restarted_and_verified_like_a_plugin() -> None:
    """The deletion names its own pod, and the message does not call it a plugin. No plugin need be there."""
    run = Run(with_exporter(cluster(), -9), settings(BY_LABELS))
    decision = run.act()
    assert ["exporter-gpu-0"] == pods(decision)
    done = run.then(with_exporter(cluster())).look(40)
    assert (Phase.DONE, Reason.REFRESHED) == (done.phase, done.reason)
    alone = with_exporter(cluster(), -9).drop("daemonset", PLUGIN).drop("plugin-pod", "plugin-gpu-0")
    assert ["PluginStale"] == reasons(alone.decide(settings(EXPORTER))[0].statuses)
    # A node with two clients counts once, when both are verified.
    two, _memory = with_exporter(cluster("a", "b"), -9).decide(settings(EXPORTER))
    assert (["a", "b"], True) == (deleted(two), two.message.startswith("0 of 2 nodes verified"))


def test_a_driver_client_that_matches_nothing_or_may_not_be_restarted_is_reported() -> None:
    """A typing error must not look like success. Without a plugin the skip reports it."""
    nothing, _memory = cluster().drop("daemonset", PLUGIN).drop("plugin-pod").decide(settings(EXPORTER))
    assert (Reason.NO_PLUGIN, 1) == (nothing.reason, len(nothing.warnings))
    given = settings(DriverClient(labels={"app.kubernetes.io/component": "nvidia-driver"}))
    found = cluster().drop("daemonset", PLUGIN).drop("plugin-pod")
    decision, _memory = found.decide(given)
    assert (Phase.SKIP, Reason.NO_PLUGIN) == (decision.phase, decision.reason)
    assert ["no DaemonSet that may be restarted matches the driver client"] == [one[:60] for one in decision.warnings]
    # A driver client that is a plugin is treated as one, also under another name.
    again = DriverClient("nvidia-dra-driver-gpu", PLUGIN)
    assert stale().decide()[0] == stale().decide(settings(again))[0]
    found = cluster().change("daemonset", "metadata: {name: mine}", PLUGIN).drop("slice")
    mine = DriverClient("nvidia-dra-driver-gpu", "mine")
    assert ["SliceMissing"] == reasons(found.decide(settings(mine))[0].statuses)


def test_some_are_never_restarted_although_the_settings_name_them() -> None:
    """Labels may match more than intended: never the driver, nor what others restart."""
    selected = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
    driver = {"app.kubernetes.io/component": "nvidia-driver"}
    for name, stack, daemonset, labels in (
        ("operator-managed", GPU_OPERATOR, plugin(MANAGED, owner="GPUCluster"), selected),
        ("ComputeDomain daemon", GPU_OPERATOR, plugin("cd", labels="{resource.nvidia.com/computeDomain: x}"), selected),
        ("driver", GPU_OPERATOR, obj("driver-daemonset"), driver),
        ("driver of a pool", GPU_OPERATOR, obj("pool/driver-daemonset"), driver),
        ("toolkit", GPU_OPERATOR, obj("toolkit/daemonset"), {"app": "nvidia-container-toolkit-daemonset"}),
        ("network driver", NETWORK_OPERATOR, obj("network/driver-daemonset"), {"nvidia.com/ofed-driver": ""}),
    ):  # fmt: skip
        view = read_daemonset(daemonset)
        for wanted in (DriverClient(labels=labels), DriverClient(view.namespace, view.name)):
            assert () == find_plugins([view], settings(wanted, stack=stack.name)).named, name
    found = cluster()
    found.put("plugin-pod", *found.of("driver-pod"))
    decision, _memory = found.decide(settings(DriverClient(labels={"helm.sh/chart": "gpu-operator-v26.3.4"})))
    assert (Phase.DONE, ()) == (decision.phase, decision.actions)


def test_only_the_plugin_of_the_stack_shows_that_a_node_has_a_device() -> None:
    """A profiler or an agent runs on every node, so there it is nothing to wait for."""
    found = with_exporter(cluster("gpu-0")).change("daemonset", wants(2), "dcgm-exporter")
    elsewhere: Object = {"metadata": {"name": "exporter-cpu-0", "uid": "cpu"}, "spec": {"nodeName": "cpu-0"}}
    found.put("plugin-pod", merged(found.of("plugin-pod")[-1], elsewhere))
    decision, _memory = found.decide(settings(EXPORTER))
    assert Phase.DONE is decision.phase
    excluded = [(one.node, one.reason) for one in decision.statuses if one.state is NodeState.EXCLUDED]
    assert [("cpu-0", Reason.DRIVER_NOT_DEPLOYED)] == excluded
    lost = cluster("gpu-0").put("plugin-pod", plugin_pod("gpu-1")).change("daemonset", wants(2), PLUGIN)
    assert Reason.LABELS_MISSING is lost.decide(settings(EXPORTER))[0].statuses[-1].reason


def test_a_plugin_under_an_unknown_name_fails_a_run_at_once() -> None:
    """It may not be restarted, so it would stay stale. The controller refreshes all others."""
    for found in (unnamed(cluster(), stale_plugin()), unnamed(stale(), plugin_pod())):
        decision, _memory = found.decide()
        assert (Phase.FAIL, Reason.UNNAMED_PLUGIN, []) == (decision.phase, decision.reason, deleted(decision))
        assert "nvidia-dra-driver-gpu/mine" in decision.message
    following, _memory = unnamed(stale(), stale_plugin()).decide(FOLLOWING)
    assert (Reason.UNNAMED_PLUGIN, ["plugin-gpu-0"]) == (following.reason, pods(following))
    # That an exporter is verified proves nothing about the plugin.
    found = with_exporter(cluster()).change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN)
    for given in (Settings(), settings(EXPORTER)):
        decision, _memory = found.put("plugin-pod", stale_plugin()).decide(given)
        assert (Phase.FAIL, Reason.UNNAMED_PLUGIN) == (decision.phase, decision.reason), given.driver_clients


@pytest.mark.parametrize(
    ("name", "patch", "loads"),
    [
        ("driver-daemonset", "{}", GPU_OPERATOR),
        ("driver-daemonset", "metadata: {labels: {app.kubernetes.io/component: other}}", GPU_OPERATOR),
        ("driver-daemonset", "{metadata: {labels: {app.kubernetes.io/component: x}, ownerReferences: null}}", None),
        ("network/driver-daemonset", "{}", NETWORK_OPERATOR),
        ("plugin-daemonset", "{}", None),
    ],
    ids=["by-label", "by-owner", "of-nobody", "of-the-network", "a-plugin"],
)
def test_a_daemonset_loads_the_driver_of_one_stack(name: str, patch: str, loads: Stack | None) -> None:
    """By its label. If the label was overridden, by its owner and its container."""
    daemonset = read_daemonset(obj(name, patch))
    assert [loads] * (loads is not None) == [stack for stack in STACKS.values() if loads_driver(daemonset, stack)]


@pytest.mark.parametrize("name", ["toolkit/daemonset", "mig/daemonset"])
def test_a_prerequisite_is_known_by_its_label(name: str) -> None:
    """Of the GPU stack alone."""
    daemonset = read_daemonset(obj(name))
    assert (True, False) == (is_prerequisite(daemonset, GPU_OPERATOR), is_prerequisite(daemonset, NETWORK_OPERATOR))
    assert not is_prerequisite(read_daemonset(obj("driver-daemonset")), GPU_OPERATOR)
