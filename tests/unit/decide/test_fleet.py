"""What applies to all nodes: which DaemonSets are plugins, and whether the drivers match the policy."""

from __future__ import annotations

import pytest

from hook.decide import fleet
from hook.decide.fleet import find_plugins, loads_driver
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import policies, read_daemonset
from hook.objects.stacks import GPU_OPERATOR, NETWORK_OPERATOR, STACKS, Stack
from hook.objects.views import reader
from hook.settings import DriverClient, Expect, Plugin, Settings
from tests.fixtures.cluster import Cluster, cluster, reasons, stale, stale_plugin
from tests.fixtures.limits import down
from tests.fixtures.modes import owner, wants, with_exporter
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, obj, plugin_pod
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, EXPORTER, JOB, PLUGIN, Run, deleted, named, pods, unnamed

# What the policy asks for, compared with a driver DaemonSet.

BASE, MIRROR = "nvcr.io/nvidia/driver", "mirror.example.com:5000/any/path"
UBUNTU = f"{BASE}:580.126.20-ubuntu22.04"
CLUSTER_POLICY = reader(policies.ClusterPolicy)
NIC_CLUSTER_POLICY = reader(policies.NicClusterPolicy)
DIGEST, OTHER_DIGEST = (f"sha256:{digits * 32}" for digits in ("0b", "1b"))
DOCA = "nvcr.io/nvidia/mellanox/doca-driver"
OFED = "doca3.2.0-25.10-1.2.8.0-2"


def asking(version: str = "580.126.20", *, precompiled: bool = False, **driver: str) -> policies.Policy:
    """Return a policy that asks for a driver."""
    spec = {"driver": {"version": version, "usePrecompiled": precompiled, **driver}}
    return CLUSTER_POLICY(obj("policy", {"spec": spec}))


def network_asking(version: str) -> policies.Policy:
    """Return a policy of the network operator that asks for a driver."""
    return NIC_CLUSTER_POLICY(obj("network/policy", {"spec": {"ofedDriver": {"version": version}}}))


def difference(image: str, policy: policies.Policy, patch: str = "{}") -> str:
    """Return how a driver DaemonSet of the policy's operator, with an image, differs from the policy."""
    of_network = isinstance(policy, policies.NicClusterPolicy)
    stack = NETWORK_OPERATOR if of_network else GPU_OPERATOR
    rendered = obj("network/driver-daemonset" if of_network else "driver-daemonset", patch)
    image_of_driver = patches.running(image, stack.driver.container)
    return fleet.unrendered(read_daemonset(merged(rendered, image_of_driver)), policy, stack)


@pytest.mark.parametrize(
    ("policy", "image", "expected"),
    [
        (asking(), UBUNTU, True),
        (asking(), f"{BASE}:580.126.20-rhcos4.17", True),
        (asking(), f"{MIRROR}:580.126.20-ubuntu22.04", True),  # a webhook rewrote it
        (asking(), f"{MIRROR}", False),
        (asking(), f"{UBUNTU}@{DIGEST}", True),  # a webhook added the digest
        (asking(), f"{BASE}:570.124.06-ubuntu22.04", False),
        (asking(), f"{BASE}:580.126.20", False),  # no system
        (asking(), f"{BASE}:580.126.20-5.15.0-105-generic-ubuntu22.04", False),  # precompiled
        (asking("580"), f"{BASE}:580.65.06-ubuntu22.04", False),  # a branch is a part of the tag
        (asking("580", precompiled=True), f"{BASE}:580.65.06-ubuntu22.04", False),
        (asking("580.65"), f"{BASE}:580.65.06-ubuntu22.04", False),  # so is the beginning of a version
        (asking(), f"{BASE}:580x126y20-ubuntu22.04", False),  # a dot is a dot
        (asking("580", precompiled=True), f"{BASE}:580-5.15.0-105-generic-ubuntu22.04", True),
        (asking("580", precompiled=True), f"{BASE}:580-ubuntu22.04", False),  # no kernel
        (asking(DIGEST), f"{BASE}@{DIGEST}", True),
        (asking(DIGEST), f"{MIRROR}:any@{DIGEST}", True),
        (asking(DIGEST), f"{BASE}@{OTHER_DIGEST}", False),
        (asking(""), f"registry.example.com/any@{DIGEST}", True),  # under OLM a policy names none
        (asking(image=""), "registry.example.com/any:1", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-ubuntu22.04-amd64", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-rhcos4.17-arm64", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-5.15.0-105-generic-ubuntu22.04-amd64", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-ubuntu22.04", False),  # no architecture
        (network_asking("doca3.2.0"), f"{DOCA}:{OFED}-ubuntu22.04-amd64", False),
        (network_asking(OFED), f"{DOCA}:doca3.4.0-26.04-0.8.6.0-0-ubuntu22.04-amd64", False),
    ],
)
def test_the_whole_tag_is_compared(policy: policies.Policy, image: str, *, expected: bool) -> None:
    """A DaemonSet matches only if the whole tag is one that the operator makes of the policy's version."""
    assert expected is not bool(difference(image, policy))


