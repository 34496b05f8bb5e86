"""etcd and an API server on loopback, and requests to it. Nothing schedules, and no controller runs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import yaml

from devcluster import patience
from devcluster.access import Access, ApiError, decode
from devcluster.boot import certificates, components
from devcluster.boot.apiserver import await_ready
from devcluster.boot.layout import State
from devcluster.boot.ports import free_ports
from devcluster.boot.processes import Children

if TYPE_CHECKING:
    from pathlib import Path

    from devcluster.access import Object

ETCD: Final = "etcd"
SERVER: Final = "kube-apiserver"
START_SECONDS: Final = 60.0
REQUEST_SECONDS: Final = 20.0
END_SECONDS: Final = 20.0
MERGE: Final = "application/merge-patch+json"


class Plane:
    """A control plane of two programs."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.state = State(folder)
        self._programs = programs
        self._ports = components.Ports(*free_ports(4))
        self._children = Children(self.state)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.state.kubeconfig

    def boot(self) -> None:
        """Start both, and wait until the API server is ready."""
        tokens = certificates.write_server_files(self.state, components.NO_AUDIT)
        self.state.etcd.write_text(f"http://127.0.0.1:{self._ports.etcd}")
        self._launch(ETCD, components.etcd(self.state, self._ports))
        self._launch(SERVER, components.api_server(self.state, self._ports))
        await_ready(self.state, self._ports.server, self._children, START_SECONDS)
        certificate, admin = self.state.certificate, certificates.ADMIN
        config = certificates.kubeconfig(self._ports.server, certificate.read_bytes(), admin, tokens[admin])
        certificates.write_private(self.kubeconfig, config)

    def end(self) -> None:
        """End both, the API server first, which otherwise waits for etcd."""
        for name in (SERVER, ETCD):
            self._children.end(name, grace=END_SECONDS)

    def ask(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Object:
        """Send one request and return the object of the answer; a refusal raises `ApiError`."""
        access = Access.from_kubeconfig(self.kubeconfig)
        request = urllib.request.Request(  # noqa: S310 - loopback, ours
            access.server + path,
            None if body is None else json.dumps(body).encode(),
            access.headers() | {"Content-Type": content_type},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=access.tls) as answer:  # noqa: S310
                return decode(answer.status, answer.read().decode())
        except urllib.error.HTTPError as refusal:
            return decode(refusal.code, refusal.read().decode())

    def define(self, file: Path) -> None:
        """Create a CustomResourceDefinition, and wait until its resources are there."""
        definition = yaml.safe_load(file.read_text())
        self.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        name, group = definition["spec"]["names"]["plural"], definition["spec"]["group"]
        version = definition["spec"]["versions"][0]["name"]
        patience.until(lambda: self._answers(f"/apis/{group}/{version}/{name}"), f"{name} are there", START_SECONDS)

    def items(self, path: str) -> list[Any]:
        """Return what a collection holds."""
        return list(self.ask("GET", path)["items"])

    def _launch(self, name: str, arguments: list[str]) -> None:
        self._children.start(name, [str(self._programs / name), *arguments])

    def _answers(self, path: str) -> bool:
        try:
            self.ask("GET", path)
        except (OSError, ApiError):  # refused, not served yet, or a check fails
            return False
        return True
