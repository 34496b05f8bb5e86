"""What applies to all nodes: which DaemonSets are plugins, and whether the drivers match the policy."""

from __future__ import annotations

import pytest

from hook.decide import fleet
from hook.decide.fleet import find_plugins, is_prerequisite, loads_driver
from hook.decide.reasons import Reason
from hook.decide.result import NodeState, Phase
from hook.objects import policies, read_daemonset
from hook.objects.stacks import GPU_OPERATOR, NETWORK_OPERATOR, OTHER_PLUGIN, STACKS, Stack
from hook.objects.views import reader
from hook.settings import DriverClient, Expect, Plugin, Settings
from tests.fixtures.cluster import Cluster, cluster, not_ready_since, reasons, stale, stale_plugin
from tests.fixtures.limits import down
from tests.fixtures.modes import network, wants, with_exporter
from tests.fixtures.objects import Object, R, conditions, driver_pod, merged, obj, parsed, plugin_pod, stamp
from tests.unit.decide import patches
from tests.unit.decide.runs import (
    DRIVER,
    EXPORTER,
    PLUGIN,
    Run,
    deleted,
    pods,
    unnamed,
    wrong_decisions,
    wrong_nodes,
)

DIGEST = "sha256:" + "0b" * 32
NO_REPLICAS: Object = {"replicas": None, "updatedReplicas": None, "availableReplicas": None}


def running(image: str, /, **driver: object) -> Cluster:
    """Return a verified node whose driver DaemonSet has an image, and whose policy asks for something else."""
    found = cluster().change("daemonset", patches.running(image), DRIVER)
    return found.change("policy", {"spec": {"driver": driver}})


def since(seconds: float) -> Object:
    """Return a patch of a revision that was created so many seconds ago."""
    return {"metadata": {"creationTimestamp": stamp(3600 - seconds)}}


def progressing(seconds: float) -> Object:
    """Return a patch of a Deployment whose last rollout completed so many seconds ago."""
    done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    return {"status": {"conditions": [{**done, "lastUpdateTime": stamp(3600 - seconds)}]}}


MIRROR, TAG, IMAGE_PATH = "mirror.example.com:5000", "580.126.20-ubuntu22.04", f"nvidia/driver@{DIGEST}"


@pytest.mark.parametrize(
    ("image", "driver", "same"),
    [
        (f"{MIRROR}/nvidia/driver:{TAG}", {}, True),
        (f"{MIRROR}/any/path:{TAG}", {}, True),
        (f"nvcr.io/nvidia/driver:{TAG}@{DIGEST}", {}, True),
        (f"{MIRROR}/nvidia/driver:580.126.21-ubuntu22.04", {}, False),
        (f"{MIRROR}/nvidia/driver", {}, False),
        ("nvcr.io/nvidia/driver:580.126.2-ubuntu22.04", {}, False),
        (f"{MIRROR}/{IMAGE_PATH.replace('@', ':any@')}", {"version": DIGEST}, True),
        (f"{MIRROR}/{IMAGE_PATH[:-1]}0", {"version": DIGEST}, False),
    ],
)
def test_an_image_that_a_webhook_rewrote_is_rendered(image: str, driver: dict[str, str], *, same: bool) -> None:
    """Registry, path and an added digest do not count: the tag must be that of the version, or the digest."""
    decision, _memory = running(image, **driver).decide()
    expected = (Phase.DONE, Reason.NOTHING_STALE) if same else (Phase.WAIT, Reason.NOT_RENDERED)
    assert expected == (decision.phase, decision.reason)


def test_where_nothing_can_be_compared_the_quiet_time_is_longer() -> None:
    """An edit that a slow operator has not rendered after 16 s must not look like the end."""
    run = Run(running("any:1", repository=None, version=None, image="registry:5000/driver"))
    run.found.change("revision", since(0))
    assert [Phase.WAIT, Phase.WAIT, Phase.WAIT, Phase.DONE] == run.phases(0, 16, 59, 60)
    assert any("60 s without a change" in warning for warning in run.look(60).warnings)


