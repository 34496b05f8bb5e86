"""Claims and the pods that hold them: what is kept, and what is left out."""

from __future__ import annotations

import pytest

from hook.objects.claims import claim_reader, read_claim_pod
from tests.fixtures.objects import Object, at, merged, stamp
from tests.fixtures.workloads import claim
from tests.fixtures.workloads import claim_pod as pod

READ = claim_reader(("gpu.nvidia.com", "compute-domain.nvidia.com"))


def test_a_claim_of_the_drivers_keeps_the_pods_that_it_is_reserved_for() -> None:
    """Of either driver of the plugin."""
    gpu = READ(claim("train-gpu", "train", "other"))
    channel = READ(claim("channel", driver="compute-domain.nvidia.com"))
    assert gpu is not None
    assert channel is not None
    assert ("team", "train-gpu", ("train-uid", "other-uid")) == (gpu.namespace, gpu.name, gpu.pods)
    assert ("team", "channel", ("train-uid",)) == (channel.namespace, channel.name, channel.pods)


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"status": None}, id="new"),
        pytest.param({"status": {"allocation": None}}, id="not-allocated"),
        pytest.param({"status": {"allocation": {"devices": None}}}, id="without-a-device"),
        pytest.param(
            {"status": {"allocation": {"devices": {"results": [{"driver": "gpu.intel.com"}]}}}}, id="of-another-driver"
        ),
        pytest.param({"status": {"reservedFor": None}}, id="not-used"),
        pytest.param({"status": {"reservedFor": [{"resource": "jobs", "uid": "train-uid"}]}}, id="not-used-by-a-pod"),
    ],
)
def test_other_claims_are_left_out(patch: Object) -> None:
    """Most claims of a cluster may be of other drivers."""
    assert READ(merged(claim(), patch)) is None


def test_a_pod_with_claims_keeps_its_start() -> None:
    """By its kubelet. A claim that the scheduler made for an extended resource counts as well."""
    extended = {"spec": {"resourceClaims": None}, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}}
    holder = read_claim_pod(pod(started=5))
    assert holder is not None
    assert holder == read_claim_pod(pod(started=5, patch=extended))
    assert ("team/train", "train-uid", "gpu-0", at(5)) == (str(holder), holder.uid, holder.node, holder.started)


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"resourceClaims": None}},
        {"spec": {"resourceClaims": []}},
        {"spec": {"nodeName": None}},
        {"status": {"startTime": None}},
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"deletionTimestamp": stamp(9)}},
    ],
    ids=str,
)
def test_a_pod_that_holds_no_claim_is_left_out(patch: Object) -> None:
    """It has no claims, is on no node, has not started, has ended or terminates."""
    assert read_claim_pod(pod(started=5, patch=patch)) is None
