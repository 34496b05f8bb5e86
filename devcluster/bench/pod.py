"""Run the program as in a pod: a mounted ServiceAccount, the image's own environment, nothing of this machine's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from devcluster.boot.layout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.boot.cluster import Cluster

ACCOUNT: Final = "cost"
LAUNCHER: Final = Path(__file__).with_name("launcher.py")
IMAGE_ENVIRONMENT: Final = {"MALLOC_ARENA_MAX": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(CHECKOUT)}
"""As the Dockerfile has it; bytecode is there already, as in the image."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TICKS: Final = os.sysconf("SC_CLK_TCK")


def mount(cluster: Cluster, folder: Path) -> Path:
    """Make what the kubelet mounts, for an account that may read everything."""
    folder.mkdir(exist_ok=True)
    cluster.kubectl("create", "serviceaccount", ACCOUNT, "-n", "default")
    cluster.kubectl(
        "create", "clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", f"--serviceaccount=default:{ACCOUNT}"
    )
    token = cluster.kubectl("create", "token", ACCOUNT, "-n", "default", "--duration=24h").stdout.strip()
    (folder / "token").write_text(token)
    (folder / "namespace").write_text("default")
    (folder / "ca.crt").write_bytes(cluster.files.certificate.read_bytes())
    return folder


def environment(server: str) -> dict[str, str]:
    """Return a pod's environment."""
    address = urlsplit(server)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    variables = {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
    return {**kept, **IMAGE_ENVIRONMENT, **variables}


def program(*arguments: str) -> list[str]:
    """Return the command of a run."""
    return [sys.executable, "-m", "hook", *arguments]


@dataclass(frozen=True, slots=True)
class Running:
    """A command that a launcher started."""

    process: subprocess.Popen[bytes]
    report: Path
    log: Path

    def spent(self) -> dict[str, Any]:
        """Wait for its end, and return what it spent."""
        self.process.wait()
        found: dict[str, Any] = json.loads(self.report.read_text())
        return {**found, "said": self.log.read_text()}

    def pid(self) -> int:
        """Return the command's own process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.05)
        return int(found[0])


def launch(command: list[str], report: Path, variables: Mapping[str, str]) -> Running:
    """Start a command, and have measured what it spends."""
    # Not a pipe: nothing reads it while the command runs, which would wait after 64 KiB.
    log = report.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCHER), str(report), *command],
            env=dict(variables),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Running(process, report, log)


def resident(pid: int) -> int:
    """Return the bytes that a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def cpu(pid: int) -> float:
    """Return the seconds that a process computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
