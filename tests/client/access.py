"""How a client finds a server and is accepted: a kubeconfig, a ServiceAccount, and certificates by ``openssl``."""

from __future__ import annotations

import itertools
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hook.kube import client
from hook.kube.client import Api

NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
STRICT_AUTHORITY: Final = {
    "basicConstraints": "critical, CA:TRUE",
    "keyUsage": "critical, keyCertSign, cRLSign",
    "subjectKeyIdentifier": "hash",
    "authorityKeyIdentifier": "none",
}
STRICT_LEAF: Final = {"basicConstraints": "critical, CA:FALSE", "authorityKeyIdentifier": "keyid"}
NONE: Final[Mapping[str, str]] = {}
_NUMBERS: Final = itertools.count()


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path

    @classmethod
    def named(cls, folder: Path) -> Pair:
        """Return the names of a new pair."""
        number = next(_NUMBERS)
        return cls(folder / f"{number}.crt", folder / f"{number}.key")


class Authority:
    """A certificate authority that lives in a folder: strict by RFC 5280, but for these extensions."""

    def __init__(self, folder: Path, extensions: Mapping[str, str] = NONE, pair: Pair | None = None) -> None:
        """Use a certificate that another authority signed, or make one."""
        self.folder, self.pair = folder, pair or Pair.named(folder)
        if pair is None:
            config = self._config({**STRICT_AUTHORITY, **extensions})
            _openssl("req", "-x509", *NEW_KEY, "-config", config, "-days", "2", *_out(self.pair))

    @property
    def certificate(self) -> Path:
        """Return the file with its certificate."""
        return self.pair.certificate

    def sign(
        self, names: str = "IP:127.0.0.1", subject: str = "someone", days: int = 2, extensions: Mapping[str, str] = NONE
    ) -> Pair:
        """Sign a certificate for some alternative names: a strict one, but for these extensions."""
        pair = Pair.named(self.folder)
        config = self._config({**STRICT_LEAF, "subjectAltName": names, **extensions})
        request = str(pair.certificate.with_suffix(".csr"))
        files = ("-keyout", str(pair.key), "-out", request)
        _openssl("req", "-new", *NEW_KEY, "-config", config, "-subj", f"/CN={subject}", *files)
        signer = ("-CA", str(self.pair.certificate), "-CAkey", str(self.pair.key), "-CAcreateserial")
        extended = ("-extfile", config, "-extensions", "extensions", "-days", str(days))
        _openssl("x509", "-req", "-in", request, *signer, *extended, "-out", str(pair.certificate))
        return pair

    def _config(self, extensions: Mapping[str, str]) -> str:
        file = self.folder / f"config-{next(_NUMBERS)}"
        lines = [f"{name} = {value}" for name, value in extensions.items() if value]
        head = ["[req]", "distinguished_name = name", "prompt = no", "x509_extensions = extensions"]
        file.write_text("\n".join([*head, "[name]", f"CN = {file.name}", "[extensions]", *lines, ""]))
        return str(file)


def server_side(pair: Pair, clients: Authority | None = None) -> ssl.SSLContext:
    """Return the context of a server, which may ask clients for certificates of an authority."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(pair.certificate, pair.key)
    if clients is not None:
        made.verify_mode = ssl.CERT_OPTIONAL
        made.load_verify_locations(clients.certificate)
    return made


def _out(pair: Pair) -> tuple[str, ...]:
    return "-keyout", str(pair.key), "-out", str(pair.certificate)


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


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
    monkeypatch.delenv(client.KUBECONFIG, raising=False)
    (folder / "token").write_text("token")
    (folder / "ca.crt").write_bytes(authority.read_bytes())
    monkeypatch.setenv(client.HOST, "127.0.0.1")
    monkeypatch.setenv(client.PORT, str(port))
    return folder
