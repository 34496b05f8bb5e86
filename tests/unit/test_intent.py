"""What the policy asks for, and whether a driver DaemonSet shows it."""

from __future__ import annotations

import pytest

from hook.config import Expect, Settings
from hook.decide import rollout
from hook.objects import policies, readers
from hook.objects.drivers import GPU_OPERATOR
from tests.fixtures.objects import Object, obj

BASE = "nvcr.io/nvidia/driver"
UBUNTU = f"{BASE}:580.126.20-ubuntu22.04"
PRECOMPILED = f"{BASE}:580-5.15.0-105-generic-ubuntu22.04"
DIGEST = "sha256:" + "0a" * 32


def policy(version: str = "580.126.20", *, precompiled: bool = False, **driver: str) -> Object:
    """Give a policy that asks for a driver."""
    return obj("policy", {"spec": {"driver": {"version": version, "usePrecompiled": precompiled, **driver}}})


def daemonset(image: str = UBUNTU, patch: str = "{}") -> Object:
    """Give a driver DaemonSet that runs an image."""
    base = obj("driver-daemonset", patch)
    base["spec"]["template"]["spec"]["containers"] = [{"name": "nvidia-driver-ctr", "image": image}]
    return base


@pytest.mark.parametrize(
    ("asked", "image", "expected"),
    [
        pytest.param(policy(), UBUNTU, True, id="compiled"),
        pytest.param(policy(), f"{BASE}:580.126.20-rhcos4.17", True, id="openshift"),
        pytest.param(policy(), f"{BASE}:580.126.20-rhel9.4", True, id="rhel"),
        pytest.param(policy(), f"{BASE}:580.126.20-sl-micro6.0", True, id="os-id-with-a-hyphen"),
        pytest.param(policy(), f"{BASE}:570.124.06-ubuntu22.04", False, id="old-version"),
        pytest.param(policy(), f"{BASE}:580.126.20", False, id="no-os-tag"),
        pytest.param(policy(), f"{BASE}:580.126.20-5.15.0-105-generic-ubuntu22.04", False, id="still-precompiled"),
        pytest.param(policy("580"), f"{BASE}:580.65.06-ubuntu22.04", False, id="branch-is-a-substring"),
        pytest.param(policy("580", precompiled=True), f"{BASE}:580.65.06-ubuntu22.04", False,
                     id="precompiled-branch-is-a-substring"),
        pytest.param(policy("580.65"), f"{BASE}:580.65.06-ubuntu22.04", False, id="prefix-of-a-version"),
        pytest.param(policy("580.126.20"), f"{BASE}:580x126y20-ubuntu22.04", False, id="dots-are-dots"),
        pytest.param(policy("580", precompiled=True), PRECOMPILED, True, id="precompiled"),
        pytest.param(policy("580", precompiled=True), f"{BASE}:570-5.15.0-105-ubuntu22.04", False,
                     id="other-branch"),
        pytest.param(policy("580", precompiled=True), f"{BASE}:580-ubuntu22.04", False, id="precompiled-no-kernel"),
        pytest.param(policy(DIGEST), f"{BASE}@{DIGEST}", True, id="digest"),
        pytest.param(policy(DIGEST), f"{BASE}@sha256:{'1b' * 32}", False, id="other-digest"),
        pytest.param(policy(DIGEST), UBUNTU, False, id="tag-for-a-digest"),
        pytest.param(policy(repository="registry.example.com/mirror"), UBUNTU, False,
                     id="other-repository"),
        pytest.param(policy(image="driver-open"), UBUNTU, False, id="other-image"),
        pytest.param(policy(repository="", image=BASE), UBUNTU, True, id="whole-image-name"),
        pytest.param(policy(""), "registry.example.com/any@" + DIGEST, True, id="no-version-stated-olm"),
        pytest.param(policy(image=""), "registry.example.com/any:1", True, id="no-image-stated-olm"),
    ],
)  # fmt: skip
def test_the_whole_image_reference_is_compared(asked: Object, image: str, expected: bool) -> None:
    """A DaemonSet shows the policy only if repository, image and the whole tag are what was asked for."""
    found = rollout.unrendered(readers.daemonset(daemonset(image)), policies.cluster_policy(asked), GPU_OPERATOR)
    assert expected == (found == "")


