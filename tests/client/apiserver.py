"""A real API server with its etcd, and nothing else: what it answers is what the program will get."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from devcluster.boot import certificates, components
from devcluster.boot.apiserver import await_ready
from devcluster.boot.layout import State
from devcluster.boot.ports import free_ports
from devcluster.boot.processes import Children
from devcluster.build import binaries
from hook.errors import ApiError
from hook.kube import tls
from hook.kube.client import Api
from hook.kube.connection import Connection
from hook.kube.credentials import Credential, bearer
from hook.kube.resources import Resource
from tests.client.server import PATIENCE, until

ETCD: Final = "etcd"
SERVER: Final = "kube-apiserver"
ADMISSION: Final = "--disable-admission-plugins=ServiceAccount"
"""No controller creates ServiceAccounts here, and pods need none."""


@dataclass(frozen=True, slots=True)
class ApiServer:
    """One API server."""

    url: str
    certificate: bytes
    account: str
    """The token of the administrator."""

    def api(self, user: str = "") -> Api:
        """Return a new client: of the administrator, or of a user without any right."""
        headers = (("Impersonate-User", user),) if user else ()
        credential = Credential(bearer(self.account))
        return Api(Connection(self.url, lambda: credential, tls.Trust(self.certificate), headers=headers))


@contextlib.contextmanager
def booted(folder: Path) -> Iterator[ApiServer]:
    """Boot an API server, and end it at once after the block."""
    state, ports = State(folder), components.Ports(*free_ports(4))
    tokens = certificates.write_server_files(state, components.NO_AUDIT)
    programs = binaries.ensure([ETCD, SERVER])
    arguments = {ETCD: components.etcd(state, ports), SERVER: [*components.api_server(state, ports), ADMISSION]}
    environment = {**os.environ, "GOMAXPROCS": "1"}
    children = Children(state)
    try:
        for name in (ETCD, SERVER):
            children.start(name, [str(programs[name]), *arguments[name]], environment)
        await_ready(state, ports.server, children, PATIENCE)
        yield ApiServer(ports.server, state.certificate.read_bytes(), tokens[certificates.ADMIN])
    finally:
        children.end(ETCD, SERVER, grace=0)


def create(api: Api, resource: Resource, name: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Create an object, once the API server takes it: the first CRD or namespace takes a moment."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
    created: list[dict[str, Any]] = []

    def is_created() -> bool:
        try:
            created.append(api.send("create", resource, body=body))
        except ApiError as error:
            if error.status not in {403, 404}:
                raise
            return False
        return True

    until(is_created, f"{resource.kind} {name} is created")
    return created[0]
