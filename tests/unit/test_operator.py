"""Whether the operator may still render a second time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from hook.decide.reasons import Reason
from hook.decide.result import Phase
from tests.fixtures.cluster import LATER, Cluster, cluster
from tests.fixtures.objects import merged, obj, parsed, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

ROLLING, NOT_LEADING, SETTLING = Reason.OPERATOR_ROLLING_OUT, Reason.OPERATOR_NOT_LEADING, Reason.OPERATOR_SETTLING
DONE = Reason.NOTHING_STALE
OLD_HOLDER = "spec: {holderIdentity: gpu-operator-57d75775c8-szwt7_uuid}"
OLD_REPLICASET = """
metadata: {name: gpu-operator-57d75775c8, annotations: {deployment.kubernetes.io/revision: "1"}}
"""


def acquired(seconds: float) -> dict[str, object]:
    """Give a patch of the lease: taken so many seconds before LATER."""
    return {"spec": {"acquireTime": (LATER - timedelta(seconds=seconds)).isoformat()}}


def created(seconds: float) -> dict[str, object]:
    """Give a patch of the driver's revision: made so many seconds before LATER."""
    return {"metadata": {"creationTimestamp": (LATER - timedelta(seconds=seconds)).isoformat()}}


def written(*seconds: float, part: str = "") -> dict[str, object]:
    """Give a patch of the policy: written so many seconds before LATER, or a part of it."""
    times = [(LATER - timedelta(seconds=one)).isoformat() for one in seconds]
    return {"metadata": {"managedFields": [{"manager": "helm", "subresource": part, "time": one} for one in times]}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(cluster(), DONE, id="quiet"),
        pytest.param(cluster().change("deployment", "metadata: {generation: 3}"), ROLLING, id="not-observed"),
        pytest.param(cluster().change("deployment", "status: {replicas: 2}"), ROLLING, id="old-pod-is-left"),
        pytest.param(cluster().change("deployment", "status: {updatedReplicas: 0}"), ROLLING, id="no-new-pod-yet"),
        pytest.param(cluster().change("lease", OLD_HOLDER), NOT_LEADING, id="lease-of-the-old-operator"),
        pytest.param(cluster().change("lease", OLD_HOLDER).put("replicaset", obj("replicaset", OLD_REPLICASET)),
                     NOT_LEADING, id="lease-of-the-old-operator-whose-replicaset-is-left"),
        pytest.param(cluster().change("lease", "spec: {holderIdentity: gpu-operator-5ddc6f64ffx-a_uuid}"), NOT_LEADING,
                     id="a-name-that-only-begins-alike"),
        pytest.param(cluster().change("lease", acquired(14)), SETTLING, id="acquired-14-s-ago"),
        pytest.param(cluster().change("lease", acquired(15)), DONE, id="acquired-15-s-ago"),
        pytest.param(cluster().change("revision", created(14)), SETTLING, id="rendered-14-s-ago"),
        pytest.param(cluster().change("revision", created(15)), DONE, id="rendered-15-s-ago"),
        pytest.param(cluster().change("revision", created(20)).change("lease", acquired(3)), SETTLING,
                     id="the-later-of-both-counts"),
        pytest.param(cluster().change("policy", written(14)), SETTLING, id="policy-changed-14-s-ago"),
        pytest.param(cluster().change("policy", written(15)), DONE, id="policy-changed-15-s-ago"),
        pytest.param(cluster().change("policy", written(60, 3)), SETTLING, id="the-latest-of-its-changes-counts"),
        pytest.param(cluster().change("policy", written(3, part="status")), DONE, id="only-its-status-was-written"),
        pytest.param(cluster().change("policy", "metadata: {managedFields: [{manager: helm}]}"), DONE,
                     id="changed-at-no-time"),
        pytest.param(cluster().change("policy", written(3)).change("lease", acquired(60)), SETTLING,
                     id="policy-changed-after-the-leader"),
        pytest.param(cluster().change("lease", "spec: {acquireTime: null}"), DONE, id="never-acquired-but-held"),
        pytest.param(cluster().change("revision", created(-9)), SETTLING, id="in-the-future-by-a-wrong-clock"),
    ],
)  # fmt: skip
def test_done_waits_for_a_quiet_operator(found: Cluster, expected: Reason) -> None:
    """Rolled out, leading by a pod of the current ReplicaSet, and quiet since the last change, the policy's too."""
    assert expected == found.decide()[0].reason


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(obj("replicaset", OLD_REPLICASET), id="an-older-one"),
        pytest.param(
            obj("replicaset", "metadata: {name: other, ownerReferences: [{uid: other, controller: true}]}"),
            id="of-another-deployment",
        ),
    ],
)
def test_only_the_deployments_current_replicaset_counts(other: dict[str, object]) -> None:
    """Others stay behind, and may be listed first."""
    found = cluster().only("replicaset", other, obj("replicaset"))
    assert found.decide()[0].reason is DONE


