"""Malformed objects: no wrong type is ever read as ready, fresh or absent, and nothing but one error comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hook.errors import UnreachableError
from hook.objects import policies, readers, views
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.cluster import READERS
from tests.fixtures.damage import damaged, shaped
from tests.fixtures.objects import conditions, error_of, obj, raw

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_READER: Final[dict[str, Any]] = {
    **READERS,
    "policy": policies.cluster_policy,
    "pool/policy": policies.nvidia_driver,
    "network/policy": policies.nic_cluster_policy,
}
MALFORMED: Final[dict[str, tuple[str, ...]]] = {
    "pool/policy": ("spec: null", "spec: {version: 580.1}", "spec: {rdma: {enabled: 'yes'}}"),
    "network/policy": (
        "spec: {ofedDriver: {version: 24.10}}", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: 'on'}}}",
        "status: {appliedStates: [{name: state-OFED, state: true}]}", "metadata: {uid: null}",
    ),
    "policy": (
        "spec: {driver: null}", "spec: {driver: {enabled: 'true'}}", "spec: {driver: {usePrecompiled: 'no'}}",
        "metadata: {name: null}", "metadata: {creationTimestamp: null}", "metadata: {generation: '2'}",
        "spec: {daemonsets: {labels: {helm.sh/chart: 26}}}", "spec: {sandboxWorkloads: {enabled: 'true'}}",
        "metadata: {managedFields: [{manager: helm, time: soon}]}", "status: {state: true}",
    ),
    "node": (
        "metadata: {labels: {nvidia.com/gpu.present: true}}", "metadata: {labels: []}",
        "status: {conditions: [{type: Ready, status: 'True'}, {type: Ready, status: 'False'}]}",
        "status: {conditions: [{type: Ready, status: 'False', lastTransitionTime: now}]}",
        "status: {conditions: [{type: Ready, status: 'true'}]}", "status: {conditions: [{type: Ready}]}",
        "spec: {taints: [{key: x, effect: NoWay}]}",
    ),
    "driver-daemonset": (
        "metadata: {uid: null}", "metadata: {generation: null}", "status: {observedGeneration: '2'}",
        "status: {desiredNumberScheduled: null}", "status: {desiredNumberScheduled: -1}",
        "spec: {template: {spec: {tolerations: all}}}", "spec: {selector: {matchLabels: {app: 1}}}",
        "spec: {template: {spec: {containers: [{image: x}]}}}", "spec: {updateStrategy: OnDelete}",
    ),
    "revision": (
        "metadata: {creationTimestamp: null}", "metadata: {labels: null}", "revision: '2'",
        "metadata: {ownerReferences: [{uid: a, controller: 'true'}]}",
    ),
    "driver-pod": (
        "metadata: {uid: null}", "metadata: {resourceVersion: null}", "metadata: {deletionTimestamp: soon}",
        "spec: {nodeName: 5}", "status: {phase: 1}", "status: {containerStatuses: [{restartCount: 0}]}",
        "status: {containerStatuses: [{name: nvidia-driver-ctr, state: {running: {startedAt: x}}}]}",
        "status: {initContainerStatuses: [{name: k8s-driver-manager, state: {terminated: {exitCode: '0'}}}]}",
        "status: {containerStatuses: [{name: x, lastState: {terminated: {finishedAt: '2026-01-01T10:00:00'}}}]}",
        "status: {conditions: [{type: ContainersReady, status: 'True'}]}",
    ),
    "slice": (
        "spec: {devices: [gpu-0]}", "spec: {devices: [{attributes: {driverVersion: {version: 580}}}]}",
        "spec: {nodeName: [gpu-0]}",
    ),
    "deployment": ("metadata: {uid: null}", "spec: {replicas: one}", "status: {updatedReplicas: true}"),
    "replicaset": ("metadata: {annotations: 1}",),
    "lease": ("metadata: {namespace: null}", "spec: {holderIdentity: 1}", "spec: {acquireTime: never}"),
}  # fmt: skip


def reader(name: str) -> Any:  # noqa: ANN401 - a function of the part's kind
    """Return the reader of a base object."""
    return EVERY_READER["daemonset" if name.endswith("daemonset") else name]


def test_a_malformed_object_is_refused() -> None:
    """A field that a decision rests on has the wrong type: the object is refused, and named."""
    for name, patches in MALFORMED.items():
        read, good = reader(name), obj(name)
        for patch in patches:
            found = obj(name, patch)
            assert error_of(MalformedObjectError, read, found), (name, patch)
            entry = readers.entry(read, good["kind"], raw(found))
            assert isinstance(entry.view, views.Malformed), (name, patch)
            assert (found["metadata"].get("name") or "", good["kind"]) == (entry.view.name, entry.view.kind), patch


def nulls(value: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON is any of it
    """Yield copies of a value, each with one field null that Kubernetes may leave out."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, (dict, list)) and key not in ("metadata", "driver"):
            yield {**value, key: None}
        for changed in nulls(inner):
            yield {**value, key: changed}


def test_null_is_absent() -> None:
    """Kubernetes writes null for lists and objects that are not set."""
    for name in ("node", "plugin-pod", "plugin-daemonset", "slice", "deployment", "lease", "policy"):
        for found in nulls(obj(name)):
            if name != "policy" or found.get("spec"):
                assert not error_of(MalformedObjectError, reader(name), found), (name, found)


def test_contradicting_conditions_are_refused() -> None:
    """Two conditions of a type cannot both be believed."""
    with pytest.raises(MalformedObjectError, match="2 times ContainersReady"):
        readers.pod(obj("driver-pod", {"status": {"conditions": conditions(5) + conditions(9)}}))


@given(found=shaped)
def test_arbitrary_json_is_read_or_refused(found: object) -> None:
    """Whatever a server sends, a reader returns a view or raises one kind of error; no object at all is an outage."""
    for part, read in EVERY_READER.items():
        outage = error_of(UnreachableError, readers.entry, read, part, raw(found))
        assert not (outage and isinstance(found, dict)), part


@st.composite
def almost_good(draw: st.DrawFn) -> tuple[str, object]:
    """Take a good object and put arbitrary JSON somewhere into it."""
    name = draw(st.sampled_from(sorted({*MALFORMED, "plugin-pod", "plugin-daemonset"})))
    return name, draw(st.composite(damaged)(obj(name)).filter(lambda found: isinstance(found, dict)))


@given(found=almost_good())
def test_a_damaged_object_is_read_or_refused(found: tuple[str, object]) -> None:
    """One wrong value anywhere in a good object leads to a view or to the one error."""
    name, damage = found
    readers.entry(reader(name), name, raw(damage))
