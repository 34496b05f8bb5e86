"""Keys and credentials of a cluster, made without a certificate library.

The API server makes its own serving certificate, and that file serves as the authority of every
kubeconfig. Users prove themselves with random tokens from a token file. The one key that has to
exist beforehand signs ServiceAccount tokens; an elliptic-curve key is 32 random bytes in a frame.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devcluster.kubelet.names import REAL_NODE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the base point of NIST P-256 (FIPS 186-4, D.1.2.3): a private key is below it."""

EC_KEY_HEAD = bytes.fromhex("30310201010420")
"""ECPrivateKey (RFC 5915): a sequence of version 1 and 32 bytes of private key ..."""

EC_KEY_TAIL = bytes.fromhex("a00a06082a8648ce3d030107")
"""... and the name of the curve, prime256v1. The public key is optional: it follows from the private one."""


@dataclass(frozen=True, slots=True)
class User:
    """Someone who may talk to the API server."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN = User("admin", ("system:masters",))
CONTROLLER_MANAGER = User("system:kube-controller-manager")
SCHEDULER = User("system:kube-scheduler")
KWOK = User("devcluster:kwok", ("system:masters",))
PODS = User("devcluster:pods", ("system:masters",))
"""Runs the pods of the system node. It may do all, because it fetches tokens of any ServiceAccount."""

KUBELET = User(f"system:node:{REAL_NODE}", ("system:nodes",))
"""The kubelet of the real node, with a kubelet's rights and no others."""

USERS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK, PODS, KUBELET)


def new_signing_key() -> str:
    """Make an elliptic-curve private key in PEM, for ServiceAccount tokens (ES256)."""
    number = secrets.randbelow(P256_ORDER - 1) + 1
    encoded = base64.b64encode(EC_KEY_HEAD + number.to_bytes(32, "big") + EC_KEY_TAIL).decode()
    lines = [encoded[at : at + 64] for at in range(0, len(encoded), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def new_tokens() -> dict[User, str]:
    """Return a token for each user, which cannot be guessed."""
    return {user: secrets.token_urlsafe(32) for user in USERS}


def token_file(tokens: Mapping[User, str]) -> str:
    """Spell the API server's ``--token-auth-file``: token, name, uid, groups."""
    return "".join(f'{token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user, token in tokens.items())


def kubeconfig(server: str, authority: bytes, user: User, token: str) -> str:
    """Spell a kubeconfig. JSON is YAML, and every reader of kubeconfigs takes it."""
    name = "devcluster"
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user.name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user.name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=1)


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may ever read; whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    unfinished.rename(file)
