"""Which pods cannot be evicted or drained, and what protects them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from ctl.plan.eviction import Workload, disruption_budget, protected, reader, refused_drain, refused_eviction
from ctl.plan.limits import Removal
from hook.objects import wire
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.objects import Object

GPU: Final[Object] = {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
REPLICA_SET: Final[Object] = {"kind": "ReplicaSet", "controller": True}
MIG: Final[Object] = {"name": "mig", "resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}}
READ: Final = reader(("nvidia.com/gpu", "nvidia.com/mig-"))
WORKLOAD: Final = Workload("ml", "train", "gpu-0", "Job", local_data=False)


def pod(*, owner: Object | None = REPLICA_SET, phase: str = "Running", **spec: object) -> Object:
    """Return a pod that uses a GPU."""
    owners = [owner] if owner else []
    metadata = {"namespace": "ml", "name": "train", "uid": "t", "resourceVersion": "1", "ownerReferences": owners}
    whole = {"nodeName": "gpu-0", "containers": [GPU], **spec}
    return {"metadata": metadata, "spec": whole, "status": {"phase": phase}}


def test_pods_with_gpus_are_read() -> None:
    """As the upgrade controller finds them: by requests or limits of any container."""
    for name, found, expected in (
        ("of a ReplicaSet", pod(), ("ReplicaSet", False)),
        ("alone", pod(owner=None), ("", False)),
        ("owned, but not controlled", pod(owner={"kind": "Node"}), ("", False)),
        ("local data", pod(volumes=[{"name": "a"}, {"emptyDir": {}}]), ("ReplicaSet", True)),
        ("pending, MIG in requests", pod(phase="Pending", containers=[{"name": "a"}, MIG]), ("ReplicaSet", False)),
    ):
        read = READ(found)
        assert read is not None, name
        assert expected == (read.controller, read.local_data), name


def test_other_pods_are_dropped_as_they_arrive() -> None:
    """A cluster has many more of them; but a malformed pod is not taken for one of them."""
    for name, found in (
        ("no GPU", pod(containers=[{"name": "a", "resources": {"limits": {"cpu": "1"}}}])),
        ("on no node", pod(nodeName=None)),
        ("succeeded", pod(phase="Succeeded")),
        ("failed", pod(phase="Failed")),
    ):
        assert READ(found) is None, name
    with pytest.raises(MalformedObjectError):
        READ(pod(containers=["x"]))
    assert reader()(pod(containers=[{"name": "a"}])) is not None


def test_what_cannot_be_evicted_or_drained() -> None:
    """An eviction of GPU pods refuses pods of a DaemonSet; a drain passes over them, and over static pods."""
    strict, force, empty = Removal(), Removal(force=True), Removal(delete_empty_dir=True)
    for name, one, options, evicted, drained in (
        ("of a Job", WORKLOAD, strict, "", ""),
        ("without a controller", replace(WORKLOAD, controller=""), strict, "gpuPodDeletion.force", "drain.force"),
        ("without one, by force", replace(WORKLOAD, controller=""), force, "", ""),
        ("with local data", replace(WORKLOAD, local_data=True), force, "PodDeletion.deleteEm", "drain.deleteEm"),
        ("given up", replace(WORKLOAD, local_data=True), empty, "", ""),
        ("of a DaemonSet", replace(WORKLOAD, controller="DaemonSet"), force, "belongs to a DaemonSet", ""),
        ("static", replace(WORKLOAD, controller="Node", local_data=True), strict, "podDeletion.deleteEm", ""),
        ("protected, by force", replace(WORKLOAD, protected_by="pdb"), force, "Budget pdb", "Budget pdb"),
    ):
        for expected, found in ((evicted, refused_eviction(one, options)), (drained, refused_drain(one, options))):
            assert (expected in found, bool(expected)) == (True, bool(found)), name


def expression(operator: str, *values: str, key: str = "app") -> Object:
    """Return a selector of one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values] or None}]}


def test_a_budget_without_disruptions_left_protects_its_pods() -> None:
    """By the rules of label selectors."""
    train: Object = {"matchLabels": {"app": "train"}}
    labelled_pod = replace(WORKLOAD, labels={"app": "train"})
    for name, selector, left, held in (
        ("by a label", train, 0, True),
        ("never reconciled", train, None, True),
        ("that allows one", train, 1, False),
        ("of other labels", {"matchLabels": {"app": "train", "tier": "a"}}, 0, False),
        ("of another namespace", train, 0, False),
        ("of every pod", {}, 0, True),
        ("of no pod", None, 0, False),
        ("In others", expression("In", "serve"), 0, False),
        ("NotIn others", expression("NotIn", "serve"), 0, True),
        ("NotIn", expression("NotIn", "train"), 0, False),
        ("NotIn without the label", expression("NotIn", "x", key="none"), 0, True),
        ("an unknown operator", expression("Resembles", "train"), 0, False),
    ):
        metadata = {"namespace": "other" if name == "of another namespace" else "ml", "name": "pdb"}
        status = {} if left is None else {"disruptionsAllowed": left}
        read = disruption_budget({"metadata": metadata, "spec": {"selector": selector}, "status": status})
        (found,) = protected([labelled_pod], [read] if read is not None else [])
        assert ("pdb" if held else "") == found.protected_by, name
    # An absent key has no value, not an empty one.
    for operator, there, absent in (("DoesNotExist", False, True), ("Exists", True, False), ("In", True, False)):
        wanted = wire.Requirement("team", operator, ("", "x"))
        assert (there, absent) == (wanted.met_by({"team": "x"}), wanted.met_by({})), operator
