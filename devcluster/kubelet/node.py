"""What the cluster does to have a real node: find out whether it can, start it, and be rid of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.kubelet import cgroups, files, pause
from devcluster.kubelet.names import MARK, PAUSE_IMAGE, Files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.client import Object
    from devcluster.layout import State

PROCESS = "node"
"""What the box's process is called among the cluster's."""

PROGRAMS = ("containerd", "ctr", "runc", "unshare", "nsenter", "mount", "ip")
"""All Debian packages: containerd, runc, util-linux, mount, iproute2."""

PACKAGES = "containerd runc containernetworking-plugins iproute2"

SOCKET_PATH_LIMIT = 107
"""Bytes that the kernel takes in the path of a socket (unix(7))."""


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node whose kubelet, container runtime and containers are real."""

    images: Mapping[str, Path]
    """The images that it has, by the names that pods use: docker-archives. Their pods run on this node only."""
    alone: bool = False
    """Nothing is simulated beside it."""


def why_not() -> str:
    """Say why this machine cannot have a real node; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a real node needs Linux and root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    missing += [] if files.cni_plugins() else ["the CNI plugins"]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: {PACKAGES})"
    return cgroups.why_not() or _cannot_unshare()


def _cannot_unshare() -> str:
    """Try what the box does first: containers in containers are often not allowed to."""
    command = "unshare --mount --pid --fork --net --uts --ipc --cgroup --mount-proc mount -t tmpfs tmpfs /run"
    code = os.spawnvp(os.P_WAIT, "sh", ["sh", "-c", f"{command} >/dev/null 2>&1"])  # noqa: S606
    return "" if code == 0 else "namespaces cannot be made or mounted in here"


def prepare(state: State, sandbox: Path) -> None:
    """Make what must be there before the API server starts; `sandbox` is the program of the pods' sandboxes."""
    own = Files.of(state)
    own.root.mkdir(parents=True, exist_ok=True)
    if len(os.fsencode(own.egress)) > SOCKET_PATH_LIMIT:
        raise OSError(f"the state directory's path is too long for a socket in it: {own.egress}")
    state.egress_configuration.write_text(files.egress(own.egress))
    pause.write_image(own.pause, sandbox)


def command(state: State, node: RealNode, kubelet: Path, server: str) -> list[str]:
    """Spell the command that becomes the box, after writing down what it has to know."""
    own = Files.of(state)
    images = {PAUSE_IMAGE: own.pause, **node.images}
    told = {
        "kubelet": str(kubelet),
        "kubeconfig": str(state.component_kubeconfig("kubelet")),
        "server": server.removeprefix("https://"),
        "images": {name: str(archive.resolve()) for name, archive in images.items()},
    }
    own.settings.write_text(json.dumps(told))
    return [sys.executable, "-m", "devcluster.kubelet.enter", str(state.root)]


def clean(state: State) -> None:
    """Remove what outlives the box's processes: its cgroups. Mounts ended with the last process that saw them."""
    record = Files.of(state).cgroups
    if record.exists():
        left = cgroups.remove([Path(line) for line in record.read_text().splitlines()])
        if left:
            raise OSError(f"cgroups of the real node remain: {', '.join(map(str, left))}")
        record.unlink()


def first_process(recorded: int) -> int:
    """Give the process id, as seen outside, of the box's first process: the only child of the recorded one."""
    (child,) = Path(f"/proc/{recorded}/task/{recorded}/children").read_text().split()
    return int(child)


def restart_kubelet(recorded: int, changes: Mapping[str, object]) -> None:
    """Restart the kubelet and nothing else, as a node's upgrade does, with changes to how it is usually configured."""
    first = first_process(recorded)
    Path(f"/proc/{first}/root{files.KUBELET_CONFIGURATION}").write_text(files.kubelet(changes))
    os.kill(first, signal.SIGHUP)


def pin_policy(images: Mapping[str, Path]) -> Object:
    """Describe the admission policy that puts the pods of these images onto the real node, whatever they ask for.

    Elsewhere they would run as plain processes and prove nothing about the image.
    """
    repositories = json.dumps([name.rsplit(":", 1)[0] for name in images])
    ours = f"object.spec.containers.exists(c, {repositories}.exists(r, c.image.startsWith(r)))"
    key = MARK.replace("/", "~1")  # as in any JSON pointer
    toleration = f'Object.spec.tolerations{{key: "{MARK}", operator: "Exists"}}'
    expression = f"""
        (has(object.spec.nodeSelector) ? [] : [JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {{}}}}]) +
        (has(object.spec.tolerations) ? [] : [JSONPatch{{op: "add", path: "/spec/tolerations", value: []}}]) +
        [JSONPatch{{op: "add", path: "/spec/nodeSelector/{key}", value: "true"}},
         JSONPatch{{op: "add", path: "/spec/tolerations/-", value: {toleration}}}]"""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    return {
        "metadata": {"name": "devcluster-real-node"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "ours", "expression": ours}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    }
