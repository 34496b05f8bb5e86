"""Whether the operator is quiet: it has rolled out, leads, and changes nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hook.decide.end import is_rolled_out
from hook.decide.reasons import Reason
from hook.objects import read_deployment
from tests.fixtures.cluster import LATER, Cluster, cluster
from tests.fixtures.modes import Pool, pooled
from tests.fixtures.objects import Object, merged, obj, parsed, stamp
from tests.unit.decide.runs import DRIVER, reasons_over, wrong_decisions

ROLLING, NOT_LEADING, SETTLING = Reason.OPERATOR_ROLLING_OUT, Reason.OPERATOR_NOT_LEADING, Reason.OPERATOR_SETTLING
DONE = Reason.NOTHING_STALE
OLD_HOLDER = "spec: {holderIdentity: gpu-operator-57d75775c8-szwt7_uuid}"
OLD_REPLICASET = """
metadata: {name: gpu-operator-57d75775c8, annotations: {deployment.kubernetes.io/revision: "1"}}
"""


def before(seconds: float) -> str:
    """Return the time so many seconds before LATER."""
    return (LATER - timedelta(seconds=seconds)).isoformat()


def acquired(seconds: float) -> Object:
    """Return a patch of the Lease: acquired so many seconds before LATER."""
    return {"spec": {"acquireTime": before(seconds)}}


def created(seconds: float) -> Object:
    """Return a patch of the driver's revision: created so many seconds before LATER."""
    return {"metadata": {"creationTimestamp": before(seconds)}}


def written(*seconds: float, part: str = "") -> Object:
    """Return a patch of the policy: written so many seconds before LATER, or a subresource of it."""
    fields = [{"manager": "helm", "subresource": part, "time": before(each)} for each in seconds]
    return {"metadata": {"managedFields": fields}}


def revision(name: str, number: int, created_at: float, patch: str = "{}") -> Object:
    """Return a revision of the driver DaemonSet, created so many seconds after D."""
    metadata = {"name": name, "labels": {"controller-revision-hash": name}, "creationTimestamp": stamp(created_at)}
    changed: Object = merged(obj("revision", {"metadata": metadata, "revision": number}), parsed(patch))
    return changed


def test_done_waits_for_a_quiet_operator() -> None:
    """It is rolled out, leads with a pod of its current ReplicaSet, and nothing changed for 15 seconds."""
    new_pool = {seconds: pooled().change("pool", written(seconds)) for seconds in (14, 15)}
    elsewhere = obj("deployment", "{metadata: {namespace: a, uid: other}, status: {updatedReplicas: 0}}")
    unnamed = cluster().change("policy", "status: {namespace: null}")
    other = obj("replicaset", "metadata: {name: other, ownerReferences: [{uid: other, controller: true}]}")
    gone = "metadata: {ownerReferences: [{kind: DaemonSet, uid: gone-ds, controller: true}]}"
    assert {} == wrong_decisions({
        "not observed": (cluster().change("deployment", "metadata: {generation: 3}"), ROLLING),
        "old pod left": (cluster().change("deployment", "status: {replicas: 2}"), ROLLING),
        "Deployment anywhere until the policy names a namespace": (
            unnamed.change("deployment", "{metadata: {namespace: x}, status: {replicas: 2}}"), ROLLING),
        "Deployment of another namespace": (cluster().put("deployment", elsewhere), DONE),
        "Lease of the old operator, whose ReplicaSet is left": (
            cluster().change("lease", OLD_HOLDER).put("replicaset", obj("replicaset", OLD_REPLICASET)), NOT_LEADING),
        "holder's name only begins alike": (
            cluster().change("lease", "spec: {holderIdentity: gpu-operator-5ddc6f64ffx-a_uuid}"), NOT_LEADING),
        "other ReplicaSets listed first": (
            cluster().only("replicaset", other, obj("replicaset", OLD_REPLICASET), obj("replicaset")), DONE),
        "acquired 14 s ago": (cluster().change("lease", acquired(14)), SETTLING),
        "acquired 15 s ago": (cluster().change("lease", acquired(15)), DONE),
        "held but never acquired": (cluster().change("lease", "spec: {acquireTime: null}"), DONE),
        "rendered 14 s ago": (cluster().change("revision", created(14)), SETTLING),
        "rendered 15 s ago": (cluster().change("revision", created(15)), DONE),
        "the later of both": (cluster().change("revision", created(20)).change("lease", acquired(3)), SETTLING),
        "rendered in the future": (cluster().change("revision", created(-9)), SETTLING),
        "revision of a deleted DaemonSet": (cluster().put("revision", revision("gone", 1, 3597, gone)), DONE),
        "rollback of a deleted DaemonSet": (
            cluster().put("revision", revision("g4", 4, 0, gone), revision("g3", 3, 600, gone)), DONE),
        "policy changed 14 s ago": (cluster().change("policy", written(14)), SETTLING),
        "policy changed 15 s ago": (cluster().change("policy", written(15)), DONE),
        "pool changed 14 s ago": (new_pool[14], SETTLING),
        "pool changed 15 s ago": (new_pool[15], DONE),
        "latest change counts": (cluster().change("policy", written(60, 3)), SETTLING),
        "only the status was written": (cluster().change("policy", written(3, part="status")), DONE),
        "changed at no time": (cluster().change("policy", "metadata: {managedFields: [{manager: helm}]}"), DONE),
    })  # fmt: skip