@pytest.mark.parametrize("spec", [{"hostNetwork": True}, {"hostname": "gpu-operator"}])
def test_an_operator_that_is_named_by_its_host_leads(spec: dict[str, bool] | dict[str, str]) -> None:
    """Its Lease holds the node's name, or the host name of its template, or a name that was cut off."""
    found = cluster().change("lease", "spec: {holderIdentity: node-7_0f3c}")
    assert Reason.OPERATOR_NOT_LEADING is found.decide()[0].reason
    found.change("deployment", {"spec": {"template": {"spec": spec}}})
    assert Phase.DONE is found.decide()[0].phase
    found.change("lease", {"spec": {"acquireTime": stamp(3600 - 20)}})
    assert Reason.OPERATOR_SETTLING is found.decide()[0].reason


@pytest.mark.parametrize(("length", "reason"), [(46, Reason.NOTHING_STALE), (47, Reason.OPERATOR_SETTLING)])
def test_an_operator_whose_long_name_was_cut_off_leads(length: int, reason: Reason) -> None:
    """The network operator's Deployment is named after its release; the API server cuts off long names of pods."""
    name = "a" * length + "-5ddc6f64ff"
    found, holder = network().change("replicaset", {"metadata": {"name": name}}), f"{name}-"[:58] + "x7k2p_0e3f"
    found.change("lease", {"spec": {"holderIdentity": holder, "acquireTime": stamp(3600 - 20)}})
    assert reason is found.decide()[0].reason
    assert Phase.DONE is found.change("lease", {"spec": {"acquireTime": stamp(0)}}).decide()[0].phase
    found.change("lease", {"spec": {"holderIdentity": "b" + holder}})
    assert Reason.OPERATOR_NOT_LEADING is found.decide()[0].reason


def test_an_operator_that_has_just_been_replaced_may_render_again() -> None:
    """No Lease names the new pod: there is none, or it still names the host on which the old one was the leader."""
    host = cluster().change("lease", "spec: {holderIdentity: node-7_0f3c}")
    host.change("deployment", "spec: {template: {spec: {hostNetwork: true}}}")
    for found in (host, cluster().drop("lease")):
        assert Phase.DONE is found.decide()[0].phase
        assert Reason.OPERATOR_SETTLING is found.change("deployment", progressing(59)).decide()[0].reason
        assert Phase.DONE is found.change("deployment", progressing(60)).decide()[0].phase
    # This run has seen another rollout, although the Deployment's clock is ahead of ours.
    run = Run(cluster().change("deployment", progressing(-3600)))
    assert Phase.DONE is run.phases(0, 15)[1]
    run.found.change("deployment", progressing(-3610))
    assert Phase.WAIT is run.look(15).phase


def test_an_operator_that_is_paused_or_scaled_to_zero_is_not_quiet_at_once() -> None:
    """A paused Deployment with an edit has no updated pod."""
    paused = cluster().change("deployment", "{spec: {paused: true}, status: {updatedReplicas: null}}")
    assert Reason.OPERATOR_ROLLING_OUT is paused.decide()[0].reason
    # A release under another name was scaled to zero, and sorts first; the one that runs is being replaced.
    found = cluster().change("deployment", "status: {updatedReplicas: 0}")
    left = {"metadata": {"name": "a-gpu-operator", "uid": "left"}, "spec": {"replicas": 0}, "status": NO_REPLICAS}
    assert Reason.OPERATOR_ROLLING_OUT is found.put("deployment", obj("deployment", left)).decide()[0].reason


def test_a_policy_that_vanishes_is_waited_for_while_its_drivers_run() -> None:
    """A GitOps tool deletes and creates it again. What is stale meanwhile is restarted, and the grace has an end."""
    for vanish in (Cluster.drop, Cluster.unserved):
        run = Run(vanish(stale(), "policy"))
        first = run.look()
        assert (Phase.WAIT, Reason.NO_POLICY, ["gpu-0"]) == (first.phase, first.reason, deleted(first))
        run.found = vanish(cluster(), "policy")
        for seconds, phase in ((60, Phase.WAIT), (119, Phase.WAIT), (120, Phase.SKIP)):
            assert (phase, Reason.NO_POLICY) == ((decision := run.look(seconds)).phase, decision.reason)