@pytest.mark.parametrize(
    ("patch", "asked", "expected"),
    [
        pytest.param("{}", "{}", "", id="rendered"),
        pytest.param("metadata: {generation: 3}", "{}", "has not seen generation 3", id="stale-generation"),
        pytest.param("status: null", "{}", "has not seen generation 2", id="never-observed"),
        pytest.param("status: {observedGeneration: 3}", "{}", "has not seen generation 2", id="observed-too-much"),
        pytest.param("{}", "spec: {daemonsets: {labels: {helm.sh/chart: gpu-operator-v26.7.0}}}",
                     "still rendered from gpu-operator-v26.3.4, not gpu-operator-v26.7.0", id="chart-label-of-before"),
        pytest.param("spec: {template: {metadata: {labels: {helm.sh/chart: null}}}}", "{}",
                     "still rendered from (no chart)", id="no-chart-label"),
        pytest.param("{}", "spec: {daemonsets: null}", "", id="policy-sets-no-chart-label"),
    ],
)  # fmt: skip
def test_generation_and_chart_label_are_compared(patch: str, asked: str, expected: str) -> None:
    """The DaemonSet controller must have seen the spec, and the chart's label must be the policy's."""
    rendered = daemonset(patch=patch)
    found = rollout.unrendered(readers.daemonset(rendered), policies.cluster_policy(obj("policy", asked)), GPU_OPERATOR)
    assert (expected != "", True) == (found != "", expected in found)


def test_a_daemonset_without_the_driver_container_does_not_show_the_policy() -> None:
    """An image that is not there is not the one that was asked for."""
    other = obj("driver-daemonset", "spec: {template: {spec: {containers: [{name: other, image: x}]}}}")
    found = rollout.unrendered(readers.daemonset(other), policies.cluster_policy(policy()), GPU_OPERATOR)
    assert "(no driver image)" in found


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(Settings(), "", id="nothing-expected"),
        pytest.param(Settings(expect=Expect(driver_version="580.126.20")), "", id="driver-as-expected"),
        pytest.param(Settings(expect=Expect(driver_version="590.1")), "asks for driver 580.126.20,", id="old-driver"),
        pytest.param(Settings(expect=Expect(chart_version="v26.3.4")), "", id="chart-as-expected"),
        pytest.param(Settings(expect=Expect(chart_version="26.3.4")), "", id="chart-without-v"),
        pytest.param(Settings(expect=Expect(chart_version="gpu-operator-v26.3.4")), "", id="whole-chart-label"),
        pytest.param(Settings(expect=Expect(chart_version="v26.7.0")), "from chart gpu-operator-v26.3.4,",
                     id="old-chart"),
        pytest.param(Settings(expect=Expect(chart_version="v26.3")), "comes from chart",
                     id="prefix-of-a-chart-version"),
    ],
)  # fmt: skip
def test_an_expectation_must_be_seen_in_the_policy(settings: Settings, expected: str) -> None:
    """Where the deployer said what to expect, another version is the old policy."""
    found = rollout.unmet_expectation(policies.cluster_policy(obj("policy")), (), GPU_OPERATOR, settings)
    assert (expected != "", True) == (found != "", expected in found)


def test_an_expected_chart_that_the_policy_does_not_name_is_unmet() -> None:
    """Absent is not equal: the chart labels its policy, so one without a label is of before."""
    unlabelled = policies.cluster_policy(obj("policy", "spec: {daemonsets: null}"))
    assert "chart (unlabelled)" in rollout.unmet_expectation(
        unlabelled, (), GPU_OPERATOR, Settings(expect=Expect(chart_version="1"))
    )


