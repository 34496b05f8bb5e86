"""A base image from Debian packages, for machines that reach no container registry.

Two of them: one with Python, and one for the build stage that can also make virtual environments. They hold what
the slim images of Debian hold: neither documentation nor translations nor the package manager's caches. In addition
they lack what the program does not use: time zones, because it writes UTC, completions of a shell, and Python's tests.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from devcluster.build.binaries import cache_directory
from tools.image.commands import CannotBuildError, ImageError, available, read, run, say

SUITE = "bookworm"
"""Debian 12, whose Python 3.11 is the oldest that the program runs on; the Dockerfile's own base is a newer one."""

RUNTIME = ("python3-minimal", "libpython3-stdlib", "ca-certificates")
BUILD = ("python3-venv",)

BASE = f"localhost/gpu-operator-post-base:{SUITE}"
BUILD_BASE = f"localhost/gpu-operator-post-build-base:{SUITE}"

LEFT_OUT = (
    "usr/lib/python3.11/test",
    "usr/share/bash-completion",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/linda",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/zoneinfo",
    "var/cache/apt",
    "var/cache/debconf",
    "var/lib/apt/lists",
    "var/log",
)
"""Emptied, most of it as debuerreotype's slim variant does. Licences stay: `copyright` files below usr/share/doc."""

CONVERTERS = "usr/lib/*/gconv"
"""Character sets of the C library, which Python does not use. In Debian 13 they are a package of their own, which its
slim image lacks."""

NEEDED = ("buildah", "debootstrap")


def offline_bases() -> tuple[str, str]:
    """Return the names of the base and the build base, after making those that are missing."""
    if os.geteuid() != 0 or not available(NEEDED):
        raise CannotBuildError(
            "no base image: no registry can be reached, and making one from Debian packages needs root, buildah and "
            "debootstrap (`apt-get install buildah debootstrap`). BASE_IMAGE names another base"
        )
    for name, packages in ((BASE, RUNTIME), (BUILD_BASE, (*RUNTIME, *BUILD))):
        if read("buildah", "inspect", "--type=image", name) is None:
            _make(name, packages)
    return BASE, BUILD_BASE


def _make(name: str, packages: tuple[str, ...]) -> None:
    """Bootstrap a Debian with these packages and make it an image of one layer."""
    say(f"making {name} from the packages of Debian {SUITE}, once (about a minute)")
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="image-base-", dir=cache))
    try:
        root = work / "root"
        _bootstrap(root, packages)
        _slim(root)
        (work / "Dockerfile").write_text('FROM scratch\nADD root /\nCMD ["python3"]\n')
        run("buildah", "build", "--quiet", "--layers=false", f"--tag={name}", str(work))
    finally:
        shutil.rmtree(work)


def _bootstrap(root: Path, packages: tuple[str, ...]) -> None:
    """Have debootstrap install the packages; only a mirror that it could not reach is this machine's lack."""
    try:
        run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", SUITE, str(root))
    except ImageError as error:
        # It keeps the suite's release file from the first answer on, and tries every file ten times by itself.
        if any((root / "var" / "lib" / "apt" / "lists").glob("*Release")):
            raise
        raise CannotBuildError(f"no base image: no registry and no Debian mirror can be reached ({error})") from error


def _slim(root: Path) -> None:
    """Remove what a container does not need."""
    for name in LEFT_OUT:
        for path in sorted((root / name).rglob("*"), reverse=True):
            _remove(path)
    for path in root.glob(CONVERTERS):
        shutil.rmtree(path)
    # Made by the packages' scripts with the file times of now; the image's build compiles anew.
    for path in sorted(root.rglob("__pycache__")):
        shutil.rmtree(path)


def _remove(path: Path) -> None:
    """Remove a file or an empty folder, but no licence."""
    if path.is_symlink() or not path.is_dir():
        if path.name != "copyright":
            path.unlink()
    elif not any(path.iterdir()):
        path.rmdir()
