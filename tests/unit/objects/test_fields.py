"""What a view has of an object, by what stands in the places of a field, and what it means if nothing does.

What a pod has of its containers is in test_pods.py. Of objects without a peculiarity, decisions show what is read.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Final

import pytest

from hook.objects import policies
from hook.objects.daemonsets import read_daemonset, read_revision
from hook.objects.decoding import Reader
from hook.objects.nodes import Write, read_node
from hook.objects.operators import read_deployment, read_lease, read_replicaset
from hook.objects.pods import read_pod
from hook.objects.scheduling import Taint
from hook.objects.slices import read_slice
from hook.objects.views import reader
from tests.fixtures.cluster import not_ready_since
from tests.fixtures.objects import Object, at, obj, stamp

READERS: Final[dict[str, Reader[Any]]] = {
    "node": read_node,
    "driver-pod": read_pod,
    "plugin-pod": read_pod,
    "driver-daemonset": read_daemonset,
    "plugin-daemonset": read_daemonset,
    "revision": read_revision,
    "slice": read_slice,
    "deployment": read_deployment,
    "replicaset": read_replicaset,
    "lease": read_lease,
    "policy": reader(policies.ClusterPolicy),
    "pool/policy": reader(policies.NvidiaDriver),
    "network/policy": reader(policies.NicClusterPolicy),
}


def managed(*writes: tuple[float | None, Object | None] | tuple[float | None, Object | None, str]) -> Object:
    """Return a patch with writes: when, the fields of the manager, and its name."""
    entries = [
        {
            "manager": manager[0] if manager else "manager",
            **({"time": stamp(seconds)} if seconds is not None else {}),
            **({"fieldsV1": fields} if fields is not None else {}),
        }
        for seconds, fields, *manager in writes
    ]
    return {"metadata": {"managedFields": entries}}


def containers_ready(ready: str, since: str = "'2026-01-01T10:00:05Z'") -> str:
    """Return a patch of a driver pod's condition."""
    condition = f"{{type: ContainersReady, status: '{ready}', lastTransitionTime: {since}}}"
    return f"status: {{conditions: [{condition}, {{type: Ready, status: 'False'}}]}}"


