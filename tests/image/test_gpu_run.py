"""The run that is prepared for a machine with a GPU (tools/gpu), on the mock of the driver."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.boot.layout import CHECKOUT
from tests.image.conftest import cannot
from tools.gpu.bundle import lay_out
from tools.gpu.plugin import UNSHARE
from tools.gpu.steps import MOCK_VERSION, OTHER_MOCK_VERSION

SECONDS = 600
PREPARED = "prepared, 5 host paths, 0 of them missing, nvidia-smi: 0"
REPLACED = {
    "another driver's root, no claim before": "prepared, 4 host paths, 2 of them missing, nvidia-smi: 32",
    "another driver's root, after a claim": "prepared, 5 host paths, 2 of them missing, nvidia-smi: 32",
    "the same driver's root, no claim before": "prepared, 4 host paths, 0 of them missing, nvidia-smi: 0",
}
"""32: a library cannot be mounted. Four paths: nvidiactl is not among them, as the plugin no longer sees devices."""


def test_it_needs_no_package_that_is_not_in_the_bundle() -> None:
    """The other machine has Python's own modules, this checkout, and the packages of requirements/runtime.txt."""
    report = "import sys; before = set(sys.modules); import tools.gpu.steps; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", report], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    packages = {name.partition(".")[0] for name in loaded.stdout.split()} - sys.stdlib_module_names
    # PyYAML is built with Cython, which leaves modules of its own.
    assert {name for name in packages if "cython" not in name} == {"devcluster", "tools", "yaml"}


@pytest.mark.nightly
def test_every_step_but_the_pod_works_on_the_mock(tmp_path: Path) -> None:
    """NVIDIA's plugin publishes, prepares, refuses other libraries; the program verifies and restarts it."""
    lay_out(tmp_path / "bundle" / "bin")
    out = tmp_path / "out"
    steps = [sys.executable, "-m", "tools.gpu.steps", str(out), "--bundle", str(tmp_path / "bundle"), "--mock"]
    if subprocess.run([*UNSHARE, "true"], check=False).returncode != 0:
        cannot("mount namespaces need root")
    subprocess.run([*UNSHARE, *steps], cwd=CHECKOUT, timeout=SECONDS, check=False)
    found = dict(re.findall(r"^(\d-\w+) \(.*?\) (.*)$", (out / "summary.txt").read_text(), re.MULTILINE))
    assert found == {
        "1-machine": f"done: driver {MOCK_VERSION}; the other libraries are of {OTHER_MOCK_VERSION}",
        "2-published": f"done: the ResourceSlice names {MOCK_VERSION}",
        "3-claim": f"done: {PREPARED}",
        "4-program": "done: run ended with 0; after a restart of the driver's container with 0",
        "5-mismatch": "done: exit codes: script 0 and 0, plugin 1",
        "6-replaced": f"done: {'; '.join(f'{case}: {result}' for case, result in REPLACED.items())}",
        "7-pod": "done: skipped: no kubelet with containerd runs on this machine",
    }
    assert "Driver/library version mismatch" in (out / "5-mismatch.txt").read_text()
    program = (out / "4-program.txt").read_text()
    assert "plugin pod plugin-1 is stale" in program
    assert "plugin pod plugin-2 runs on the loaded driver" in program
