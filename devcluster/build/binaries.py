"""The programs of the cluster: which ones, which versions, and where to find each.

A program is taken from ``KUBEBUILDER_ASSETS`` or ``PATH`` where its version fits; otherwise it is
built once, from the Go modules pinned in ``devcluster/tools``, into the user's cache directory. Tests build nothing
(`NEVER_BUILD`): a target of make has built what they need before, with lines that show its progress.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.build import gobuild
from devcluster.build.programs import CHECKERS, DEPLOYERS, DRA_DRIVER, GATES, ON_DEMAND, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from devcluster.build.programs import Program

TOOLS = Path(__file__).parents[1] / "tools"
"""One folder a Go module, every version exact; what stands in for a module of others is a folder in there."""

PROBE_SECONDS = 10.0
"""A program that cannot even say its version by then is not worth using."""

NEVER_BUILD = "DEVCLUSTER_NEVER_BUILD"
"""Where this environment variable is set, a program that is missing is an error."""

EVERY = (*PROGRAMS, *DRA_DRIVER, *CHECKERS, *DEPLOYERS, *GATES)

NAMES = tuple(program.name for program in PROGRAMS if program.name not in ON_DEMAND)
CLUSTER_NAMES = tuple(name for name in NAMES if name not in {"helm3", "helm4"})
"""What a cluster boots with. A Helm is built where it is first called."""
DEMO_NAMES = (*CLUSTER_NAMES, "helm4")
NODE_NAMES = tuple(program.name for program in (*PROGRAMS, *DRA_DRIVER) if program.name not in NAMES)
"""What clusters with a real node take besides."""
DEPLOYER_NAMES = tuple(program.name for program in (*DEPLOYERS, *GATES))
TEST_NAMES = (*NAMES, "crane", "ct", "helm-docs", "promtool")
"""What the tests need, apart from those with deployment tools or a real node."""
ALL_NAMES = tuple(program.name for program in EVERY)
TARGETS = {
    "actionlint": "lint",
    **dict.fromkeys(DEPLOYER_NAMES, "deployers"),
    **dict.fromkeys(NODE_NAMES, "node-binaries"),
    **dict.fromkeys(TEST_NAMES, "binaries"),
}
"""The target of make that builds each program."""


def cache_directory() -> Path:
    """Name the folder that outlives checkouts and clusters."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpu-operator-post"


def ensure(names: Iterable[str] = NAMES, cache: Path | None = None) -> dict[str, Path]:
    """Return the path of each named program, after building those that are missing."""
    cache = cache or cache_directory()
    wanted = [program for program in EVERY if program.name in set(names)]
    found = {program.name: locate(program, cache) for program in wanted}
    missing = [program for program in wanted if found[program.name] is None]
    if missing and os.environ.get(NEVER_BUILD):
        names = [program.name for program in missing]
        targets = sorted({TARGETS[name] for name in names})
        raise gobuild.BuildError(
            f"not built yet, nor installed in a fitting version: {', '.join(names)} (make {' '.join(targets)})"
        )
    if missing:
        jobs = [gobuild.Job(program, TOOLS / program.module, cached_path(program, cache)) for program in missing]
        gobuild.build_all(jobs, cache)
    return {program.name: found[program.name] or cached_path(program, cache) for program in wanted}


def locate(program: Program, cache: Path) -> Path | None:
    """Look where a program may already be; the user's explicit wish first."""
    if program.is_ours:
        return cached if (cached := cached_path(program, cache)).is_file() else None
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (candidate := Path(assets) / program.file_name).is_file() and fits(program, candidate):
        return candidate
    if (cached := cached_path(program, cache)).is_file():
        return cached
    installed = shutil.which(program.file_name)
    return Path(installed) if installed and fits(program, Path(installed)) else None


def fits(program: Program, candidate: Path) -> bool:
    """Ask a program found on the machine for its version; one that cannot answer does not fit."""
    try:
        answer = subprocess.run(
            [candidate, *program.probe],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and re.search(program.fits, answer.stdout, re.MULTILINE) is not None


def cached_path(program: Program, cache: Path) -> Path:
    """Name the file that a build of exactly these sources and flags leaves in the cache."""
    key = f"{program.name}-{program.version}-{fingerprint(program)}"
    return cache / "bin" / key / program.file_name


def fingerprint(program: Program) -> str:
    """Digest all that a build depends on: pinned modules, sources of ours, package, flags and files."""
    digest = hashlib.sha256()
    folder = TOOLS / program.module
    for file in (*sorted(folder.rglob("go.*")), *sorted(folder.rglob("*.go"))):
        digest.update(file.read_bytes())
    recipe = (program.package, program.linker_flags, gobuild.FLAGS)
    further = [part for part in (program.files, program.tags, program.uses_c) if part]
    digest.update(repr((*recipe, *further)).encode())
    return digest.hexdigest()[:12]
