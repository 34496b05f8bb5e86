"""What reloads drivers while no deployer runs: a follower serves every plugin once, and touches no other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e import acts
from tests.e2e.acts import PATIENCE
from tests.e2e.controller.ground import STOPPED
from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART, OLD
from tests.simulator.stage import end_lingering

if TYPE_CHECKING:
    from tests.e2e.controller.ground import Field

pytestmark = pytest.mark.e2e

NODES = 3


def test_patched_rebooted_restarted(field: Field) -> None:
    """The version is patched with kubectl; then one node reboots, one's driver pod is deleted, one's driver crashes.

    The plugin that waited through the reboot is fresh, and is left alone. One process sees all of it.
    """
    one = field.leading()
    field.patch_driver(OLD)
    field.await_served(OLD)
    field.assert_clean(field.nodes)
    field.until(lambda: one.scrape().value("stale_seconds_count") == NODES, "each is accounted for", PATIENCE)
    seen = one.scrape()
    assert seen.value("restarts_total", result="restarted") == seen.value("reaction_seconds_count") == NODES
    assert seen.value("nodes", state="Verified") == seen.value("plugins") == NODES
    assert seen.value("stale_plugins") == 0
    assert seen.alerts() == set()

    field.began = time.time()
    field.annotate("gpu-0", "reboot", str(field.began))
    field.until(lambda: acts.happened(field, "reboot", "gpu-0", field.began), "gpu-0 reboots", PATIENCE)
    acts.delete_driver(field, "gpu-1")
    field.annotate("gpu-2", "restart-driver-container", str(field.began))
    field.until(lambda: {"gpu-1", "gpu-2"} <= set(field.restarts()), "both plugins are restarted", PATIENCE)
    field.await_served(OLD)
    field.assert_clean(["gpu-1", "gpu-2"])

    field.patch_driver(NEW)
    field.await_served(NEW)
    field.assert_clean(["gpu-0", "gpu-1", "gpu-1", "gpu-2", "gpu-2"])
    assert one.stopped() == STOPPED, one.said


def test_nodes_that_are_replaced(field: Field) -> None:
    """One under its own name, one by another, in the middle of an upgrade: new ones are fresh, old ones forgotten."""
    one = field.leading()
    field.replace_node("gpu-1", "gpu-1")
    field.await_served(NEW)
    field.assert_clean([])

    field.annotate("gpu-2", "driver-fault", "image-pull")
    try:
        field.patch_driver(OLD)
        field.until(lambda: acts.happened(field, "driver-unloaded", "gpu-2", field.began), "gpu-2 reloads", PATIENCE)
        field.replace_node("gpu-2", "gpu-9")
        field.await_served(OLD, "gpu-0", "gpu-1", "gpu-9")
        field.assert_clean(["gpu-0", "gpu-1"])
        field.until(
            lambda: {"gpu-0", "gpu-1", "gpu-9"} == {node["node"] for node in field.status()["nodes"]},
            "the node that left is not spoken of",
            PATIENCE,
        )
    finally:
        field.replace_node("gpu-9", "gpu-2")
    field.await_served(OLD)
    field.assert_clean(["gpu-0", "gpu-1"])
    assert one.stopped() == STOPPED, one.said


def test_drivers_that_are_rotated_twice(field: Field) -> None:
    """The old operator renders a release's intent, its successor renders it again: each driver's plugin is served."""
    slow: dict[str, Any] = {"simulate__oldOperatorLingers": True, "simulate__handoverSeconds": 600, **ALL_AT_ONCE}
    field.operator(driver=NEW, **slow)
    field.rest()
    one = field.leading()
    field.operator(chart=NEW_CHART, driver=OLD, **slow)

    def loads() -> list[str]:
        return sorted(each.node for each in field.truth.since(field.began) if each.event == "driver-loaded")

    field.until(lambda: loads() == sorted(field.nodes), "every driver was loaded by the old operator", PATIENCE)
    end_lingering(field.cluster)
    field.until(lambda: loads() == sorted(field.nodes * 2), "every driver was loaded twice", PATIENCE)
    field.await_served(OLD)
    field.assert_clean(loads())
    assert one.stopped() == STOPPED, one.said
