"""DeviceTaintRules: what is kept of them, and what the program writes."""

from __future__ import annotations

from typing import Final

from hook.objects.taints import Place, read_taint_rule, spec_of
from tests.fixtures.objects import Object, at

PLACE: Final = Place("gpu.nvidia.com", "gpu-0")


def test_a_rule_is_read_as_it_was_written() -> None:
    """Its devices, the reason in its taint, whose it is, and since when it exists."""
    labels = {"app.kubernetes.io/component": "job"}
    metadata: Object = {"name": "gpu-0-1", "labels": labels, "creationTimestamp": "2026-01-01T10:00:00Z"}
    rule = read_taint_rule({"metadata": metadata, "spec": spec_of(PLACE, "DriverMissing")})
    assert (rule.name, rule.component, rule.place, rule.reason) == ("gpu-0-1", "job", PLACE, "DriverMissing")
    assert (rule.created, str(rule.place)) == (at(0), "gpu-0 (gpu.nvidia.com)")


def test_an_empty_rule_can_be_read() -> None:
    """Users may label rules of their own as ours."""
    rule = read_taint_rule({"metadata": {"name": "a"}})
    assert (rule.component, rule.place, rule.reason, rule.created) == ("", Place("", ""), "", None)
