"""What the image is built from: a base that does not move, and wheels for every architecture that is released."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.chart.rendering import ROOT
from tests.release.commands import steps
from tools.image import __main__ as image

if TYPE_CHECKING:
    from pathlib import Path

DOCKERFILE: Final = (ROOT / "Dockerfile").read_text()
REQUIREMENTS: Final = ROOT / "requirements" / "runtime.txt"
ARCHITECTURES: Final = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
"""What registries call it, and what wheels do."""
GLIBC: Final = range(5, 42)
"""Minor versions of glibc 2 whose wheels run on the base: up to Debian 13's. Pip wants each of them named."""
PATIENCE: Final = 400
"""Seconds for some 15 MB through a slow mirror."""
OUT_OF_REACH: Final = re.compile(r"connection|timed? ?out|retries|resolve|unreachable|proxy|certificate", re.IGNORECASE)
"""What pip says of an index that does not answer, and not where one has no such file."""


def _python() -> str:
    found = image.BASE.search(DOCKERFILE)
    assert found is not None
    version = re.match(r"\d+\.\d+", found["tag"])
    assert version is not None
    return version[0]


def _download(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    fixed = ["download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={target}"]
    command = [sys.executable, "-m", "pip", *fixed, *options]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the package index took longer than {PATIENCE} s")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skip where no package index answers."""
    done = _download(tmp_path_factory.mktemp("probe"), "--no-cache-dir", "tenacity")
    if done.returncode != 0:
        pytest.skip(f"no package index answers: {done.stderr.strip().splitlines()[-1]}")


def test_the_base_does_not_move() -> None:
    """Its digest is written out, in a line that Dependabot reads; both stages use it by default."""
    assert image.default_base().startswith("docker.io/library/python@sha256:")
    assert len(image.BASE.findall(DOCKERFILE)) == 1
    arguments = dict(re.findall(r"^ARG (BASE_IMAGE|BUILD_IMAGE)=(.*)$", DOCKERFILE, re.MULTILINE))
    assert arguments == {"BASE_IMAGE": "base", "BUILD_IMAGE": "${BASE_IMAGE}"}
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert stages[1:] == ["${BUILD_IMAGE}", "${BASE_IMAGE}"]


def test_the_sources_name_no_owner() -> None:
    """The release adds where the image comes from: a name that is not claimed yet could be claimed by anyone."""
    assert "github.com" not in DOCKERFILE
    (labels,) = (step["with"]["labels"] for step in steps(ROOT / ".github/workflows/release.yaml") if _builds(step))
    given = dict(line.split("=", 1) for line in labels.strip().splitlines())
    repository = "${{ github.server_url }}/${{ github.repository }}"
    assert given == {
        "org.opencontainers.image.source": repository,
        "org.opencontainers.image.documentation": f"{repository}#readme",
    }


def _builds(step: dict[str, object]) -> bool:
    return "build-push-action" in str(step.get("uses", ""))


@pytest.mark.usefixtures("index")
def test_every_requirement_has_a_wheel(tmp_path: Path) -> None:
    """For the base's Python on each architecture, with a hash that the lock lists."""
    python = _python()
    fixed = ["--implementation=cp", f"--abi=cp{python.replace('.', '')}", "--abi=abi3", "--abi=none"]
    for architecture in ARCHITECTURES.values():
        platforms = [f"--platform=manylinux_2_{minor}_{architecture}" for minor in GLIBC]
        options = [*platforms, f"--platform=manylinux2014_{architecture}", f"--python-version={python}", *fixed]
        target = tmp_path / architecture
        done = _download(target, "--require-hashes", *options, f"--requirement={REQUIREMENTS}")
        if done.returncode != 0 and OUT_OF_REACH.search(done.stderr):
            pytest.skip(f"the package index stopped answering: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
        assert len(list(target.glob("*.whl"))) == len(re.findall(r"^\S+==", REQUIREMENTS.read_text(), re.MULTILINE))
