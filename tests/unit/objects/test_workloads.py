"""Views of pods with claims, and of claims: what is kept, and what has no view."""

from __future__ import annotations

from hook.objects.workloads import Claim, ClaimPod, claim_pod, claim_reader
from tests.fixtures.objects import Object, at, merged, stamp
from tests.fixtures.workloads import claim
from tests.fixtures.workloads import claim_pod as pod

GPU = claim_reader(("gpu.nvidia.com", "compute-domain.nvidia.com"))


def test_a_claim_of_the_drivers_keeps_the_pods_that_it_is_reserved_for() -> None:
    """Claims of other drivers, claims without an allocation, and claims that no pod uses have no view."""
    assert Claim("team", "train-gpu", ("train-uid", "other-uid")) == GPU(claim("train-gpu", "train", "other"))
    assert Claim("team", "channel", ("train-uid",)) == GPU(claim("channel", driver="compute-domain.nvidia.com"))
    for patch in (
        {"status": None},
        {"status": {"allocation": None}},
        {"status": {"allocation": {"devices": None}}},
        {"status": {"allocation": {"devices": {"results": None}}}},
        {"status": {"allocation": {"devices": {"results": [{"driver": "gpu.intel.com"}]}}}},
        {"status": {"reservedFor": None}},
        {"status": {"reservedFor": [{"resource": "jobs", "uid": "train-uid"}, {"resource": "pods"}]}},
    ):
        assert GPU(merged(claim(), patch)) is None, patch


def test_a_pod_with_claims_keeps_its_start() -> None:
    """By its kubelet, in whole seconds in UTC. A claim for an extended resource counts as well."""
    whole = ClaimPod("team", "train", "train-uid", "gpu-0", at(5))
    assert whole == claim_pod(pod(started=5))
    extended = {"spec": {"resourceClaims": None}, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}}
    assert whole == claim_pod(pod(started=5, patch=extended))
    assert str(whole) == "team/train"


def test_a_pod_that_holds_no_claim_has_no_view() -> None:
    """It has no claims, is not on a node, has not started, has ended, or terminates."""
    patches: tuple[Object, ...] = (
        {"spec": None},
        {"spec": {"resourceClaims": None}},
        {"spec": {"resourceClaims": []}},
        {"spec": {"nodeName": None}},
        {"status": None},
        {"status": {"startTime": None}},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"deletionTimestamp": stamp(9)}},
    )
    for patch in patches:
        assert claim_pod(pod(started=5, patch=patch)) is None, patch
