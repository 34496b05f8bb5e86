"""Certificates for tests, made with ``openssl``: of authorities, servers and clients, strict by RFC 5280 or not."""

from __future__ import annotations

import itertools
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
STRICT_AUTHORITY: Final = {
    "basicConstraints": "critical, CA:TRUE",
    "keyUsage": "critical, keyCertSign, cRLSign",
    "subjectKeyIdentifier": "hash",
    "authorityKeyIdentifier": "none",
}
STRICT_LEAF: Final = {"basicConstraints": "critical, CA:FALSE", "authorityKeyIdentifier": "keyid"}
NONE: Final[Mapping[str, str]] = {}
LOOPBACK: Final = "IP:127.0.0.1"
_NUMBERS: Final = itertools.count()


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that lives in a folder."""

    def __init__(self, folder: Path, extensions: Mapping[str, str] = NONE, pair: Pair | None = None) -> None:
        """Use a certificate that another authority signed, or make one: strict, but for these extensions."""
        self.folder = folder
        if pair is not None:
            self.pair = pair
            return
        self.pair = Pair(folder / f"authority-{next(_NUMBERS)}.crt", folder / f"authority-{next(_NUMBERS)}.key")
        config = self._config({**STRICT_AUTHORITY, **extensions})
        _openssl("req", "-x509", *NEW_KEY, "-config", config, "-days", "2", *_out(self.pair))

    @property
    def certificate(self) -> Path:
        """Return the file with its certificate."""
        return self.pair.certificate

    def sign(
        self, names: str = LOOPBACK, subject: str = "someone", days: int = 2, extensions: Mapping[str, str] = NONE
    ) -> Pair:
        """Sign a certificate for some alternative names: a strict one, but for these extensions."""
        pair = Pair(self.folder / f"leaf-{next(_NUMBERS)}.crt", self.folder / f"leaf-{next(_NUMBERS)}.key")
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
