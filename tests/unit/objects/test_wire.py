"""Malformed objects: no wrong value is ever read as ready, fresh or absent, and nothing but one error comes.

``tests/properties/test_objects.py`` puts wrong values of each type everywhere.
"""

from __future__ import annotations

from typing import Any, Final

from hook.objects import policies, readers, views
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.cluster import READERS
from tests.fixtures.objects import conditions, error_of, obj, raw

EVERY_READER: Final[dict[str, Any]] = {
    **READERS,
    "driver-daemonset": readers.daemonset,
    "policy": policies.cluster_policy,
    "pool/policy": policies.nvidia_driver,
    "network/policy": policies.nic_cluster_policy,
}
MALFORMED: Final[dict[str, tuple[str, ...]]] = {
    "pool/policy": ("spec: null", "spec: {usePrecompiled: 'yes'}"),
    "network/policy": ("spec: {ofedDriver: {version: 24.10}}", "metadata: {uid: null}"),
    "policy": (
        "spec: {driver: null}", "spec: {driver: {usePrecompiled: 'no'}}", "metadata: {name: null}",
        "metadata: {creationTimestamp: null}", "metadata: {managedFields: [{manager: helm, time: soon}]}",
    ),
    "node": (
        "metadata: {labels: {nvidia.com/gpu.present: true}}", "spec: {taints: [{key: x, effect: NoWay}]}",
        "status: {conditions: [{type: Ready, status: 'True'}, {type: Ready, status: 'False'}]}",
        "status: {conditions: [{type: Ready, status: 'true'}]}", "status: {conditions: [{type: Ready}]}",
    ),
    "driver-daemonset": (
        "metadata: {uid: null}", "metadata: {generation: null}", "status: {desiredNumberScheduled: null}",
        "status: {desiredNumberScheduled: -1}", "spec: {template: {spec: {containers: [{image: x}]}}}",
    ),
    "revision": ("metadata: {creationTimestamp: null}", "metadata: {labels: null}", "revision: '2'"),
    "driver-pod": (
        "metadata: {resourceVersion: null}", "spec: {nodeName: 5}", "status: {containerStatuses: [{restartCount: 0}]}",
        "status: {initContainerStatuses: [{name: k8s-driver-manager, state: {terminated: {exitCode: '0'}}}]}",
        "status: {containerStatuses: [{name: x, lastState: {terminated: {finishedAt: '2026-01-01T10:00:00'}}}]}",
        "status: {conditions: [{type: ContainersReady, status: 'True'}]}",
    ),
    "slice": ("spec: {devices: [{attributes: {driverVersion: {version: 580}}}]}", "spec: {nodeName: [gpu-0]}"),
    "deployment": ("metadata: {uid: null}", "status: {updatedReplicas: true}"),
    "replicaset": ("metadata: {annotations: 1}",),
    "lease": ("metadata: {namespace: null}", "spec: {acquireTime: never}"),
}  # fmt: skip


def test_a_malformed_object_is_refused() -> None:
    """A field that a decision rests on has the wrong type: the object is refused, and named."""
    for name, patches in MALFORMED.items():
        read, good = EVERY_READER[name], obj(name)
        for patch in patches:
            found = obj(name, patch)
            assert error_of(MalformedObjectError, read, found), (name, patch)
            entry = readers.entry(read, good["kind"], raw(found))
            assert isinstance(entry.view, views.Malformed), (name, patch)
            assert (found["metadata"].get("name") or "", good["kind"]) == (entry.view.name, entry.view.kind), patch
    twice = obj("driver-pod", {"status": {"conditions": conditions(5) + conditions(9)}})
    assert "2 times ContainersReady" in error_of(MalformedObjectError, readers.pod, twice), "contradicting conditions"
