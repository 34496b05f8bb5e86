"""Build what a bare machine with a GPU needs to run the steps: `python -m tools.gpu.bundle MIRROR`.

MIRROR is the address of a Debian mirror, from which packages of another driver are taken.

Into build/gpu, which git ignores:

    bundle.tar.xz.00 ...   parts that fit into one transfer each
    unpacked/              what they hold, for a run on this machine:
        bin/               etcd, kube-apiserver, NVIDIA's plugin, its CDI hooks and start-up script, and our client
        site/              the packages of requirements/runtime.txt for Python 3.12 on x86-64
        other/             libraries and nvidia-smi of another driver, from Debian's packages
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devcluster.boot.layout import CHECKOUT
from devcluster.build import binaries, gobuild
from devcluster.build.programs import Program
from tools.gpu.driverroot import LIBRARIES

FOLDER: Final = CHECKOUT / "build/gpu"
UNPACKED: Final = FOLDER / "unpacked"
PART: Final = "55M"
"""A machine of others may take 64 MiB at once, this checkout included."""
PROGRAMS: Final = ("etcd", "kube-apiserver", "gpu-kubelet-plugin", "nvidia-cdi-hook")
SCRIPT: Final = "kubelet-plugin-prestart.sh"
CLIENT: Final = Path(__file__).with_name("client")
POOL: Final = "pool/non-free/n/nvidia-graphics-drivers"
"""Where a Debian mirror keeps the packages."""
VERSION: Final = "550.163.01"
CURRENT_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu/nvidia/current"


@dataclass(frozen=True, slots=True)
class Package:
    """A package of Debian 13, and what of it is needed: where it is in the package, and where in a driver root."""

    name: str
    sha256: str
    file: str
    target: str

    @property
    def path(self) -> str:
        """Return where a Debian mirror keeps it."""
        return f"{POOL}/{self.name}_{VERSION}-2_amd64.deb"


PACKAGES: Final = (
    Package(
        "libnvidia-ml1",
        "01c1b67d511d7f52c6aa60e14ed56a8eb725d5dc85784a08214d6cb0f4fd1f89",
        f"{CURRENT_LIBRARIES}/libnvidia-ml.so.{VERSION}",
        LIBRARIES,
    ),
    Package(
        "libcuda1",
        "8feff97aac61d6f27ded96a3c25b9e68025a680476e6072ff7eaf10623509135",
        f"{CURRENT_LIBRARIES}/libcuda.so.{VERSION}",
        LIBRARIES,
    ),
    Package(
        "nvidia-smi",
        "547978bd189284911beace21d83834866026e4d5b2026d8bcb74f6cd147c8be9",
        "usr/lib/nvidia/current/nvidia-smi",
        "usr/bin",
    ),
)
"""Each is checked: the archive is read without its signatures."""


class BundleError(Exception):
    """A part of the bundle is not what it should be."""


def main() -> None:
    """Build the bundle anew."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.bundle", description="Build the bundle into build/gpu.")
    parser.add_argument("mirror", help="address of a Debian mirror with Debian 13, such as the one in sources.list")
    mirror = parser.parse_args().mirror.rstrip("/")
    shutil.rmtree(FOLDER, ignore_errors=True)
    for folder in ("site", "other", "packages"):
        (UNPACKED / folder).mkdir(parents=True)
    lay_out(UNPACKED / "bin")
    _site(UNPACKED / "site")
    for package in PACKAGES:
        _other(package, mirror, UNPACKED)
    shutil.rmtree(UNPACKED / "packages")
    _pack()
    (UNPACKED / "complete").touch()
    for part in sorted(FOLDER.glob("bundle.tar.xz.*")):
        sys.stdout.write(f"{part.relative_to(CHECKOUT)}: {part.stat().st_size / 2**20:.1f} MiB\n")


def lay_out(folder: Path) -> None:
    """Build the programs into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in binaries.ensure(PROGRAMS).items():
        shutil.copy2(program, folder / name)
        if (script := program.parent / SCRIPT).exists():
            shutil.copy2(script, folder)
    client = Program("client", module="client", package=".", version="v1")
    gobuild.build_all([gobuild.Job(client, CLIENT, folder / "client")], binaries.cache_directory())


def _site(folder: Path) -> None:
    """Install the program's packages for the other machine's Python."""
    there = ("--python-version=3.12", "--implementation=cp", "--platform=manylinux2014_x86_64")
    wanted = ("--only-binary=:all:", "--require-hashes", "-r", str(CHECKOUT / "requirements/runtime.txt"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(folder), *there, *wanted]
    subprocess.run(pip, check=True)


def _other(package: Package, mirror: str, folder: Path) -> None:
    """Take a file of a package of Debian; a library gets the link by which programs look for it."""
    archive = folder / "packages" / f"{package.name}.deb"
    try:
        with urllib.request.urlopen(f"{mirror}/{package.path}", timeout=60) as answer:  # noqa: S310 - checked below
            archive.write_bytes(answer.read())
    except (OSError, ValueError) as error:
        raise BundleError(f"cannot read {package.path} of the mirror {mirror}: {error}") from error
    if hashlib.sha256(archive.read_bytes()).hexdigest() != package.sha256:
        raise BundleError(f"{package.path} of {mirror} is not what it was")
    content = folder / "packages" / package.name
    subprocess.run(["dpkg-deb", "--extract", archive, content], check=True)
    file, target = content / package.file, folder / "other" / package.target
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, target)
    name, library, _ = file.name.partition(".so.")
    if library:
        (target / f"{name}.so.1").symlink_to(file.name)


def _pack() -> None:
    """Compress it, and split it into parts."""
    parts = FOLDER / "bundle.tar.xz."
    shell = f"tar -C {UNPACKED} -c . | xz -T0 -6 | split -b {PART} -d - {parts}"
    subprocess.run(["bash", "-o", "pipefail", "-c", shell], check=True)


if __name__ == "__main__":
    try:
        main()
    except BundleError as error:
        sys.exit(f"Error: {error}")
