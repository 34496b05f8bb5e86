"""A switch to NVIDIADriver by two edits, minutes apart: no recording has one, so its history is written down here.

The order and the times are those that were measured on the operator: the DaemonSet of the ClusterPolicy is gone for two
seconds and leaves its pod behind, the new pod waits next to that one, and labels trail by 100 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hook.decide.result import DeletePod, Phase
from hook.decide.state import Memory
from tests.fixtures.cluster import Cluster, cluster, labelled
from tests.fixtures.modes import Pool, owner, pool_daemonset, pooled
from tests.fixtures.objects import Object, at, driver_pod, merged, obj, plugin_pod, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EDIT: Final = 1000
"""An administrator sets ``useNvidiaDriverCRD`` in the ClusterPolicy."""
START: Final = EDIT + 20
"""A run begins."""
FIRST_READY: Final = EDIT + 66
"""The driver of the NVIDIADriver is loaded."""
SECOND_EDIT: Final = EDIT + 170
"""An administrator changes the NVIDIADriver's ``kernelModuleType``, which shows in no version, image or label."""
SECOND_READY: Final = SECOND_EDIT + 165
"""The driver that the second edit asked for is loaded."""
LABEL: Final = SECOND_READY + 99
"""The node's label shows it."""


def written(by: str, spec: float, status: float) -> Object:
    """Return the metadata of a policy whose spec and status were written last at these moments."""
    writes = (
        {"manager": by, "time": stamp(spec), "fieldsV1": {"f:spec": {"f:driver": {}}}},
        {"manager": "gpu-operator", "time": stamp(status), "fieldsV1": {"f:status": {}}, "subresource": "status"},
    )
    entry = {"operation": "Update", "apiVersion": "nvidia.com/v1", "fieldsType": "FieldsV1"}
    return {"managedFields": [{**entry, **write} for write in writes]}


def pool(generation: int, by: str, spec: float, status: float) -> Object:
    """Return the NVIDIADriver at a generation."""
    metadata = {"name": "default", "uid": "default-uid", "generation": generation, **written(by, spec, status)}
    return obj("pool/policy", {"metadata": metadata})


def rendered(found: Cluster, generation: int, moment: float) -> None:
    """Let the operator render the NVIDIADriver."""
    metadata = {"generation": generation}
    daemonset = merged(pool_daemonset(Pool("default")), {"metadata": metadata})
    found.put("daemonset", merged(daemonset, {"status": {"observedGeneration": generation}}))
    named = {"name": f"default-{generation}", "labels": {"controller-revision-hash": f"hash-{generation}"}}
    made = {**named, "creationTimestamp": stamp(moment), "ownerReferences": owner("default-ds")}
    found.put("revision", obj("revision", {"metadata": made, "revision": generation}))


def driver(generation: int, ready: float | None) -> Object:
    """Return the driver pod of a generation of the NVIDIADriver."""
    labels = {"labels": {"controller-revision-hash": f"hash-{generation}"}}
    metadata = {"name": f"driver-{generation}", "uid": f"driver-{generation}", "ownerReferences": owner("default-ds")}
    pod: Object = merged(driver_pod(started=(ready or 0) - 20, ready=ready), {"metadata": {**metadata, **labels}})
    return pod


def first_edit(found: Cluster) -> None:
    """Leave the driver to the NVIDIADriver; from here on it is read."""
    metadata = {"generation": 3, **written("kubectl-patch", EDIT, 0)}
    found.change("policy", {"metadata": metadata, "spec": pooled().of("policy")[0]["spec"]})
    found.put("pool", pool(1, "kubectl-client-side-apply", EDIT - 60, EDIT - 59))


def first_render(found: Cluster) -> None:
    """Make the NVIDIADriver's DaemonSet, whose pod waits next to the one that was left behind."""
    rendered(found, 1, EDIT + 4)
    found.put("driver-pod", driver(1, None)).change("node", labelled(state="pod-restart-required"))


def second_render(found: Cluster) -> None:
    """Make another revision; the upgrade controller comes by later."""
    rendered(found, 2, SECOND_EDIT + 5)
    found.change("node", labelled(state="upgrade-required"))


HISTORY: Final[Mapping[float, Callable[[Cluster], object]]] = {
    EDIT: first_edit,
    EDIT + 2: lambda found: found.drop("daemonset", "nvidia-driver-daemonset").drop("revision"),
    EDIT + 4: first_render,
    EDIT + 40: lambda found: found.only("driver-pod", driver(1, None)),
    FIRST_READY: lambda found: found.only("driver-pod", driver(1, FIRST_READY)),
    SECOND_EDIT: lambda found: found.put("pool", pool(2, "kubectl-edit", SECOND_EDIT, FIRST_READY)),
    SECOND_EDIT + 2: lambda found: found.change("node", labelled(state="upgrade-done")),
    SECOND_EDIT + 5: second_render,
    SECOND_EDIT + 120: lambda found: found.change("node", labelled(state="pod-restart-required")),
    SECOND_EDIT + 125: lambda found: found.only("driver-pod", driver(2, None)),
    SECOND_READY: lambda found: found.only("driver-pod", driver(2, SECOND_READY)),
    LABEL: lambda found: found.change("node", labelled(state="upgrade-done")),
}
"""By moment: what happens."""


def test_a_run_between_the_two_edits_waits_for_what_the_second_one_brings() -> None:
    """When the label of the first edit is quiet, only the time of the second one shows that a render is to come."""
    found, memory = cluster(), Memory(started=at(START))
    pods: dict[float, Object] = {}
    restarts: list[tuple[float, str]] = []
    for now in range(EDIT, LABEL + 60):
        HISTORY.get(now, Cluster.seen)(found)
        if now in pods:
            found.only("plugin-pod", pods[now])
        if now < START:
            continue
        decision, memory = found.decide(memory=memory, now=at(now))
        for action in decision.actions:
            assert isinstance(action, DeletePod)
            restarts.append((now, action.pod.uid))
            memory = memory.asked(action.node, action.pod, at(now))
            name = {"metadata": {"name": f"plugin-{now}", "uid": f"plugin-{now}"}}
            pods[now + 10] = merged(plugin_pod(waited=now + 3, started=now + 4), name)
        if decision.final:
            break
    assert (Phase.DONE, LABEL) == (decision.phase, now)
    assert [(FIRST_READY, "plugin-gpu-0-uid"), (SECOND_READY, f"plugin-{FIRST_READY}")] == restarts
