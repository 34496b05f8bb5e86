"""The demo: what it shows, and that its last line can be trusted by machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from devcluster.demoview import Side, proof, rows
from devcluster.happening import encode
from devcluster.truth import Truth
from tests.simulator.modules import module

if TYPE_CHECKING:
    from pathlib import Path

OURS = {"pod": "p", "uid": "p", "daemonset": "plugin", "namespace": "dra"}
THEIRS = {"pod": "q", "uid": "q", "daemonset": "plugin", "namespace": "script"}

STORY = [
    encode("driver-loaded", "gpu-0", 1, load=1, version="1.0"),
    encode("driver-ready", "gpu-0", 2, load=1, version="1.0"),
    encode("plugin-started", "gpu-0", 3, load=1, version="1.0", **OURS),
    encode("plugin-started", "gpu-0", 3, load=1, version="1.0", **THEIRS),
    encode("driver-unloaded", "gpu-0", 4),
    encode("driver-loaded", "gpu-0", 5, load=2, version="2.0"),
    encode("driver-ready", "gpu-0", 6, load=2, version="2.0"),
    encode("plugin-gone", "gpu-0", 7, **OURS),
    encode("plugin-started", "gpu-0", 8, load=2, version="2.0", **OURS),
]
"""One node whose plugin our side restarts and the other does not."""


def test_the_table_follows_the_truth() -> None:
    """One row per node: driver, both plugins, and the state of our side; time that still runs is marked so."""
    for lines, expected in (
        (4, ("1.0", "1.0", "1.0", "on the old driver")),
        (5, ("none", "1.0", "1.0", "reloading")),
        (6, ("2.0 …", "1.0 STALE", "1.0 STALE", "loaded, not Ready")),
        (7, ("2.0", "1.0 STALE", "1.0 STALE", "plugin is stale")),
        (8, ("2.0", "starting", "1.0 STALE", "plugin restarts")),
        (9, ("2.0", "2.0", "1.0 STALE", "served")),
    ):
        found = rows(Truth.of(STORY[:lines]), "dra/plugin", "script/plugin", "2.0")
        assert found == [("gpu-0", *expected)], lines
    side = Side("script", 0, 3.0, 8, 0, 0, ("gpu-0",), {"gpu-0": 30.0, "gpu-1": 2.0})
    cells = list(proof([side]).columns[1].cells)
    assert "30 s, and counting" in cells
    assert cells[-1] == "2 s"


@pytest.mark.e2e
def test_the_demo_proves_its_point(tmp_path: Path) -> None:
    """Without a terminal: plain lines, a picture, and a last line with every figure from the ground truth."""
    done = module("devcluster.demo", "--nodes", "4", cwd=tmp_path)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout + done.stderr
    assert last.startswith("demo: ok nodes=4 stale_after=0 early_restarts=0 needless_restarts=0 restarts=4 shell_stale")
    assert (tmp_path / "demo-timeline.svg").read_text().startswith("<svg")
