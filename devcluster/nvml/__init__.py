"""A mock of NVIDIA's Management Library and of nvidia-smi, in C: programs load it as they load the real one."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")
LIBRARY = ("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1")


def build(folder: Path) -> tuple[Path, Path]:
    """Compile the library and nvidia-smi into a folder. Which driver it is, the library tells from its file's name."""
    library, smi = folder / "libnvidia-ml.so", folder / "nvidia-smi"
    _compile(*LIBRARY, "-o", str(library), str(SOURCES / "nvml.c"), "-ldl")
    _compile("-o", str(smi), str(SOURCES / "nvidia-smi.c"), "-ldl")
    return library, smi


def _compile(*arguments: str) -> None:
    subprocess.run(["cc", *FLAGS, *arguments], check=True)
