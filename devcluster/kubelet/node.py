"""What the cluster does to have a real node: find out whether it can, start it, and be rid of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.boot.machines import GPU_TAINT
from devcluster.build.programs import ON_DEMAND
from devcluster.kubelet import cgroups, files
from devcluster.kubelet.archive import Contents, write_image
from devcluster.kubelet.names import MARK, PAUSE_IMAGE, Files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.boot.layout import State
    from devcluster.client import Object

PROCESS = "node"
"""What the box's process is called among the cluster's."""

PROGRAMS = ("cc", "pkg-config", "unshare", "nsenter", "mount", "ip")
"""The first two build runc."""

PACKAGES = "gcc libc6-dev libseccomp-dev pkg-config containernetworking-plugins iproute2"

REAL_TAINT = {"key": MARK, "value": "true", "effect": "NoSchedule"}

SOCKET_PATH_LIMIT = 107
"""Bytes that the kernel takes in the path of a socket (unix(7))."""


@dataclass(frozen=True, slots=True)
class RealNode:
    """A node whose kubelet, container runtime and containers are real."""

    images: Mapping[str, Path]
    """The images that it has, by the names that pods use: docker-archives. Their pods run on this node only."""
    gpus: bool = False
    """It is labelled and tainted as a GPU node, so that pods for such nodes are put there."""


def why_not() -> str:
    """Return why this machine cannot have a real node; empty if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "a real node needs Linux and root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    missing += [] if files.cni_plugins() else ["the CNI plugins"]
    if not missing and not _has_seccomp():
        missing = ["libseccomp's headers"]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: {PACKAGES})"
    return cgroups.why_not() or _cannot_unshare()


def _has_seccomp() -> bool:
    """Return whether runc can be built with the filters that restricted pods ask for."""
    return _works("pkg-config", "--exists", "libseccomp")


def _cannot_unshare() -> str:
    """Try what the box does first: containers in containers are often not allowed to."""
    namespaces = ("--mount", "--pid", "--fork", "--net", "--uts", "--ipc", "--cgroup", "--mount-proc")
    works = _works("unshare", *namespaces, "mount", "-t", "tmpfs", "tmpfs", "/run")
    return "" if works else "namespaces cannot be made or mounted in here"


def _works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def prepare(state: State, sandbox: Path) -> None:
    """Make what must be there before the API server starts; `sandbox` is the program of the pods' sandboxes."""
    own = Files.of(state)
    own.root.mkdir(parents=True, exist_ok=True)
    if len(os.fsencode(own.egress)) > SOCKET_PATH_LIMIT:
        raise OSError(f"the state directory's path is too long for a socket in it: {own.egress}")
    state.egress_configuration.write_text(files.egress(own.egress))
    # The image of every pod's sandbox, from a Go program of twenty lines: no registry has to be reached for it.
    config = {"Entrypoint": ["/pause"], "User": "65535:65535"}
    write_image(own.pause, PAUSE_IMAGE, Contents({"pause": sandbox}), config)


def command(state: State, node: RealNode, programs: Mapping[str, Path], server: str) -> list[str]:
    """Spell the command that becomes the box, after writing down what it has to know."""
    own = Files.of(state)
    images = {PAUSE_IMAGE: own.pause, **node.images}
    told = {
        "programs": {name: str(programs[name]) for name in sorted(ON_DEMAND)},
        "kubeconfig": str(state.component_kubeconfig("kubelet")),
        "server": server.removeprefix("https://"),
        "images": {name: str(archive.resolve()) for name, archive in images.items()},
        "taint": GPU_TAINT if node.gpus else REAL_TAINT,
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


def pin_policy(images: Mapping[str, Path]) -> Object:
    """Describe the admission policy that puts the pods of these images onto the real node, whatever they ask for.

    Elsewhere they would run as plain processes and prove nothing about the image.
    """
    repositories = json.dumps([name.rsplit(":", 1)[0] for name in images])
    ours = f"object.spec.containers.exists(c, {repositories}.exists(r, c.image.startsWith(r)))"
    key = MARK.replace("/", "~1")  # as in any JSON pointer
    tolerations = [
        f'JSONPatch{{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{{key: "{taint["key"]}", '
        'operator: "Exists"}}'
        for taint in (REAL_TAINT, GPU_TAINT)
    ]
    expression = f"""
        (has(object.spec.nodeSelector) ? [] : [JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {{}}}}]) +
        (has(object.spec.tolerations) ? [] : [JSONPatch{{op: "add", path: "/spec/tolerations", value: []}}]) +
        [JSONPatch{{op: "add", path: "/spec/nodeSelector/{key}", value: "true"}}, {", ".join(tolerations)}]"""
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
