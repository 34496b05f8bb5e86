"""The box's own cgroup in every hierarchy (cgroup v1, or hybrid), below the one in which we are."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNTS = Path("/sys/fs/cgroup")

PATIENCE_SECONDS = 10.0
"""The kernel takes a moment to let go of processes that were killed."""


def hierarchies() -> Iterator[tuple[str, str]]:
    """Give the controllers of each v1 hierarchy that is mounted, and the folder in which we are."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers and (MOUNTS / controllers.removeprefix("name=")).is_dir():
            yield controllers, path


def make(name: str) -> list[Path]:
    """Make a cgroup below ours in each hierarchy, and move this process into it."""
    made = []
    for controllers, path in hierarchies():
        folder = MOUNTS / controllers.removeprefix("name=") / path.lstrip("/") / name
        folder.mkdir()
        made.append(folder)
        if controllers == "cpuset":  # starts out empty, and takes nobody in until it is filled
            for setting in ("cpuset.cpus", "cpuset.mems"):
                (folder / setting).write_text((folder.parent / setting).read_text())
            (folder / "cgroup.clone_children").write_text("1")
        (folder / "cgroup.procs").write_text(str(os.getpid()))
    return made


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
