"""The mock of NVIDIA's Management Library: its version is its file's, its module and devices are its root's."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from devcluster import nvml

if TYPE_CHECKING:
    from pathlib import Path

OURS, OTHER = "580.105.08", "580.126.20"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Lay out the root file system of a driver with two devices."""
    if shutil.which("cc") is None and not os.environ.get("REQUIRE_IMAGE"):
        pytest.skip("there is no C compiler")
    library, smi = nvml.build(tmp_path)
    for folder in ("usr/lib64", "usr/bin", "run/nvidia", "dev"):
        (tmp_path / "root" / folder).mkdir(parents=True)
    libraries = tmp_path / "root" / "usr/lib64"
    library.rename(libraries / f"libnvidia-ml.so.{OURS}")
    (libraries / "libnvidia-ml.so.1").symlink_to(f"libnvidia-ml.so.{OURS}")
    smi.rename(tmp_path / "root" / "usr/bin/nvidia-smi")
    for minor in (0, 3):
        (tmp_path / "root" / f"dev/nvidia{minor}").touch()
    return tmp_path / "root"


def smi(root: Path, *arguments: str) -> tuple[int, str]:
    """Run nvidia-smi as a program that finds the library by its name."""
    environment = {"LD_LIBRARY_PATH": str(root / "usr/lib64")}
    done = subprocess.run(
        [root / "usr/bin/nvidia-smi", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def load_module(root: Path, version: str) -> None:
    """Put the version of the kernel module where the library reads it."""
    (root / "run/nvidia/module-version").write_text(f"{version}\n")


def test_it_works_with_the_module_of_its_own_version(root: Path) -> None:
    """The devices are those that have a node, with identifiers that stay the same."""
    load_module(root, OURS)
    code, printed = smi(root)
    assert code == 0
    assert printed.splitlines() == [
        f"Driver Version: {OURS}",
        "GPU 0: GPU-00000000-0000-4000-8000-000000000000",
        "GPU 1: GPU-00000000-0000-4000-8000-000000000003",
    ]


def test_it_refuses_any_other_module(root: Path) -> None:
    """With the codes and words of the real library, also where no driver was injected; the version needs no module."""
    for module, code, reason in (("", 9, "Driver Not Loaded"), (OTHER, 18, "Driver/library version mismatch")):
        load_module(root, module)
        assert smi(root) == (code, f"Failed to initialize NVML: {reason}\n"), module
        assert smi(root, "--version")[0] == 0, module
    (root / "usr/lib64/libnvidia-ml.so.1").unlink()
    code, printed = smi(root)
    assert (code, "couldn't find libnvidia-ml.so" in printed) == (12, True)
