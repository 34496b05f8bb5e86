"""A container by hand: a root with what a CDI specification injects, and little more than a C library.

A container runtime does more (namespaces, hooks); what the plugin says is to be injected is all here.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SECONDS: Final = 30.0
UNSHARE: Final = ("unshare", "--mount", "--propagation", "private")
SYSTEM: Final = re.compile(r"(?:=> |^\s+)(/\S+) \(", re.MULTILINE)
LOADED: Final = "libnvidia-ml.so."
"""What `nvidia-smi` loads."""


def run(root: Path, specification: Path, further: Mapping[str, str], program: str) -> tuple[int, str]:
    """Run a program that the specification injects; return its exit code and output, or what cannot be mounted."""
    root.mkdir()
    found = yaml.safe_load(specification.read_text())
    edits = [found.get("containerEdits", {}), *(device["containerEdits"] for device in found["devices"])]
    injected = dict(pair for edit in edits for pair in _injected(edit))
    inside = next((path for path in injected if Path(path).name == program), None)
    if inside is None:
        return 127, f"{program} is not injected"
    libraries = [path for path in injected if ".so." in path]
    needed = [injected[inside], *(injected[path] for path in libraries if LOADED in path)]
    own = {str(path): str(path) for path in _libraries(needed)} | dict(further)
    lines = [
        "set -e",
        f"mount -t tmpfs container {root}",
        f"mkdir {root}/proc {root}/sys",
        f"mount --rbind /proc {root}/proc",
        f"mount --rbind /sys {root}/sys",
        *(_mount(root, path, host) for path, host in (own | injected).items()),
        # What NVIDIA's hooks do with `ldconfig`.
        *(f"ln -sf {Path(path).name} {root}{path.partition('.so.')[0]}.so.1" for path in libraries),
        f"export LD_LIBRARY_PATH={':'.join(sorted({str(Path(path).parent) for path in libraries}))}",
        f"exec chroot {root} {inside}",
    ]
    ended = subprocess.run(
        [*UNSHARE, "bash", "-c", "\n".join(lines)],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return ended.returncode, ended.stdout


def _injected(edit: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Return which path of the container is which of the host."""
    for mount in edit.get("mounts", []):
        yield mount["containerPath"], mount["hostPath"]
    for node in edit.get("deviceNodes", []):
        yield node["path"], node.get("hostPath", node["path"])


def _mount(root: Path, path: str, host: str) -> str:
    """Return the commands that mount a file or a folder of the host; they fail where it does not exist."""
    target, source = shlex.quote(f"{root}{path}"), shlex.quote(host)
    make = f"if [ -d {source} ]; then mkdir -p {target}; else mkdir -p $(dirname {target}); : >{target}; fi"
    return f"{make}; mount --bind {source} {target}"


def _libraries(files: Iterable[str]) -> set[Path]:
    """Return the linker and the libraries of the system that programs and libraries name."""
    told = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    return {Path(each) for each in SYSTEM.findall(told) if "nvidia" not in each}
