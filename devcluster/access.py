"""Who talks to which API server, and how its answers read: paths, credentials, errors."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

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
    token: str | None = None
    token_file: Path | None = None
    """Read anew for every request, because a ServiceAccount's token is replaced before it expires."""

    @classmethod
    def from_kubeconfig(cls, kubeconfig: Path) -> Access:
        """Take the current context of a kubeconfig; a bearer token is the only credential understood."""
        config = _read(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], ssl.create_default_context(cadata=authority), token=user["token"])

    @classmethod
    def from_service_account(cls, directory: Path, server: str) -> Access:
        """Use a ServiceAccount directory as a kubelet mounts it (token, ca.crt)."""
        tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        return cls(server, tls, token_file=directory / "token")

    def headers(self) -> dict[str, str]:
        """Return headers with the token, which ask for JSON."""
        token = self.token_file.read_text().strip() if self.token_file else self.token
        return {"Accept": "application/json", "Authorization": f"Bearer {token}"}


def decode(status: int, text: str) -> Object:
    """Turn an answer into an object, or into the `ApiError` that its Status describes."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"message": text.strip()}
    if status >= 400:  # noqa: PLR2004 - the first HTTP status that means failure
        raise ApiError(status, answer.get("reason", ""), answer.get("message", ""))
    return answer if isinstance(answer, dict) else {"value": answer}


def _read(text: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Read a kubeconfig. Our own are JSON, which takes no time; tests read one at every look at their cluster."""
    try:
        return json.loads(text)
    except ValueError:
        return yaml.safe_load(text)


def _named(entries: list[Object], name: str) -> Object:
    """Find an entry of a kubeconfig's list by its name."""
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise ValueError(f"the kubeconfig names {name!r} but does not contain it")
