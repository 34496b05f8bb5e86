"""Users of a cluster and their credentials.

The API server makes its own serving certificate. That file serves as the authority of every kubeconfig, and its key
signs ServiceAccount tokens. Users prove themselves with random tokens from a token file.
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
    from pathlib import Path

    from devcluster.boot.layout import State


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


def write_server_files(state: State, audit_policy: object) -> dict[User, str]:
    """Write what an API server reads when it starts; return a token for each user, which cannot be guessed."""
    tokens = {user: secrets.token_urlsafe(32) for user in USERS}
    rows = (f'{token},{user.name},{user.name},"{",".join(user.groups)}"\n' for user, token in tokens.items())
    write_private(state.private / "tokens.csv", "".join(rows))
    write_private(state.private / "audit-policy.json", json.dumps(audit_policy))
    return tokens


def is_written(certificate: Path) -> bool:
    """Return whether the serving certificate and its authority are written: the file is there before they are."""
    return certificate.exists() and certificate.read_text(encoding="ascii").count("END CERTIFICATE") == 2  # noqa: PLR2004


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
