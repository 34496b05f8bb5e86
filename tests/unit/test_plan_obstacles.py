"""What would block an upgrade or slow it, beside limits: pods, waiting, and settings in the wrong place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from hook.objects.decoding import MalformedObjectError
from hook.plan.obstacles import Workload, disruption_budget, protected, reader
from hook.plan.plan import Options
from hook.plan.result import Obstacle, Severity
from tests.fixtures.modes import network
from tests.fixtures.planning import fleet, limited, obstacles, only

if TYPE_CHECKING:
    from tests.fixtures.objects import Object

GPU: Object = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
REPLICA_SET: Object = {"kind": "ReplicaSet", "controller": True}
MIG = "nvidia.com/mig-1g.5gb"
READ = reader(("nvidia.com/gpu", "nvidia.com/mig-"))


def pod(*, owner: Object | None = REPLICA_SET, phase: str = "Running", **spec: object) -> Object:
    """Give a pod that uses a GPU."""
    owners = [owner] if owner else []
    metadata = {"namespace": "ml", "name": "train", "uid": "t", "resourceVersion": "1", "ownerReferences": owners}
    whole = {"nodeName": "gpu-0", "containers": [GPU], **spec}
    return {"metadata": metadata, "spec": whole, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(pod(), ("ReplicaSet", False), id="of-a-replicaset"),
        pytest.param(pod(owner=None), ("", False), id="alone"),
        pytest.param(pod(owner={"kind": "Node"}), ("", False), id="owned-but-not-controlled"),
        pytest.param(pod(volumes=[{"name": "a"}, {"emptyDir": {}}]), ("ReplicaSet", True), id="local-data"),
        pytest.param(pod(phase="Pending"), ("ReplicaSet", False), id="pending"),
        pytest.param(pod(containers=[{"name": "a"}, {**GPU, "resources": {"requests": {MIG: "1"}}}]),
                     ("ReplicaSet", False), id="mig-in-requests"),
    ],
)  # fmt: skip
def test_pods_with_gpus_are_read(obj: Object, expected: tuple[str, bool]) -> None:
    """As the upgrade controller finds them: by requests or limits of any container."""
    found = READ(obj)
    assert found is not None
    assert expected == (found.controller, found.local_data)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(pod(containers=[{"name": "a", "resources": {"limits": {"cpu": "1"}}}]), id="no-gpu"),
        pytest.param(pod(nodeName=None), id="on-no-node"),
        pytest.param(pod(phase="Succeeded"), id="over"),
        pytest.param(pod(phase="Failed"), id="failed"),
    ],
)
def test_other_pods_are_dropped_as_they_arrive(obj: Object) -> None:
    """A cluster has many more of them."""
    assert READ(obj) is None


def test_a_malformed_pod_is_not_taken_for_one_without_gpus() -> None:
    """It raises, as every reader does."""
    with pytest.raises(MalformedObjectError):
        READ(pod(containers=["x"]))


def workload(controller: str = "Job", *, local_data: bool = False, node: str = "gpu-0") -> Workload:
    """Give a pod that uses a GPU, as read."""
    return Workload("ml", "train", node, controller, local_data)


@pytest.mark.parametrize(
    ("one", "upgrade", "severity"),
    [
        pytest.param(workload(), {}, None, id="evictable"),
        pytest.param(workload(""), {}, Severity.BLOCKS, id="without-a-controller"),
        pytest.param(workload(""), {"podDeletion": {"force": True}}, None, id="without-one-by-force"),
        pytest.param(workload(local_data=True), {}, Severity.BLOCKS, id="with-local-data"),
        pytest.param(workload(local_data=True), {"podDeletion": {"deleteEmptyDir": True}}, None, id="given-up"),
        pytest.param(workload("DaemonSet"), {"podDeletion": {"force": True}}, Severity.BLOCKS, id="of-a-daemonset"),
        pytest.param(workload(""), {"drain": {"enable": True}}, Severity.SLOWS, id="then-the-node-is-drained"),
        pytest.param(replace(workload(), protected_by="pdb"), {}, Severity.BLOCKS, id="protected"),
        pytest.param(
            replace(workload(), protected_by="pdb"),
            {"podDeletion": {"force": True}},
            Severity.BLOCKS,
            id="protected-from-force-as-well",
        ),
        pytest.param(workload("", node="elsewhere"), {}, None, id="on-a-node-of-no-pool"),
    ],
)
def test_pods_that_would_not_be_evicted_are_found(one: Workload, upgrade: Object, severity: Severity | None) -> None:
    """One of them fails its node, or has it drained."""
    seen = obstacles(only(fleet(2, upgrade), Options(workloads=[one]))).get(Obstacle.PODS_NOT_EVICTABLE)
    assert severity == (seen.severity if seen else None)
    assert seen is None or (("gpu-0",), True) == (seen.nodes, "ml/train" in seen.message)


def pdb(allowed: int | None, selector: Object | None, namespace: str = "ml") -> Object:
    """Give a PodDisruptionBudget."""
    return {
        "metadata": {"namespace": namespace, "name": "pdb"},
        "spec": {"selector": selector},
        "status": {} if allowed is None else {"disruptionsAllowed": allowed},
    }


def expression(operator: str, *values: str, key: str = "app") -> Object:
    """Give a selector of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values] or None}]}


