"""The first process of the box: prepares it, runs containerd, gateway and kubelet, and reaps what is left behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import click

from devcluster.kubelet import cgroups, files
from devcluster.kubelet.names import MARK, NODE_ADDRESS, REAL_NODE, SERVICE_ADDRESS, Files

RUN = Path("/run")
READY_SECONDS = 60.0
"""containerd answers within a second on an idle machine."""


@click.command()
@click.option("--state", type=click.Path(path_type=Path), required=True)
@click.option("--outside", type=int, required=True, help="File descriptor of the network namespace outside.")
def main(state: Path, outside: int) -> None:
    """Be a node until the end."""
    own = Files(state / "node")
    told = json.loads(own.settings.read_text())
    programs: dict[str, str] = told["programs"]
    # containerd looks for its shim there, and the shim for runc.
    os.environ["PATH"] = os.pathsep.join([*(str(Path(each).parent) for each in programs.values()), os.environ["PATH"]])
    _prepare_network()
    _prepare_mounts(own)
    _write_configuration(own, told["taint"])
    box = Box(state / "logs")
    gateway = [f"--server={told['server']}", f"--egress={own.egress}", f"--outside={outside}"]
    box.start("gateway", [sys.executable, "-m", "devcluster.kubelet.gateway", *gateway], (outside,))
    box.start("containerd", [programs["containerd"], "--config=/run/containerd.toml"])
    _import_images(programs["ctr"], told["images"])
    box.start(
        "kubelet",
        [
            programs["kubelet"],
            f"--config={files.KUBELET_CONFIGURATION}",
            f"--kubeconfig={told['kubeconfig']}",
            "--root-dir=/var/lib/kubelet",
            f"--hostname-override={REAL_NODE}",
            f"--node-ip={NODE_ADDRESS}",
            f"--node-labels={MARK}=true",
        ],
    )
    box.reap()


class Box:
    """The processes that live in the box."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[int, str] = {}

    def start(self, name: str, command: list[str], descriptors: tuple[int, ...] = ()) -> None:
        """Start a process, with a log next to the control plane's."""
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, pass_fds=descriptors
            )
        self._running[process.pid] = name

    def reap(self) -> None:
        """Collect orphans without an end; the end of a process of ours ends the box."""
        while True:
            ended, status = os.wait()
            if name := self._running.get(ended):
                sys.exit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")


def _prepare_network() -> None:
    """Set the host name of the box and its addresses, all on its loopback interface."""
    socket.sethostname(REAL_NODE)
    _run("ip", "link", "set", "lo", "up")
    for address in (NODE_ADDRESS, SERVICE_ADDRESS):
        _run("ip", "address", "add", f"{address}/32", "dev", "lo")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def _prepare_mounts(own: Files) -> None:
    """Cover every place that containerd, kubelet and network plugins write to."""
    wanted = cgroups.mounts()
    _run("mount", "-t", "tmpfs", "tmpfs", str(cgroups.MOUNTS))
    for kind, options, folder in wanted:
        folder.mkdir(exist_ok=True)
        _run("mount", "-t", kind, "-o", options, kind, str(folder))
    _run("mount", "-t", "tmpfs", "tmpfs", str(RUN))
    # Images and containers, volumes of pods, and logs of containers.
    kept = {"/var/lib/containerd": "containerd", "/var/lib/kubelet": "kubelet", "/var/log": "varlog"}
    for target, name in kept.items():
        source = own.root / name
        for folder in (source, Path(target)):
            folder.mkdir(parents=True, exist_ok=True)
        _run("mount", "--bind", str(source), target)
    if Path("/var/lib/cni").is_dir():  # where some plugins keep results
        _run("mount", "-t", "tmpfs", "tmpfs", "/var/lib/cni")
    for name, value in files.KERNEL_SETTINGS.items():
        shown = RUN / "kernel" / name
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(f"{value}\n")
        _run("mount", "--bind", str(shown), f"/proc/sys/{name}")
    # Within the box: a driver's pod mounts what others see.
    _run("mount", "--make-rshared", "/")


def _write_configuration(own: Files, taint: dict[str, str]) -> None:
    """Write what containerd, kubelet and network plugins read."""
    network = Path(files.CNI_CONFIGURATION) / "10-devcluster.conflist"
    network.parent.mkdir(parents=True)
    network.write_text(files.pod_network())
    (RUN / "containerd.toml").write_text(files.containerd(_snapshotter(own.root)))
    Path(files.KUBELET_CONFIGURATION).write_text(files.kubelet(taint))
    (RUN / "resolv.conf").write_text("nameserver 127.0.0.1\n")


def _snapshotter(folder: Path) -> str:
    """Choose overlayfs, but for a folder that lies in an overlay already (inside of a container): copies, then."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    around = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    _point, kind = max(around, key=lambda each: len(each[0]))
    return "native" if kind == "overlay" else "overlayfs"


def _import_images(client: str, images: dict[str, str]) -> None:
    """Import the images into containerd, under the names by which pods ask for them."""
    ctr = (client, f"--address={files.CONTAINERD_SOCKET}", "--namespace=k8s.io")
    deadline = time.monotonic() + READY_SECONDS
    while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            sys.exit("containerd does not answer")
        time.sleep(0.1)
    for name, archive in images.items():
        _run(*ctr, "images", "import", "--local", archive)
        with tarfile.open(archive) as whole:
            manifest = whole.extractfile("manifest.json")
            (imported, *_others) = json.load(manifest)[0]["RepoTags"] if manifest else [name]
        if imported != name:
            _run(*ctr, "images", "tag", "--force", imported, name)


def _run(*command: str) -> None:
    """Run a step of the preparation; the box's log has its words."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