def test_the_grace_of_a_policy_that_vanished_ends_no_upgrade() -> None:
    """A node whose driver is on its way will have a stale plugin."""
    run = Run(cluster("a", "b").drop("policy").put("driver-pod", driver_pod("b", ready=None)))
    assert [Phase.WAIT, Phase.WAIT] == run.phases(0, 600)
    assert Reason.NO_POLICY is run.look(600).reason


def test_an_outdated_driver_is_waited_for_while_its_policy_is_gone() -> None:
    """Only a policy can say that no controller replaces it."""
    found = cluster().change("driver-pod", patches.OUTDATED).drop("policy")
    (status,) = found.decide()[0].statuses
    assert Reason.DRIVER_OUTDATED is status.reason


def test_a_policy_whose_metadata_is_touched_all_the_time_is_quiet() -> None:
    """Only its spec is the desired state: a new generation, or a manager of spec fields that wrote."""

    def managed(*writes: tuple[str, float]) -> Object:
        parts: dict[str, Object] = {"helm": {"f:metadata": {}, "f:spec": {}}, "backup": {"f:metadata": {}}}
        fields = [{"manager": name, "time": stamp(seconds), "fieldsV1": parts[name]} for name, seconds in writes]
        return {"metadata": {"managedFields": fields}}

    run = Run(cluster())
    for seconds in range(0, 16, 5):
        run.found.change("policy", managed(("helm", -3600), ("backup", 3600 + seconds)))
        assert Phase.DONE is run.look(seconds).phase
    # If one manager owns both, its writes prove nothing, and the generation must stay the same for as long.
    run, phases = Run(cluster()), []
    for seconds in range(0, 16, 5):
        run.found.change("policy", managed(("helm", 3600 + seconds)))
        phases += run.phases(seconds)
    assert [Phase.WAIT, Phase.WAIT, Phase.WAIT, Phase.DONE] == phases
    run.found.change("policy", "metadata: {generation: 99}")
    assert Reason.OPERATOR_SETTLING is run.look(16).reason


def test_the_grace_of_a_policy_that_is_not_ready_starts_again_with_its_rollout_alone() -> None:
    """Another generation or revision starts it again; nodes that are silent for a moment do not."""
    newer = "metadata: {labels: {controller-revision-hash: b}}"
    for part, patch in (("policy", "metadata: {generation: 9}"), ("revision", newer)):
        run = Run(cluster().change("policy", patches.ILL))
        run.look()
        run.found.change(part, patch)
        if part == "revision":
            run.found.change("driver-pod", newer)
        run.look(120)
        assert Reason.POLICY_NOT_READY is run.look(135).reason, part


@pytest.mark.parametrize("state", ["notReady", "ready"])
def test_nodes_that_are_silent_for_a_moment_do_not_start_the_grace_again(state: str) -> None:
    """In a large fleet, one node is always silent; a policy that is ready only then proves nothing."""
    run, phases = Run(cluster("a", "b")), []
    for seconds in range(0, 121, 20):
        silent = seconds % 40 == 20
        run.found = cluster("a", "b").change("policy", {"status": {"state": state if silent else "notReady"}})
        if silent:
            run.found.change("node", not_ready_since(3600 + seconds - 1), "b")
        phases += run.phases(seconds)
    assert [Phase.WAIT] * 6 + [Phase.DONE] == phases


# What the policy asks for, compared with a driver DaemonSet.

BASE = "nvcr.io/nvidia/driver"
UBUNTU = f"{BASE}:580.126.20-ubuntu22.04"
CLUSTER_POLICY = reader(policies.ClusterPolicy)
NIC_CLUSTER_POLICY = reader(policies.NicClusterPolicy)
OTHER_DIGEST = f"sha256:{'1b' * 32}"
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
    rendered = merged(obj("network/driver-daemonset" if of_network else "driver-daemonset", patch),
                      patches.running(image, stack.driver.container))  # fmt: skip
    return fleet.unrendered(read_daemonset(rendered), policy, stack)