NEW_CHART = "spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v26.7.0}}}"
NO_LABEL = "spec: {template: {metadata: {labels: {helm.sh/chart: null}}}}"


@pytest.mark.parametrize(
    ("patch", "asked", "expected"),
    [
        ("{}", "{}", ""),
        ("metadata: {generation: 3}", "{}", "has not seen generation 3"),
        ("status: null", "{}", "has not seen generation 2"),
        ("status: {observedGeneration: 3}", "{}", "has not seen generation 2"),
        ("{}", NEW_CHART, "still rendered from gpu-operator-v26.3.4, not gpu-operator-v26.7.0"),
        (NO_LABEL, "{}", "still rendered from (no chart)"),
        ("{}", "spec: {daemonsets: null}", ""),
    ],
)
def test_generation_and_chart_label_are_compared(patch: str, asked: str, expected: str) -> None:
    """The DaemonSet controller must have observed the spec, and the chart's label must be the policy's."""
    found = difference(UBUNTU, CLUSTER_POLICY(obj("policy", asked)), patch)
    assert (bool(expected), True) == (bool(found), expected in found)


def test_a_daemonset_that_cannot_be_compared_is_not_rendered() -> None:
    """It has no container of that name, or its controller has not seen it. That counts without a policy, too."""
    other = obj("driver-daemonset", "spec: {template: {spec: {containers: [{name: other, image: x}]}}}")
    assert "(no driver image)" in fleet.unrendered(read_daemonset(other), asking(), GPU_OPERATOR)
    unobserved = read_daemonset(obj("driver-daemonset", "metadata: {generation: 3}"))
    assert "generation 3" in fleet.unrendered(unobserved, None, GPU_OPERATOR)


ASKING, UNLABELLED = asking(), CLUSTER_POLICY(obj("policy", "spec: {daemonsets: null}"))
POOLED = CLUSTER_POLICY(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true}}"))
BUILT_LABEL = "{daemonsets: {labels: {helm.sh/chart: gpu-operator-v26.3.3_build.1}}}"
BUILT = CLUSTER_POLICY(obj("policy", f"spec: {BUILT_LABEL}"))


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        (ASKING, Expect(driver_version="580.126.20"), ""),
        (ASKING, Expect(driver_version="590.1"), "asks for driver 580.126.20,"),
        *((ASKING, Expect(chart_version=shown), "") for shown in ("v26.3.4", "26.3.4", "gpu-operator-v26.3.4")),
        (BUILT, Expect(chart_version="26.3.3+build.1"), ""),
        (ASKING, Expect(chart_version="v26.7.0"), "from chart gpu-operator-v26.3.4,"),
        (ASKING, Expect(chart_version="v26.3"), "comes from chart"),
        (UNLABELLED, Expect(chart_version="1"), "chart (unlabelled)"),
        *((none, Expect(driver_version="590.1"), "") for none in (asking(""), asking(DIGEST), POOLED)),
        (POOLED, Expect("590.1", "1"), "comes from chart"),
    ],
)
def test_the_policy_must_show_what_is_expected(found: policies.Policy, expected: Expect, words: str) -> None:
    """Another version is the old policy. A version that the policy does not name could never be met."""
    text = fleet.unmet_expectation(found, (), GPU_OPERATOR, Settings(expect=expected))
    assert (bool(words), True) == (bool(text), words in text)


@pytest.mark.parametrize(
    ("published", "asked", "expected"),
    [
        ("580.126.20", "580.126.20", True),
        ("580.105.8", "580.105.08", True),
        ("580.105.80", "580.105.08", False),
        ("570.124.6", "580.126.20", False),
        ("580.95.5", "580", True),
        ("570.95.5", "580", False),
        ("580.105.8", "58", False),
        ("580.126.20", DIGEST, True),
        ("unknown", "580.126.20", True),
        ("unknown", "580", True),
    ],
)
def test_driver_versions_compare_as_numbers(published: str, asked: str, *, expected: bool) -> None:
    """Published versions lose leading zeros. A branch is a whole number. What cannot be compared does not differ."""
    assert expected is fleet.same_driver(published, asked)