def test_an_invisible_operator_must_be_quiet_for_a_minute() -> None:
    """Where its Deployment, ReplicaSet or Lease is not found, only a longer time without a change is a proof."""
    hidden = {
        "no Deployment, as under OLM": cluster().drop("deployment"),
        "no Lease": cluster().drop("lease"),
        "Lease of another namespace": cluster().change("lease", "metadata: {namespace: x}"),
        "no ReplicaSet": cluster().drop("replicaset"),
        "no current ReplicaSet": cluster().change("replicaset", OLD_REPLICASET),
        "scaled to nothing": cluster().change("deployment", "spec: {replicas: 0}"),
        "Deployment of another namespace": cluster().change("deployment", "metadata: {namespace: x}"),
    }
    for age, expected in ((59, SETTLING), (60, DONE)):
        cases = {name: (found.change("revision", created(age)), expected) for name, found in hidden.items()}
        assert {} == wrong_decisions(cases), age


def test_no_observed_change_for_the_quiet_time_is_enough() -> None:
    """A wrong clock delays the end and does not block it. A second render starts the time again."""
    ahead = cluster().change("revision", created(-3600))
    assert [SETTLING, SETTLING, DONE] == reasons_over((0, ahead), (14, ahead), (15, ahead))
    pools = Pool("a", ("a",)), Pool("b", ("b",), "570.1.2")
    listed = [pooled(*order).change("revision", created(-3600)) for order in (pools, pools[::-1], pools)]
    assert [SETTLING, SETTLING, DONE] == reasons_over(*zip((0, 14, 15), listed, strict=True)), "in any order"
    again = cluster().change("revision", created(-3601))
    assert [SETTLING, SETTLING] == reasons_over((0, ahead), (20, again))
    pending = cluster().change("revision", created(-3600)).drop("slice")
    assert DONE is reasons_over((0, pending), (15, ahead))[1], "the time runs while nodes are pending"
    # Between two operators the Lease is released for a moment, and the next one renders again.
    free = cluster().change("lease", "spec: {holderIdentity: null}")
    assert [NOT_LEADING, NOT_LEADING, DONE] == reasons_over((0, free), (59, free), (60, free))
    gone = Cluster(dict(free.parts)).drop("policy")
    assert [Reason.NO_POLICY, DONE] == reasons_over((0, gone), (60, free)), "the time runs without a policy, too"
    # The creation of a revision that is taken up again (``helm rollback``) proves nothing.
    back = cluster().put("revision", revision("b", 3, 600)).change("revision", "revision: 4", f"{DRIVER}-new")
    assert [SETTLING, DONE] == reasons_over((0, back), (15, back))
    between = cluster().put("revision", revision("b", 3, 3610)).change("revision", "revision: 4", f"{DRIVER}-new")
    assert SETTLING is reasons_over((0, cluster()), (20, between))[1]


@pytest.mark.parametrize(
    ("patch", "rolled_out"),
    [
        pytest.param("{}", True, id="complete"),
        pytest.param("spec: {replicas: null}", True, id="one-by-default"),
        pytest.param("metadata: {generation: 3}", False, id="not-observed"),
        pytest.param("spec: {replicas: 2}", False, id="scaled-up"),
        pytest.param("status: {replicas: 2}", False, id="an-old-pod-is-left"),
        pytest.param("status: {updatedReplicas: 0}", False, id="not-updated"),
        pytest.param("status: {availableReplicas: 0}", False, id="not-available"),
        pytest.param("status: null", False, id="without-a-status"),
    ],
)
def test_a_deployment_is_rolled_out(patch: str, rolled_out: bool) -> None:
    """By the definition of ``kubectl rollout status``."""
    assert rolled_out is is_rolled_out(read_deployment(obj("deployment", patch)))
