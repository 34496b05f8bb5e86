"""The libraries without their unused parts: every command works on a real API server, with no container needed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from devcluster.boot.layout import CHECKOUT
from devcluster.settings import separated
from tests.e2e.lab import QUICK, Lab
from tests.pool import Pool
from tools.image import trim

Program = Callable[..., subprocess.CompletedProcess[str]]
ENOUGH_SECONDS = 180
BARE = {"PYTHONSAFEPATH": "1", "HOME": "/nonexistent", "PATH": ""}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment as the Dockerfile does: what is locked, trimmed, and the program."""
    root = tmp_path_factory.mktemp("trimmed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    site = next(root.glob("lib/python*/site-packages"))
    locked = (CHECKOUT / "requirements" / "runtime.txt").read_text()
    for name in re.findall(r"^([a-z0-9._-]+)(?:\[[^]]+\])?==", locked, re.MULTILINE):
        _copy(metadata.distribution(name), site)
    subprocess.run([sys.executable, trim.__file__, site], check=True)
    shutil.copytree(CHECKOUT / "hook", site / "hook")
    return root


def _copy(distribution: metadata.Distribution, site: Path) -> None:
    """Copy an installed distribution, apart from its scripts."""
    here = Path(sysconfig.get_path("purelib"))
    for file in distribution.files or []:
        source = Path(str(distribution.locate_file(file))).resolve()
        if source.is_relative_to(here.resolve()) and source.suffix != ".pyc":
            target = site / source.relative_to(here.resolve())
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


@pytest.fixture
def program(environment: Path, tmp_path: Path) -> Program:
    """Return a function that runs the program as the image does; no shell, and no other program, can be found."""

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        arguments, settings = separated(words)
        return subprocess.run(
            [environment / "bin" / "python", "-m", "hook", *arguments],
            env={**BARE, **settings, **variables},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ENOUGH_SECONDS,
            check=False,
        )

    return run


def test_what_is_listed_is_gone(environment: Path) -> None:
    """Nothing that is left out can be imported, is reported as installed, or leaves a script behind."""
    site = next(environment.glob("lib/python*/site-packages"))
    left = {path.name for path in site.iterdir()}
    assert left.isdisjoint(trim.INSTALLERS)
    assert not [name for name in left for gone in trim.INSTALLERS if name.startswith(f"{gone}-")]
    assert all(path.name.startswith("python") for path in (environment / "bin").iterdir())


def test_every_command_does_its_work(program: Program, pool: Pool) -> None:
    """Both outputs of `status`, a dry run, and a run that restarts."""
    cluster = pool.take(1)
    lab = Lab(cluster)
    lab.stale_fleet(nodes=1)
    by_file = f"--kubeconfig={cluster.kubeconfig}"
    table, told = program("status", by_file), program("status", by_file, "-o", "json")
    assert "Stale" in table.stdout, table.stderr
    assert "gpu-0" in json.dumps(json.loads(told.stdout))
    dry = program("run", by_file, "--dry-run", "--log-format=json")
    assert dry.returncode == 0, dry.stdout + dry.stderr
    lab.assert_untouched()
    done = program("run", by_file, *QUICK, "--timeout=2m")
    assert done.returncode == 0, done.stdout + done.stderr
    lab.assert_clean(["gpu-0"])
