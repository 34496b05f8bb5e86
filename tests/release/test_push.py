"""Pushing the chart to a real registry, whose answer is what gets signed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from devcluster import binaries
from tests.chart.rendering import ROOT
from tools import release

PATIENCE: Final = 60.0
"""Seconds for a small program to listen, on a busy machine."""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Serve an OCI registry on a free port of this machine."""
    log = tmp_path / "registry.log"
    command = [str(binaries.ensure(["crane"])["crane"]), "registry", "serve", "--address=127.0.0.1:0"]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            yield f"127.0.0.1:{_port(process, log)}"
        finally:
            process.terminate()


def _port(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the registry prints where it listens."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if match := re.search(r"serving on port (\d+)", log.read_text()):
            return match[1]
        time.sleep(0.05)
    pytest.fail(f"the registry does not listen:\n{log.read_text()}")


def test_push_prints_the_digest_that_the_registry_has(registry: str, tmp_path: Path) -> None:
    """Exactly one line for the workflow's outputs; all else that Helm says goes to the log."""
    version = release.versions(ROOT)["Chart.yaml, version"]
    chart = f"gpu-operator-post-{version}.tgz"
    runner = CliRunner()
    packaged = runner.invoke(release.main, ["chart", "Some-Org/fork", f"--destination={tmp_path}"])
    assert packaged.exit_code == 0, packaged.output
    pushed = runner.invoke(release.main, ["push", str(tmp_path / chart), f"oci://{registry}/charts", "--plain-http"])
    assert pushed.exit_code == 0, pushed.output
    asked = subprocess.run(
        [binaries.ensure(["crane"])["crane"], "digest", "--insecure", f"{registry}/charts/gpu-operator-post:{version}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert pushed.stdout == f"digest={asked.stdout.strip()}\n"