@pytest.mark.parametrize(
    ("policy", "image", "expected"),
    [
        (asking(), UBUNTU, True),
        (asking(), f"{BASE}:580.126.20-rhcos4.17", True),
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
        (asking(DIGEST), f"{BASE}@{OTHER_DIGEST}", False),
        (asking(""), f"registry.example.com/any@{DIGEST}", True),  # under OLM a policy names none
        (asking(image=""), "registry.example.com/any:1", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-ubuntu22.04-amd64", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-rhcos4.17-arm64", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-5.15.0-105-generic-ubuntu22.04-amd64", True),
        (network_asking(OFED), f"{DOCA}:{OFED}-ubuntu22.04", False),  # no architecture
        (network_asking(OFED), f"{DOCA}:{OFED}", False),
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


def test_a_daemonset_without_the_drivers_container_is_not_rendered() -> None:
    """It has no image to compare."""
    other = obj("driver-daemonset", "spec: {template: {spec: {containers: [{name: other, image: x}]}}}")
    assert "(no driver image)" in fleet.unrendered(read_daemonset(other), asking(), GPU_OPERATOR)


def test_the_generation_counts_without_a_policy() -> None:
    """The DaemonSet controller has not seen the spec."""
    unobserved = read_daemonset(obj("driver-daemonset", "metadata: {generation: 3}"))
    assert "generation 3" in fleet.unrendered(unobserved, None, GPU_OPERATOR), "also without a policy"


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
        *((none, Expect("590.1", "1"), "comes from chart") for none in (asking(""), asking(DIGEST), POOLED)),
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
        ("580.105.8", "5801", False),
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
    found = [CLUSTER_POLICY(obj("policy", {"metadata": {"name": name, "creationTimestamp": moment}}))
             for name, moment in created.items()]  # fmt: skip
    for given in (found, found[::-1]):
        active = fleet.active_policy(given, GPU_OPERATOR)
        assert active is not None
        assert "b" == active.name
    assert fleet.active_policy([], GPU_OPERATOR) is None


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


CD_DAEMON = "{resource.nvidia.com/computeDomain: uid}"


@pytest.mark.parametrize(
    ("daemonset", "expected"),
    [
        pytest.param(plugin(PLUGIN), ([PLUGIN], [], []), id="name since 0.4"),
        pytest.param(plugin(OLD_NAME), ([OLD_NAME], [], []), id="name before 0.4"),
        pytest.param(plugin(PLUGIN, containers("sidecar")), ([PLUGIN], [], []), id="a name is enough"),
        pytest.param(
            plugin(
                "mine", "{selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: gpus}, {name: x}]}}}"
            ),
            ([], ["mine"], []),
            id="by its selector, to which a chart may add",
        ),
        pytest.param(plugin("mine-kubelet-plugin"), ([], ["mine-kubelet-plugin"], []), id="name override"),
        pytest.param(plugin("mine", containers("gpus", "compute-domains")), ([], ["mine"], []), id="by its containers"),
        pytest.param(plugin("mine", containers("gpus", "sidecar")), ([], [], []), id="a container too many"),
        pytest.param(
            plugin("mine", "{template: {spec: {containers: [{name: x}]}}}"), ([], [], []), id="another kubelet plugin"
        ),
        pytest.param(plugin(MANAGED, owner="GPUCluster"), ([], [], [MANAGED]), id="owned by a GPUCluster"),
        pytest.param(plugin(PLUGIN, owner="GPUCluster"), ([PLUGIN], [], []), id="another name under a GPUCluster"),
        pytest.param(
            plugin(MANAGED, labels=f"{{app.kubernetes.io/component: {MANAGED}}}"),
            ([], [], [MANAGED]),
            id="labelled by the operator",
        ),
        pytest.param(plugin(MANAGED), ([], [MANAGED], []), id="a name override that produces the operator's name"),
        pytest.param(plugin(MANAGED, owner="HelmRelease"), ([], [MANAGED], []), id="that name under another owner"),
        pytest.param(plugin(PLUGIN, labels=CD_DAEMON), ([], [], []), id="ComputeDomain daemon of that name"),
        pytest.param(obj("driver-daemonset"), ([], [], []), id="driver"),
    ],
)
def test_plugins_are_found_by_exact_name(
    daemonset: Object,
    expected: tuple[list[str], list[str], list[str]],
) -> None:
    """A DaemonSet that only looks like a plugin is only reported, and that of the operator is left to the operator."""
    found = find_plugins([read_daemonset(daemonset)], Settings())
    kinds = (found.named, found.unnamed, found.operator_managed)
    assert expected == tuple([one.name for one in kind] for kind in kinds)


def test_a_plugin_of_no_known_kind_has_a_name_all_the_same() -> None:
    """Reports call it so."""
    assert OTHER_PLUGIN == find_plugins([], Settings()).of_kind("unknown")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(Plugin(), (2, 1), id="anywhere"),
        pytest.param(Plugin(namespace="nvidia-dra-driver-gpu"), (1, 1), id="one namespace"),
        pytest.param(Plugin(namespace="elsewhere"), (0, 0), id="another namespace"),
        pytest.param(Plugin(names=("mine-kubelet-plugin",)), (1, 2), id="another name"),
    ],
)
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
        (DriverClient(labels={"team": "telemetry"}), True),
        (DriverClient(labels={"team": "telemetry", "tier": "x"}), False),
        (DriverClient("elsewhere", "dcgm-exporter"), False),
    ],
)
def test_a_driver_client_is_added_to_the_plugins(wanted: DriverClient, *, expected: bool) -> None:
    """By exact name, or by equal labels of its pods."""
    seen = with_exporter(cluster()).seen().daemonsets
    named = find_plugins(seen, settings(wanted)).named
    assert [PLUGIN, *(["dcgm-exporter"] if expected else [])] == [one.name for one in named]


