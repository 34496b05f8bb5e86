"""``python -m devcluster.demo.kind``: the demo on a kind cluster of its own, with the image that `make image` built.

The cluster is created, used and deleted. Nodes, drivers and plugins are simulated and join it as a visiting fleet; this
program runs in its pods.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devcluster.demo.simulated import finish, run
from devcluster.demo.view import Show
from devcluster.demo.visit import Visit, Visiting

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER: Final = "gpu-operator-post-try"
"""Its name for kind. A cluster of this name that is already there is not touched."""
OTHERWISE: Final = "`make demo` needs neither kind nor Docker"


class TryError(Exception):
    """The machine lacks something, or kind failed; the message says what."""


def why_not() -> str | None:
    """Return why there can be no kind cluster on this machine, or nothing."""
    for program in ("docker", "kind"):
        if shutil.which(program) is None:
            return f"{program} is not in PATH; install it, or take the other way: {OTHERWISE}"
    answer = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return f"Docker does not answer: {answer.stderr.strip()} Start it, or take the other way: {OTHERWISE}"
    names = subprocess.run(["kind", "get", "clusters"], capture_output=True, text=True, check=False).stdout.split()
    if CLUSTER in names:
        return f"a kind cluster {CLUSTER} exists; delete it if it is not needed: kind delete cluster --name {CLUSTER}"
    return None


@contextmanager
def kind_cluster(kubeconfig: Path) -> Iterator[None]:
    """Create a cluster, and delete it at the end."""
    try:
        _kind("create", "cluster", f"--name={CLUSTER}", f"--kubeconfig={kubeconfig}", "--wait=180s")
        yield
    finally:
        _kind("delete", "cluster", f"--name={CLUSTER}", f"--kubeconfig={kubeconfig}")


def _kind(*arguments: str) -> None:
    done = subprocess.run(["kind", *arguments], check=False)
    if done.returncode != 0:
        raise TryError(f"`kind {' '.join(arguments)}` ended with {done.returncode}")


def main() -> None:
    """Check the machine, then create, show and delete."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.demo.kind", description="The demo on a kind cluster.")
    parser.add_argument("--image", required=True, help="the image, which Docker has")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--check", action="store_true", help="only find out whether this machine can")
    options = parser.parse_args()
    if reason := why_not():
        sys.exit(f"make try: {reason}")
    if options.check:
        return
    try:
        with tempfile.TemporaryDirectory(prefix=f"{CLUSTER}-") as folder:
            kubeconfig = Path(folder) / "kubeconfig"
            with kind_cluster(kubeconfig):
                _kind("load", "docker-image", options.image, f"--name={CLUSTER}")
                with Show(time.time()) as show:
                    fleet = Visit(Path(folder) / "fleet")
                    verdict = run(Visiting(fleet, options.nodes, show, kubeconfig, image=options.image))
    except TryError as error:
        sys.exit(f"make try: {error}")
    finish(verdict)


if __name__ == "__main__":
    main()
