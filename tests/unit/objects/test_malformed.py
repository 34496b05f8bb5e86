"""Malformed objects: no wrong value is read as ready, fresh or absent, and the object is named.

``tests/properties/test_objects.py`` puts wrong values of each type everywhere.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from hook.objects.claims import claim_reader, read_claim_pod
from hook.objects.decoding import Malformed, MalformedObjectError, Reader, entry, version
from hook.objects.pods import read_pod
from tests.fixtures import workloads
from tests.fixtures.objects import Object, merged, obj, parsed, raw
from tests.unit.objects.test_fields import READERS

MALFORMED: Final = (
    ("policy", "metadata: {name: null}", "name"),
    ("policy", "metadata: {uid: null}", "uid"),
    ("policy", "metadata: {creationTimestamp: null}", "creationTimestamp"),
    ("policy", "metadata: {managedFields: [{manager: helm, time: soon}]}", "managedFields[0].time"),
    ("policy", "spec: null", "spec"),
    ("policy", "spec: {driver: null}", "driver"),
    ("policy", "spec: {driver: {usePrecompiled: 'no'}}", "spec.driver.usePrecompiled"),
    ("policy", "spec: {driver: {upgradePolicy: {autoUpgrade: 'no'}}}", "upgradePolicy.autoUpgrade"),
    ("pool/policy", "spec: null", "spec"),
    ("network/policy", "spec: {ofedDriver: {version: 24.10}}", "spec.ofedDriver.version"),
    ("node", "metadata: {labels: {nvidia.com/gpu.present: true}}", "metadata.labels"),
    ("driver-daemonset", "metadata: {uid: null}", "uid"),
    ("driver-daemonset", "metadata: {generation: null}", "generation"),
    ("driver-daemonset", "status: {desiredNumberScheduled: null}", "desiredNumberScheduled"),
    ("driver-daemonset", "spec: {template: {spec: {containers: [{image: x}]}}}", "name"),
    ("revision", "metadata: {creationTimestamp: null}", "creationTimestamp"),
    ("revision", "metadata: {creationTimestamp: '0001-01-01T00:00:00+23:59'}", "out of range"),
    ("revision", "metadata: {labels: null}", "controller-revision-hash"),
    ("revision", "revision: '2'", "revision"),
    ("driver-pod", "metadata: {uid: null}", "uid"),
    ("driver-pod", "metadata: {resourceVersion: null}", "resourceVersion"),
    ("driver-pod", "status: {containerStatuses: [{restartCount: 0}]}", "name"),
    ("slice", "spec: {devices: [{attributes: {driverVersion: {version: 580}}}]}", "driverVersion.version"),
    ("deployment", "metadata: {uid: null}", "uid"),
    ("replicaset", "metadata: {annotations: 1}", "metadata.annotations"),
    ("lease", "metadata: {namespace: null}", "namespace"),
)


@pytest.mark.parametrize(("name", "patch", "problem"), MALFORMED)
def test_a_malformed_object_is_named(name: str, patch: str, problem: str) -> None:
    """A field that a decision rests on is missing or has the wrong type: kind, name and problem are reported."""
    good, bad = obj(name), obj(name, patch)
    with pytest.raises(MalformedObjectError):
        READERS[name](bad)
    _key, found = entry(READERS[name], good["kind"], raw(bad))
    assert isinstance(found, Malformed)
    assert (good["kind"], bad["metadata"].get("name", "")) == (found.kind, found.name)
    assert bad["metadata"].get("namespace", "") == found.namespace
    assert problem in found.problem


@pytest.mark.parametrize(
    ("reader", "good", "patch"),
    [
        pytest.param(claim_reader(("gpu.nvidia.com",)), workloads.claim(), "metadata: {namespace: null}", id="claim"),
        pytest.param(read_claim_pod, workloads.claim_pod(started=5), "status: {startTime: yesterday}", id="pod"),
    ],
)
def test_a_malformed_claim_or_pod_of_one_is_named(reader: Reader[Any], good: Object, patch: str) -> None:
    """It is never left out as if it held nothing."""
    _key, found = entry(reader, good["kind"], raw(merged(good, parsed(patch))))
    assert isinstance(found, Malformed)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (obj("driver-pod", "metadata: {uid: 7}"), ("gpu-operator", "driver-gpu-0", "gpu-0")),
        ({"metadata": {"name": ["a"], "namespace": 3}, "spec": []}, ("", "", "")),
        ({"metadata": {"name": "x" * 1025}}, ("", "", "")),
        ({"metadata": 7}, ("", "", "")),
    ],
    ids=["readable-names", "no-texts", "too-long", "no-metadata"],
)
def test_a_malformed_object_keeps_what_can_be_read_of_its_identity(
    found: Object, expected: tuple[str, str, str]
) -> None:
    """Its namespace, its name and its node."""
    _key, malformed = entry(read_pod, "Pod", raw(found))
    assert isinstance(malformed, Malformed)
    assert expected == (malformed.namespace, malformed.name, malformed.node)


def test_an_object_that_can_be_read_has_its_key_and_version() -> None:
    """The informer keeps it by the key, and continues from the version."""
    found = obj("driver-pod")
    assert (("gpu-operator", "driver-gpu-0"), read_pod(found)) == entry(read_pod, "Pod", raw(found))
    assert version(raw(found)) == "100"
