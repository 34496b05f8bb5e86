"""A machine that cannot build the image skips its tests; one that was said to lack nothing fails."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from devcluster.layout import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lack_is_a_reason_to_skip_unless_there_is_none(tmp_path: Path) -> None:
    """Neither Docker nor buildah can be found: the reason is reported in both cases."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("REQUIRE_", "PYTEST_"))}
    test = "tests/image/test_contents.py::test_size"
    for variables, code, outcome in (({}, 0, "1 skipped"), ({"REQUIRE_IMAGE": "1"}, 1, "1 error")):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", f"--basetemp={tmp_path / 'own'}", test],
            cwd=CHECKOUT,
            env={**own, "PATH": str(tmp_path), **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert code == done.returncode, done.stdout + done.stderr
        assert outcome in done.stdout
        assert "buildah" in done.stdout