def test_the_version_to_verify_is_that_of_the_policy_or_else_the_expected_one() -> None:
    """A policy that leaves drivers to pools names none."""
    pooled = CLUSTER_POLICY(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true, version: 570.124.06}}"))
    found = [fleet.wanted_version(policy, "570.1.2") for policy in (asking(), asking(DIGEST), asking(""), pooled)]
    assert ["580.126.20", "570.1.2", "570.1.2", ""] == found


def test_the_operator_uses_the_oldest_policy() -> None:
    """Of equally old ones the first by name, in whatever order they are listed."""
    created = {"a": "2025-07-01T08:00:00Z", "b": "2025-06-01T08:00:00Z", "c": "2025-06-01T08:00:00Z"}
    metadata = [{"name": name, "creationTimestamp": moment} for name, moment in created.items()]
    found = [CLUSTER_POLICY(obj("policy", {"metadata": each})) for each in metadata]
    for given in (found, found[::-1]):
        active = fleet.active_policy(given, GPU_OPERATOR)
        assert active is not None
        assert "b" == active.name


# Which DaemonSets are plugins and driver clients.

OLD_NAME = "nvidia-dra-driver-gpu-kubelet-plugin"
MANAGED = "nvidia-dra-driver-kubelet-plugin"
BY_LABELS = DriverClient(labels={"app.kubernetes.io/name": "dcgm-exporter", "team": "telemetry"})


def plugin(name: str, spec: str = "{}", labels: str = "{}", owner: str = "") -> Object:
    """Return the DaemonSet of a plugin under a name."""
    owners = f", ownerReferences: [{{kind: {owner}, uid: gc, controller: true}}]" if owner else ""
    metadata = f"{{name: {name}, uid: {name}, labels: {labels}{owners}}}"
    return obj("plugin-daemonset", f"{{metadata: {metadata}, spec: {spec}}}")


def containers(*names: str, selector: str = "{app: mine, dra-driver-nvidia-gpu-component: null}") -> str:
    """Return a DaemonSet spec with these containers, and with a selector, by default that of another component."""
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    return f"{{selector: {{matchLabels: {selector}}}, template: {{spec: {{containers: [{listed}]}}}}}}"


def settings(*wanted: DriverClient, **others: object) -> Settings:
    """Return settings that name driver clients."""
    return Settings(driver_clients=wanted, **others)  # type: ignore[arg-type]


CD_DAEMON = "{resource.nvidia.com/computeDomain: uid}"
OF_OPERATOR = f"{{app.kubernetes.io/component: {MANAGED}}}"
FOUND_AS: dict[str, tuple[Object, str]] = {
    "name since 0.4": (plugin(PLUGIN), "named"),
    "name before 0.4": (plugin(OLD_NAME), "named"),
    "a name is enough": (plugin(PLUGIN, containers("sidecar")), "named"),
    "by its selector, to which a chart may add": (
        plugin("mine", containers("gpus", "x", selector="{a: b}")),
        "unnamed",
    ),
    "by its containers": (plugin("mine", containers("gpus", "compute-domains")), "unnamed"),
    "a container too many": (plugin("mine", containers("gpus", "sidecar")), ""),
    "another kubelet plugin": (plugin("mine", "{template: {spec: {containers: [{name: x}]}}}"), ""),
    "owned by a GPUCluster": (plugin(MANAGED, owner="GPUCluster"), "operator_managed"),
    "another name under a GPUCluster": (plugin(PLUGIN, owner="GPUCluster"), "named"),
    "labelled by the operator": (plugin(MANAGED, labels=OF_OPERATOR), "operator_managed"),
    "a name override that produces the operator's name": (plugin(MANAGED), "unnamed"),
    "ComputeDomain daemon of that name": (plugin(PLUGIN, labels=CD_DAEMON), ""),
    "driver": (obj("driver-daemonset"), ""),
}


