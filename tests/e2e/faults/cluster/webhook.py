"""An admission webhook that refuses to delete plugins, or is broken."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

from tests.e2e.lab import PLUGIN_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Container

    from tests.e2e.faults.cluster.ground import Ground

NAME: Final = "freeze.example.com"
DELETING_PODS: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}
IN_ITS_NAMESPACE: Final = {"matchLabels": {"kubernetes.io/metadata.name": PLUGIN_NAMESPACE}}
"""The plugin's: pods elsewhere go on."""


class Webhook:
    """A server on loopback, with the API server's own certificate, which is as good for that as another."""

    def __init__(self, ground: Ground, words: str) -> None:
        self.allows = False
        self.spares: Container[str] = ()
        """Pods that it lets go all the same."""
        self.broken = False
        self.asked = 0
        self._ground, self._words = ground, words
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        files = ground.cluster.files
        tls.load_cert_chain(files.certificate, files.certificate_key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook")

    def __enter__(self) -> Self:
        self._thread.start()
        self._ground.apply(self._configuration())
        return self

    def __exit__(self, *_: object) -> None:
        self._ground.cluster.kubectl("delete", "validatingwebhookconfiguration", NAME)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, review: dict[str, Any]) -> dict[str, Any]:
        """Allow, or deny as webhooks do that are built with controller-runtime."""
        self.asked += 1
        allowed = self.allows or review["request"].get("name") in self.spares
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": allowed}
        if not allowed:
            response["status"] = {"code": 403, "reason": "Forbidden", "message": self._words}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}

    def _configuration(self) -> dict[str, Any]:
        authority = base64.b64encode(self._ground.cluster.files.certificate.read_bytes()).decode()
        url = f"https://127.0.0.1:{self._server.server_address[1]}/"
        webhook = {
            "name": NAME, "clientConfig": {"url": url, "caBundle": authority}, "rules": [DELETING_PODS],
            "namespaceSelector": IN_ITS_NAMESPACE, "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }  # fmt: skip
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        return {**kind, "metadata": {"name": NAME}, "webhooks": [webhook]}


def _handler(webhook: Webhook) -> type[BaseHTTPRequestHandler]:
    """Make the class that answers one review."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(webhook.answer(review)).encode()
            self.send_response(503 if webhook.broken else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay silent: the standard error is the tests' own."""

    return Handler
