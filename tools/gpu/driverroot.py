"""Driver roots, as a driver container shows one to its node: of this machine's driver, or of a mock of one.

A root is a file system of its own, with the machine's devices mounted below. `Mounted` is the place where the node sees
one: another root can take its place, as at a driver upgrade.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster import nvml

if TYPE_CHECKING:
    from collections.abc import Iterable

LIBRARIES: Final = "usr/lib64"
"""Where a root has its libraries: one of the places in which NVIDIA's programs look."""
MODULE: Final = Path("/proc/driver/nvidia/version")
PLACES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
"""Where the driver's libraries may be on the machine."""
PROGRAMS: Final = ("nvidia-smi", "nvidia-persistenced", "nvidia-debugdump", "nvidia-cuda-mps-control")
MOCK_MAJOR: Final = 195


class NoDriverError(Exception):
    """This machine has no driver of NVIDIA."""


@dataclass(frozen=True, slots=True)
class Root:
    """A folder with the driver's libraries and programs."""

    folder: Path
    version: str
    """Of the libraries."""


def loaded() -> str:
    """Return the version of the kernel module."""
    if MODULE.exists() and (found := re.search(r"(\d+\.\d+(?:\.\d+)?)  ", MODULE.read_text())):
        return found[1]
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    if shutil.which(query[0]) is None:
        raise NoDriverError(f"there is no {MODULE}, and no nvidia-smi")
    answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    if answer.returncode != 0:
        raise NoDriverError(f"nvidia-smi ended with {answer.returncode}: {answer.stdout}{answer.stderr}")
    return answer.stdout.splitlines()[0].strip()


def of_this_machine(folder: Path) -> Root:
    """Copy the libraries and programs of the driver that is loaded into a root."""
    version = loaded()
    library = next((each for each in _libraries() if each.resolve().name.endswith(f".so.{version}")), None)
    if library is None:
        raise NoDriverError(f"no libnvidia-ml.so.1 of version {version} in {', '.join(PLACES)}")
    _prepare(folder)
    for file in sorted(library.parent.iterdir()):
        real, target = file.resolve(), folder / LIBRARIES
        if ".so" in file.name and real.name.endswith(f".so.{version}"):
            if not (target / real.name).exists():
                shutil.copy2(real, target)
            if file.name != real.name:
                (target / file.name).symlink_to(real.name)
    path = os.pathsep.join((os.environ.get("PATH", ""), str(library.parent.parent / "bin")))
    for program in PROGRAMS:
        if found := shutil.which(program, path=path):
            shutil.copy2(found, folder / "usr/bin")
    return Root(folder, version)


def of_mock(folder: Path, version: str) -> Root:
    """Build a mock of the driver; the mock of the module is of the version that is written into its root."""
    _prepare(folder)
    with tempfile.TemporaryDirectory() as scratch:
        library, smi = nvml.build(Path(scratch))
        _lay_out(folder, version, library, smi)
    return Root(folder, version)


def _lay_out(folder: Path, version: str, library: Path, smi: Path) -> None:
    for name in ("libnvidia-ml.so", "libcuda.so"):
        shutil.copy2(library, folder / LIBRARIES / f"{name}.{version}")
        (folder / LIBRARIES / f"{name}.1").symlink_to(f"{name}.{version}")
    shutil.copy2(smi, folder / "usr/bin/nvidia-smi")


def of_files(folder: Path, files: Path) -> Root:
    """Take over the libraries and programs of another driver."""
    _prepare(folder)
    shutil.copytree(files, folder, symlinks=True, dirs_exist_ok=True)
    library = folder / LIBRARIES / "libnvidia-ml.so.1"
    return Root(folder, library.resolve().name.partition(".so.")[2])


def load_mock(roots: Iterable[Root], version: str) -> None:
    """Write the version of the module into each root: it is one for all that run on the machine."""
    for root in roots:
        module = root.folder / "run/nvidia/module-version"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"{version}\n")


class Mounted:
    """Where the node sees a driver root."""

    def __init__(self, parent: Path, *, mock: bool) -> None:
        self._parent = parent
        self.path = parent / "driver"
        """What NVIDIA's chart calls `nvidiaDriverRoot`."""
        self._mock = mock
        parent.mkdir(parents=True)
        _call("mount", "-t", "tmpfs", "nvidia", str(parent))
        _call("mount", "--make-shared", str(parent))
        self.path.mkdir()

    def show(self, root: Root) -> None:
        """Show a root, and the devices below it, in place of the one before."""
        self.hide()
        _call("mount", "--bind", str(root.folder), str(self.path))
        if self._mock:
            _call("mount", "-t", "tmpfs", "devices", str(self.path / "dev"))
            for name, minor in (("nvidia0", 0), ("nvidiactl", 255)):
                os.mknod(self.path / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(MOCK_MAJOR, minor))
        else:
            _call("mount", "--rbind", "/dev", str(self.path / "dev"))

    def hide(self) -> None:
        """Take the root away as a driver container does, with all that is mounted below it."""
        if self.path.is_mount():
            _call("umount", "-l", "-R", str(self.path))

    def close(self) -> None:
        """Take all away."""
        self.hide()
        _call("umount", "-l", str(self._parent))


def _prepare(folder: Path) -> None:
    for name in (LIBRARIES, "usr/bin", "dev", "run/nvidia"):
        (folder / name).mkdir(parents=True)


def _libraries() -> list[Path]:
    known = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    told = re.findall(r"libnvidia-ml\.so\.1 .*=> (\S+)", known)
    preset = [place for place in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if place]
    found = [Path(each) for each in told] + [Path(place) / "libnvidia-ml.so.1" for place in (*preset, *PLACES)]
    if not any(each.exists() for each in found):
        search = ["find", "/usr", "/opt", "/run", "-name", "libnvidia-ml.so.1"]
        said = subprocess.run(search, capture_output=True, text=True, timeout=20, check=False).stdout
        found = [Path(line) for line in said.splitlines()]
    return [each for each in found if each.exists()]


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
