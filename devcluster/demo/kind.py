"""A kind cluster for the demo, with the image that `make image` built: it is created, used and deleted."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from devcluster.demo.simulated import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLUSTER: Final = "gpu-operator-post-try"
"""Its name for kind. A cluster of this name that is already there is not touched."""
OTHERWISE: Final = "`make demo` needs neither kind nor Docker"


def why_not() -> str:
    """Return why there can be no kind cluster on this machine; empty if there can."""
    for program in ("docker", "kind"):
        if shutil.which(program) is None:
            return f"{program} is not in PATH; install it, or take the other way: {OTHERWISE}"
    answer = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return f"Docker does not answer: {answer.stderr.strip()} Start it, or take the other way: {OTHERWISE}"
    names = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=False).stdout.split()
    if CLUSTER in names:
        return f"a kind cluster {CLUSTER} exists; delete it if it is not needed: kind delete cluster --name {CLUSTER}"
    return ""


@contextmanager
def cluster(kubeconfig: Path, image: str) -> Iterator[None]:
    """Create a cluster whose nodes have an image of Docker, and delete it at the end."""
    try:
        _kind("create", "cluster", f"--name={CLUSTER}", f"--kubeconfig={kubeconfig}", "--wait=180s")
        _kind("load", "docker-image", image, f"--name={CLUSTER}")
        yield
    finally:
        _kind("delete", "cluster", f"--name={CLUSTER}", f"--kubeconfig={kubeconfig}")


def _kind(*arguments: str) -> None:
    done = subprocess.run(["kind", *arguments], check=False)
    if done.returncode != 0:
        raise DemoError(f"`kind {' '.join(arguments)}` ended with {done.returncode}")
