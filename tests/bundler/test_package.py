"""The package: what the bundler reads at run time is in the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.bundler.program import OURS, RECIPE, ROOT, TOOLS, bundle, contents

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "bundler", "hook")


def test_wheel_writes_bundles(tmp_path: Path) -> None:
    """The wheel holds every template: installed from it alone, the program writes the same bundles."""
    sources, packages = tmp_path / "sources", tmp_path / "packages"
    sources.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    build = "import sys, setuptools.build_meta as backend; print(backend.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", build, tmp_path], cwd=sources, capture_output=True, text=True, check=True, timeout=300
    )
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as archive:
        archive.extractall(packages)
    for tool in TOOLS:
        target = tmp_path / tool
        arguments = ["bundle", f"--recipe={RECIPE}", f"--deployer={tool}", f"--output={target}", OURS]
        command = [sys.executable, "-m", "bundler", *arguments]
        subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(packages)}, check=True, timeout=120)
        assert contents(bundle(tool, tmp_path / f"{tool}-by-the-tree")) == contents(target), tool
