"""Readers of API objects, under their former module name."""

from hook.objects.daemonsets import read_daemonset as daemonset
from hook.objects.daemonsets import read_revision as revision
from hook.objects.decoding import Entry, entry
from hook.objects.nodes import node_reader as node_with
from hook.objects.nodes import read_node as node
from hook.objects.nodes import small_number
from hook.objects.operators import read_deployment as deployment
from hook.objects.operators import read_lease as lease
from hook.objects.operators import read_replicaset as replicaset
from hook.objects.pods import read_pod as pod
from hook.objects.slices import read_slice as device_slice

__all__ = [
    "Entry", "daemonset", "deployment", "device_slice", "entry", "lease", "node", "node_with", "pod", "replicaset",
    "revision", "small_number",
]  # fmt: skip
