"""Rollout of the driver: its DaemonSets must match the policy, and the operator must have finished."""

from __future__ import annotations

from hook.decide import fleet
from hook.decide.reasons import Reason
from hook.decide.result import Phase
from hook.objects import policies, read_daemonset
from hook.objects.stacks import GPU_OPERATOR, NETWORK_OPERATOR, Stack
from hook.settings import Expect, Settings
from tests.fixtures.cluster import Cluster, cluster, not_ready_since, stale
from tests.fixtures.modes import network
from tests.fixtures.objects import Object, driver_pod, obj, stamp
from tests.unit.decide import patches
from tests.unit.decide.runs import DRIVER, Run, deleted, unlabelled

DIGEST = "sha256:" + "0b" * 32
NO_REPLICAS: Object = {"replicas": None, "updatedReplicas": None, "availableReplicas": None}


def running(image: str, /, **driver: object) -> Cluster:
    """Return a verified node whose driver DaemonSet has an image, and whose policy asks for something else."""
    containers = [{"name": "nvidia-driver-ctr", "image": image}]
    found = cluster().change("daemonset", {"spec": {"template": {"spec": {"containers": containers}}}}, DRIVER)
    return found.change("policy", {"spec": {"driver": driver}})


def since(seconds: float) -> Object:
    """Return a patch of a revision that was created so many seconds ago."""
    return {"metadata": {"creationTimestamp": stamp(3600 - seconds)}}


def progressing(seconds: float) -> Object:
    """Return a patch of a Deployment whose last rollout completed so many seconds ago."""
    done = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    return {"status": {"conditions": [{**done, "lastUpdateTime": stamp(3600 - seconds)}]}}


def test_an_image_that_a_webhook_rewrote_is_rendered() -> None:
    """Registry, path and an added digest do not count: the tag must be that of the version, or the digest."""
    mirror, tag, path = "mirror.example.com:5000", "580.126.20-ubuntu22.04", f"nvidia/driver@{DIGEST}"
    for image, driver, same in (
        (f"{mirror}/nvidia/driver:{tag}", {}, True),
        (f"{mirror}/any/path:{tag}", {}, True),
        (f"nvcr.io/nvidia/driver:{tag}@{DIGEST}", {}, True),
        (f"{mirror}/nvidia/driver:580.126.21-ubuntu22.04", {}, False),
        (f"{mirror}/nvidia/driver", {}, False),
        ("nvcr.io/nvidia/driver:580.126.2-ubuntu22.04", {}, False),
        (f"{mirror}/{path.replace('@', ':any@')}", {"version": DIGEST}, True),
        (f"{mirror}/{path[:-1]}0", {"version": DIGEST}, False),
    ):
        decision, _memory = running(image, **driver).decide()
        expected = (Phase.DONE, Reason.NOTHING_STALE) if same else (Phase.WAIT, Reason.NOT_RENDERED)
        assert expected == (decision.phase, decision.reason), (image, driver)


def test_where_nothing_can_be_compared_the_quiet_time_is_longer() -> None:
    """An edit that a slow operator has not rendered after 16 s must not look like the end."""
    run = Run(running("any:1", repository=None, version=None, image="registry:5000/driver"))
    run.found.change("revision", since(0))
    assert [Phase.WAIT, Phase.WAIT, Phase.WAIT, Phase.DONE] == run.phases(0, 16, 59, 60)
    assert any("60 s without a change" in warning for warning in run.look(60).warnings)


def test_an_operator_that_is_named_by_its_host_leads() -> None:
    """Its Lease holds the node's name, or the host name of its template, or a name that was cut off."""
    for pods in ({"hostNetwork": True}, {"hostname": "gpu-operator"}):
        found = cluster().change("lease", "spec: {holderIdentity: node-7_0f3c}")
        assert Reason.OPERATOR_NOT_LEADING is found.decide()[0].reason
        found.change("deployment", {"spec": {"template": {"spec": pods}}})
        assert Phase.DONE is found.decide()[0].phase
        found.change("lease", {"spec": {"acquireTime": stamp(3600 - 20)}})
        assert Reason.OPERATOR_SETTLING is found.decide()[0].reason
    # The network operator's Deployment is named after its release; the API server cuts off long names of pods.
    for length, reason in ((46, Reason.NOTHING_STALE), (47, Reason.OPERATOR_SETTLING)):
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
    # The grace ends no upgrade: a node whose driver is on its way will have a stale plugin.
    run = Run(cluster("a", "b").drop("policy").put("driver-pod", driver_pod("b", ready=None)))
    assert [Phase.WAIT, Phase.WAIT] == run.phases(0, 600)
    assert Reason.NO_POLICY is run.look(600).reason
    # A node without labels is excluded after its own grace.
    run = Run(unlabelled(cluster("a", "b")).drop("policy"))
    assert [Phase.WAIT, Phase.SKIP] == run.phases(0, 300)


