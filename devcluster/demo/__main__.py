"""``python -m devcluster.demo``: watch a driver upgrade. The last line is for machines."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from devcluster.boot.cluster import Cluster
from devcluster.demo import guest, kind, real
from devcluster.demo.simulated import FAILURES, MODES, Demo, DemoError
from devcluster.demo.view import Show


def main() -> None:
    """Read the command line, and end with the result."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.demo", description=__doc__)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--kubeconfig", type=Path, help="on your cluster, that of the file's current context")
    place.add_argument(
        "--kind", metavar="IMAGE", help="on a kind cluster of its own, with this image, which Docker has"
    )
    place.add_argument("--real", action="store_true", help="with NVIDIA's plugin, on a real node")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--mode", choices=MODES, default="")
    parser.add_argument("--check", action="store_true", help="only find out whether this machine can")
    options = parser.parse_args()
    try:
        if reason := _why_not(options):
            raise DemoError(reason)
        if options.check:
            return
        with tempfile.TemporaryDirectory(prefix="gpu-operator-post-demo-") as folder:
            verdict = _show(options, Path(folder))
    except FAILURES as error:
        sys.exit("demo: failed " + str(error).replace("\n", " "))
    print(verdict)  # noqa: T201 - this line is the command's result


def _why_not(options: argparse.Namespace) -> str:
    """Return what this machine lacks."""
    if options.real:
        return real.why_not()
    return kind.why_not() if options.kind else ""


def _show(options: argparse.Namespace, folder: Path) -> str:
    """Show it where it was asked for, and return the line for machines."""
    show = Show()
    try:
        if options.real:
            return real.run(folder, show)
        if options.kind:
            with kind.cluster(folder / "kubeconfig", options.kind):
                return guest.run(folder / "kubeconfig", folder, show, options.nodes, options.mode, options.kind)
        if options.kubeconfig:
            guest.check(options.kubeconfig.resolve(), folder, options.nodes)
            return guest.run(options.kubeconfig.resolve(), folder, show, options.nodes, options.mode)
        with Cluster(folder / "cluster") as cluster:
            show.say(f"booting a control plane with {options.nodes} GPU nodes")
            cluster.up(nodes=options.nodes, fleet=True)
            return Demo(cluster, show, options.nodes, options.mode).run()
    finally:
        show.settle()


if __name__ == "__main__":
    main()
