"""The command line: ``python -m devcluster up | gpu-node | down | binaries | tool``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from devcluster.boot.cluster import FAILURES, Cluster, ClusterError
from devcluster.boot.layout import CHECKOUT
from devcluster.build import binaries as programs
from devcluster.build.programs import DRA_DRIVER
from devcluster.gpunode.images import CHART, write_images
from devcluster.kubelet.node import RealNode, why_not

DRIVER_VERSIONS = ("580.105.08", "580.126.20")
"""Of the mock drivers: the simulated operator installs the first unless its chart's values name another."""

state_option = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=CHECKOUT / ".devcluster",
    help="Directory of the cluster; .devcluster in the checkout unless given.",
)


@click.group()
def main() -> None:
    """Run a real Kubernetes control plane, with simulated GPU nodes, on this machine."""


@main.command()
@state_option
@click.option("--nodes", type=click.IntRange(min=0), default=8, show_default=True, help="GPU nodes.")
@click.option(
    "--real-node",
    "images",
    multiple=True,
    metavar="NAME=ARCHIVE",
    help="Also run a real kubelet, which has this image; its pods run there, as containers. Repeatable; needs root.",
)
def up(state: Path, nodes: int, images: tuple[str, ...]) -> None:
    """Boot a cluster and return when its nodes are Ready."""
    started = time.monotonic()
    cluster = Cluster(state)
    archives = {name: Path(archive) for name, archive in (image.split("=", 1) for image in images)}
    if archives and (reason := why_not()):
        raise ClusterError(reason)
    cluster.up(nodes, fleet=True, real_node=RealNode(archives) if archives else None)
    click.echo(f"up with {nodes} GPU nodes in {time.monotonic() - started:.1f} s")
    click.echo(f"export KUBECONFIG={cluster.kubeconfig}")


@main.command()
@state_option
def gpu_node(state: Path) -> None:
    """Boot a cluster with one GPU node, a real kubelet with NVIDIA's DRA driver on mock GPUs; needs root."""
    if reason := why_not():
        raise ClusterError(reason)
    cluster = Cluster(state)
    drivers = programs.ensure([program.name for program in DRA_DRIVER])
    with TemporaryDirectory() as folder:
        cluster.up(0, real_node=RealNode(write_images(Path(folder), drivers, DRIVER_VERSIONS), gpus=True))
    click.echo(f"NVIDIA's chart: {drivers['gpu-kubelet-plugin'].parent / CHART}")
    click.echo(f"export KUBECONFIG={cluster.kubeconfig}")


@main.command()
@state_option
def down(state: Path) -> None:
    """End the cluster and remove its directory."""
    Cluster(state).down()


@main.command()
@click.argument("names", nargs=-1, type=click.Choice(programs.ALL_NAMES))
@click.option("--deployers", is_flag=True, help="The deployers instead of the cluster's programs.")
@click.option("--node", is_flag=True, help="Also what a real node takes.")
def binaries(names: tuple[str, ...], *, deployers: bool, node: bool) -> None:
    """Find or build the programs, and print where each is."""
    usual = programs.DEPLOYER_NAMES if deployers else programs.TEST_NAMES
    usual += programs.NODE_NAMES if node else ()
    for name, path in programs.ensure(names or usual).items():
        click.echo(f"{name:24} {path}")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", type=click.Choice(programs.ALL_NAMES))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def tool(name: str, arguments: tuple[str, ...]) -> None:
    """Run one of the programs, after it is found or built."""
    sys.exit(subprocess.run([programs.ensure([name])[name], *arguments], check=False).returncode)


if __name__ == "__main__":
    try:
        main()
    except FAILURES as error:
        click.echo(f"devcluster: {error}", err=True)
        sys.exit(1)