NO_VERSION = {
    "none": policy(""),
    "digest": policy(DIGEST),
    "nvidiadriver": obj("policy", "spec: {driver: {useNvidiaDriverCRD: true}}"),
}


@pytest.mark.parametrize("asked", NO_VERSION.values(), ids=NO_VERSION)
def test_a_policy_that_names_no_version_leaves_no_expectation_of_one_unmet(asked: Object) -> None:
    """It could never be met; the chart's version is compared all the same."""
    found = policies.cluster_policy(asked)
    assert "" == rollout.unmet_expectation(found, (), GPU_OPERATOR, Settings(expect=Expect(driver_version="590.1")))
    assert "" != rollout.unmet_expectation(
        found, (), GPU_OPERATOR, Settings(expect=Expect(driver_version="590.1", chart_version="1"))
    )


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        pytest.param("gpu-operator-v26.3.3", "26.3.3", id="label"),
        pytest.param("v26.3.3", "26.3.3", id="version-with-v"),
        pytest.param("26.3.3+build.1", "26.3.3_build.1", id="build-metadata"),
        pytest.param("gpu-operator-v26.3.3_build.1", "26.3.3_build.1", id="build-metadata-in-a-label"),
    ],
)
def test_chart_versions_compare_without_their_decoration(label: str, expected: str) -> None:
    """A chart label and a chart version of the same release are equal."""
    assert expected == rollout.chart_version(label, GPU_OPERATOR)


@pytest.mark.parametrize(
    ("published", "asked", "expected"),
    [
        pytest.param("580.126.20", "580.126.20", True, id="equal"),
        pytest.param("580.105.8", "580.105.08", True, id="leading-zero-lost"),
        pytest.param("580.105.80", "580.105.08", False, id="not-a-string-prefix"),
        pytest.param("570.124.6", "580.126.20", False, id="old"),
        pytest.param("580.95.5", "580", True, id="branch"),
        pytest.param("570.95.5", "580", False, id="other-branch"),
        pytest.param("580.126.20", DIGEST, True, id="digest-tells-nothing"),
        pytest.param("580.126.20", "", True, id="nothing-asked"),
        pytest.param("unknown", "580.126.20", True, id="published-is-no-version"),
        pytest.param("unknown", "580", True, id="published-is-no-version-branch"),
    ],
)
def test_driver_versions_compare_as_numbers(published: str, asked: str, expected: bool) -> None:
    """Published versions lose leading zeros; where nothing can be compared, nothing contradicts."""
    assert expected == rollout.same_driver(published, asked)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param("580.126.20", "580.126.20", id="the-policys"),
        pytest.param(DIGEST, "570.1.2", id="a-digest-names-none-so-the-deployers"),
        pytest.param("", "570.1.2", id="none-so-the-deployers"),
    ],
)
def test_the_version_to_verify_is_the_policys_or_else_the_deployers(asked: str, expected: str) -> None:
    """A policy by digest still proves its driver where the deployer was told what to expect."""
    settings = Settings(expect=Expect(driver_version="570.1.2"))
    assert expected == rollout.wanted_version(policies.cluster_policy(policy(asked)), settings)


@pytest.mark.parametrize(
    ("patches", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param(["metadata: {name: young, creationTimestamp: '2025-07-01T00:00:00Z'}", "metadata: {name: old}"],
                     "old", id="oldest"),
        pytest.param(["metadata: {name: b}", "metadata: {name: a}"], "a", id="by-name"),
    ],
)  # fmt: skip
def test_the_operator_follows_the_oldest_policy(patches: list[str], expected: str | None) -> None:
    """Of several policies the oldest counts, then the first by name."""
    active = rollout.active_policy([policies.cluster_policy(obj("policy", patch)) for patch in patches], GPU_OPERATOR)
    assert expected == (active.name if active else None)
