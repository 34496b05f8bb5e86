"""What views of API objects say beyond what they hold."""

from __future__ import annotations

from hook.objects import readers
from hook.objects.views import Taint
from tests.fixtures.objects import obj


def test_a_pod_counts_until_it_is_deleted_or_over() -> None:
    """A pod that the DaemonSet controller will replace is not live."""
    for patch, expected in (
        ("{}", True),
        ("metadata: {deletionTimestamp: '2026-01-01T10:00:00Z'}", False),
        ("status: {phase: Succeeded}", False),
        ("status: {phase: Failed}", False),
        ("status: {phase: Unknown}", True),
    ):
        assert expected == readers.pod(obj("plugin-pod", patch)).live, patch


def test_a_deployment_is_rolled_out_when_all_its_pods_are_new_and_available() -> None:
    """The rule is that of ``kubectl rollout status``."""
    for patch, expected in (
        ("{}", True),
        ("spec: {replicas: null}", True),  # one by default
        ("metadata: {generation: 3}", False),
        ("status: {replicas: 2}", False),
        ("status: {updatedReplicas: null}", False),
        ("status: {availableReplicas: 0}", False),
        ("spec: {replicas: 2}", False),
        ("status: null", False),
    ):
        assert expected == readers.deployment(obj("deployment", patch)).rolled_out, patch


def test_a_toleration_matches_a_taint_as_in_kubernetes() -> None:
    """By key, value and effect; an empty key with ``Exists`` tolerates every taint."""
    taint = Taint("a", "b", "NoSchedule")
    for toleration, expected in (
        (Taint("a", "b", "NoSchedule"), True),
        (Taint("a", "b", ""), True),
        (Taint("a", "", "", exists=True), True),
        (Taint("", "", "", exists=True), True),
        (Taint("", "", ""), False),
        (Taint("a", "c", ""), False),
        (Taint("x", "b", ""), False),
        (Taint("a", "b", "NoExecute"), False),
    ):
        assert expected is toleration.tolerates(taint), toleration


def test_a_daemonset_selects_pods_by_all_of_its_labels() -> None:
    """Without a selector it selects none. A pod that it takes over has its UID."""
    found = readers.daemonset(obj("plugin-daemonset", "spec: {selector: {matchLabels: {a: b}}}"))
    labels = dict(found.selector)
    assert found.selects({**labels, "e": "f"})
    assert not found.selects({**labels, "a": "c"})
    assert not readers.daemonset(obj("plugin-daemonset", "spec: {selector: null}")).selects({})
    assert "new" == readers.pod(obj("plugin-pod")).owned_by("new").owner_uid
