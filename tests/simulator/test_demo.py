"""The demo: what it shows, and that its last line can be trusted by machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulator.modules import module

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.e2e
def test_the_demo_proves_its_point(tmp_path: Path) -> None:
    """Without a terminal: plain lines, a picture, and a last line with every figure from the ground truth."""
    done = module("devcluster.demo", "--nodes", "4", cwd=tmp_path)
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout + done.stderr
    assert last.startswith("demo: ok nodes=4 stale_after=0 early_restarts=0 needless_restarts=0 restarts=4 shell_stale")
    assert (tmp_path / "demo-timeline.svg").read_text().startswith("<svg")