def test_the_namespace_of_plugins_does_not_confine_driver_clients() -> None:
    """They have namespaces of their own."""
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


SELECTED = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
DRIVER_LABELS = {"app.kubernetes.io/component": "nvidia-driver"}


@pytest.mark.parametrize(
    ("stack", "daemonset", "labels"),
    [
        pytest.param(GPU_OPERATOR, plugin(MANAGED, owner="GPUCluster"), SELECTED, id="operator-managed"),
        pytest.param(
            GPU_OPERATOR,
            plugin("cd", labels="{resource.nvidia.com/computeDomain: x}"),
            SELECTED,
            id="ComputeDomain daemon",
        ),
        pytest.param(GPU_OPERATOR, obj("driver-daemonset"), DRIVER_LABELS, id="driver"),
        pytest.param(GPU_OPERATOR, obj("pool/driver-daemonset"), DRIVER_LABELS, id="driver of a pool"),
        pytest.param(
            GPU_OPERATOR, obj("toolkit/daemonset"), {"app": "nvidia-container-toolkit-daemonset"}, id="toolkit"
        ),
        pytest.param(
            NETWORK_OPERATOR, obj("network/driver-daemonset"), {"nvidia.com/ofed-driver": ""}, id="network driver"
        ),
    ],
)
def test_some_are_never_restarted_although_the_settings_name_them(
    stack: Stack, daemonset: Object, labels: dict[str, str]
) -> None:
    """Labels may match more than intended: never the driver, nor what others restart."""
    view = read_daemonset(daemonset)
    for wanted in (DriverClient(labels=labels), DriverClient(view.namespace, view.name)):
        assert () == find_plugins([view], settings(wanted, stack=stack.name)).named


def test_a_driver_pod_that_labels_match_is_never_restarted() -> None:
    """Labels may match more than intended."""
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


def renamed(found: Cluster) -> Cluster:
    """Rename the only plugin to what the settings do not contain."""
    return found.change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN)


