"""Plugins that look stale and are not, and one that looks fresh and is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.lab import ALL_AT_ONCE, NEW

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.lab import Lab

pytestmark = pytest.mark.e2e

GAP = {"driver_ready_gap_seconds": 6.0}
"""Long enough that every plugin starts between its driver's load and its driver pod's Ready."""


def _started_in_the_gap(lab: Lab, since: float) -> bool:
    """Whether each plugin's last start came before its driver's last Ready."""
    last = {(each.event, each.node): each.t for each in lab.truth.since(since)}
    nodes = {node for event, node in last if event == "plugin-started"}
    return bool(nodes) and all(last["plugin-started", node] < last["driver-ready", node] for node in nodes)


def _ready(lab: Lab, node: str) -> bool:
    """Whether a node is Ready, as the node controller says."""
    conditions = lab.cluster.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def test_an_outage_without_a_reload(boot: Callable[..., Lab]) -> None:
    """A node that was lost for a while moves only Ready times: its served plugin stays fresh, nothing restarts."""
    lab = boot(2)
    lab.fleet(nodes=2, **ALL_AT_ONCE)
    lab.operator(driver=NEW, **ALL_AT_ONCE)
    assert lab.post().code == 0
    lab.assert_clean(["gpu-0", "gpu-1"])
    lab.annotate("gpu-0", "outage", "true")
    lab.until(lambda: not _ready(lab, "gpu-0"), "the node is lost")
    lab.annotate("gpu-0", "outage", None)
    lab.until(lambda: _ready(lab, "gpu-0") and lab.serving() == 2, "the node is back, with its pods Ready")
    done = lab.post()
    assert done.code == 0, done.output
    assert lab.story()["reason"] == "NothingStale"
    lab.assert_clean(["gpu-0", "gpu-1"])


def test_plugins_that_start_before_their_driver_is_ready(boot: Callable[..., Lab]) -> None:
    """On installation and on reboot plugins start when the driver is loaded, not when its pod is Ready: all fresh.

    The hook runs during the installation and again after the reboot, and restarts nothing. A driver container
    that restarts in place is the other way round: the plugin on it does not notice, and is restarted.
    """
    lab = boot(2)
    lab.knobs(**GAP)
    lab.operator()
    lab.plugin()
    installed = lab.post()
    assert installed.code == 0, installed.output
    assert _started_in_the_gap(lab, lab.began)
    lab.assert_clean([])

    for node in ("gpu-0", "gpu-1"):
        lab.annotate(node, "reboot", "first")
    lab.until(lambda: len([each for each in lab.truth.happenings if each.event == "reboot"]) == 2, "both reboot")
    rebooted = lab.truth.happenings[-1].t
    again = lab.post()
    assert again.code == 0, again.output
    assert lab.serving() == 2
    assert _started_in_the_gap(lab, rebooted)
    lab.assert_clean([])

    lab.knobs()
    lab.annotate("gpu-0", "restart-driver-container", "first")
    lab.until(lambda: lab.truth.stale_now() == ("gpu-0",), "the driver was loaded again under the plugin")
    last = lab.post()
    assert last.code == 0, last.output
    lab.assert_clean(["gpu-0"])
