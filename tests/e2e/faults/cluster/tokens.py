"""ServiceAccount tokens that live for seconds: signed with the cluster's own key, because the API asks for ten minutes.

The API server checks them as it checks its own: signature, issuer, audience, account and time.
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from devcluster.client import path

if TYPE_CHECKING:
    from devcluster.cluster import Cluster

ISSUER: Final = "https://kubernetes.default.svc"
"""As devcluster.components starts the API server; also the audience that it asks for."""
LEEWAY_SECONDS: Final = 60
"""So much longer a token is accepted, for clocks that differ (go-jose ``jwt.DefaultLeeway``)."""
HALF: Final = 32
"""Bytes of each number of an ES256 signature (RFC 7518, 3.4)."""


def short_lived(cluster: Cluster, namespace: str, account: str, seconds: float) -> str:
    """Give a token of an account that is accepted for so many seconds from now; negative: it has expired."""
    found = cluster.get(path("v1", "serviceaccounts", namespace=namespace, name=account))
    now = time.time()
    claims = {
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": f"system:serviceaccount:{namespace}:{account}",
        "iat": int(now) - 600,
        "nbf": int(now) - 600,
        "exp": int(now + seconds - LEEWAY_SECONDS),
        "kubernetes.io": {
            "namespace": namespace,
            "serviceaccount": {"name": account, "uid": found["metadata"]["uid"]},
        },
    }
    signed = f"{_part({'alg': 'ES256', 'typ': 'JWT'})}.{_part(claims)}"
    command = ["openssl", "dgst", "-sha256", "-sign", str(cluster.files.signing_key)]
    signature = subprocess.run(command, input=signed.encode(), capture_output=True, check=True).stdout
    return f"{signed}.{_encoded(_plain(signature))}"


def _part(content: dict[str, Any]) -> str:
    return _encoded(json.dumps(content).encode())


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _plain(der: bytes) -> bytes:
    """Give the two numbers of a signature in DER (SEQUENCE of two INTEGER) side by side, as a token has them."""
    numbers = b""
    at = 2
    for _number in range(2):
        length = der[at + 1]
        numbers += der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(HALF, b"\0")
        at += 2 + length
    return numbers
