"""Run promtool on rules and on series that a test defines."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from devcluster.build import binaries

SECONDS: Final = 60.0


def promtool(*arguments: str | Path) -> None:
    """Run it; what it finds wrong fails the test."""
    program = binaries.ensure(["promtool"])["promtool"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def write(file: Path, content: Any) -> Path:  # noqa: ANN401 - whatever YAML can hold
    """Write a file for promtool."""
    file.write_text(yaml.safe_dump(content))
    return file