NO_LIST: Final[Object] = {"matchExpressions": [{"key": "app", "operator": "In", "values": 7}]}
LABELLED: Final = replace(workload(), labels={"app": "train"})


@pytest.mark.parametrize(
    ("obj", "held"),
    [
        pytest.param(pdb(0, {"matchLabels": {"app": "train"}}), True, id="by-a-label"),
        pytest.param(pdb(None, {"matchLabels": {"app": "train"}}), True, id="that-was-never-reconciled"),
        pytest.param(pdb(1, {"matchLabels": {"app": "train"}}), False, id="that-allows-one"),
        pytest.param(pdb(0, {"matchLabels": {"app": "train", "tier": "a"}}), False, id="of-other-labels"),
        pytest.param(pdb(0, {"matchLabels": {"app": "train"}}, "other"), False, id="of-another-namespace"),
        pytest.param(pdb(0, {}), True, id="of-every-pod"),
        pytest.param(pdb(0, None), False, id="of-no-pod"),
        pytest.param(pdb(0, expression("In", "train", "serve")), True, id="in"),
        pytest.param(pdb(0, expression("In", "serve")), False, id="not-in-these"),
        pytest.param(pdb(0, expression("NotIn", "serve")), True, id="not-in"),
        pytest.param(pdb(0, expression("NotIn", "train")), False, id="but-it-is"),
        pytest.param(pdb(0, expression("NotIn", "x", key="none")), True, id="not-in-without-the-label"),
        pytest.param(pdb(0, expression("Exists")), True, id="exists"),
        pytest.param(pdb(0, expression("DoesNotExist")), False, id="does-not-exist"),
        pytest.param(pdb(0, expression("Resembles", "train")), False, id="an-operator-that-nobody-knows"),
    ],
)
def test_a_budget_without_disruptions_left_protects_its_pods(obj: Object, *, held: bool) -> None:
    """By the rules of label selectors."""
    found = [one for one in [disruption_budget(obj)] if one is not None]
    (pod,) = protected([LABELLED], found)
    assert ("pdb" if held else "") == pod.protected_by


def test_pods_that_were_not_read_are_no_pods_without_trouble() -> None:
    """The reason is passed on."""
    seen = obstacles(only(fleet(2), Options(unread="permission missing")))
    assert "permission missing" in seen[Obstacle.PODS_NOT_READ].message


def test_pods_are_judged_also_where_their_protection_is_not_known() -> None:
    """Half an answer, and the word that it is half."""
    seen = obstacles(only(fleet(2), Options(workloads=[workload("")], unread="permission missing")))
    assert {Obstacle.PODS_NOT_READ, Obstacle.PODS_NOT_EVICTABLE} <= seen.keys()


def test_a_stack_that_evicts_nothing_has_no_such_trouble() -> None:
    """The network operator drains, or does nothing."""
    assert not {Obstacle.PODS_NOT_READ, Obstacle.PODS_NOT_EVICTABLE} & obstacles(only(network(), Options())).keys()


@pytest.mark.parametrize(
    ("upgrade", "found"),
    [
        pytest.param({}, True, id="one-at-a-time"),
        pytest.param({"maxParallelUpgrades": 4}, False, id="somebody-set-it-right-as-well"),
    ],
)
def test_a_limit_in_the_wrong_place_is_told_where_it_is_missed(upgrade: Object, *, found: bool) -> None:
    """With the place where it belongs."""
    misplaced = fleet(4, upgrade).change("policy", "spec: {driver: {rollingUpdate: {maxUnavailable: 50%}}}")
    seen = obstacles(only(misplaced)).get(Obstacle.LIMIT_ELSEWHERE)
    assert found is (seen is not None)
    assert seen is None or "driver.rollingUpdate.maxUnavailable=50%" in seen.message
    assert seen is None or "ClusterPolicy cluster-policy driver.upgradePolicy" in seen.remedy


@pytest.mark.parametrize(("seconds", "words"), [(0, "without a time limit"), (600, "up to 600 s")])
def test_waiting_for_jobs_is_told(seconds: int, words: str) -> None:
    """Nobody knows how long they take."""
    waits = {"waitForCompletion": {"podSelector": "app=job", "timeoutSeconds": seconds}}
    message = obstacles(only(fleet(2, waits)))[Obstacle.WAITS_FOR_PODS].message
    assert ("app=job" in message, words in message) == (True, True)


@pytest.mark.parametrize(
    ("desired", "blocked"),
    [pytest.param(2, False, id="whole"), pytest.param(3, True, id="one-missing"), pytest.param(1, True, id="too-many")],
)
def test_a_missing_driver_pod_freezes_everything(desired: int, *, blocked: bool) -> None:
    """The upgrade controller refuses to look at a fleet that is not complete."""
    found = fleet(2).change("daemonset", {"status": {"desiredNumberScheduled": desired}}, "nvidia-driver-daemonset")
    assert blocked is (Obstacle.DRIVER_PODS_MISSING in obstacles(only(found)))


def test_what_blocks_comes_first() -> None:
    """People read the first line."""
    found = limited(fleet(4), {"autoUpgrade": False, "waitForCompletion": {"podSelector": "a=b"}})
    severities = [one.severity for one in only(found).obstacles]
    assert severities == sorted(severities, key=[*Severity].index)
    assert severities[0] is Severity.BLOCKS
