"""The images of a GPU node's pods, under the names by which the charts ask for them.

They hold programs of this machine with the libraries that those need, so that what was built here runs in them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster import nvml
from devcluster.kubelet.archive import Contents, write_image
from devcluster.operator.driverpod import MANAGER_IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SCRIPTS = Path(__file__).parent / "programs"

TOOLS = (
    *("bash", "basename", "cat", "cp", "date", "env", "find", "head", "ln", "ls", "mkdir", "mknod", "mount"),
    *("readlink", "rm", "sleep", "touch", "umount"),
)
"""What the driver's scripts, and the plugin's own, call."""

WORKLOAD = "devcluster.local/workload:1"
PLUGIN = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"
DRIVER = "nvcr.io/nvidia/driver"
CHART = "dra-driver-nvidia-gpu"
"""NVIDIA's chart, a folder that comes with the plugin's program."""

LIBRARIES = "usr/lib64"
"""Where a driver's root has its libraries: one of the places in which NVIDIA's programs look on any architecture."""

FOLDERS = ("etc", "tmp", "root", "run", "usr", "usr/bin", LIBRARIES)
LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "usr/bin/sh": "bash"}


def lacking() -> str:
    """Return which tools this machine lacks for the images; empty if it has all."""
    missing = ", ".join(name for name in TOOLS if shutil.which(name) is None)
    return f"{missing} not installed" if missing else ""


def write_images(folder: Path, programs: Mapping[str, Path], versions: Iterable[str]) -> dict[str, Path]:
    """Write the images of a workload, of the DRA driver, and of drivers of these versions; return them by name."""
    folder.mkdir(parents=True, exist_ok=True)
    common = dict(_common_files(programs.values()))
    library, smi = nvml.build(folder)
    plugins = {f"usr/bin/{name}": program for name, program in programs.items()}
    prestart = programs["gpu-kubelet-plugin"].parent / "kubelet-plugin-prestart.sh"
    driver = {
        "usr/bin/nvidia-driver": SCRIPTS / "nvidia-driver",
        "usr/local/bin/startup-probe.sh": SCRIPTS / "startup-probe.sh",
    }
    wanted: dict[str, Contents] = {
        WORKLOAD: Contents(common, LINKS, FOLDERS),
        MANAGER_IMAGE: Contents(common | {"usr/bin/driver-manager": SCRIPTS / "driver-manager"}, LINKS, FOLDERS),
        f"{PLUGIN}:v0.4.1": Contents(
            common | plugins | {"usr/bin/kubelet-plugin-prestart.sh": prestart}, LINKS, FOLDERS
        ),
    }
    for version in versions:
        root = _driver_root(folder, version, library, smi)
        wanted[f"{DRIVER}:{version}-ubuntu22.04"] = Contents(
            common | driver | dict(root.files), LINKS | dict(root.links), (*FOLDERS, *root.folders)
        )
    return {name: _write(folder / f"{number}.tar", name, each) for number, (name, each) in enumerate(wanted.items())}


def _write(archive: Path, name: str, contents: Contents) -> Path:
    write_image(archive, name, contents, {"Env": ["PATH=/usr/bin"]})
    return archive


def _driver_root(folder: Path, version: str, library: Path, smi: Path) -> Contents:
    """Describe the root file system that a driver shows to the node. Its CUDA library is looked for, and not loaded."""
    label = folder / f"version-{version}"
    label.write_text(version)
    root = "opt/driver/root"
    names = ("libnvidia-ml.so", "libcuda.so")
    files = {f"{root}/{LIBRARIES}/{name}.{version}": library for name in names}
    links = {f"{root}/{LIBRARIES}/{name}.1": f"{name}.{version}" for name in names}
    files |= {f"{root}/usr/bin/nvidia-smi": smi, "opt/driver/version": label}
    return Contents(files, links, (f"{root}/dev", f"{root}/run/nvidia"))


def _common_files(programs: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Find the tools, and the libraries that they and the programs load."""
    if missing := lacking():
        raise FileNotFoundError(missing)
    tools = {name: Path(str(shutil.which(name))) for name in TOOLS}
    for name, tool in tools.items():
        yield f"usr/bin/{name}", tool
    for library in {each for program in (*tools.values(), *programs) for each in _libraries(program)}:
        inside = library.lstrip("/")
        yield inside if inside.startswith("usr/") else f"usr/{inside}", Path(library)


def _libraries(program: Path) -> list[str]:
    """List the libraries that the loader finds for a program, and the loader; none for one that is linked whole."""
    answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(?:=> |^\s+)(/\S+)", answer.stdout, re.MULTILINE)