@pytest.mark.parametrize(("daemonset", "kind"), FOUND_AS.values(), ids=FOUND_AS)
def test_plugins_are_found_by_exact_name(daemonset: Object, kind: str) -> None:
    """A DaemonSet that only looks like a plugin is only reported, and that of the operator is left to the operator."""
    found = find_plugins([read_daemonset(daemonset)], Settings())
    kinds = {"named": found.named, "unnamed": found.unnamed, "operator_managed": found.operator_managed}
    assert [kind] * bool(kind) == [name for name, daemonsets in kinds.items() if daemonsets]


CONFINED = {
    "anywhere": (Plugin(), (2, 1)),
    "one namespace": (Plugin(namespace="nvidia-dra-driver-gpu"), (1, 1)),
    "another namespace": (Plugin(namespace="elsewhere"), (0, 0)),
    "another name": (Plugin(names=("mine-kubelet-plugin",)), (1, 2)),
}


@pytest.mark.parametrize(("given", "expected"), CONFINED.values(), ids=CONFINED)
def test_namespace_and_names_confine_the_plugins(given: Plugin, expected: tuple[int, int]) -> None:
    """The namespace confines what is looked at, the names what is restarted of it."""
    old = obj("plugin-daemonset", f"metadata: {{name: {OLD_NAME}, uid: old, namespace: old}}")
    views = [read_daemonset(daemonset) for daemonset in (plugin(PLUGIN), old, plugin("mine-kubelet-plugin"))]
    found = find_plugins(views, Settings(plugin=given))
    assert expected == (len(found.named), len(found.unnamed))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EXPORTER, True),
        (BY_LABELS, True),
        (DriverClient(labels={"team": "telemetry", "tier": "x"}), False),
        (DriverClient("elsewhere", "dcgm-exporter"), False),
    ],
)
def test_a_driver_client_is_added_to_the_plugins(wanted: DriverClient, *, expected: bool) -> None:
    """By exact name, or by equal labels of its pods. It is not confined to the namespace of plugins."""
    given = settings(wanted, plugin=Plugin(namespace="nvidia-dra-driver-gpu"))
    named = find_plugins(with_exporter(cluster()).seen().daemonsets, given).named
    assert [PLUGIN, *(["dcgm-exporter"] if expected else [])] == [one.name for one in named]


def test_a_driver_client_is_restarted_and_verified_like_a_plugin() -> None:
    """No plugin need be there. A node with two clients counts once, when both are verified."""
    run = Run(with_exporter(cluster(), -9), settings(BY_LABELS))
    assert ["exporter-gpu-0"] == pods(run.act())
    done = run.then(with_exporter(cluster())).look(40)
    assert (Phase.DONE, Reason.REFRESHED) == (done.phase, done.reason)
    alone = with_exporter(cluster(), -9).drop("daemonset", PLUGIN).drop("plugin-pod", "plugin-gpu-0")
    assert ["PluginStale"] == reasons(alone.decide(settings(EXPORTER))[0].statuses)
    two, _memory = with_exporter(cluster("a", "b"), -9).decide(settings(EXPORTER))
    assert (["a", "b"], True) == (deleted(two), two.message.startswith("0 of 2 nodes verified"))


def test_a_driver_client_that_is_a_plugin_is_treated_as_one() -> None:
    """Also under another name."""
    again = DriverClient("nvidia-dra-driver-gpu", PLUGIN)
    assert stale().decide()[0] == stale().decide(settings(again))[0]
    found = cluster().change("daemonset", "metadata: {name: mine}", PLUGIN).drop("slice")
    assert ["SliceMissing"] == reasons(
        found.decide(settings(DriverClient("nvidia-dra-driver-gpu", "mine")))[0].statuses
    )


SELECTED = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
DRIVER_LABELS = {"app.kubernetes.io/component": "nvidia-driver"}
TOOLKIT_LABELS = {"app": "nvidia-container-toolkit-daemonset"}
NEVER: dict[str, tuple[Stack, Object, dict[str, str]]] = {
    "operator-managed": (GPU_OPERATOR, plugin(MANAGED, owner="GPUCluster"), SELECTED),
    "ComputeDomain daemon": (GPU_OPERATOR, plugin("cd", labels=CD_DAEMON), SELECTED),
    "driver": (GPU_OPERATOR, obj("driver-daemonset"), DRIVER_LABELS),
    "driver of a pool": (GPU_OPERATOR, obj("pool/driver-daemonset"), DRIVER_LABELS),
    "toolkit": (GPU_OPERATOR, obj("toolkit/daemonset"), TOOLKIT_LABELS),
    "network driver": (NETWORK_OPERATOR, obj("network/driver-daemonset"), {"nvidia.com/ofed-driver": ""}),
}


