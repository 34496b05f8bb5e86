"""Become the box: ``python -m devcluster.kubelet.enter STATE``.

This process goes into cgroups of its own and turns into ``unshare``, whose child is the box's first process. Its
process id stays the one that was recorded, and with it dies the box.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from devcluster.kubelet import cgroups
from devcluster.kubelet.names import Files

UNSHARE = (
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",  # the signal that ends us ends the box
    "--net",
    "--uts",
    "--ipc",
    "--mount-proc",
)


def main() -> None:
    """Make the cgroups, keep a way back to the network outside, and go in."""
    state = sys.argv[1]
    files = Files(Path(state) / "node")
    folders = cgroups.enter(f"devcluster-{os.getpid()}")
    files.cgroups.write_text("".join(f"{folder}\n" for folder in folders))
    outside = os.open("/proc/self/ns/net", os.O_RDONLY)
    os.set_inheritable(outside, True)
    box = [sys.executable, "-m", "devcluster.kubelet.box", f"--state={state}", f"--outside={outside}"]
    os.execvp(UNSHARE[0], [*UNSHARE, *box])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main()
