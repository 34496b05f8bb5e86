"""Files by which a client finds a server: a kubeconfig, or the ServiceAccount of a pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from hook.kube import client, connection
from hook.kube.client import Api
from tests.client.certificates import Authority


def kubeconfig(folder: Path, server: str, cluster: str = "", user: str = "") -> Path:
    """Write a kubeconfig with more fields for the cluster and the user, in YAML's flow style."""
    file = folder / "kubeconfig"
    file.write_text(
        f"clusters: [{{name: k, cluster: {{server: '{server}', {cluster}}}}}]\n"
        f"users: [{{name: u, user: {{{user}}}}}]\n"
        "contexts: [{name: c, context: {cluster: k, user: u}}]\ncurrent-context: c\n"
    )
    return file


def connected(file: Path) -> Api:
    """Connect by a kubeconfig."""
    return client.connect(str(file), "", "/nonexistent")


def trusting(folder: Path, authority: Authority, port: int, user: str = "", cluster: str = "") -> Api:
    """Connect to a port of this machine by a kubeconfig that names an authority."""
    fields = f"certificate-authority: {authority.certificate}, {cluster}"
    return connected(kubeconfig(folder, f"https://127.0.0.1:{port}", fields, user))


def account(folder: Path, authority: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the ServiceAccount of a pod, with its variables."""
    monkeypatch.delenv(connection.KUBECONFIG, raising=False)
    (folder / "token").write_text("token")
    (folder / "ca.crt").write_bytes(authority.read_bytes())
    monkeypatch.setenv(connection.HOST, "127.0.0.1")
    monkeypatch.setenv(connection.PORT, str(port))
    return folder