def gated(value: str) -> Object:
    """Return a patch of a DaemonSet whose second container has these feature gates."""
    env = [{"name": "NODE_NAME", "valueFrom": {}}, {"name": "FEATURE_GATES", "value": value}]
    containers = [{"name": "compute-domains"}, {"name": "gpus", "env": env}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


def published(*devices: Object) -> Object:
    """Return a patch of a slice with these devices."""
    return {"spec": {"devices": [*devices]}}


def image(text: str) -> Object:
    """Return a patch of a policy whose image is a whole reference."""
    return {"spec": {"driver": {"repository": None, "version": None, "image": text}}}


TAINTS: Final[list[Object]] = [
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "maintenance", "effect": "NoExecute"},
    {"key": "dedicated", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
]
WAIT: Final = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load"
MIG: Final[Object] = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config.state": {}}}}
LABEL: Final[Object] = {"f:metadata": {"f:labels": {"f:more": {}}}}
SPEC: Final[Object] = {"f:spec": {}}
ROLLOUT: Final = "{type: Progressing, lastUpdateTime: '2026-01-01T10:00:05Z'}"
NEW: Final[Object] = {"attributes": {"driverVersion": {"version": "580.126.20"}}}
OLD: Final[Object] = {"attributes": {"driverVersion": {"version": "570.1.0"}}}
EVICTION: Final = "[{name: OTHER}, {name: NODE_LABEL_FOR_GPU_POD_EVICTION, value: example.com/evict}]"
MANUAL: Final = "autoUpgrade is off"
SANDBOX: Final = "sandbox workloads are enabled, which turns the upgrade controller off"

FIELDS: Final[tuple[tuple[str, str | Object, str, object], ...]] = (
    # A node that has not reported its condition is not ready.
    ("node", not_ready_since(0, "True"), "ready", True),
    ("node", not_ready_since(0, "False"), "ready", False),
    ("node", not_ready_since(0, "Unknown"), "ready", False),
    ("node", not_ready_since(0, "Unknown"), "ready_since", at(0)),
    ("node", "status: {conditions: [{type: Ready, status: 'True'}]}", "ready", True),
    ("node", "status: {conditions: [{type: Ready, status: 'True'}]}", "ready_since", None),
    ("node", "status: {conditions: []}", "ready", False),
    ("node", "spec: {unschedulable: true}", "cordoned", True),
    # DaemonSet pods tolerate the taints of node conditions, and a preference keeps no pod off.
    ("node", {"spec": {"taints": TAINTS}}, "taints", tuple(Taint(**taint) for taint in TAINTS[:2])),
    ("node", f"metadata: {{annotations: {{{WAIT}: mofed-container}}}}", "waits_for_drain", True),
    ("node", f"metadata: {{annotations: {{{WAIT}: ''}}}}", "waits_for_drain", False),
    # No node has more than nine digits of GPUs, and Python refuses to read thousands of digits.
    ("node", "status: {capacity: {nvidia.com/gpu: '8', cpu: '96'}}", "gpus", 8),
    ("node", "status: {capacity: {nvidia.com/gpu: ''}}", "gpus", None),
    ("node", "status: {capacity: {nvidia.com/gpu: 1k}}", "gpus", None),
    ("node", "status: {capacity: {nvidia.com/gpu: ²}}", "gpus", None),
    ("node", f"status: {{capacity: {{nvidia.com/gpu: '{'9' * 1024}'}}}}", "gpus", None),
    # The last write of any manager of the label counts.
    ("node", managed((5, MIG), (7, MIG), (6, MIG)), "mig_state_written", Write(at(7))),
    ("node", managed((5, MIG), (6, MIG, "ancient-changes")), "mig_state_written", Write(at(6), merged=True)),
    ("node", managed((9, LABEL), (9, {"f:metadata": {}}), (9, {}), (9, None)), "mig_state_written", None),
    ("node", managed((None, MIG)), "mig_state_written", None),
    # The DaemonSet controller replaces a pod that terminates or has ended.
    ("plugin-pod", "metadata: {deletionTimestamp: '2026-01-01T10:00:00Z'}", "live", False),
    ("plugin-pod", "status: {phase: Failed}", "live", False),
    ("plugin-pod", "status: {phase: Succeeded}", "live", False),
    ("plugin-pod", "status: {phase: Pending}", "live", True),
    # The moment at which all containers were ready needs a condition that holds, and a time. A node may be lost later.
    ("driver-pod", containers_ready("True"), "containers_ready_since", at(5)),
    ("driver-pod", containers_ready("True"), "ready", False),
    ("driver-pod", containers_ready("True", "null"), "containers_ready_since", None),
    ("driver-pod", containers_ready("False"), "containers_ready_since", None),
    ("driver-pod", "status: {conditions: []}", "containers_ready_since", None),
    ("driver-pod", "status: {conditions: []}", "ready", False),
    # RollingUpdate is the default of Kubernetes. A DaemonSet that its controller has not seen has no status.
    ("plugin-daemonset", "spec: {updateStrategy: null}", "rolling", True),
    ("plugin-daemonset", "spec: {updateStrategy: {type: OnDelete}}", "rolling", False),
    ("driver-daemonset", "status: null", "observed", False),
    ("plugin-daemonset", gated("A=true,B=True,C=false,"), "gates", ("A", "B")),
    ("plugin-daemonset", gated("A="), "gates", ()),
    ("plugin-daemonset", gated(""), "gates", ()),
    # An object may have other owners, which do not control it.
    ("revision", "metadata: {ownerReferences: [{kind: DaemonSet, uid: a}]}", "owner_uid", ""),
    ("revision", "metadata: {ownerReferences: [{uid: a}, {uid: b, controller: true}]}", "owner_uid", "b"),
    ("revision", "metadata: {ownerReferences: []}", "owner_uid", ""),
    # In v1beta1 they are one level deeper. MIG and VFIO devices publish none. Go writes null for no devices.
    ("slice", published(NEW, OLD, NEW), "driver_versions", {"570.1.0", "580.126.20"}),
    ("slice", published({"basic": NEW}), "driver_versions", {"580.126.20"}),
    ("slice", published({"attributes": {"type": {"string": "mig"}}}, {}), "driver_versions", set()),
    ("slice", published(NEW, {}), "devices", 2),
    ("slice", "spec: {devices: null}", "devices", 0),
    ("slice", "spec: {devices: null}", "driver_versions", set()),
    ("deployment", f"status: {{conditions: [{{type: Available}}, {ROLLOUT}]}}", "changed", at(5)),
    # The holder of the Lease does not name a pod then.
    ("deployment", "spec: {template: {spec: {hostNetwork: true}}}", "named_by_host", True),
    ("deployment", "spec: {template: {spec: {hostname: a}}}", "named_by_host", True),
    ("deployment", "spec: {template: {spec: {hostNetwork: false}}}", "named_by_host", False),
    # It was released.
    ("lease", "spec: null", "holder", ""),
    ("lease", "spec: null", "acquired", None),
    # A field that is absent means what the operator assumes. Sandbox workloads turn the rotation off.
    ("policy", "spec: {driver: {enabled: null}}", "driver.enabled", True),
    ("policy", "spec: {driver: {enabled: false}}", "driver.enabled", False),
    ("policy", "spec: {driver: {usePrecompiled: null}}", "driver.use_precompiled", False),
    ("policy", "spec: {driver: {usePrecompiled: true}}", "driver.use_precompiled", True),
    ("policy", "spec: {driver: {upgradePolicy: null}}", "manual", MANUAL),
    ("policy", "spec: {driver: {upgradePolicy: {autoUpgrade: false}}}", "manual", MANUAL),
    ("policy", "spec: {sandboxWorkloads: {enabled: true}}", "manual", SANDBOX),
    ("policy", "spec: {sandboxWorkloads: {enabled: true}}", "halted", SANDBOX),
    ("policy", "spec: {sandboxWorkloads: {enabled: false}}", "manual", ""),
    ("policy", f"spec: {{driver: {{manager: {{env: {EVICTION}}}}}}}", "driver.eviction_label", "example.com/evict"),
    # Only managers of spec fields count, and the last of their writes.
    ("policy", managed((9, SPEC), (8, SPEC)), "changed", at(9)),
    ("policy", managed((9, None)), "changed", at(9)),
    ("policy", managed((9, {"f:metadata": {}})), "changed", None),
    ("policy", "metadata: {managedFields: [{time: '2026-01-01T10:00:05Z', subresource: status}]}", "changed", None),
    # The operator uses a whole reference as it is; its tag or digest tells the version.
    ("policy", image("registry:5000/driver:580"), "driver.image", "registry:5000/driver"),
    ("policy", image("registry:5000/driver:580"), "driver.version", "580"),
    ("policy", image("registry/driver@sha256:1"), "driver.image", "registry/driver"),
    ("policy", image("registry/driver@sha256:1"), "driver.version", "sha256:1"),
    ("policy", image("registry:5000/driver"), "driver.image", "registry:5000/driver"),
    ("policy", image("registry:5000/driver"), "driver.version", ""),
    # A pool has an upgrade policy of its own or none. Its default is on, other than that of a ClusterPolicy.
    ("pool/policy", "spec: {upgradePolicy: null}", "manual", None),
    ("pool/policy", "spec: {upgradePolicy: {}}", "manual", ""),
    ("pool/policy", "spec: {upgradePolicy: {autoUpgrade: true}}", "manual", ""),
    ("pool/policy", "spec: {upgradePolicy: {autoUpgrade: false}}", "manual", f"its upgradePolicy.{MANUAL}"),
    # A NicClusterPolicy is valid without a driver. Its state is that of its driver.
    ("network/policy", "spec: {ofedDriver: {upgradePolicy: null}}", "driver.enabled", True),
    ("network/policy", "spec: {ofedDriver: {upgradePolicy: null}}", "manual", f"ofedDriver.upgradePolicy.{MANUAL}"),
    ("network/policy", "spec: {ofedDriver: {upgradePolicy: {autoUpgrade: true}}}", "manual", ""),
    ("network/policy", "spec: {ofedDriver: null}", "driver.enabled", False),
    ("network/policy", "spec: null", "driver.enabled", False),
    ("network/policy", "status: {appliedStates: [{name: x, state: a}, {name: state-OFED, state: b}]}", "state", "b"),
    ("network/policy", "status: {appliedStates: []}", "state", ""),
)


@pytest.mark.parametrize(("name", "patch", "field", "expected"), FIELDS)
def test_a_field_has_what_stands_in_its_places(name: str, patch: str | Object, field: str, expected: object) -> None:
    """Row by row: an object, what is different there, and what the program reads then."""
    view = READERS[name](obj(name, patch))
    assert expected == reduce(getattr, field.split("."), view)