@pytest.mark.parametrize(("stack", "daemonset", "labels"), NEVER.values(), ids=NEVER)
def test_some_are_never_restarted_although_the_settings_name_them(
    stack: Stack, daemonset: Object, labels: dict[str, str]
) -> None:
    """Labels may match more than intended: never the driver, nor what others restart."""
    view = read_daemonset(daemonset)
    for wanted in (DriverClient(labels=labels), DriverClient(view.namespace, view.name)):
        found = find_plugins([view], settings(wanted, stack=stack.name))
        assert ((), (wanted,)) == (found.named, found.missing), "a typing error must not look like success"


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


def renamed(found: Cluster) -> Cluster:
    """Rename the only plugin to what the settings do not contain."""
    return found.change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN)


UNKNOWN_NAME = {
    "next to a stale one": (unnamed(stale(), plugin_pod()), JOB),
    "without a driver": (renamed(cluster().drop("driver-pod")), JOB),
    "without nodes": (renamed(cluster().drop("node").drop("driver-pod").drop("plugin-pod")), JOB),
    "next to a verified driver client": (renamed(with_exporter(stale())), settings(EXPORTER)),
}


@pytest.mark.parametrize(("found", "given"), UNKNOWN_NAME.values(), ids=UNKNOWN_NAME)
def test_a_plugin_under_an_unknown_name_fails_a_run_at_once(found: Cluster, given: Settings) -> None:
    """It may not be restarted, so it would stay stale. The run neither skips nor restarts the others."""
    decision, _memory = found.decide(given)
    assert (Phase.FAIL, Reason.UNNAMED_PLUGIN, []) == (decision.phase, decision.reason, deleted(decision))


def test_the_controller_refreshes_all_plugins_but_the_unknown_one() -> None:
    """It has no end. The unknown one does not count for the budget."""
    following, _memory = unnamed(stale(), stale_plugin()).decide(down(1))
    assert (Reason.UNNAMED_PLUGIN, ["plugin-gpu-0"]) == (following.reason, pods(following))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("status: {desiredNumberScheduled: 0}", (Reason.NOTHING_STALE, True)),
        ("status: {desiredNumberScheduled: 0, observedGeneration: 0}", (Reason.UNNAMED_PLUGIN, False)),
    ],
)
def test_a_plugin_under_an_unknown_name_that_wants_no_pods_is_a_warning(
    status: str, outcome: tuple[Reason, bool]
) -> None:
    """It holds no driver. Once it wants some, or if its controller has not counted them, it fails the run."""
    idle = obj("plugin-daemonset", f"{{metadata: {{name: mine, uid: mine}}, {status}}}")
    for found in (cluster().put("daemonset", idle), cluster().drop("plugin-pod").only("daemonset", idle).put(
            "daemonset", obj("driver-daemonset"))):  # fmt: skip
        decision, _memory = found.decide()
        assert outcome == (decision.reason, any("mine looks like" in warning for warning in decision.warnings))


LOADS: dict[str, tuple[str, str, Stack | None]] = {
    "by label": ("driver-daemonset", "{}", GPU_OPERATOR),
    "by owner": ("driver-daemonset", "metadata: {labels: {app.kubernetes.io/component: other}}", GPU_OPERATOR),
    "without owner": (
        "driver-daemonset", "{metadata: {labels: {app.kubernetes.io/component: x}, ownerReferences: null}}", None),
    "of the network": ("network/driver-daemonset", "{}", NETWORK_OPERATOR),
    "a plugin": ("plugin-daemonset", "{}", None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "patch", "loads"), LOADS.values(), ids=LOADS)
def test_a_daemonset_loads_the_driver_of_one_stack(name: str, patch: str, loads: Stack | None) -> None:
    """By its label. If the label was overridden, by its owner and its container."""
    daemonset = read_daemonset(obj(name, patch))
    assert [loads] * (loads is not None) == [stack for stack in STACKS.values() if loads_driver(daemonset, stack)]


# Which driver pod is of the newest revision of a rendered DaemonSet.

NO_HASH = "metadata: {labels: {controller-revision-hash: null}}"
TEMPLATE = """
data:
  spec:
    template:
      metadata:
        labels:
          app: nvidia-driver-daemonset
          app.kubernetes.io/component: nvidia-driver
          helm.sh/chart: gpu-operator-v26.3.4
      spec: {containers: [{name: nvidia-driver-ctr, image: "nvcr.io/nvidia/driver:580.126.20-ubuntu22.04"}]}
"""
"""That of the DaemonSet, in its ControllerRevision."""
RENDERED_OLD: Object = patches.running("nvcr.io/nvidia/driver:570.1-ubuntu22.04")
NONE_WANTED: Object = {"status": {"desiredNumberScheduled": 0}}
LOST_FOR_A_MOMENT = [conditions(None)[0], conditions(R)[1]]


