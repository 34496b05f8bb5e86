"""Rollout: what the policy asks for, and whether a driver DaemonSet matches it."""

from __future__ import annotations

from hook.config import Expect, Settings
from hook.decide import rollout
from hook.objects import policies, readers
from hook.objects.drivers import GPU_OPERATOR, NETWORK_OPERATOR, Stack
from tests.fixtures.objects import obj

BASE = "nvcr.io/nvidia/driver"
UBUNTU = f"{BASE}:580.126.20-ubuntu22.04"
DIGEST, OTHER_DIGEST = f"sha256:{'0a' * 32}", f"sha256:{'1b' * 32}"
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
    return rollout.unrendered(readers.daemonset(rendered), policy, stack)


def test_the_whole_image_reference_is_compared() -> None:
    """A DaemonSet matches only if repository, image and the whole tag are what the policy asks for."""
    mirror = f"{BASE.replace('nvidia', 'my.org')}:580.126.20-ubuntu22.04"
    for policy, image, expected in (
        (asking(), UBUNTU, True),
        (asking(), f"{BASE}:580.126.20-rhcos4.17", True),
        (asking(), f"{BASE}:580.126.20-rhel9.4", True),
        (asking(), f"{BASE}:580.126.20-sl-micro6.0", True),
        (asking(), f"{BASE}:570.124.06-ubuntu22.04", False),
        (asking(), f"{BASE}:580.126.20", False),  # no system
        (asking(), f"{BASE}:580.126.20-5.15.0-105-generic-ubuntu22.04", False),  # precompiled
        (asking("580"), f"{BASE}:580.65.06-ubuntu22.04", False),  # a branch is a part of the tag
        (asking("580", precompiled=True), f"{BASE}:580.65.06-ubuntu22.04", False),
        (asking("580.65"), f"{BASE}:580.65.06-ubuntu22.04", False),  # so is the beginning of a version
        (asking(), f"{BASE}:580x126y20-ubuntu22.04", False),  # a dot is a dot
        (asking("580", precompiled=True), f"{BASE}:580-5.15.0-105-generic-ubuntu22.04", True),
        (asking("580", precompiled=True), f"{BASE}:570-5.15.0-105-ubuntu22.04", False),
        (asking("580", precompiled=True), f"{BASE}:580-ubuntu22.04", False),  # no kernel
        (asking(DIGEST), f"{BASE}@{DIGEST}", True),
        (asking(DIGEST), f"{BASE}@{OTHER_DIGEST}", False),
        (asking(DIGEST), UBUNTU, False),
        (asking(repository="registry.example.com/mirror"), UBUNTU, False),
        (asking(repository="nvcr.io/my.org"), mirror, True),
        (asking(repository="nvcr.io/my.org"), mirror.replace("my.org", "myxorg"), False),
        (asking(image="driver-open"), UBUNTU, False),
        (asking(repository="", image=BASE), UBUNTU, True),
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
        (DIGEST, f"{DOCA}@{DIGEST}", True),
        (DIGEST, f"{DOCA}@{OTHER_DIGEST}", False),
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
    assert "(no driver image)" in rollout.unrendered(readers.daemonset(other), asking(), GPU_OPERATOR)
    unobserved = readers.daemonset(obj("driver-daemonset", "metadata: {generation: 3}"))
    assert "generation 3" in rollout.unrendered(unobserved, None, GPU_OPERATOR), "also without a policy"


def test_the_policy_must_show_what_is_expected() -> None:
    """Another version is the old policy. A version that the policy does not name could never be met."""
    policy, unlabelled = asking(), policies.cluster_policy(obj("policy", "spec: {daemonsets: null}"))
    pooled = policies.cluster_policy(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true}}"))
    for found, expected, words in (
        (policy, Expect(), ""),
        (policy, Expect(driver_version="580.126.20"), ""),
        (policy, Expect(driver_version="590.1"), "asks for driver 580.126.20,"),
        (policy, Expect(chart_version="v26.3.4"), ""),
        (policy, Expect(chart_version="26.3.4"), ""),
        (policy, Expect(chart_version="gpu-operator-v26.3.4"), ""),
        (policy, Expect(chart_version="v26.7.0"), "from chart gpu-operator-v26.3.4,"),
        (policy, Expect(chart_version="v26.3"), "comes from chart"),
        (unlabelled, Expect(chart_version="1"), "chart (unlabelled)"),
        *((none, Expect(driver_version="590.1"), "") for none in (asking(""), asking(DIGEST), pooled)),
        *((none, Expect("590.1", "1"), "comes from chart") for none in (asking(""), asking(DIGEST), pooled)),
    ):
        text = rollout.unmet_expectation(found, (), GPU_OPERATOR, Settings(expect=expected))
        assert (bool(words), True) == (bool(text), words in text), (found, expected)


def test_chart_versions_compare_without_their_decoration() -> None:
    """A chart label and a chart version of the same release are equal."""
    for label, expected in (
        ("gpu-operator-v26.3.3", "26.3.3"),
        ("v26.3.3", "26.3.3"),
        ("26.3.3+build.1", "26.3.3_build.1"),
        ("gpu-operator-v26.3.3_build.1", "26.3.3_build.1"),
    ):
        assert expected == rollout.chart_version(label, GPU_OPERATOR), label


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
        ("580.126.20", "", True),
        ("unknown", "580.126.20", True),
        ("unknown", "580", True),
    ):
        assert expected is rollout.same_driver(published, asked), (published, asked)


def test_the_version_to_verify_is_that_of_the_policy_or_else_the_expected_one() -> None:
    """A policy that leaves drivers to pools names none, also where one is written: the operator ignores it."""
    pooled = policies.cluster_policy(obj("policy", "spec: {driver: {useNvidiaDriverCRD: true, version: 570.124.06}}"))
    settings = Settings(expect=Expect(driver_version="570.1.2"))
    found = [rollout.wanted_version(policy, settings) for policy in (asking(), asking(DIGEST), asking(""), pooled)]
    assert ["580.126.20", "570.1.2", "570.1.2", ""] == found


def test_the_operator_uses_the_oldest_policy() -> None:
    """Of equally old ones the first by name, in whatever order they are listed."""
    created = {"a": "2025-07-01T08:00:00Z", "b": "2025-06-01T08:00:00Z", "c": "2025-06-01T08:00:00Z"}
    found = [policies.cluster_policy(obj("policy", {"metadata": {"name": name, "creationTimestamp": moment}}))
             for name, moment in created.items()]  # fmt: skip
    for given in (found, found[::-1]):
        active = rollout.active_policy(given, GPU_OPERATOR)
        assert active is not None
        assert "b" == active.name
    assert rollout.active_policy([], GPU_OPERATOR) is None


def test_what_a_policy_does_not_contain_is_off() -> None:
    """A driver is built on its node and waits for no other driver, unless the policy asks for it."""
    silent = policies.cluster_policy(obj("policy", "spec: {driver: {usePrecompiled: null, rdma: null}}"))
    pool = policies.nvidia_driver(obj("pool/policy", "spec: {usePrecompiled: null}"))
    for policy in (silent, pool, policies.nic_cluster_policy(obj("network/policy"))):
        assert (True, False, False) == (policy.driver_enabled, policy.precompiled, policy.rdma), policy.kind
