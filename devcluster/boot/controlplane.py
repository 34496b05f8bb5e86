"""Boot a control plane on loopback: etcd, API server, controller manager, scheduler and KWOK.

Everything but etcd and the API server waits for the API server by itself, so that nearly all of it
starts at once and only the last answer is waited for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from devcluster.boot import certificates, components
from devcluster.boot.apiserver import await_ready
from devcluster.boot.ports import free_ports
from devcluster.kubelet import node as kubelets
from devcluster.kubelet.names import SERVICE_ADDRESS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devcluster.boot.layout import State
    from devcluster.boot.processes import Children
    from devcluster.kubelet.node import RealNode

SMALL = 100
"""Up to so many nodes the control plane's heaps stay small: 250 MB of the API server's while it idles."""

SPARE_GARBAGE = {"GOGC": "400"}
"""For small clusters: a tenth less CPU in all, as much again of memory. Several run side by side in tests."""

FEW = 20
"""Up to so many nodes, one processor is enough for each program of the control plane; not for a fleet in storage."""

ONE_PROCESSOR = {"GOMAXPROCS": "1"}
"""Another tenth less CPU: Go's scheduler looks for work on no other processor. A boot takes as long as before."""

KUBECONFIGS = {
    "kube-controller-manager": certificates.CONTROLLER_MANAGER,
    "kube-scheduler": certificates.SCHEDULER,
    "kwok": certificates.KWOK,
    "pods": certificates.PODS,
}
"""Who each component is."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of cluster it is to be."""

    nodes: int
    """How many simulated nodes will report; their heartbeats become rarer with their number."""
    real_node: RealNode | None = None
    at_rest: bool = False
    """Nothing reconciles DaemonSets or misses heartbeats: what is put into storage stays as it is."""


def boot(state: State, binaries: Mapping[str, Path], shape: Shape, children: Children) -> None:
    """Start everything and return once the API server is ready.

    Where the environment variable BOOTS_LOG names a file, each boot appends a line to it.
    """
    ports = components.Ports(*free_ports(4))
    lease = components.lease_seconds(shape.nodes)
    tokens = certificates.write_server_files(state, components.AUDIT_POLICY)
    state.etcd.write_text(f"http://127.0.0.1:{ports.etcd}")
    if shape.real_node is not None:
        kubelets.prepare(state, binaries["pause"])

    if log := os.environ.get("BOOTS_LOG"):
        with Path(log).open("a", encoding="utf-8") as boots:
            boots.write(f"{os.environ.get('PYTEST_CURRENT_TEST', state.root)}\n")
    environment = _environment(shape)

    def launch(name: str, *arguments: str) -> None:
        children.start(name, [str(binaries[name]), *arguments], environment)

    launch("etcd", *components.etcd(state, ports))
    launch("kube-apiserver", *components.api_server(state, ports, real_node=shape.real_node is not None))
    await_ready(state, ports.server, children)
    _write_kubeconfigs(state, ports.server, tokens)
    # Only now: each of these gives up after seconds where the API server does not answer, or refuses them because
    # it has not written its own RBAC rules yet.
    launch("kube-controller-manager", *components.controller_manager(state, lease, at_rest=shape.at_rest))
    launch("kube-scheduler", *components.scheduler(state))
    # At rest KWOK looks at no pods: it would hold all of them in memory.
    stages = (components.NODE_STAGES,) if shape.at_rest else (components.NODE_STAGES, components.POD_STAGES)
    launch("kwok", *components.kwok(state, ports.kwok, lease, *stages))
    if shape.real_node is not None:
        box = kubelets.command(state, shape.real_node, binaries, ports.server)
        children.start(kubelets.PROCESS, box)


def _environment(shape: Shape) -> dict[str, str]:
    """Return the variables of the programs, which spare memory and processors where the cluster is small."""
    return {
        **os.environ,
        **(SPARE_GARBAGE if shape.nodes <= SMALL else {}),
        **(ONE_PROCESSOR if shape.nodes <= FEW and not shape.at_rest else {}),
    }


def _write_kubeconfigs(state: State, server: str, tokens: Mapping[certificates.User, str]) -> None:
    """Write a kubeconfig for each component, and last, as the sign that it works, the administrator's."""
    authority = state.certificate.read_bytes()
    inside = certificates.kubeconfig(
        f"https://{SERVICE_ADDRESS}:443", authority, certificates.KUBELET, tokens[certificates.KUBELET]
    )
    certificates.write_private(state.component_kubeconfig("kubelet"), inside)
    users = {state.component_kubeconfig(name): user for name, user in KUBECONFIGS.items()}
    for file, user in {**users, state.kubeconfig: certificates.ADMIN}.items():
        text = certificates.kubeconfig(server, authority, user, tokens[user])
        certificates.write_private(file, text)
