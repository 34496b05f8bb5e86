"""The controller of a stack, as it is found for `status`."""

from __future__ import annotations

import pytest

from hook.kube import leader
from hook.objects.stacks import StackName
from tests.client.server import Said, listed, refused, serving
from tests.fixtures.objects import merged
from tests.fixtures.statuses import lease


def test_of_several_controllers_the_one_that_renewed_last_counts() -> None:
    """They are found by their labels: one of another stack restarts nothing here. One may never have renewed."""
    leases = [
        merged(lease(holderIdentity="new"), {"metadata": {"name": "a"}}),
        merged(lease(holderIdentity="old", renewTime="2026-03-01T11:00:00.000000Z"), {"metadata": {"name": "b"}}),
        merged(lease(), {"metadata": {"name": "c"}, "spec": {"renewTime": None}}),
        {"kind": "Lease", "metadata": {"name": 7}},
    ]
    with serving(listed(*leases)) as server:
        seen = leader.find_controller(server.api, StackName.GPU)
        assert seen.lease is not None
        assert seen.lease.holder == "new"
        labels = "app.kubernetes.io%2Fname%3Dgpu-operator-post%2Cgpu-operator-post%2Fstack%3Dgpu"
        assert server.count(f"labelSelector={labels}") == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refused(403), "permission missing"),
        (listed({"kind": "Lease", "metadata": {"name": 7}}), "cannot read the Lease"),
    ],
)
def test_a_lease_that_cannot_be_read_is_no_error(answer: Said, words: str) -> None:
    """It is not known whether a controller is alive, and the reason is known."""
    with serving(answer) as server:
        seen = leader.find_controller(server.api, StackName.GPU)
    assert (words in seen.problem, seen.lease, seen.alive) == (True, None, None)
