"""The programs of the cluster: which ones, which versions, and where to find each.

A program is taken from ``KUBEBUILDER_ASSETS`` or ``PATH`` where its version fits; otherwise it is
built once, from the Go modules pinned in ``devcluster/tools``, into the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import gobuild

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TOOLS = Path(__file__).parent / "tools"
"""One folder a Go module: go.mod and go.sum, every version exact."""

PROBE_SECONDS = 10.0
"""A program that cannot even say its version by then is not worth using."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: how to build it, and which found versions are as good."""

    name: str
    """What the project calls it; also the name of the executable, unless `executable` says otherwise."""
    module: str
    """Folder in `TOOLS` that pins its sources."""
    package: str
    """The Go package of its main function."""
    version: str
    """The version that is built."""
    fits: str
    """Pattern for the output of `probe`: which versions found on the machine are as good."""
    probe: tuple[str, ...] = ("--version",)
    variables: tuple[str, ...] = ()
    """Go variables, as ``package.name=value``, that a release build sets and a plain ``go build`` does not."""
    executable: str = ""

    @property
    def file_name(self) -> str:
        """Name of the executable file."""
        return self.executable or self.name

    @property
    def linker_flags(self) -> str:
        """Strip symbols (a third of the size) and set the variables."""
        return " ".join(["-s -w", *(f"-X {variable}" for variable in self.variables)])


def _kubernetes(name: str, *probe: str) -> Program:
    """Describe a program of the Kubernetes repository; any patch release of the minor is as good."""
    return Program(
        name,
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        version="v1.36.3",
        fits=r"\bv1\.36\.\d+",
        probe=probe or ("--version",),
        variables=(
            "k8s.io/component-base/version.gitVersion=v1.36.3",
            "k8s.io/component-base/version.gitMajor=1",
            "k8s.io/component-base/version.gitMinor=36",
        ),
    )


def _helm(major: int, version: str, *variables: str) -> Program:
    """Describe one of the two Helms; both are called ``helm`` on a user's machine."""
    return Program(
        f"helm{major}",
        module=f"helm{major}",
        package=f"helm.sh/helm/v{major}/cmd/helm",
        version=version,
        fits=rf"^v{major}\.\d+\.\d+",
        probe=("version", "--short"),
        variables=(f"helm.sh/helm/v{major}/internal/version.version={version}", *variables),
        executable="helm",
    )


PROGRAMS = (
    Program(
        "etcd",
        module="kubernetes",
        package="go.etcd.io/etcd/server/v3",
        version="v3.7.3",
        fits=r"etcd Version: 3\.([6-9]|\d\d)\.",
    ),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl", "version", "--client"),
    Program(
        "kwok",
        module="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        version="v0.8.0",
        fits=r"\bv?0\.8\.\d+",
        variables=("sigs.k8s.io/kwok/pkg/consts.Version=v0.8.0",),
    ),
    _helm(4, "v4.3.1"),
    # What `helm template` takes for the cluster: its client-go, as in a release. Helm 4 finds out by itself.
    _helm(
        3,
        "v3.22.0",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1",
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=37",
    ),
)
"""In the order in which they are built."""

CHECKERS = (
    Program(
        "actionlint",
        module="actionlint",
        package="github.com/rhysd/actionlint/cmd/actionlint",
        version="v1.7.12",
        fits=r"^v?1\.7\.(1[2-9]|[2-9]\d)\b",
    ),
)
"""What checks our sources; no cluster needs them, so they are built only where they are asked for by name."""

NAMES = tuple(program.name for program in PROGRAMS)


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Name the folder that outlives checkouts and clusters."""
    environment = os.environ if environment is None else environment
    home = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpu-operator-post"


def ensure(names: Iterable[str] = NAMES, cache: Path | None = None) -> dict[str, Path]:
    """Return the path of each named program, after building those that are missing."""
    cache = cache or cache_directory()
    wanted = [program for program in (*PROGRAMS, *CHECKERS) if program.name in set(names)]
    found = {program.name: locate(program, cache) for program in wanted}
    missing = [program for program in wanted if found[program.name] is None]
    if missing:
        gobuild.build_all([_job(program, cache) for program in missing], cache)
    return {program.name: found[program.name] or cached_path(program, cache) for program in wanted}


def locate(program: Program, cache: Path) -> Path | None:
    """Look where a program may already be; the user's explicit wish first."""
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
    """Digest all that a build depends on: pinned modules, package and flags."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((TOOLS / program.module / name).read_bytes())
    digest.update(repr((program.package, program.linker_flags, gobuild.FLAGS)).encode())
    return digest.hexdigest()[:12]


def _job(program: Program, cache: Path) -> gobuild.Job:
    """Say what the builder must know about a program."""
    return gobuild.Job(
        name=f"{program.name} {program.version}",
        source=TOOLS / program.module,
        package=program.package,
        linker_flags=program.linker_flags,
        target=cached_path(program, cache),
    )
