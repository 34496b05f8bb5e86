"""Run the program as in a pod, and see what it spends by the kernel's own counts, of the process alone.

It has a mounted ServiceAccount, the image's own environment, and nothing of this machine's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from devcluster.boot.layout import CHECKOUT
from devcluster.settings import separated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devcluster.boot.cluster import Cluster

ACCOUNT: Final = "cost"
IMAGE_ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(CHECKOUT)}
"""As the Dockerfile has it; bytecode is there already, as in the image."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS: Final = 0.02
"""Between two looks: memory that it takes in its very last moments is not seen."""


def mount(cluster: Cluster) -> Path:
    """Make what the kubelet mounts, for an account that may do everything, and return the folder."""
    folder = cluster.state / "mount"
    folder.mkdir()
    cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", "default")
    cluster.kubectl(
        "create", "clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", f"--serviceaccount=default:{ACCOUNT}"
    )
    token = cluster.kubectl("create", "token", ACCOUNT, "-n", "default", "--duration=24h").stdout.strip()
    (folder / "token").write_text(token)
    (folder / "namespace").write_text("default")
    (folder / "ca.crt").write_bytes(cluster.files.certificate.read_bytes())
    return folder


class Program:
    """The program as a process."""

    def __init__(self, mounted: Path, server: str, arguments: Sequence[str]) -> None:
        address = urlsplit(server)
        flags, settings = separated(arguments)
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        place = {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
        self._log = mounted / "program.log"
        self._began = time.monotonic()
        # Not a pipe: nothing reads it while the program runs, which would wait after 64 KiB.
        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hook", *flags, f"--service-account-dir={mounted}"],
                env={**kept, **IMAGE_ENVIRONMENT, **place, **settings},
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.cpu_seconds = 0.0
        self.peak_bytes = 0
        self.wall_seconds = 0.0

    @property
    def said(self) -> str:
        """What it logged."""
        return self._log.read_text(encoding="utf-8")

    def look(self) -> None:
        """Look at what it has spent. Once it has ended, the kernel keeps its time until it is waited for."""
        kept = Path(f"/proc/{self.process.pid}")
        fields = (kept / "stat").read_text().rpartition(")")[2].split()
        self.cpu_seconds = (int(fields[11]) + int(fields[12])) / TICKS
        if peak := re.search(r"^VmHWM:\s+(\d+) kB$", (kept / "status").read_text(), re.MULTILINE):
            self.peak_bytes = int(peak[1]) * 1024

    def wait(self) -> int:
        """Look at it until it ends, and return its exit code."""
        while os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            self.look()
            time.sleep(LOOK_SECONDS)
        self.wall_seconds = time.monotonic() - self._began
        self.look()
        return self.process.wait()

    def stop(self) -> None:
        """Stop it, and wait for its end."""
        self.process.terminate()
        self.process.wait()