def revision(name: str, number: int, uid: str = "driver-ds") -> Object:
    """Return a revision of the driver's DaemonSet, or of another owner."""
    metadata = {"name": name, "labels": {"controller-revision-hash": name}, "ownerReferences": owner(uid)}
    return obj("revision", {"metadata": metadata, "revision": number})


def second(found: Cluster, patch: Object) -> Cluster:
    """Add another driver DaemonSet."""
    return found.put("daemonset", obj("driver-daemonset", {"metadata": {"name": "b", "uid": "b"}, **patch}))


OLD_POD_LEFT = second(stale("a", "b"), {**RENDERED_OLD, **NONE_WANTED}).change(
    "driver-pod", {"metadata": {"ownerReferences": owner("b")}}, "driver-b")  # fmt: skip
NOT_READY = named(driver_pod(ready=None), "b")
UNSCHEDULED = merged(named(driver_pod(), "b"), {"spec": {"nodeName": None}})
SETTLED: dict[str, tuple[Cluster, list[str]]] = {
    "another pod is not scheduled": (stale().put("driver-pod", UNSCHEDULED), ["PluginStale"]),
    "its DaemonSet was replaced": (
        stale().change("driver-pod", {"metadata": {"ownerReferences": owner("gone")}}), ["DriverOrphaned"]),
    "a new pod next to an orphan": (
        stale().change("driver-pod", "metadata: {ownerReferences: []}").put("driver-pod", NOT_READY),
        ["SeveralDriverPods"]),
    "no hash": (stale().change("driver-pod", NO_HASH), ["DriverOutdated"]),
    "revision of its template": (stale().change("revision", TEMPLATE), ["PluginStale"]),
    # The DaemonSet controller creates the revision before it writes the status, but each kind has a watch of its own.
    "revision of another image": (
        stale().change("revision", TEMPLATE.replace("580.126.20", "580.105.08")), ["DriverOutdated"]),
    "revision of another chart": (
        stale().change("revision", TEMPLATE.replace("v26.3.4", "v26.3.3")), ["DriverOutdated"]),
    "newer revision of another DaemonSet": (stale().put("revision", revision("other", 9, "other-ds")), ["PluginStale"]),
    "older revision listed first": (stale().only("revision", revision("old", 1), obj("revision")), ["PluginStale"]),
    "older revision listed last": (stale().only("revision", obj("revision"), revision("old", 1)), ["PluginStale"]),
    "not ready by a node outage": (
        stale().change("driver-pod", {"status": {"conditions": LOST_FOR_A_MOMENT}}), ["DriverNotReady"]),
    # A DaemonSet counts if it has pods, or wants them, or if it is not observed yet.
    "it wants no pods but has one": (
        stale().change("daemonset", {**RENDERED_OLD, **NONE_WANTED}, DRIVER), ["NotRendered"]),
    "a former one has a pod": (OLD_POD_LEFT, ["PluginStale", "NotRendered"]),
    "a former one has none": (second(stale(), {**RENDERED_OLD, **NONE_WANTED}), ["PluginStale"]),
}  # fmt: skip


@pytest.mark.parametrize(("found", "expected"), SETTLED.values(), ids=SETTLED)
def test_a_settled_driver_is_one_live_ready_pod_of_the_newest_revision(found: Cluster, expected: list[str]) -> None:
    """Of its own DaemonSet, which must exist. The node controller moves Ready in an outage, never ContainersReady."""
    assert expected == reasons(found.decide()[0].statuses)


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"metadata": {"name": "b", "uid": "b", "generation": 1}, "status": None}, Reason.NOT_RENDERED),
        (RENDERED_OLD, Reason.NOT_RENDERED),
        ({**RENDERED_OLD, **NONE_WANTED}, Reason.NOTHING_STALE),
    ],
    ids=["just created", "wants pods", "leftover"],
)
def test_another_driver_daemonset_counts_before_it_has_pods(patch: Object, expected: Reason) -> None:
    """It may be the next one."""
    assert expected is second(cluster(), patch).decide()[0].reason
