"""Which pods cannot be evicted or drained, and what protects them."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from ctl.plan.eviction import Workload, disruption_budget, protected, refused_drain, refused_eviction, workload_reader
from ctl.plan.limits import Removal
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.objects import Object

GPU: Final[Object] = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
MIG: Final[Object] = {"name": "mig", "resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}}
CPU: Final[Object] = {"name": "a", "resources": {"limits": {"cpu": "1"}}}
READ: Final = workload_reader(("nvidia.com/gpu", "nvidia.com/mig-"))
WORKLOAD: Final = Workload("ml", "train", "Job", local_data=False, node="gpu-0")
ALONE: Final = replace(WORKLOAD, controller="")
LOCAL: Final = replace(WORKLOAD, local_data=True)


def pod(*, owner: Object | None = None, phase: str = "Running", **spec: object) -> Object:
    """Return a pod that uses a GPU."""
    owner = {"kind": "ReplicaSet", "controller": True} if owner is None else owner
    metadata = {"namespace": "ml", "name": "train", "ownerReferences": [owner] if owner else []}
    return {
        "metadata": metadata,
        "spec": {"nodeName": "gpu-0", "containers": [GPU], **spec},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("found", "controller", "local_data"),
    [
        pytest.param(pod(), "ReplicaSet", False, id="of a ReplicaSet"),
        pytest.param(pod(owner={}), "", False, id="alone"),
        pytest.param(pod(owner={"kind": "Node"}), "", False, id="owned, but not controlled"),
        pytest.param(pod(volumes=[{"name": "a"}, {"emptyDir": {}}]), "ReplicaSet", True, id="local data"),
        pytest.param(pod(phase="Pending", containers=[{"name": "a"}, MIG]), "ReplicaSet", False, id="MIG in requests"),
    ],
)
def test_pods_with_gpus_are_read(found: Object, controller: str, local_data: bool) -> None:
    """As the upgrade controller finds them: by requests or limits of any container."""
    read = READ(found)
    assert read is not None
    assert ("ml/train", "gpu-0", controller, local_data) == (str(read), read.node, read.controller, read.local_data)


@pytest.mark.parametrize(
    "found",
    [pod(containers=[CPU]), pod(nodeName=""), pod(phase="Succeeded"), pod(phase="Failed")],
    ids=["no GPU", "on no node", "succeeded", "failed"],
)
def test_other_pods_are_dropped_as_they_arrive(found: Object) -> None:
    """A cluster has many more of them."""
    assert READ(found) is None


def test_a_malformed_pod_is_not_taken_for_another_one() -> None:
    """It is reported. A drain reads pods without GPUs, too."""
    with pytest.raises(MalformedObjectError):
        READ(pod(containers=["x"]))
    assert workload_reader()(pod(containers=[CPU])) is not None


@pytest.mark.parametrize(
    ("workload", "options", "evicted", "drained"),
    [
        pytest.param(WORKLOAD, Removal(), "", "", id="of a Job"),
        pytest.param(ALONE, Removal(), "gpuPodDeletion.force", "drain.force", id="without a controller"),
        pytest.param(ALONE, Removal(force=True), "", "", id="without one, by force"),
        pytest.param(LOCAL, Removal(force=True), "PodDeletion.deleteEm", "drain.deleteEm", id="with local data"),
        pytest.param(LOCAL, Removal(delete_empty_dir=True), "", "", id="given up"),
        pytest.param(replace(WORKLOAD, controller="DaemonSet"), Removal(force=True), "belongs to a DaemonSet", "",
                     id="of a DaemonSet"),
        pytest.param(replace(LOCAL, controller="Node"), Removal(), "podDeletion.deleteEm", "", id="static"),
        pytest.param(replace(WORKLOAD, protected_by="pdb"), Removal(force=True), "Budget pdb", "Budget pdb",
                     id="protected, by force"),
    ],
)  # fmt: skip
def test_what_cannot_be_evicted_or_drained(workload: Workload, options: Removal, evicted: str, drained: str) -> None:
    """An eviction of GPU pods refuses pods of a DaemonSet; a drain passes over them, and over static pods."""
    for expected, found in (
        (evicted, refused_eviction(workload, options)),
        (drained, refused_drain(workload, options)),
    ):
        assert (expected in found, bool(expected)) == (True, bool(found))


TRAIN: Final[Object] = {"matchLabels": {"app": "train"}}


@pytest.mark.parametrize(
    ("namespace", "selector", "left", "held"),
    [
        pytest.param("ml", TRAIN, 0, True, id="by a label"),
        pytest.param("ml", TRAIN, None, True, id="never reconciled"),
        pytest.param("ml", TRAIN, 1, False, id="that allows one"),
        pytest.param("ml", {"matchLabels": {"app": "train", "tier": "a"}}, 0, False, id="of other labels"),
        pytest.param("other", TRAIN, 0, False, id="of another namespace"),
        pytest.param("ml", {}, 0, True, id="of every pod"),
        pytest.param("ml", None, 0, False, id="of no pod"),
        pytest.param("ml", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["serve"]}]}, 0, True,
                     id="by an expression"),
    ],
)  # fmt: skip
def test_a_budget_without_disruptions_left_protects_its_pods(
    namespace: str, selector: Object | None, left: int | None, held: bool
) -> None:
    """By the rules of label selectors."""
    status = {} if left is None else {"disruptionsAllowed": left}
    metadata = {"namespace": namespace, "name": "pdb"}
    read = disruption_budget({"metadata": metadata, "spec": {"selector": selector}, "status": status})
    (found,) = protected([replace(WORKLOAD, labels={"app": "train"})], [read] if read is not None else [])
    assert ("pdb" if held else "") == found.protected_by