@pytest.mark.parametrize("age", [pytest.param(59, id="59-s"), pytest.param(60, id="60-s")])
@pytest.mark.parametrize(
    "found",
    [
        pytest.param(lambda: cluster().drop("deployment"), id="no-deployment-as-under-olm"),
        pytest.param(lambda: cluster().drop("lease"), id="no-lease"),
        pytest.param(lambda: cluster().change("lease", "metadata: {namespace: x}"), id="lease-of-another-namespace"),
        pytest.param(lambda: cluster().drop("replicaset"), id="no-replicaset"),
        pytest.param(lambda: cluster().change("replicaset", OLD_REPLICASET), id="no-current-replicaset"),
        pytest.param(lambda: cluster().change("deployment", "spec: {replicas: 0}"), id="scaled-to-nothing"),
        pytest.param(lambda: cluster().change("deployment", "metadata: {namespace: x}"), id="deployment-elsewhere"),
    ],
)  # fmt: skip
def test_an_invisible_operator_asks_for_a_minute(found: Callable[[], Cluster], age: int) -> None:
    """Where Deployment, ReplicaSet or Lease cannot be found, only a longer quiet time tells."""
    decision, _memory = found().change("revision", created(age)).decide()
    assert (SETTLING if age < 60 else DONE) == decision.reason


def test_a_lease_that_nobody_holds_waits_for_the_next_leader() -> None:
    """Between two operators the lease is released for a moment: the next one renders again.

    Only one that stays free for a minute is believed to say nothing.
    """
    free = cluster().change("lease", "spec: {holderIdentity: null}")
    first, memory = free.decide()
    early, memory = free.decide(memory=memory, now=LATER + timedelta(seconds=59))
    late, _memory = free.decide(memory=memory, now=LATER + timedelta(seconds=60))
    assert [NOT_LEADING, NOT_LEADING, DONE] == [first.reason, early.reason, late.reason]


def test_the_deployment_is_looked_for_anywhere_until_the_policy_names_a_namespace() -> None:
    """A policy that was never reconciled does not say where its operator lives."""
    found = cluster().change("policy", "status: {namespace: null}")
    found.change("deployment", "{metadata: {namespace: x}, status: {replicas: 2}}")
    assert found.decide()[0].reason is ROLLING


def test_quiet_by_memory_is_enough() -> None:
    """A wrong clock delays, but does not block: what was not seen to change for long enough is quiet."""
    found = cluster().change("revision", created(-3600))
    first, memory = found.decide()
    early, memory = found.decide(memory=memory, now=LATER + timedelta(seconds=14))
    late, _memory = found.decide(memory=memory, now=LATER + timedelta(seconds=15))
    assert [SETTLING, SETTLING, DONE] == [first.reason, early.reason, late.reason]


def test_a_second_render_starts_the_quiet_time_anew() -> None:
    """A newer revision, in the future again, is another condition to the memory."""
    memory = cluster().change("revision", created(-3600)).decide()[1]
    found = cluster().change("revision", created(-3601))
    assert found.decide(memory=memory, now=LATER + timedelta(seconds=20))[0].reason is SETTLING


def rolled_back() -> Cluster:
    """Give a cluster whose newest driver revision is an old one taken up again, as by helm rollback."""
    younger = obj("revision", "{metadata: {name: b, labels: {controller-revision-hash: b}}, revision: 3}")
    younger["metadata"]["creationTimestamp"] = stamp(600)
    return cluster().put("revision", younger).change("revision", "revision: 4", "nvidia-driver-daemonset-new")


def test_a_revision_taken_up_again_is_quiet_by_memory_only() -> None:
    """Its creation says nothing about when it became the newest."""
    first, memory = rolled_back().decide()
    later, _memory = rolled_back().decide(memory=memory, now=LATER + timedelta(seconds=15))
    assert [SETTLING, DONE] == [first.reason, later.reason]


def test_a_revision_of_a_replaced_daemonset_is_not_taken_for_a_rollback() -> None:
    """Revisions of DaemonSets that are gone do not count."""
    orphan = merged(obj("revision"), parsed("metadata: {name: b, ownerReferences: []}"))
    orphan["metadata"]["creationTimestamp"] = stamp(600)
    assert cluster().put("revision", orphan).decide()[0].reason is DONE


def test_quiet_time_runs_beside_other_holds() -> None:
    """It is counted while nodes are still being served, so that it does not come on top."""
    found = cluster().change("revision", created(-3600)).drop("slice")
    memory = found.decide()[1]
    found.put("slice", obj("slice"))
    decision, _memory = found.decide(memory=memory, now=LATER + timedelta(seconds=15))
    assert decision.phase is Phase.DONE


def test_without_any_driver_there_is_nothing_to_be_quiet_about() -> None:
    """No revision and no lease: other gates decide."""
    found = cluster().drop("deployment").drop("revision").drop("driver-pod").drop("plugin-pod").drop("node")
    assert found.drop("daemonset", "nvidia-driver-daemonset").decide()[0].phase is Phase.SKIP
