"""Nodes: which of their labels are kept."""

from __future__ import annotations

from hook.objects.nodes import node_reader
from tests.fixtures.objects import obj


def test_labels_of_the_operator_and_those_that_a_daemonset_selects_by_are_kept() -> None:
    """The labels of others are not: thousands of nodes carry dozens each. Equal labels are in memory once."""
    read = node_reader(("kubernetes.io/hostname",))
    node = obj("node", "metadata: {labels: {kubernetes.io/os: linux}}")
    ours = {key: text for key, text in node["metadata"]["labels"].items() if key.startswith("nvidia.com/")}
    assert len(ours) == 4
    assert {"kubernetes.io/hostname": "gpu-0", **ours} == read(node).labels
    assert read(node).labels is read(obj("node")).labels
