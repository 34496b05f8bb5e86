"""API objects, decoded into frozen values that hold what the program uses of them."""

from hook.objects.claims import Claim, ClaimPod, claim_reader, read_claim_pod
from hook.objects.daemonsets import DaemonSet, Revision, read_daemonset, read_revision
from hook.objects.decoding import Malformed, Value, entry
from hook.objects.nodes import Node, node_reader, read_node
from hook.objects.operators import Deployment, Lease, ReplicaSet, read_deployment, read_lease, read_replicaset
from hook.objects.pods import Container, Pod, deleted_at, read_pod
from hook.objects.slices import DeviceSlice, read_slice
from hook.objects.snapshot import Snapshot, node_of

__all__ = [
    "Claim",
    "ClaimPod",
    "Container",
    "DaemonSet",
    "Deployment",
    "DeviceSlice",
    "Lease",
    "Malformed",
    "Node",
    "Pod",
    "ReplicaSet",
    "Revision",
    "Snapshot",
    "Value",
    "claim_reader",
    "deleted_at",
    "entry",
    "node_of",
    "node_reader",
    "read_claim_pod",
    "read_daemonset",
    "read_deployment",
    "read_lease",
    "read_node",
    "read_pod",
    "read_replicaset",
    "read_revision",
    "read_slice",
]