@pytest.mark.parametrize(
    ("found", "given"),
    [
        pytest.param(unnamed(cluster(), stale_plugin()), Settings(), id="next to a verified one"),
        pytest.param(unnamed(stale(), plugin_pod()), Settings(), id="next to a stale one"),
        pytest.param(renamed(cluster()), Settings(), id="alone"),
        pytest.param(renamed(cluster().drop("driver-pod")), Settings(), id="without a driver"),
        pytest.param(
            renamed(cluster().drop("node").drop("driver-pod").drop("plugin-pod")), Settings(), id="without nodes"
        ),
        pytest.param(renamed(with_exporter(stale())), settings(EXPORTER), id="next to a verified driver client"),
    ],
)
def test_a_plugin_under_an_unknown_name_fails_a_run_at_once(found: Cluster, given: Settings) -> None:
    """It may not be restarted, so it would stay stale. The run neither skips nor restarts the others."""
    decision, _memory = found.decide(given)
    assert (Phase.FAIL, Reason.UNNAMED_PLUGIN, []) == (decision.phase, decision.reason, deleted(decision))
    assert "nvidia-dra-driver-gpu/mine" in decision.message


def test_the_controller_refreshes_all_plugins_but_the_unknown_one() -> None:
    """It has no end. The unknown one does not count for the budget."""
    following, _memory = unnamed(stale(), stale_plugin()).decide(down(1))
    assert (Reason.UNNAMED_PLUGIN, ["plugin-gpu-0"]) == (following.reason, pods(following))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("status: {desiredNumberScheduled: 0}", (Phase.DONE, Reason.NOTHING_STALE, True)),
        ("status: {desiredNumberScheduled: 0, observedGeneration: 0}", (Phase.FAIL, Reason.UNNAMED_PLUGIN, False)),
        ("status: {desiredNumberScheduled: 1}", (Phase.FAIL, Reason.UNNAMED_PLUGIN, False)),
    ],
)
def test_a_plugin_under_an_unknown_name_that_wants_no_pods_is_a_warning(
    status: str, outcome: tuple[Phase, Reason, bool]
) -> None:
    """It holds no driver. Once it wants some, or if its controller has not counted them, it fails the run."""
    idle = obj("plugin-daemonset", f"{{metadata: {{name: mine, uid: mine}}, {status}}}")
    decision, _memory = cluster().put("daemonset", idle).decide()
    warned = any("mine looks like" in warning for warning in decision.warnings)
    assert outcome == (decision.phase, decision.reason, warned)


def test_the_only_plugin_may_want_pods_before_the_run_ends() -> None:
    """So the run is not skipped."""
    alone = cluster().drop("plugin-pod").change("daemonset", "metadata: {name: mine-kubelet-plugin}", PLUGIN)
    decision, _memory = alone.change("daemonset", patches.NONE_WANTED, "mine-kubelet-plugin").decide()
    assert (Phase.DONE, Reason.NOTHING_STALE) == (decision.phase, decision.reason)
    assert "it wants no pods now" in " ".join(decision.warnings)


