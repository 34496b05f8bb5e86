"""Who talks to which API server, and how its answers read: paths, credentials, errors."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]
"""A Kubernetes object, as decoded from JSON."""


class ApiError(Exception):
    """The API server refused; `code` and `reason` are those of its Status object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


def path(
    group_version: str,
    plural: str,
    *,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Spell the URL path of a collection or an object, as in ``path("apps/v1", "daemonsets")``."""
    parts = ["", "apis" if "/" in group_version else "api", group_version]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(plural)
    parts += [part for part in (name, subresource) if part is not None]
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API server is, and how to prove who we are."""

    server: str
    tls: ssl.SSLContext
    token: str

    @classmethod
    def from_kubeconfig(cls, kubeconfig: Path) -> Access:
        """Read a kubeconfig that `devcluster.boot.certificates` wrote: JSON, with one cluster and one user."""
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], ssl.create_default_context(cadata=authority), user["token"])

    @classmethod
    def from_service_account(cls, directory: Path, server: str) -> Access:
        """Use the ServiceAccount directory of a pod (token, ca.crt). No token is replaced in a cluster's life."""
        tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        return cls(server, tls, (directory / "token").read_text())

    def headers(self) -> dict[str, str]:
        """Return headers with the token, which ask for JSON."""
        return {"Accept": "application/json", "Authorization": f"Bearer {self.token}"}


def decode(status: int, text: str) -> Object:
    """Turn an answer into an object, or into the `ApiError` that its Status describes."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"message": text.strip()}
    if status >= 400:  # noqa: PLR2004 - the first HTTP status that means failure
        raise ApiError(status, answer.get("reason", ""), answer.get("message", ""))
    return answer if isinstance(answer, dict) else {"value": answer}
