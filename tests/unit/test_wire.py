"""Malformed objects: no wrong type is ever read as ready, fresh or absent, and nothing but one error comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hook.errors import UnreachableError
from hook.objects import policies, readers, views
from hook.objects.decoding import MalformedObjectError
from tests.fixtures.cluster import READERS
from tests.fixtures.damage import damaged, shaped
from tests.fixtures.objects import conditions, obj, raw

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_READER: dict[str, Any] = {
    **READERS,
    "policy": policies.cluster_policy,
    "pool/policy": policies.nvidia_driver,
    "network/policy": policies.nic_cluster_policy,
}
MALFORMED = {
    "pool/policy": {
        "no-spec": "spec: null",
        "spec-is-text": "spec: driver",
        "version-is-a-number": "spec: {version: 580.1}",
        "precompiled-is-text": "spec: {usePrecompiled: 'no'}",
        "rdma-is-text": "spec: {rdma: {enabled: 'yes'}}",
        "manager-is-text": "spec: {manager: {env: X=y}}",
        "never-created": "metadata: {creationTimestamp: null}",
    },
    "network/policy": {
        "driver-is-text": "spec: {ofedDriver: doca}",
        "version-is-a-number": "spec: {ofedDriver: {version: 24.10}}",
        "auto-upgrade-is-text": "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: 'on'}}}",
        "states-are-text": "status: {appliedStates: ready}",
        "state-is-a-boolean": "status: {appliedStates: [{name: state-OFED, state: true}]}",
        "no-uid": "metadata: {uid: null}",
    },
    "policy": {
        "no-driver": "spec: {driver: null}",
        "driver-is-text": "spec: {driver: nvidia}",
        "enabled-is-text": "spec: {driver: {enabled: 'true'}}",
        "version-is-a-number": "spec: {driver: {version: 580.1}}",
        "precompiled-is-text": "spec: {driver: {usePrecompiled: 'no'}}",
        "auto-upgrade-is-text": "spec: {driver: {upgradePolicy: {autoUpgrade: 'off'}}}",
        "no-name": "metadata: {name: null}",
        "no-uid": "metadata: {uid: null}",
        "never-created": "metadata: {creationTimestamp: null}",
        "generation-is-text": "metadata: {generation: '2'}",
        "state-is-a-boolean": "status: {state: true}",
        "chart-is-a-number": "spec: {daemonsets: {labels: {helm.sh/chart: 26}}}",
        "sandbox-is-text": "spec: {sandboxWorkloads: {enabled: 'true'}}",
        "writes-are-text": "metadata: {managedFields: helm}",
        "written-at-no-time": "metadata: {managedFields: [{manager: helm, time: soon}]}",
    },
    "node": {
        "no-name": "metadata: {name: null}",
        "label-is-a-boolean": "metadata: {labels: {nvidia.com/gpu.present: true}}",
        "labels-are-a-list": "metadata: {labels: []}",
        "conditions-are-an-object": "status: {conditions: {Ready: 'True'}}",
        "ready-is-a-boolean": "status: {conditions: [{type: Ready, status: true}]}",
        "ready-twice": "status: {conditions: [{type: Ready, status: 'True'}, {type: Ready, status: 'False'}]}",
        "no-time": "status: {conditions: [{type: Ready, status: 'False', lastTransitionTime: now}]}",
        "taints-are-an-object": "spec: {taints: {key: x}}",
        "effect-is-a-list": "spec: {taints: [{key: x, effect: [NoSchedule]}]}",
        "effect-is-unknown": "spec: {taints: [{key: x, effect: NoWay}]}",
        "ready-is-lower-case": "status: {conditions: [{type: Ready, status: 'true'}]}",
        "ready-without-a-word": "status: {conditions: [{type: Ready}]}",
    },
    "driver-daemonset": {
        "no-uid": "metadata: {uid: null}",
        "no-namespace": "metadata: {namespace: null}",
        "generation-is-text": "metadata: {generation: two}",
        "observed-is-text": "status: {observedGeneration: '2'}",
        "desired-is-text": "status: {desiredNumberScheduled: all}",
        "misscheduled-is-text": "status: {numberMisscheduled: some}",
        "no-generation": "metadata: {generation: null}",
        "wants-nobody-knows-how-many": "status: {desiredNumberScheduled: null}",
        "wants-less-than-none": "status: {desiredNumberScheduled: -1}",
        "tolerations-are-text": "spec: {template: {spec: {tolerations: all}}}",
        "labels-are-a-list": "metadata: {labels: []}",
        "selector-is-text": "spec: {selector: {matchLabels: {app: 1}}}",
        "nameless-container": "spec: {template: {spec: {containers: [{image: x}]}}}",
        "image-is-a-list": "spec: {template: {spec: {containers: [{name: a, image: []}]}}}",
        "template-is-text": "spec: {template: x}",
        "strategy-is-text": "spec: {updateStrategy: OnDelete}",
    },
    "revision": {
        "never-created": "metadata: {creationTimestamp: null}",
        "no-hash": "metadata: {labels: null}",
        "revision-is-text": "revision: '2'",
        "owners-are-an-object": "metadata: {ownerReferences: {uid: a}}",
        "controller-is-text": "metadata: {ownerReferences: [{uid: a, controller: 'true'}]}",
    },
    "driver-pod": {
        "no-uid": "metadata: {uid: null}",
        "no-resource-version": "metadata: {resourceVersion: null}",
        "deleted-at-no-time": "metadata: {deletionTimestamp: soon}",
        "node-is-a-number": "spec: {nodeName: 5}",
        "phase-is-a-number": "status: {phase: 1}",
        "restarts-are-text": "status: {containerStatuses: [{name: nvidia-driver-ctr, restartCount: none}]}",
        "nameless-status": "status: {containerStatuses: [{restartCount: 0}]}",
        "started-at-no-time": "status: {containerStatuses: [{name: nvidia-driver-ctr, "
        " state: {running: {startedAt: x}}}]}",
        "running-is-a-boolean": "status: {containerStatuses: [{name: nvidia-driver-ctr, state: {running: true}}]}",
        "exit-code-is-text": "status: {initContainerStatuses: [{name: k8s-driver-manager, "
        "state: {terminated: {exitCode: '0'}}}]}",
        "last-end-without-zone": "status: {containerStatuses: [{name: nvidia-driver-ctr, "
        "lastState: {terminated: {finishedAt: '2026-01-01T10:00:00'}}}]}",
        "ready-since-never": "status: {conditions: [{type: ContainersReady, status: 'True'}]}",
        "statuses-are-text": "status: {containerStatuses: all fine}",
    },
    "slice": {
        "no-name": "metadata: {name: null}",
        "devices-are-a-number": "spec: {devices: 8}",
        "device-is-text": "spec: {devices: [gpu-0]}",
        "attributes-are-a-list": "spec: {devices: [{attributes: []}]}",
        "version-is-a-number": "spec: {devices: [{attributes: {driverVersion: {version: 580}}}]}",
        "node-is-a-list": "spec: {nodeName: [gpu-0]}",
    },
    "deployment": {
        "no-uid": "metadata: {uid: null}",
        "replicas-are-text": "spec: {replicas: one}",
        "updated-is-a-boolean": "status: {updatedReplicas: true}",
        "no-generation": "metadata: {generation: null}",
    },
    "replicaset": {"no-name": "metadata: {name: null}", "revision-is-a-number": "metadata: {annotations: 1}"},
    "lease": {
        "no-namespace": "metadata: {namespace: null}",
        "holder-is-a-number": "spec: {holderIdentity: 1}",
        "acquired-at-no-time": "spec: {acquireTime: never}",
    },
}


def reader(name: str) -> Any:  # noqa: ANN401 - a function of the part's kind
    """Give the reader of a base object."""
    return EVERY_READER["daemonset" if name.endswith("daemonset") else name]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_object_is_refused(name: str) -> None:
    """Each field that a decision rests on is refused if it has the wrong type; the object is named."""
    read, good = reader(name), obj(name)
    for what, patch in MALFORMED[name].items():
        found = obj(name, patch)
        with pytest.raises(MalformedObjectError):
            read(found)
        entry = readers.entry(read, good["kind"], raw(found))
        assert isinstance(entry.view, views.Malformed), what
        assert (found["metadata"].get("name") or "", good["kind"]) == (entry.view.name, entry.view.kind), what


def nulls(value: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON is any of it
    """Yield copies of a value, each with one field null that Kubernetes may leave out."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, (dict, list)) and key not in ("metadata", "driver"):
            yield {**value, key: None}
        for changed in nulls(inner):
            yield {**value, key: changed}


@pytest.mark.parametrize("name", ["node", "plugin-pod", "plugin-daemonset", "slice", "deployment", "lease", "policy"])
def test_null_is_absent(name: str) -> None:
    """Kubernetes writes null for lists and objects that are not set."""
    for found in nulls(obj(name)):
        spec = found.get("spec")
        if name != "policy" or spec:
            reader(name)(found)


def test_contradicting_conditions_are_refused() -> None:
    """Two conditions of a type cannot both be believed."""
    with pytest.raises(MalformedObjectError, match="2 times ContainersReady"):
        readers.pod(obj("driver-pod", {"status": {"conditions": conditions(5) + conditions(9)}}))


@pytest.mark.parametrize("part", EVERY_READER)
@given(found=shaped)
def test_arbitrary_json_is_read_or_refused(part: str, found: object) -> None:
    """Whatever a server sends, a reader returns a view or raises one kind of error; no object at all is an outage."""
    try:
        readers.entry(EVERY_READER[part], part, raw(found))
    except UnreachableError:
        assert not isinstance(found, dict)


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