@pytest.mark.parametrize(
    ("name", "patch", "loads"),
    [
        ("driver-daemonset", "{}", GPU_OPERATOR),
        ("driver-daemonset", "metadata: {labels: {app.kubernetes.io/component: other}}", GPU_OPERATOR),
        ("driver-daemonset", "{metadata: {labels: {app.kubernetes.io/component: x}, ownerReferences: null}}", None),
        ("network/driver-daemonset", "{}", NETWORK_OPERATOR),
        ("plugin-daemonset", "{}", None),
    ],
    ids=["by-label", "by-owner", "without-owner", "of-the-network", "a-plugin"],
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
OF_BEFORE = {"image": TEMPLATE.replace("580.126.20", "580.105.08"), "chart": TEMPLATE.replace("v26.3.4", "v26.3.3")}
OLD_CONTAINER = "{name: nvidia-driver-ctr, image: 'nvcr.io/nvidia/driver:570.1-ubuntu22.04'}"
RENDERED_OLD = f"spec: {{template: {{spec: {{containers: [{OLD_CONTAINER}]}}}}}}"
LEFTOVER = f"{{metadata: {{name: left, uid: left}}, status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}"


def owned_by(name: str, number: int, uid: str) -> str:
    """Return a patch of a revision with another owner, or with none."""
    owner = f"[{{uid: {uid}, controller: true}}]" if uid else "[]"
    labels = f"{{controller-revision-hash: {name}}}"
    return f"{{metadata: {{name: {name}, labels: {labels}, ownerReferences: {owner}}}, revision: {number}}}"


def with_daemonset(found: Cluster, patch: str) -> Cluster:
    """Add another driver DaemonSet."""
    return found.put("daemonset", merged(obj("driver-daemonset"), parsed(patch)))


def test_a_settled_driver_is_one_live_ready_pod_of_the_newest_revision() -> None:
    """Of its own DaemonSet, which must exist. The node controller moves Ready in an outage, never ContainersReady."""
    gone = "metadata: {ownerReferences: [{uid: gone, controller: true}]}"
    another = merged(driver_pod(), parsed("{metadata: {name: b, uid: b}, spec: {nodeName: null}}"))
    orphan, lost = "metadata: {ownerReferences: []}", [conditions(None)[0], conditions(R)[1]]
    assert {} == wrong_nodes({
        "another pod is not scheduled": (stale().put("driver-pod", another), Reason.PLUGIN_STALE),
        "its DaemonSet was replaced": (stale().change("driver-pod", gone), Reason.DRIVER_ORPHANED),
        "a new pod next to an orphan": (stale().change("driver-pod", orphan).put("driver-pod", merged(
            driver_pod(ready=None), parsed("metadata: {name: d1, uid: d1}"))), Reason.SEVERAL_DRIVER_PODS),
        "no hash": (stale().change("driver-pod", NO_HASH), Reason.DRIVER_OUTDATED),
        "no revision known": (stale().drop("revision"), Reason.DRIVER_OUTDATED),
        "revision of its template": (stale().change("revision", TEMPLATE), Reason.PLUGIN_STALE),
        "revision of a replaced DaemonSet": (
            stale().put("revision", obj("revision", owned_by("old", 7, ""))), Reason.PLUGIN_STALE),
        "newer revision of another DaemonSet": (
            stale().put("revision", obj("revision", owned_by("other", 9, "other-ds"))), Reason.PLUGIN_STALE),
        "not ready by a node outage": (
            stale().change("driver-pod", {"status": {"conditions": lost}}), Reason.DRIVER_NOT_READY),
    })  # fmt: skip


def test_a_revision_that_arrives_after_its_daemonset_is_waited_for() -> None:
    """The driver pod has the newest revision that is known, but the DaemonSet has another template by now."""
    # The DaemonSet controller creates the revision before it writes the status, but each kind has a watch of its own.
    for name, before in OF_BEFORE.items():
        decision, _memory = stale().change("revision", before).decide()
        (status,) = decision.statuses
        assert (Reason.DRIVER_OUTDATED, ()) == (status.reason, decision.actions), name


def test_a_daemonset_counts_if_it_has_pods_or_wants_them() -> None:
    """Or if it is not observed yet, so that it may be the next one. A leftover without pods does not count."""
    wants_none = f"{{status: {{desiredNumberScheduled: 0}}, {RENDERED_OLD}}}"
    new = "{metadata: {name: new, uid: new, generation: 1}, status: null}"
    wants_pods = "{metadata: {name: new, uid: new}, " + RENDERED_OLD + "}"
    assert {} == wrong_nodes({
        "wants none but has pods": (stale().change("daemonset", wants_none, DRIVER), Reason.NOT_RENDERED),
        "leftover without pods": (with_daemonset(stale(), LEFTOVER), Reason.PLUGIN_STALE),
    })  # fmt: skip
    assert {} == wrong_decisions({
        "just created": (with_daemonset(cluster(), new), Reason.NOT_RENDERED),
        "wants pods": (with_daemonset(cluster(), wants_pods), Reason.NOT_RENDERED),
        "leftover": (with_daemonset(cluster(), LEFTOVER), Reason.NOTHING_STALE),
    })  # fmt: skip
    decision, _memory = cluster().drop("daemonset", DRIVER).drop("driver-pod").drop("revision").decide()
    assert (Reason.NOT_RENDERED, ["DriverMissing"]) == (decision.reason, reasons(decision.statuses)), "for a moment"
