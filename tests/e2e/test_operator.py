"""What the real operator does that no script expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.lab import ALL_AT_ONCE, NEW, NEW_CHART

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e


def test_drivers_that_are_rotated_twice(boot: Callable[..., Lab]) -> None:
    """The old operator renders the new intent, its successor renders it again: served twice, done after the second.

    Between the two everything looks done for seconds: drivers, plugins, labels and the policy.
    """
    lab = boot(2)
    slow: dict[str, Any] = {"simulate__oldOperatorLingers": True, "simulate__handoverSeconds": 14, **ALL_AT_ONCE}
    lab.fleet(nodes=2, **slow)
    lab.operator(chart=NEW_CHART, driver=NEW, **slow)
    done = lab.post()
    assert done.code == 0, done.output
    loads = [each.node for each in lab.truth.since(lab.began) if each.event == "driver-loaded"]
    assert ["gpu-0", "gpu-0", "gpu-1", "gpu-1"] == sorted(loads)
    lab.assert_clean(sorted(loads))
    last = max(each.t for each in lab.truth.since(lab.began) if each.event == "driver-ready")
    assert lab.ended_at() > last


def test_precompiled_switch(boot: Callable[..., Lab]) -> None:
    """For seconds there is no driver DaemonSet, then all nodes go at once, and no label ever leaves upgrade-done."""
    lab = boot(3)
    lab.fleet(nodes=3)
    lab.operator(driver="580", driver__usePrecompiled=True)
    hook = lab.start_post()
    labels: set[str] = set()
    while hook.poll() is None:
        labels |= lab.label_states()
    done = lab.deployed(hook)
    assert done.code == 0, done.output
    assert labels == {"upgrade-done"}
    assert lab.story()["phase"] == "Done"
    assert {"580.95.05"} == set(lab.truth.loaded_now().values())
    lab.assert_clean(["gpu-0", "gpu-1", "gpu-2"])


def test_a_policy_that_is_never_ready(boot: Callable[..., Lab]) -> None:
    """Another operand is broken for good: that delays done, but does not prevent it, and is told."""
    lab = boot(2)
    lab.stale_fleet(nodes=2, simulate__brokenOperand=True)
    assert lab.policy_state() == "notReady"
    done = lab.post(args=("advanced.operatorQuiet=2s", "advanced.policyGrace=6s"))
    assert done.code == 0, done.output
    assert any("notReady" in warning for warning in lab.story()["warnings"])
    lab.assert_clean(["gpu-0", "gpu-1"])
