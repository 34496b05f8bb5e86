"""The operator's Deployment, ReplicaSets and Lease: what is kept of them."""

from __future__ import annotations

import pytest

from hook.objects.operators import read_deployment, read_lease, read_replicaset
from tests.fixtures.objects import at, obj


def test_the_last_progress_of_a_rollout_is_read() -> None:
    """By the condition Progressing."""
    conditions = "[{type: Available}, {type: Progressing, lastUpdateTime: '2026-01-01T10:00:05Z'}]"
    found = read_deployment(obj("deployment", f"status: {{conditions: {conditions}}}"))
    assert at(5) == found.changed
    assert ("gpu-operator", "gpu-operator", "operator", "2") == (found.namespace, found.name, found.uid, found.revision)


@pytest.mark.parametrize(("spec", "by_host"), [("hostNetwork: true", True), ("hostname: a", True), ("{}", False)])
def test_pods_may_be_named_by_their_host(spec: str, by_host: bool) -> None:
    """Then the holder of the Lease does not name a pod."""
    template = f"spec: {{template: {{spec: {{{spec.strip('{}')}}}}}}}"
    assert by_host is read_deployment(obj("deployment", template)).named_by_host


def test_a_replicaset_is_read() -> None:
    """Its owner, and the revision that it belongs to."""
    found = read_replicaset(obj("replicaset"))
    assert ("gpu-operator-5ddc6f64ff", "operator", "2") == (found.name, found.owner_uid, found.revision)


def test_a_lease_is_read() -> None:
    """A Lease that was released has no holder."""
    found = read_lease(obj("lease"))
    assert ("gpu-operator", at(-58)) == (found.namespace, found.acquired)
    assert found.holder.startswith("gpu-operator-5ddc6f64ff-dtlr4_")
    released = read_lease(obj("lease", "spec: null"))
    assert ("", None) == (released.holder, released.acquired)
