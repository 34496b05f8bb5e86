"""Pushing the chart to a real registry, whose answer is what gets signed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from devcluster.build import binaries
from tests.chart.rendering import ROOT
from tools import release


@pytest.fixture
def registry() -> Iterator[str]:
    """Serve an OCI registry on a free port of this machine."""
    command = [str(binaries.ensure(["crane"])["crane"]), "registry", "serve", "--address=127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        found = (re.search(r"serving on port (\d+)", line) for line in process.stdout)
        try:
            yield f"127.0.0.1:{next(port[1] for port in found if port)}"
        finally:
            process.terminate()


def test_push_prints_the_digest_that_the_registry_has(registry: str, tmp_path: Path) -> None:
    """Exactly one line for the workflow's outputs; all else that Helm says goes to the log."""
    version = release.versions(ROOT)["Chart.yaml, version"]
    chart = f"gpu-operator-post-{version}.tgz"
    runner = CliRunner()
    packaged = runner.invoke(release.main, ["chart", "Some-Org/fork", f"--destination={tmp_path}"])
    assert packaged.exit_code == 0, packaged.output
    pushed = runner.invoke(release.main, ["push", str(tmp_path / chart), f"oci://{registry}/charts", "--plain-http"])
    assert pushed.exit_code == 0, pushed.output
    crane = str(binaries.ensure(["crane"])["crane"])
    command = [crane, "digest", "--insecure", f"{registry}/charts/gpu-operator-post:{version}"]
    assert pushed.stdout == f"digest={subprocess.check_output(command, text=True).strip()}\n"
