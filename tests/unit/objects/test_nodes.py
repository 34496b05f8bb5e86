"""Nodes: what is kept of them."""

from __future__ import annotations

import pytest

from hook.objects.nodes import Write, node_reader, read_node
from hook.objects.scheduling import Taint
from tests.fixtures.objects import Object, at, obj

READY = "lastTransitionTime: '2026-01-01T10:00:00Z'"


def test_a_node_of_a_gpu_cluster_is_read() -> None:
    """Its labels of the operator, its Ready condition, and since when it holds."""
    node = read_node(obj("node"))
    assert {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.driver": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
    } == node.labels
    assert ("gpu-0", True, False, False) == (node.name, node.ready, node.cordoned, node.waits_for_drain)
    assert ((), None, None) == (node.taints, node.mig_state_written, node.gpus)
    assert node.ready_since is not None
    assert "2025-12-01T08:00:00+00:00" == node.ready_since.isoformat()


def test_a_label_that_a_daemonset_selects_by_is_kept() -> None:
    """The labels of others are not: thousands of nodes carry dozens each. Equal labels are in memory once."""
    read = node_reader(("kubernetes.io/hostname",))
    assert "gpu-0" == read(obj("node")).labels["kubernetes.io/hostname"]
    assert read(obj("node")).labels is read(obj("node")).labels


@pytest.mark.parametrize(
    ("conditions", "ready", "since"),
    [
        pytest.param(f"[{{type: Ready, status: 'True', {READY}}}]", True, at(0), id="ready"),
        pytest.param(f"[{{type: Ready, status: 'False', {READY}}}]", False, at(0), id="not-ready"),
        pytest.param(f"[{{type: Ready, status: Unknown, {READY}}}]", False, at(0), id="kubelet-silent"),
        pytest.param("[{type: Ready, status: 'True', lastTransitionTime: null}]", True, None, id="without-a-time"),
        pytest.param(f"[{{type: MemoryPressure, status: 'True', {READY}}}]", False, None, id="another-condition"),
        pytest.param("[]", False, None, id="not-reported-yet"),
    ],
)
def test_a_node_is_ready_if_its_condition_says_so(conditions: str, ready: bool, since: object) -> None:
    """A node that has not reported its condition is not ready."""
    node = read_node(obj("node", f"status: {{conditions: {conditions}}}"))
    assert (ready, since) == (node.ready, node.ready_since)


@pytest.mark.parametrize(
    ("taint", "kept"),
    [
        ({"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}, True),
        ({"key": "maintenance", "effect": "NoExecute"}, True),
        ({"key": "dedicated", "effect": "PreferNoSchedule"}, False),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, False),
    ],
    ids=lambda value: value["effect"] + "-" + value["key"] if isinstance(value, dict) else "",
)
def test_only_taints_that_can_repel_a_daemonset_are_kept(taint: Object, kept: bool) -> None:
    """DaemonSet pods tolerate the taints of node conditions, and a preference keeps no pod off."""
    node = read_node(obj("node", {"spec": {"unschedulable": True, "taints": [taint]}}))
    assert (Taint(**taint),) * kept == node.taints
    assert node.cordoned


@pytest.mark.parametrize(("value", "waits"), [("mofed-container", True), ("", False), (None, False)])
def test_the_driver_of_a_node_waits_for_a_drain(value: str | None, waits: bool) -> None:
    """While its annotation has a value."""
    annotations = {"nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load": value, "other": "x"}
    assert waits is read_node(obj("node", {"metadata": {"annotations": annotations}})).waits_for_drain


@pytest.mark.parametrize(("capacity", "gpus"), [("8", 8), ("", None), ("1k", None), ("9" * 5000, None), ("²", None)])
def test_the_number_of_gpus_is_a_plain_number(capacity: str, gpus: int | None) -> None:
    """No node has more than nine digits of them, and Python refuses to read thousands of digits."""
    node = read_node(obj("node", {"status": {"capacity": {"nvidia.com/gpu": capacity[:1024], "cpu": "96"}}}))
    assert gpus == node.gpus


OWNED: Object = {"f:metadata": {"f:labels": {"f:nvidia.com/mig.config.state": {}}}}


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        pytest.param([(5, OWNED), (7, OWNED), (6, OWNED)], Write(at(7)), id="the-last-of-several"),
        pytest.param([(5, OWNED), (6, OWNED, "ancient-changes")], Write(at(6), merged=True), id="merged-by-the-server"),
        pytest.param([(9, {"f:metadata": {"f:labels": {"f:more": {}}}})], None, id="of-another-label"),
        pytest.param([(9, {"f:metadata": {}}), (9, {}), (9, None)], None, id="of-no-label"),
        pytest.param([(None, OWNED)], None, id="without-a-time"),
        pytest.param([], None, id="none"),
    ],
)
def test_when_the_state_of_a_mig_reconfiguration_was_written(
    writes: list[tuple[object, ...]], expected: Write | None
) -> None:
    """The last write of any manager of the label counts."""
    managed = [
        {
            "manager": manager[0] if manager else "mig-manager",
            **({"time": at(seconds).isoformat()} if isinstance(seconds, int) else {}),
            **({"fieldsV1": fields} if fields is not None else {}),
        }
        for seconds, fields, *manager in writes
    ]
    node = obj("node", {"metadata": {"managedFields": managed}})
    assert expected == read_node(node).mig_state_written
