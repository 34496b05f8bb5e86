"""Values of API objects, under their former module name."""

from hook.objects.daemonsets import DaemonSet, Revision, Template
from hook.objects.decoding import NOTHING as NONE
from hook.objects.decoding import Malformed
from hook.objects.decoding import Value as View
from hook.objects.nodes import Node, Write
from hook.objects.operators import Deployment, Lease, ReplicaSet
from hook.objects.pods import Container, Pod
from hook.objects.scheduling import Taint
from hook.objects.slices import DeviceSlice
from hook.objects.snapshot import Snapshot, node_of

__all__ = [
    "NONE", "Container", "DaemonSet", "Deployment", "DeviceSlice", "Lease", "Malformed", "Node", "Pod", "ReplicaSet",
    "Revision", "Snapshot", "Taint", "Template", "View", "Write", "node_of",
]  # fmt: skip