def test_a_policy_whose_drivers_are_deleted_with_it_ends_in_a_skip() -> None:
    """The garbage collector deletes DaemonSets first, pods later. Until then the run waits."""
    run = Run(cluster())
    run.look()
    for seconds, part in enumerate(("policy", "daemonset", "revision", "leaving", "driver-pod")):
        if part == "leaving":
            run.found.change("driver-pod", patches.DELETING)
        run.found.drop(part, DRIVER if part == "daemonset" else "")
        decision = run.look(seconds)
        assert (Phase.WAIT, Reason.NO_POLICY, []) == (decision.phase, decision.reason, deleted(decision)), seconds
    assert [Phase.WAIT, Phase.SKIP] == run.phases(303, 304)


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
    ill, newer = "status: {state: notReady}", "metadata: {labels: {controller-revision-hash: b}}"
    for part, patch in (("policy", "metadata: {generation: 9}"), ("revision", newer)):
        run = Run(cluster().change("policy", ill))
        run.look()
        run.found.change(part, patch)
        if part == "revision":
            run.found.change("driver-pod", newer)
        run.look(120)
        assert Reason.POLICY_NOT_READY is run.look(135).reason, part
    # In a large fleet, one node is always silent for a moment; a policy that is ready only then proves nothing.
    for state in ("notReady", "ready"):
        run, phases = Run(cluster("a", "b")), []
        for seconds in range(0, 121, 20):
            silent = seconds % 40 == 20
            run.found = cluster("a", "b").change("policy", {"status": {"state": state if silent else "notReady"}})
            if silent:
                run.found.change("node", not_ready_since(3600 + seconds - 1), "b")
            phases += run.phases(seconds)
        assert [Phase.WAIT] * 6 + [Phase.DONE] == phases, state


# What the policy asks for, compared with a driver DaemonSet.

BASE = "nvcr.io/nvidia/driver"
UBUNTU = f"{BASE}:580.126.20-ubuntu22.04"
OTHER_DIGEST = f"sha256:{'1b' * 32}"
DOCA = "nvcr.io/nvidia/mellanox/doca-driver"
OFED = "doca3.2.0-25.10-1.2.8.0-2"


def asking(version: str = "580.126.20", *, precompiled: bool = False, **driver: str) -> policies.Policy:
    """Return a policy that asks for a driver."""
    spec = {"driver": {"version": version, "usePrecompiled": precompiled, **driver}}
    return policies.cluster_policy(obj("policy", {"spec": spec}))


def network_asking(version: str) -> policies.Policy:
    """Return a policy of the network operator that asks for a driver."""
    return policies.nic_cluster_policy(obj("network/policy", {"spec": {"ofedDriver": {"version": version}}}))


def difference(image: str, policy: policies.Policy, patch: str = "{}", stack: Stack = GPU_OPERATOR) -> str:
    """Return how a driver DaemonSet with an image differs from a policy."""
    rendered = obj("driver-daemonset" if stack is GPU_OPERATOR else "network/driver-daemonset", patch)
    rendered["spec"]["template"]["spec"]["containers"] = [{"name": stack.driver.container, "image": image}]
    return fleet.unrendered(read_daemonset(rendered), policy, stack)


def test_the_whole_tag_is_compared() -> None:
    """A DaemonSet matches only if the whole tag is one that the operator makes of the policy's version."""
    for policy, image, expected in (
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
    ):
        assert expected is not bool(difference(image, policy)), (policy, image)


def test_the_tags_of_the_network_driver_are_compared() -> None:
    """Version, maybe the kernel, system and architecture."""
    for version, image, expected in (
        (OFED, f"{DOCA}:{OFED}-ubuntu22.04-amd64", True),
        (OFED, f"{DOCA}:{OFED}-rhcos4.17-arm64", True),
        (OFED, f"{DOCA}:{OFED}-5.15.0-105-generic-ubuntu22.04-amd64", True),
        (OFED, f"{DOCA}:{OFED}-ubuntu22.04", False),
        (OFED, f"{DOCA}:{OFED}", False),
        ("doca3.2.0", f"{DOCA}:{OFED}-ubuntu22.04-amd64", False),
        (OFED, f"{DOCA}:doca3.4.0-26.04-0.8.6.0-0-ubuntu22.04-amd64", False),
    ):
        found = difference(image, network_asking(version), stack=NETWORK_OPERATOR)
        assert expected is not bool(found), (version, image)


