"""A real API server with its etcd, and nothing else: what it answers is what the program will get."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from devcluster.boot import certificates, components
from devcluster.boot.controlplane import Probe
from devcluster.boot.layout import State
from devcluster.boot.ports import free_ports
from devcluster.build import binaries
from hook.errors import ApiError
from hook.kube import tls
from hook.kube.client import Api
from hook.kube.connection import Connection
from hook.kube.credentials import Credential, bearer
from hook.kube.resources import Resource
from tests.client.server import until

ETCD: Final = "etcd"
SERVER: Final = "kube-apiserver"
QUIET: Final = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}]}
ADMISSION: Final = "--disable-admission-plugins=ServiceAccount"
"""No controller creates ServiceAccounts here, and pods need none."""


class ApiServer:
    """One API server, which a test may end and start again. Its objects outlive that."""

    def __init__(self, folder: Path) -> None:
        self.state = State(folder)
        self._programs = binaries.ensure([ETCD, SERVER])
        self._ports = components.Ports(*free_ports(4))
        self._tokens = certificates.new_tokens()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        certificates.write_private(self.state.private / "tokens.csv", certificates.token_file(self._tokens))
        certificates.write_private(self.state.signing_key, certificates.new_signing_key())
        certificates.write_private(self.state.private / "audit-policy.json", json.dumps(QUIET))
        self._launch(ETCD, *components.etcd(self.state, self._ports))

    def start(self) -> None:
        """Start the API server, and return once it is ready."""
        self._launch(SERVER, *components.api_server(self.state, self._ports), ADMISSION)
        until(self._has_certificate, "the API server has made its certificate")
        until(Probe(self.state, self._ports.server).ready, "the API server is ready")

    def _has_certificate(self) -> bool:
        file = self.state.certificate
        return file.exists() and file.read_text(encoding="ascii").count("END CERTIFICATE") == 2

    def end(self, *names: str) -> None:
        """End the API server at once, as a crash does."""
        for name in names or (SERVER,):
            with contextlib.suppress(KeyError):
                process = self._running.pop(name)
                process.kill()
                process.wait()

    def api(self, user: str = "") -> Api:
        """Return a new client: of the administrator, or of a user without any right."""
        token = bearer(self._tokens[certificates.ADMIN])
        headers = (("Impersonate-User", user),) if user else ()
        trust = tls.Trust(self.state.certificate.read_bytes())
        return Api(Connection(self._ports.server, lambda: Credential(token), trust, headers=headers))

    def _launch(self, name: str, *arguments: str) -> None:
        self.state.logs.mkdir(parents=True, exist_ok=True)
        with self.state.log(name).open("ab") as log:
            command = [str(self._programs[name]), *arguments]
            environment = {**os.environ, "GOMAXPROCS": "1"}
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
            )


@contextlib.contextmanager
def booted(folder: Path) -> Iterator[ApiServer]:
    """Boot an API server."""
    server = ApiServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.end(SERVER, ETCD)


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
