"""The box's own cgroup: below ours in every hierarchy of version 1 (or hybrid), or below the root of version 2.

In version 2 a cgroup that has processes cannot hand controllers on to its children: ours usually has some, and the
box's may not have any, so its processes live in a leaf.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTS = Path("/sys/fs/cgroup")

PATIENCE_SECONDS = 10.0
"""The kernel takes a moment to let go of processes that were killed."""

NEEDED = ("cpu", "cpuset", "memory", "pids")
"""Controllers without which a kubelet does not start (pkg/kubelet/cm)."""

LEAF = "box"

CLONE_NEWCGROUP = 0x02000000
"""Namespace type (sched.h); Python has unshare() since 3.12 only."""


def unified() -> bool:
    """Whether version 2 alone is mounted."""
    return (MOUNTS / "cgroup.controllers").exists()


def why_not() -> str:
    """Return what this machine's cgroups lack for a kubelet; empty if nothing."""
    if not unified():
        return "" if any(each == "memory" for each, _ in hierarchies()) else "a real node needs cgroups"
    try:
        _hand_on(MOUNTS)
    except OSError as error:
        return f"cgroup v2 does not hand on its controllers here ({error.strerror})"
    return ""


def hierarchies() -> Iterator[tuple[str, str]]:
    """Return the controllers of each v1 hierarchy that is mounted, and the folder in which we are."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers and (MOUNTS / controllers.removeprefix("name=")).is_dir():
            yield controllers, path


def enter(name: str) -> list[Path]:
    """Make a cgroup of our own in each hierarchy, move this process there, and let it see nothing above that."""
    made = [_enter_unified(name)] if unified() else list(_enter_each(name))
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWCGROUP) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if unified():
        _join(made[0] / LEAF)
        _hand_on(made[0])
    return made


def _enter_unified(name: str) -> Path:
    _hand_on(MOUNTS)
    folder = MOUNTS / name
    _join(folder)
    return folder


def _enter_each(name: str) -> Iterator[Path]:
    for controllers, path in hierarchies():
        folder = MOUNTS / controllers.removeprefix("name=") / path.lstrip("/") / name
        folder.mkdir()
        if controllers == "cpuset":  # starts out empty, and takes no process in until it is filled
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (folder / setting).write_text((folder.parent / setting).read_text())
            (folder / "cgroup.clone_children").write_text("1")
        _join(folder)
        yield folder


def _join(folder: Path) -> None:
    """Move this process into a cgroup, which may be new."""
    folder.mkdir(exist_ok=True)
    (folder / "cgroup.procs").write_text(str(os.getpid()))


def _hand_on(folder: Path) -> None:
    """Let the children of a cgroup have the controllers that a kubelet needs."""
    handed = (folder / "cgroup.subtree_control").read_text().split()
    for controller in NEEDED:
        if controller not in handed:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def mounts() -> list[tuple[str, str, Path]]:
    """Return what a container runtime finds mounted: kind of file system, options and place."""
    if unified():
        return [("cgroup2", "rw", MOUNTS)]
    return [("cgroup", each, MOUNTS / each.removeprefix("name=")) for each, _ in hierarchies()]


def find(folders: list[Path], container: str) -> Path:
    """Find the cgroup of a container that has its memory."""
    (box,) = [folder for folder in folders if unified() or "/memory/" in str(folder)]
    for path, below, _files in os.walk(box):  # which does not mind that others end at this moment
        if container in below:
            return Path(path) / container
    raise FileNotFoundError(container)


def memory_limit(folder: Path) -> int:
    """Read how many bytes a container may use."""
    return int((folder / ("memory.max" if unified() else "memory.limit_in_bytes")).read_text())


def memory_peak(folder: Path) -> int:
    """Read how many bytes a container has used at most."""
    return int((folder / ("memory.peak" if unified() else "memory.max_usage_in_bytes")).read_text())


def remove(folders: list[Path]) -> list[Path]:
    """Remove cgroups with all below them, once their processes are gone; return what is left."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := [folder for folder in folders if folder.exists()]) and time.monotonic() < deadline:
        for folder in left:
            _remove(folder)
        time.sleep(0.05)
    return left


def _remove(folder: Path) -> None:
    """Remove the empty folders of a tree, from its leaves."""
    for path, _folders, _files in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)  # noqa: PTH106 - os.walk speaks in strings
        except OSError:
            continue  # still in use; the caller looks again