def test_generation_and_chart_label_are_compared() -> None:
    """The DaemonSet controller must have observed the spec, and the chart's label must be the policy's."""
    new_chart = "spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v26.7.0}}}"
    no_label = "spec: {template: {metadata: {labels: {helm.sh/chart: null}}}}"
    for patch, asked, expected in (
        ("{}", "{}", ""),
        ("metadata: {generation: 3}", "{}", "has not seen generation 3"),
        ("status: null", "{}", "has not seen generation 2"),
        ("status: {observedGeneration: 3}", "{}", "has not seen generation 2"),
        ("{}", new_chart, "still rendered from gpu-operator-v26.3.4, not gpu-operator-v26.7.0"),
        (no_label, "{}", "still rendered from (no chart)"),
        ("{}", "spec: {daemonsets: null}", ""),
    ):
        found = difference(UBUNTU, policies.cluster_policy(obj("policy", asked)), patch)
        assert (bool(expected), True) == (bool(found), expected in found), (patch, asked)
    other = obj("driver-daemonset", "spec: {template: {spec: {containers: [{name: other, image: x}]}}}")
    assert "(no driver image)" in fleet.unrendered(read_daemonset(other), asking(), GPU_OPERATOR)
    unobserved = read_daemonset(obj("driver-daemonset", "metadata: {generation: 3}"))
    assert "generation 3" in fleet.unrendered(unobserved, None, GPU_OPERATOR), "also without a policy"


def test_the_policy_must_show_what_is_expected() -> None:
    """Another version is the old policy. A version that the policy does not name could never be met."""
    policy, unlabelled = asking(), policies.cluster_policy(obj("policy", "spec: {daemonsets: null}"))
    pooled = policies.cluster_policy(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true}}"))
    label = "{daemonsets: {labels: {helm.sh/chart: gpu-operator-v26.3.3_build.1}}}"
    built = policies.cluster_policy(obj("policy", f"spec: {label}"))
    for found, expected, words in (
        (policy, Expect(driver_version="580.126.20"), ""),
        (policy, Expect(driver_version="590.1"), "asks for driver 580.126.20,"),
        *((policy, Expect(chart_version=shown), "") for shown in ("v26.3.4", "26.3.4", "gpu-operator-v26.3.4")),
        (built, Expect(chart_version="26.3.3+build.1"), ""),
        (policy, Expect(chart_version="v26.7.0"), "from chart gpu-operator-v26.3.4,"),
        (policy, Expect(chart_version="v26.3"), "comes from chart"),
        (unlabelled, Expect(chart_version="1"), "chart (unlabelled)"),
        *((none, Expect(driver_version="590.1"), "") for none in (asking(""), asking(DIGEST), pooled)),
        *((none, Expect("590.1", "1"), "comes from chart") for none in (asking(""), asking(DIGEST), pooled)),
    ):
        text = fleet.unmet_expectation(found, (), GPU_OPERATOR, Settings(expect=expected))
        assert (bool(words), True) == (bool(text), words in text), (found, expected)


def test_driver_versions_compare_as_numbers() -> None:
    """Published versions lose leading zeros. A branch is a whole number. What cannot be compared does not differ."""
    for published, asked, expected in (
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
    ):
        assert expected is fleet.same_driver(published, asked), (published, asked)
    # That to verify is the one of the policy, or else the expected one. One that leaves drivers to pools names none.
    pooled = policies.cluster_policy(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true, version: 570.124.06}}"))
    found = [fleet.wanted_version(policy, "570.1.2") for policy in (asking(), asking(DIGEST), asking(""), pooled)]
    assert ["580.126.20", "570.1.2", "570.1.2", ""] == found


def test_the_operator_uses_the_oldest_policy() -> None:
    """Of equally old ones the first by name, in whatever order they are listed."""
    created = {"a": "2025-07-01T08:00:00Z", "b": "2025-06-01T08:00:00Z", "c": "2025-06-01T08:00:00Z"}
    found = [policies.cluster_policy(obj("policy", {"metadata": {"name": name, "creationTimestamp": moment}}))
             for name, moment in created.items()]  # fmt: skip
    for given in (found, found[::-1]):
        active = fleet.active_policy(given, GPU_OPERATOR)
        assert active is not None
        assert "b" == active.name
    assert fleet.active_policy([], GPU_OPERATOR) is None
